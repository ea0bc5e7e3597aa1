"""Tables as LaTeX with booktabs: numbers and signs in math, names escaped."""

import re
import unicodedata
from collections.abc import Iterable

from sweep.tables.base import Table

SPECIAL = {char: f"\\{char}" for char in "&%$#_{}"}
SPECIAL |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {"<": "$<$", ">": "$>$", "|": "$|$", '"': r"\textquotedbl{}", "-": "-"}
SIGNS = {
    "–": "--", "—": "---", "−": "$-$", "±": r"$\pm$", "×": r"$\times$", "·": r"$\cdot$",
    "≤": r"$\leq$", "≥": r"$\geq$", "≈": r"$\approx$", "√": r"$\surd$", "…": r"\ldots{}",
    "°": r"$^\circ$", "∞": r"$\infty$", "Δ": r"$\Delta$",
    "\N{NO-BREAK SPACE}": "~", "’": "'", "“": "``", "”": "''",
}  # fmt: skip
GREEK = {"ε": "varepsilon", "φ": "varphi"}  # others are named as by Unicode
SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺"
SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉"
PLAIN = str.maketrans(SUPERSCRIPTS + SUBSCRIPTS, "0123456789-+0123456789")
NUMBER = r"\d+\.?\d*|\.\d+"
TOKENS = re.compile(
    rf"(?<![\w.])(?P<sign>-?)(?P<digits>{NUMBER})e(?P<power>[-+]?\d+)(?!\w)"
    rf"|(?<![\w.])-(?P<negative>{NUMBER})(?![\w.])"
    rf"|\^(?P<exponent>-?(?:{NUMBER}))"
    rf"|(?P<raised>[{SUPERSCRIPTS}]+)|(?P<lowered>[{SUBSCRIPTS}]+)"
    r"|√(?P<root>[a-z])|(?P<char>.)",
    re.DOTALL,
)
NUMERIC = re.compile(r"[~≤]*[±-]?\d.*|[–?]?")


def tables_as_latex(tables: list[Table], caption: str = "", label: str = "") -> str:
    r"""Tables as LaTeX environments, one below the other; they need ``\usepackage{booktabs}``.

    Parameters
    ----------
    tables : list of Table
    caption : str, optional
        Stands in the caption of each table before its title.
    label : str, optional
        Label of the first table, behind ``tab:``; others have a number behind it.
    """
    return "\n\n".join(
        _table_as_latex(table, caption, f"{label}-{i}" if i > 1 else label)
        for i, table in enumerate(tables, 1)
    )


def _table_as_latex(table: Table, caption: str, label: str) -> str:
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.headers)
    numeric = [all(NUMERIC.fullmatch(cell.strip()) for cell in cells) for cells in columns]
    headers = [
        f"{header} [{_spelled_units(table.units[header])}]" if table.units.get(header) else header
        for header in table.headers
    ]
    title = ": ".join(filter(None, [caption, "; ".join(table.title.split("\n"))]))
    said = [rf"\caption{{{text_as_latex(title)}.}}"] if title else []
    said += [rf"\label{{tab:{re.sub('[^A-Za-z0-9-]+', '-', label)}}}"] if label else []
    notes = [rf"\par\smallskip {text_as_latex(note.strip())}" for note in table.notes]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering\small",
            *said,
            rf"\begin{{tabular}}{{{''.join('r' if one else 'l' for one in numeric)}}}",
            r"\toprule",
            _row_as_latex(headers),
            r"\midrule",
            *map(_row_as_latex, table.rows),
            r"\bottomrule",
            r"\end{tabular}",
            *(
                [r"\begin{minipage}{\linewidth}\footnotesize", *notes, r"\end{minipage}"]
                * bool(notes)
            ),
            r"\end{table}",
        ]
    )


def _row_as_latex(cells: Iterable[str]) -> str:
    return " & ".join(text_as_latex(cell.strip()) for cell in cells) + r" \\"


def _spelled_units(units: str) -> str:
    """Units with a sign before their powers, for `text_as_latex`: ``kg m^2 s^-1``."""
    return re.sub(r"(?<=[A-Za-z])(-?\d+)", r"^\1", units)


def text_as_latex(text: str) -> str:
    """Text as LaTeX: special characters escaped; powers of ten, signs and exponents in math.

    Parameters
    ----------
    text : str
        A cell, title or note of a `Table`.
    """
    return TOKENS.sub(_token_as_latex, text)


def _token_as_latex(found: re.Match[str]) -> str:
    if found["digits"]:
        power = f"10^{{{int(found['power'])}}}"
        digits = "" if found["digits"] == "1" else rf"{found['digits']}\times "
        return f"${found['sign']}{digits}{power}$"
    if found["negative"]:
        return f"$-{found['negative']}$"
    if found["exponent"]:
        return f"$^{{{found['exponent']}}}$"
    if found["raised"]:
        return f"$^{{{found['raised'].translate(PLAIN)}}}$"
    if found["lowered"]:
        return f"$_{{{found['lowered'].translate(PLAIN)}}}$"
    if found["root"]:
        return rf"$\sqrt{{{found['root']}}}$"
    char = found["char"]
    if char in SPECIAL or char in SIGNS:
        return SPECIAL.get(char) or SIGNS[char]
    name = unicodedata.name(char, "")
    if char == "\n" or (char.isascii() and char.isprintable()) or name.startswith("LATIN"):
        return char
    if greek := re.fullmatch(r"GREEK (SMALL|CAPITAL) LETTER (\w+)", name):
        spelled = greek[2].lower() if greek[1] == "SMALL" else greek[2].title()
        return (
            rf"$\{GREEK.get(char, spelled.replace('lamda', 'lambda').replace('Lamda', 'Lambda'))}$"
        )
    return rf"\texttt{{U+{ord(char):04X}}}"

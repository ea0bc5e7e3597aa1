"""Tables as LaTeX with booktabs: numbers and signs in math mode, names escaped."""

import re
import unicodedata
from collections.abc import Iterable

from sweep.tables.base import Table

SIGNS = {char: f"\\{char}" for char in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": "$<$", ">": "$>$", "|": "$|$", '"': r"\textquotedbl{}",
    "–": "--", "—": "---", "−": "$-$", "±": r"$\pm$", "×": r"$\times$", "·": r"$\cdot$",
    "≤": r"$\leq$", "≥": r"$\geq$", "≈": r"$\approx$", "√": r"$\surd$", "…": r"\ldots{}",
    "°": r"$^\circ$", "∞": r"$\infty$", "Δ": r"$\Delta$", "ε": r"$\varepsilon$",
    "φ": r"$\varphi$", "\N{NO-BREAK SPACE}": "~", "’": "'", "“": "``", "”": "''",
}  # fmt: skip
SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺"
SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉"
PLAIN = str.maketrans(SUPERSCRIPTS + SUBSCRIPTS, "0123456789-+0123456789")
NUMBER = r"(?:\d+\.?\d*|\.\d+)"
TOKENS = re.compile(
    rf"(?<![\w.])(?P<number>-?{NUMBER}e[-+]?\d+)(?!\w)|(?<![\w.])(?P<negative>-{NUMBER})(?![\w.])"
    rf"|\^(?P<exponent>-?{NUMBER})|(?P<raised>[{SUPERSCRIPTS}]+)|(?P<lowered>[{SUBSCRIPTS}]+)"
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
        Text that precedes the title in the caption of each table.
    label : str, optional
        Label of the first table after ``tab:``; the labels of others end in a number.

    Returns
    -------
    str
    """
    return "\n\n".join(
        _table_as_latex(table, caption, f"{label}-{i}" if i > 1 else label)
        for i, table in enumerate(tables, 1)
    )


def _table_as_latex(table: Table, caption: str, label: str) -> str:
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.headers)
    numeric = [all(NUMERIC.fullmatch(cell.strip()) for cell in cells) for cells in columns]
    alignment = "".join("r" if one else "l" for one in numeric)
    title = ": ".join(filter(None, [caption, "; ".join(table.title.split("\n"))]))
    lines = [r"\begin{table}", r"\centering\small"]
    lines += [rf"\caption{{{text_as_latex(title)}.}}"] if title else []
    lines += [rf"\label{{tab:{re.sub('[^A-Za-z0-9-]+', '-', label)}}}"] if label else []
    lines += [rf"\begin{{tabular}}{{{alignment}}}", r"\toprule"]
    lines += [_row_as_latex(_header_with_units(table, header) for header in table.headers)]
    lines += [r"\midrule", *map(_row_as_latex, table.rows), r"\bottomrule", r"\end{tabular}"]
    if table.notes:
        notes = [rf"\par\smallskip {text_as_latex(note.strip())}" for note in table.notes]
        lines += [r"\begin{minipage}{\linewidth}\footnotesize", *notes, r"\end{minipage}"]
    return "\n".join([*lines, r"\end{table}"])


def _row_as_latex(cells: Iterable[str]) -> str:
    return " & ".join(text_as_latex(cell.strip()) for cell in cells) + r" \\"


def _header_with_units(table: Table, header: str) -> str:
    """A header with its units, with a caret before each power: ``mass [kg m^2 s^-1]``."""
    units = re.sub(r"(?<=[A-Za-z])(-?\d+)", r"^\1", table.units.get(header, ""))
    return f"{header} [{units}]" if units else header


def text_as_latex(text: str) -> str:
    """A cell, title or note as LaTeX: special characters escaped, numbers and powers in math."""
    return TOKENS.sub(_token_as_latex, text)


def _token_as_latex(found: re.Match[str]) -> str:
    kind = str(found.lastgroup)
    text = found[kind].translate(PLAIN)
    match kind:
        case "number":
            digits, power = text.split("e")
            factor = {"1": "", "-1": "-"}.get(digits, rf"{digits}\times ")
            return f"${factor}10^{{{int(power)}}}$"
        case "negative":
            return f"${text}$"
        case "exponent" | "raised":
            return f"$^{{{text}}}$"
        case "lowered":
            return f"$_{{{text}}}$"
        case "root":
            return rf"$\sqrt{{{text}}}$"
    return SIGNS.get(text) or _letter_as_latex(text)


def _letter_as_latex(char: str) -> str:
    name = unicodedata.name(char, "").replace("LAMDA", "LAMBDA")
    if char == "\n" or (char.isascii() and char.isprintable()) or name.startswith("LATIN"):
        return char
    if greek := re.fullmatch(r"GREEK (SMALL|CAPITAL) LETTER (\w+)", name):
        return rf"$\{greek[2].lower() if greek[1] == 'SMALL' else greek[2].title()}$"
    return rf"\texttt{{U+{ord(char):04X}}}"

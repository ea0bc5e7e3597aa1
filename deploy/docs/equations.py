"""Docstrings as Markdown, the equations that they write in Unicode as LaTeX.

Docstrings have equations as text, ``L = ½ Σ m_i |q̇_i|² − V``, legible in an editor and a terminal.
An indented block is one for each of its lines; within a sentence an equation is what its characters
tell: operators, indices, Greek letters and what stands between them.
"""

import re
import unicodedata

SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-", strict=True))
SUPERSCRIPTS |= dict.fromkeys("ᵀ⊤", r"\mathsf{T}")
SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
ACCENTS = {
    "\u0302": r"\hat",
    "\u0303": r"\tilde",
    "\u0304": r"\bar",
    "\u0307": r"\dot",
    "\u0308": r"\ddot",
}
SYMBOLS = {
    "−": "-",
    "·": r"\cdot ",
    "×": r"\times ",
    "∘": r"\circ ",
    "⋯": r"\cdots ",
    "…": r"\ldots ",
    "≤": r"\le ",
    "≥": r"\ge ",
    "≠": r"\ne ",
    "±": r"\pm ",
    "∂": r"\partial ",
    "∇": r"\nabla ",
    "∞": r"\infty ",
    "Σ": r"\sum ",
    "½": r"\frac{1}{2}",
    "ε": r"\varepsilon ",
    "ℓ": r"\ell ",
    "∥": r"\parallel ",
    "⊥": r"\perp ",
    "↦": r"\mapsto ",
    "→": r"\to ",
    "*": "^{*}",
}
BARS = {"|": "vert", "‖": "Vert"}
FUNCTIONS = ("sin", "cos", "exp", "ln", "max", "min", "log", "det")
UPRIGHT = ("dexp", "diag", "Ad", "Re", "Im", "SO", "SU", "SE", "RelTol", r"s[eou](?=\()")
WORD = rf"(?<![A-Za-z])(?:{'|'.join((*FUNCTIONS, *UPRIGHT))})(?![A-Za-z])"
TOKEN = re.compile(
    rf"""(?P<low>[{"".join(SUBSCRIPTS)}]+|(?<=[\u0370-\u03ff])\d+)
    |(?P<number>\d+(?:\.\d+)?(?:e[-−]?\d+)?)
    |(?P<axis>e[123](?![\w.]))
    |(?P<word>{WORD})
    |(?P<text>(?<![A-Za-z])[a-z]{{2,}}(?:\ [a-z]{{2,}})*(?![A-Za-z_^\u0300-\u036f]))
    |_(?P<sub>\{{[^}}]*\}}|[A-Za-z0-9]+(?:,\w+(?=\^))?[∥⊥]?|[∞\u0370-\u03ff])
    |\^(?P<sup>\{{[^}}]*\}}|\([^)]*\)|[A-Za-z0-9*]+)
    |(?P<high>[{"".join(SUPERSCRIPTS)}]+)
    |√\((?P<root>[^()]*(?:\([^()]*\)[^()]*)*)\)|√(?P<root_of>\w)
    |(?P<letter>\w)(?P<accents>[\u0300-\u036f]+)
    |(?P<gap>\ {{2,}})
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


def latex(text: str) -> str:
    """The LaTeX of an equation in Unicode.

    Parameters
    ----------
    text : str
        Such as ``ẇ = w × I⁻¹w``.

    Returns
    -------
    str
    """
    apart = unicodedata.normalize("NFD", text).replace("=\u0338", "≠").replace("‖∞", "‖_∞")
    made = "".join(map(_latex_of_token, TOKEN.finditer(apart))).strip()
    for bar, name in BARS.items():  # in pairs, which are delimiters; one alone is a sign
        made = re.sub(rf"[{bar}]([^{bar}]*)[{bar}]", rf"\\left\\{name} \1\\right\\{name} ", made)
        made = made.replace(bar, rf"\{name} ")
    return made


def _latex_of_token(found: re.Match[str]) -> str:
    kind, of = found.lastgroup, found.group
    if kind == "number":
        digits, _, power = of("number").replace("−", "-").partition("e")
        return rf"{digits}\cdot 10^{{{int(power)}}}" if power else digits
    if kind == "axis":
        return f"e_{{{of('axis')[1]}}}"
    if kind == "word":
        known = of("word") in FUNCTIONS
        return rf"\{of('word')} " if known else rf"\operatorname{{{of('word')}}}"
    if kind == "text":
        return rf"\ \text{{{of('text')}}}\ "
    if kind in ("sub", "sup"):
        mark = "_" if kind == "sub" else "^"
        return f"{mark}{{{_index(of(kind))}}}"
    if kind == "high":
        return f"^{{{''.join(SUPERSCRIPTS[c] for c in of('high'))}}}"
    if kind == "low":
        return f"_{{{''.join(SUBSCRIPTS.get(c, c) for c in of('low'))}}}"
    if kind in ("root", "root_of"):
        return rf"\sqrt{{{latex(of(kind))}}}"
    if kind == "accents":
        made = _symbol(of("letter"))
        for accent in of("accents"):
            made = f"{ACCENTS[accent]}{{{made.strip()}}}"
        return f"{{{made}{{}}}}"  # docutils would put an index of the accent alone below it
    return r"\qquad " if kind == "gap" else _symbol(of("other"))


def _index(text):
    """The LaTeX of an index, in which letters are letters and no words."""
    text = text[1:-1] if text[0] in "{(" else text
    return latex(text) if re.search(r"[^\w*]", text) else "".join(map(_symbol, text)).strip("^{}")


def _symbol(character):
    if character in SYMBOLS:
        return SYMBOLS[character]
    greek = re.fullmatch(r"GREEK (SMALL|CAPITAL) LETTER (\w+)", unicodedata.name(character, ""))
    if not greek:
        return character
    name = greek[2].lower().replace("lamda", "lambda").replace("final ", "")
    return rf"\{name if greek[1] == 'SMALL' else name.capitalize()} "


# --- sentences ------------------------------------------------------------------------------------

# Code, names, titles of works, units.
NO_EQUATION = r"``.+?``|`[^`]+`|(?<!\w)\*[A-Za-z][^*]*[^*\s]\*(?![\w*])|\"[^\"]*\"|Units: [^.]*\."
APART = re.compile(f"({NO_EQUATION})")
STRONG = re.compile(
    "[=<>+_^√½·×∂∇∘…⋯−≤≥≠∞ℓ‖↦→\u0302-\u0308\u0370-\u03ff" + "".join(SUPERSCRIPTS)
    + "".join(SUBSCRIPTS) + r"]|^e[123]$|^\|\w|\bS[OUE]\(|\bT\*"
)  # fmt: skip
LETTERS = r"(?<![A-Za-z])(?:[A-Za-z]|[A-Z][A-Zpqvwxz])(?![A-Za-z])"  # also a product, as QX
WEAK = re.compile(rf"(?:[()\[\]|/.,*'-]|\d+|{LETTERS}|{WORD})+")
LONG_WORD = re.compile(r"[A-Za-z]{4,}|–|://")
OPERATOR = "[=<>+−·×/]"


def with_equations(text: str) -> str:
    """A sentence as Markdown for MyST, its equations in the role ``math``.

    Parameters
    ----------
    text : str
        Of a docstring: code in two backticks, names in one, emphasis in asterisks.
    """
    parts = APART.split(unicodedata.normalize("NFD", text))
    made = [
        part.replace("``", "`") if i % 2 else _equations_of(part) for i, part in enumerate(parts)
    ]
    return unicodedata.normalize("NFC", "".join(made))


def as_it_stands(text: str) -> str:
    """The same, with equations left as they are: where letters are units as well as numbers."""
    parts = APART.split(text)
    return "".join(p.replace("``", "`") if i % 2 else _escaped(p) for i, p in enumerate(parts))


def _equations_of(prose):
    """Prose in which every run of words that are mathematics is an equation."""
    words, made, run = re.split(r"(\s+)", prose), [], []
    for i, word in enumerate(words):
        if not word or word.isspace():
            (run or made).append(word)
            continue
        within = bool(STRONG.search(word)) and _open_brackets("".join(run)) > 0
        if not (within or _is_mathematics(word, "".join(words[i + 2 : i + 3]))):
            made.append(_closed(run) + _escaped(word))
            run = []
            continue
        run.append(word)
        if word[-1] in ",;:." and _open_brackets("".join(run)) <= 0:
            made.append(_closed(run))
            run = []
    return "".join(made) + _closed(run)


def _is_mathematics(word, following):
    core = word.rstrip(",;:.")
    if not core or LONG_WORD.search(re.sub(rf"{WORD}|_\{{[^}}]*\}}", "", core)):
        return False
    if re.fullmatch("[A-Z]", core) and word.endswith(".") and following:
        return False  # initials of an author, or the end of a sentence
    if core in ("A", "I"):
        return bool(re.match(OPERATOR, following))
    return bool(STRONG.search(core) or WEAK.fullmatch(core))


def _open_brackets(text):
    return sum(text.count(one) for one in "([{") - sum(text.count(one) for one in ")]}")


def _closed(run):
    """A run of words as an equation in a sentence, if it is one."""
    text = "".join(run)
    before, after = re.match(r"\s*", text)[0], re.search(r"[\s,;:.]*$", text)[0]
    core = text[len(before) : len(text) - len(after)]
    edge = rf"(a (?!{OPERATOR}|cos|sin)|{OPERATOR} |\((?!.*\)))"  # the article, an operator alone
    while found := re.match(edge, core):
        before, core = before + found[0], core[found.end() :]
    edge = rf"( a(?<!{OPERATOR} a)| {OPERATOR}| ?\(|(?<!\()\))$"
    while (found := re.search(edge, core)) and (found[0] != ")" or _open_brackets(core) < 0):
        core, after = core[: found.start()], found[0] + after
    letter = re.fullmatch("[B-HJ-Zb-z]", core)
    if not re.search(r"\w", core) or not (letter or STRONG.search(core) or " / " in core):
        return before + _escaped(core) + after
    return f"{before}{{math}}`{latex(core)}`{after}"


def _escaped(text):
    return re.sub(r"([*|\\<])", r"\\\1", text)


# --- docstrings -----------------------------------------------------------------------------------


def markdown(docstring: str) -> str:
    """A docstring without numpydoc's sections, such as that of a module, as Markdown for MyST.

    Parameters
    ----------
    docstring : str
        Without the indentation of its lines, as `inspect.getdoc` gives it.
    """
    return "\n\n".join(_block(block) for block in re.split(r"\n{2,}", docstring.strip("\n")))


def _block(block):
    lines = block.splitlines()
    if all(line.startswith("    ") for line in lines):
        return "\n\n".join(f"```{{math}}\n{latex(line.strip())}\n```" for line in lines)
    if lines[0].startswith("|"):
        return block
    items = re.split(r"^- ", block, flags=re.MULTILINE)
    head, *rest = (with_equations(" ".join(item.split())) for item in items)
    listed = "\n".join(f"- {item}" for item in rest)
    return "\n\n".join(filter(None, [head, listed]))

"""The works that methods, systems and analyses are from, as BibTeX."""

import functools
import re
import unicodedata
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType

ENTRY = re.compile(r"@\w+\{\s*([^,\s]+),.*?^\}", re.DOTALL | re.MULTILINE)
PROJECTIONS = ("hairer2006",)  # section IV.4
DOUBLE_DOUBLE = ("joldes2017",)
EXPONENTS = ("benettin1980",)
MEGNO = ("cincotta2003",)


@functools.cache
def entries() -> Mapping[str, str]:
    """The BibTeX entries of ``bibliography.bib``, by their keys."""
    text = resources.files("integrators").joinpath("bibliography.bib").read_text(encoding="utf-8")
    return MappingProxyType({found[1]: found[0] for found in ENTRY.finditer(text)})


def entry_of_source(source: str) -> tuple[str, str]:
    """The key and the BibTeX entry of a source; the entry is empty where there is none.

    Parameters
    ----------
    source : str
        A key of `entries`, or an entry.
    """
    found = ENTRY.fullmatch(source.strip())
    return (found[1], found[0]) if found else (source, entries().get(source, ""))


def fields_of_entry(entry: str) -> dict[str, str]:
    """The fields of a BibTeX entry by name, as plain text."""
    found = re.findall(r"^\s*(\w+) = \{(.*)\},?$", entry, re.MULTILINE)
    return {key: _without_tex(value) for key, value in found}


def authors(fields: Mapping[str, str]) -> list[list[str]]:
    """Last and first names of the authors."""
    return [name.split(", ") for name in fields.get("author", "").split(" and ")]


def work_in_words(source: str) -> str:
    """A work on a line, with its title in asterisks; its key, where it has no entry with a title.

    Parameters
    ----------
    source : str
        As in `entry_of_source`.
    """
    key, entry = entry_of_source(source)
    fields = fields_of_entry(entry)
    if "title" not in fields:
        return key
    by = ", ".join(" ".join(reversed(name)) for name in authors(fields))
    where = fields.get("journal") or fields.get("booktitle") or fields.get("publisher", "")
    volume = f" {fields['volume']}" if "volume" in fields else ""
    year = f" ({fields['year']})" if "year" in fields else ""
    pages = f", {fields['pages']}" if "pages" in fields else ""
    return f"{by}: *{fields['title']}*. {where}{volume}{year}{pages}."


def _without_tex(text: str) -> str:
    """A field of BibTeX as text, with the accents and letters of names."""
    marks = {'"': "\u0308", "'": "\u0301", "`": "\u0300", "c": "\u0327"}
    text = re.sub(r"\\([\"'`c])\{?(\w)\}?", lambda found: found[2] + marks[found[1]], text)
    plain = {r"\aa": "å", r"\o": "ø", r"$\mathbb{R}^3$": "R³", "---": "—", "--": "–"}
    for tex, written in plain.items():
        text = text.replace(tex, written)
    return unicodedata.normalize("NFC", re.sub("[{}]|``|''", "", text))

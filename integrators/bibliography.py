"""The works that methods, systems and analyses are from, as BibTeX."""

import functools
import re
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

"""The publications that a study relies on, as BibTeX."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from integrators import bibliography
from integrators.precision import DOUBLE_DOUBLE
from integrators.registry import sources
from sweep.plugins.registry import Library
from sweep.store.store import Store
from sweep.store.stored_studies import resolve_study_and_store
from sweep.study.study import Study
from sweep.study.variables import MEGNO

GEOSWEEP = """@software{{geosweep,
  title = {{Geosweep: distributed parameter studies of structure-preserving integrators}},
  version = {{{}}},
}}"""


@dataclass(frozen=True)
class Citation:
    """A publication, and the parts of a study that rely on it.

    Attributes
    ----------
    key : str
        Key of the BibTeX entry.
    entry : str
        The BibTeX entry; empty if a plugin gives only the key.
    of : tuple of str
        Methods, compositions, projections, systems and recorded quantities that it describes.
    """

    key: str
    entry: str
    of: tuple[str, ...]

    def __str__(self) -> str:
        return f"% {', '.join(self.of)}\n{self.entry or f'% {self.key}: no entry is given'}"


def citations(study: str | Path | Store | Study, *, trust_plugins: bool = False) -> list[Citation]:
    """List the publications to cite for a study.

    They describe its integrators, systems, reference and recorded quantities.

    Parameters
    ----------
    study : str, Path, Store or Study
        A store, a file, or the name of a packaged study.
    trust_plugins : bool, optional
        As in `sweep.run`.

    Returns
    -------
    list of Citation
        Geosweep itself first, then each publication once.

    Raises
    ------
    InputError
        If there is no such study, or it has problems.

    Examples
    --------
    >>> text = "\\n\\n".join(map(str, citations("quickstart")))
    """
    made = resolve_study_and_store(study, trust_plugins=trust_plugins)[0]
    found: dict[str, tuple[str, dict[str, None]]] = {}
    for experiment in made.experiments:
        for name, keys in _sources_of_experiment(experiment.expanded(), made.library):
            for source in keys:
                key, entry = bibliography.entry_of_source(source)
                found.setdefault(key, (entry, {}))[1][name] = None
    own = Citation("geosweep", GEOSWEEP.format(version("geosweep")), (made.name,))
    return [own, *(Citation(key, entry, tuple(of)) for key, (entry, of) in found.items())]


def _sources_of_experiment(
    asked: dict[str, Any], library: Library
) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the name of each part of an experiment, with the keys of its sources."""
    yield asked["system"], library.system_class(asked["system"]).sources
    precise = False
    for given in [*asked["integrators"], *([asked["reference"]] if asked["reference"] else [])]:
        name = given.get("name") or given["integrator"]
        yield from sources(name, library.methods).items()
        options = given.get("options", given)
        precise |= DOUBLE_DOUBLE in options.values()
        if adaptive := options.get("steps_of"):
            yield from sources(adaptive, library.methods).items()
    if precise:
        yield DOUBLE_DOUBLE, bibliography.DOUBLE_DOUBLE
    recorded = [name for name in asked["record"] if name.startswith(("lyapunov", MEGNO))]
    for name in recorded:
        yield name, bibliography.MEGNO if name == MEGNO else bibliography.EXPONENTS

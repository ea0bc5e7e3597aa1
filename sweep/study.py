"""Studies: what a researcher writes, as a TOML file, and its experiments.

>>> from sweep import study
>>> [experiment.name for experiment in study.load("study.toml").experiments]  # doctest: +SKIP
['order', 'drift']
"""

import dataclasses
import importlib.resources
from pathlib import Path

from integrators.errors import nearest
from sweep.experiment import Axis, Experiment, IntegratorEntry, Reference
from sweep.families import FamilyStarts
from sweep.library import BUILT_IN, Library
from sweep.reading import read_study
from sweep.sources import StudyError, parse_toml
from sweep.starts import FileStarts, GivenStart, LatticeStarts, NamedStart, RandomStarts

__all__ = [
    "Axis",
    "Experiment",
    "FamilyStarts",
    "FileStarts",
    "GivenStart",
    "IntegratorEntry",
    "LatticeStarts",
    "NamedStart",
    "RandomStarts",
    "Reference",
    "Study",
    "StudyError",
    "load",
    "packaged",
    "parse",
]


@dataclasses.dataclass(frozen=True)
class Study:
    """A study that was read and found valid.

    Parameters
    ----------
    format : int
        Of the file; 1.
    name : str
    description : str
    experiments : tuple of Experiment
    text : str
        As written.
    source : str
        The name of the text in messages.
    library : sweep.library.Library
        What it can name: with its plugins.
    """

    format: int
    name: str
    description: str
    experiments: tuple
    text: str
    source: str
    library: Library = BUILT_IN


def parse(text, source="study", directory=".", plugins=None, kept=None):
    """Read a study from its text.

    Parameters
    ----------
    text : str
        TOML, format 1.
    source : str
        The name of the text, for messages.
    directory : str or Path, optional
        That the files of initial states are relative to: that of the study's file, and the current
        directory for a text or a packaged study.
    plugins : dict of str to str, optional
        The source of plugins by name; others are read from files.
    kept : Path, optional
        A store that was made with the study: it knows initial states that another store, which is
        gone, had.

    Returns
    -------
    Study

    Raises
    ------
    StudyError
        With every problem that was found: where, what, and what was expected.
    """
    read = read_study(parse_toml(text, source, directory, plugins, kept))
    return Study(**read, text=text, source=source)


def load(study, kept=None):
    """Read a study from a file, or a packaged one by its name. A file wins.

    Parameters
    ----------
    study : str or Path
    kept : Path, optional
        As in `parse`.

    Returns
    -------
    Study

    Raises
    ------
    StudyError
        If there is neither, the file cannot be read, or the study has a problem.
    """
    path, shelf = Path(study), _packaged_files()
    try:
        if path.exists() and not path.is_dir():
            return parse(
                _decoded(path.read_bytes(), str(study)), str(study), path.parent, kept=kept
            )
        is_directory = path.is_dir()
    except OSError as error:
        raise StudyError(f"{study}: cannot be read: {error.strerror}") from None
    if str(study) in shelf:
        file = shelf[str(study)]
        return parse(_decoded(file.read_bytes(), file.name), file.name)
    if is_directory:
        raise StudyError(f"{study}: is a directory; expected a study file")
    raise StudyError(
        f"{study}: there is no such file, and no packaged study of that name."
        f"{nearest(path.stem, shelf)}"
    )


def of_store(attributes, source, directory=".", kept=None, text=None):
    """The study that a store keeps, with the plugins that it keeps.

    Parameters
    ----------
    attributes : mapping
        Of the store's root.
    source, directory, kept
        As in `parse`.
    text : str, optional
        Another text than the one that it keeps.

    Returns
    -------
    Study

    Raises
    ------
    StudyError
        If it is valid no longer.
    """
    plugins = {name: plugin["source"] for name, plugin in attributes.get("plugins", {}).items()}
    text = attributes["study"] if text is None else text
    return parse(text, source, directory, plugins, kept)


def packaged():
    """Names of the packaged studies, in alphabetical order."""
    return tuple(_packaged_files())


def _packaged_files():
    folder = importlib.resources.files("sweep").joinpath("studies")
    files = sorted(folder.iterdir(), key=lambda file: file.name) if folder.is_dir() else []
    return {file.name.removesuffix(".toml"): file for file in files if file.name.endswith(".toml")}


def _decoded(data, name):
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise StudyError(f"{name}:{line}: is not UTF-8 text") from None

"""Studies: what a researcher writes, as a TOML file, and its experiments."""

import dataclasses
import importlib.resources
from pathlib import Path

from integrators.errors import nearest
from sweep.errors import StudyError
from sweep.limits import MOST_TEXT, read_regular
from sweep.plugins.registry import BUILT_IN, Library, read_plugins
from sweep.study.reader import read_study
from sweep.study.toml import parse_toml


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
    library : sweep.plugins.registry.Library
        What it can name: with its plugins.
    """

    format: int
    name: str
    description: str
    experiments: tuple
    text: str
    source: str
    library: Library = BUILT_IN


def parse(
    text,
    source="study",
    directory=".",
    plugins=None,
    kept=None,
    trust_plugins=False,
    *,
    load_starts,
):
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
    plugins : dict of str to sweep.plugins.loader.Plugin, optional
        All plugins that it can name; read from files, and run, unless given.
    kept : Path, optional
        A store that was made with the study: it knows initial states that another store, which is
        gone, had.
    trust_plugins : bool
        Whether plugins that stores bring, from whose runs initial states are taken, may run; else
        only those that this user has approved. See `sweep.plugins.approvals`.
    load_starts : callable
        Reads initial states that are the end states of a store's runs: `sweep.store.end_states`.

    Returns
    -------
    Study

    Raises
    ------
    StudyError
        With every problem that was found: where, what, and what was expected.
    """
    read = read_study(
        parse_toml(text, source, directory, plugins, kept, trust_plugins, load_starts)
    )
    return Study(**read, text=text, source=source)


def load(study, kept=None, trust_plugins=False, *, load_starts):
    """Read a study from a file, or a packaged one by its name. A file wins.

    Parameters
    ----------
    study : str or Path
    kept, trust_plugins, load_starts
        As in `parse`.

    Returns
    -------
    Study

    Raises
    ------
    StudyError
        If there is neither, the file cannot be read, or the study has a problem.
    """
    text, source, directory = _text_of(study)
    return parse(
        text, source, directory, kept=kept, trust_plugins=trust_plugins, load_starts=load_starts
    )


def plugins_of(study):
    """The plugins that a study's file names; their source is read and not run.

    Parameters
    ----------
    study : str or Path
        As in `load`.

    Returns
    -------
    tuple of sweep.plugins.loader.Plugin
    """
    top = parse_toml(*_text_of(study))
    return read_plugins(top["plugins"]) if "plugins" in top else ()


def _text_of(study):
    """The text of a file or packaged study, its name, and the directory that it is relative to."""
    path, shelf = Path(study), _packaged_files()
    is_directory = False
    try:
        text = _decoded(read_regular(path, MOST_TEXT, "a study"), str(study))
        return text, str(study), path.parent
    except FileNotFoundError:
        pass
    except IsADirectoryError:
        is_directory = True
    except OSError as error:
        raise StudyError(f"{study}: cannot be read: {error.strerror}") from None
    if str(study) in shelf:
        file = shelf[str(study)]
        return _decoded(file.read_bytes(), file.name), file.name, "."
    if is_directory:
        raise StudyError(f"{study}: is a directory; expected a study file")
    raise StudyError(
        f"{study}: there is no such file, and no packaged study of that name."
        f"{nearest(path.stem, shelf)}"
    )


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

"""Studies: read from files and from the stores that keep them, and with a longer duration.

A store keeps the text of its study, which determines the runs that belong to it: the text of the
file that was run, followed by the tables that extensions, decisions and merges have added. When
the unedited file is run again, the tables that were added to decide its verdicts stay.
"""

import contextlib
import dataclasses
import json
import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from integrators.errors import InputError, check_known, check_number, short_repr
from integrators.html import html_text
from sweep.errors import StoreError
from sweep.plugins import approvals
from sweep.plugins.registry import BUILT_IN, Library, unite_libraries
from sweep.store import diff
from sweep.store.arrays import StoredGroup
from sweep.store.backends.places import METADATA, ObjectPlace, Place, place_is_file
from sweep.store.store import Store
from sweep.study.experiment import ResolvedExperiment
from sweep.study.resolve import time_axes
from sweep.study.run_table import RunTable, expand_experiment
from sweep.study.starts import StoreStarts, register_end_state_reader
from sweep.study.study import Study, parse_study
from sweep.study.study import load_study_file as load_study_file
from sweep.study.study_limits import MOST_TEXT
from sweep.study.time_axis import TimeAxis
from sweep.study.toml import parse_toml
from sweep.text import count_with_noun, read_regular_file

# How the comments begin that precede tables added by `sweep decide` and by `sweep extend`.
ADDED, EXTENDED = "# Added to decide ", "# Added by an extension."
NOTE = r"(?m)^# [\w-]+ was extended to .*; `sweep run STORE` goes on\.\n"


def _load_starts_from_store(*arguments: Any, **settings: Any) -> StoreStarts:
    from sweep.store import end_states  # loads xarray and SciPy, which few stored_studies need

    return end_states.load_starts_from_store(*arguments, **settings)


# `sweep.study` does not import `sweep.store`: it reads end states through the function that is
# registered here. Therefore `sweep.Study` and `sweep.load_study` are imported from this module.
register_end_state_reader(_load_starts_from_store)


class Checked(NamedTuple):
    """A valid study, with the runs of each experiment.

    Attributes
    ----------
    study : Study
    tables : list of RunTable
    """

    study: Study
    tables: list[RunTable]

    def __repr__(self) -> str:
        return f"{self.study}\n{self.in_words}"

    def _repr_html_(self) -> str:
        return self.study._repr_html_() + html_text(self.in_words)

    @property
    def in_words(self) -> str:
        """One line that says how many runs there are."""
        runs = sum(table.size for table in self.tables)
        return f"{self.study.name}: valid, {count_with_noun(runs, 'run')}"


def check_study(study: str | Path | Study) -> Checked:
    """Read and check a study as `sweep check` does; of its code, only plugins are executed.

    Parameters
    ----------
    study : str, Path or Study
        A file, or the name of a packaged study.

    Returns
    -------
    Checked
        The `Study`, and a list with a `RunTable` for each experiment.

    Raises
    ------
    StudyError
        If the study has problems; lists each with its place and what was expected.
    """
    read = load_study_file(study)
    return Checked(read, [expand_experiment(experiment) for experiment in read.experiments])


def names_existing_store(store: str | Place | Store) -> bool:
    """Whether a path, address or `Store` refers to an existing store, and not to a study file."""
    store = Store.at(store)
    with store.reading():
        return place_is_file(store.place / METADATA)


def stored_study(
    store: str | Place | Store,
    directory: str | Path = ".",
    trust_plugins: bool = False,
    text: str | None = None,
) -> Study:
    """Read the study that a store keeps, with the durations to which it was extended.

    The plugins in the store are executed.

    Parameters
    ----------
    store : str, Path or Store
    directory : str or Path, optional
        The directory to which paths in the study are relative.
    trust_plugins : bool
        Whether to approve the plugins in the store, see `sweep.plugins.approvals`.
    text : str, optional
        A text of the study to read instead of the stored one.

    Returns
    -------
    Study

    Raises
    ------
    StoreError
        If there is no store.
    StudyError
        If the study is no longer valid.
    InputError
        If the store has a plugin that this user has not approved.
    """
    store = Store.at(store)
    root = store.existing_root()
    if root is None:
        raise StoreError(f"{store}: there is no store to extend")
    plugins = approvals.approved_plugins_of_store(root.attrs, store, trust_plugins)
    settings = f"the study in {store}", directory, plugins, store
    kept = _text_of_root(root) if text is None else text
    return _study_with_stored_time_axes(root, parse_study(kept, *settings))


def _text_of_root(root: StoredGroup) -> str:
    return "".join(root.attrs["studies"])


def _study_with_stored_time_axes(root: StoredGroup, study: Study) -> Study:
    """The study, with the time axes that its experiments have in a store."""
    made = list(study.experiments)
    for place, experiment in enumerate(made):
        stored = _stored_time_axis(root, experiment.name)
        if stored.get("duration", experiment.duration) != experiment.duration:
            axis = TimeAxis.of_settings(stored["duration"], stored["samples"])
            made[place] = _experiment_over_time_axis(experiment, axis)
    return study.replaced(experiments=tuple(made))


def _stored_time_axis(root: StoredGroup, name: str) -> dict[str, Any]:
    """Duration and samples of an experiment in a store; empty if it is not there."""
    axis: dict[str, Any]
    axis = json.loads(root[name].attrs.get("time_axis", "{}")) if name in root else {}
    return axis


def stored_study_text(store: str | Place | Store) -> str:
    """The text of the study that a store keeps, as `sweep show study` prints it.

    Comments state the durations to which experiments were extended. No plugin is executed.

    Parameters
    ----------
    store : str, Path or Store

    Returns
    -------
    str

    Raises
    ------
    StoreError
        If there is no store.
    """
    store = Store.at(store)
    root = store.existing_root()
    if root is None:
        raise StoreError(f"{store}: there is no store")
    notes = {}
    text = re.sub(NOTE, "", _text_of_root(root))  # left from printing an earlier store
    for name, unit, axis in time_axes_in_text(text):
        stored = _stored_time_axis(root, name)
        if stored and stored["duration"] != axis.duration:
            notes[name] = (
                f"# {name} was extended to {stored['duration'] / unit:g} (samples: "
                f"{json.dumps(stored['samples'])}); `sweep run STORE` goes on.\n"
            )
    return "".join(notes.values()) + text


def time_axes_in_text(
    text: str, library: Library = BUILT_IN
) -> Iterator[tuple[str, float, TimeAxis]]:
    """Yield name, unit of time and time axis of each experiment in a study's text.

    Experiments that need a plugin that is not in `library` are left out.
    """
    with contextlib.suppress(InputError):  # a text that is no longer valid is shown without notes
        yield from time_axes(parse_toml(text, "the study"), library)


def resolve_study_and_store(
    study: str | Path | Store | Study,
    store: str | Place | Store | None = None,
    trust_plugins: bool = False,
) -> tuple[Study, Store]:
    """Find the study and the store that the arguments of a command mean.

    Parameters
    ----------
    study : str, Path, Store or Study
        A file, the name of a packaged study, a store that keeps a study, or the study itself.
    store : str, Path or Store, optional
        The store to run it into. By default the store that `study` names, or ``NAME.zarr``.
    trust_plugins : bool
        As in `stored_study`.

    Returns
    -------
    study : Study
    store : Store

    Raises
    ------
    InputError
        If `study` is none of the above; also as in `load_study_file` and `stored_study`.
    """
    if not isinstance(study, str | os.PathLike | ObjectPlace | Store | Study):
        raise InputError(
            f"study = {short_repr(study)}; expected a file, the name of a packaged study, a Study "
            "or a store",
            key="study",
        )
    if isinstance(study, Study):
        made = study
    elif names_existing_store(study):
        made = stored_study(study, trust_plugins=trust_plugins)
        store = study if store is None else store
    elif str(study).endswith(".zarr") and not Store.at(study).exists():
        raise InputError(Store.at(study).absence_in_words())
    else:
        file = str(study) if isinstance(study, Store) else study
        known = _store_that_study_was_run_into(file, store)
        made = load_study_file(file, known)
        made = _unite_with_additions_of_store(made, known, Path(file).parent, trust_plugins)
    return made, Store.at(store if store is not None else f"{made.name}.zarr").absolute()


def _unite_with_additions_of_store(
    study: Study, store: str | Place | Store | None, directory: Path, trust_plugins: bool
) -> Study:
    """A study together with the runs that decide verdicts and the durations that a store added.

    If the study differs from the one in the store, it was edited, and is returned unchanged.
    """
    if store is None:
        return study
    with contextlib.suppress(ValueError):  # errors about the store are reported later
        root = Store.at(store).existing_root()
        if root is None:
            return study
        text, own = _text_of_root(root), tomllib.loads(study.text)
        if tomllib.loads(text) == own:
            return _study_with_stored_time_axes(root, study)
        asked, *added = re.split(f"(?m)^(?={ADDED}|{EXTENDED})", text)
        if tomllib.loads(asked) == own and all(text.startswith(ADDED) for text in added):
            whole = stored_study(store, directory, trust_plugins)
            unite_libraries([study.library, whole.library])  # raises if plugins have changed
            return whole
    return study


def _store_that_study_was_run_into(
    study: str | Path, store: str | Place | Store | None
) -> Store | None:
    """The existing store into which a study was presumably run; None without one."""
    if store is None:
        try:
            text = read_regular_file(Path(study), MOST_TEXT, "a study").decode("utf-8-sig")
            name = parse_toml(text, str(study)).data["name"]
        except (OSError, ValueError, KeyError):
            return None  # a packaged study, or an error, which is reported later
        store = f"{name}.zarr"
    return Store.at(store) if names_existing_store(store) else None


def study_with_longer_duration(
    study: Study, duration: float, samples: int | None = None, names: Sequence[str] = ()
) -> Study:
    """Extend the experiments of a study to a longer duration.

    Parameters
    ----------
    study : sweep.study.Study
    duration : float
        The new duration, in the study's unit of time.
    samples : int, optional
        Number of sample intervals after the present end; by default their length stays the same.
    names : sequence of str, optional
        Names of the experiments to extend; by default all.

    Returns
    -------
    sweep.study.Study

    Raises
    ------
    InputError
        If the duration is not longer, the samples do not fit, or there are runs that depend on
        their duration.
    """
    duration = check_number("duration", duration, above=0.0)
    known = [experiment.name for experiment in study.experiments]
    for name in names:
        check_known("experiment", name, known)
    made = [
        _experiment_with_longer_duration(experiment, duration, samples)
        if not names or experiment.name in names
        else experiment
        for experiment in study.experiments
    ]
    return study.replaced(experiments=tuple(made))


def _experiment_with_longer_duration(
    experiment: ResolvedExperiment, duration: float, samples: int | None
) -> ResolvedExperiment:
    if abs(experiment.in_time_units(experiment.duration) - duration) <= 1e-12 * abs(duration):
        return experiment  # an interrupted extension, whose pending runs resume
    diff.check_runs_allow_longer_duration(experiment)
    try:
        axis = experiment.time_axis.extended(duration * experiment.time_unit, samples)
    except InputError as error:
        raise InputError(f"experiment {experiment.name!r}: {error}") from None
    return _experiment_over_time_axis(experiment, axis)


def _experiment_over_time_axis(
    experiment: ResolvedExperiment, axis: TimeAxis
) -> ResolvedExperiment:
    """An experiment with another time axis; a reference that covered all of it still does."""
    reference = experiment.reference
    if reference is not None and reference.until == experiment.duration:
        reference = dataclasses.replace(reference, until=axis.duration)
    parts = tuple(_experiment_over_time_axis(part, axis) for part in experiment.parts)
    return dataclasses.replace(experiment, time_axis=axis, reference=reference, parts=parts)

"""Studies: read from files and from the stores that keep them, and with a longer duration.

A store keeps the text of the study that it was asked for; running a file begins with that, and
extensions and merges add tables behind it. A run belongs to the store if the text names it. A file
that is run again unedited keeps what was added to decide its verdicts.
"""

import contextlib
import dataclasses
import json
import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from integrators.errors import InputError, check_known, check_number, short_repr
from sweep.errors import StoreError
from sweep.plugins import approvals
from sweep.plugins.registry import BUILT_IN, Library, unite_libraries
from sweep.store import diff
from sweep.store.arrays import StoredGroup
from sweep.store.backends.places import METADATA, ObjectPlace, Place, place_is_file
from sweep.store.store import Store
from sweep.study.experiment import ResolvedExperiment
from sweep.study.limits import MOST_TEXT
from sweep.study.resolve import time_axes
from sweep.study.run_table import RunTable, expand_experiment
from sweep.study.starts import StoreStarts, register_end_state_reader
from sweep.study.study import Study, parse_study
from sweep.study.study import load_study_file as load_study_file
from sweep.study.text import parse_toml
from sweep.study.time_axis import TimeAxis
from sweep.text import read_regular_file

# First words of the comment before a table that `sweep decide`, or `sweep extend`, adds.
ADDED, EXTENDED = "# Added to decide ", "# Added by an extension."
NOTE = r"(?m)^# [\w-]+ was extended to .*; `sweep run STORE` goes on\.\n"


def _load_starts_from_store(*arguments: Any, **settings: Any) -> StoreStarts:
    from sweep.store import end_states  # with xarray and SciPy, which few studies need

    return end_states.load_starts_from_store(*arguments, **settings)


# The room of studies is below this one: it reads end states of stores by what is registered here,
# so that `sweep.Study` and `sweep.load_study` are taken from this module.
register_end_state_reader(_load_starts_from_store)


def check_study(study: str | Path) -> tuple[Study, list[RunTable]]:
    """Read a study as `sweep check` does: whole, without running anything but its plugins.

    Parameters
    ----------
    study : str or Path
        A file, or the name of a packaged study.

    Returns
    -------
    study : Study
    tables : list of RunTable
        The runs of each experiment.

    Raises
    ------
    StudyError
        With every problem that was found: where, what, and what was expected.
    """
    read = load_study_file(study)
    return read, [expand_experiment(experiment) for experiment in read.experiments]


def names_existing_store(store: str | Place | Store) -> bool:
    """Whether there is a store at a str, a Path or a `Store`, rather than a study's file."""
    store = Store.at(store)
    with store.reading():
        return place_is_file(store.place / METADATA)


def stored_study(
    store: str | Place | Store,
    directory: str | Path = ".",
    trust_plugins: bool = False,
    text: str | None = None,
) -> Study:
    """The study that a store was brought up to, with the durations that it was extended to.

    The plugins that it keeps run.

    Parameters
    ----------
    store : str, Path or Store
    directory : str or Path, optional
        That files named in the study are relative to.
    trust_plugins : bool
        Whether to approve the plugins that the store brings; see `sweep.plugins.approvals`.
    text : str, optional
        To be read instead of the one that the store keeps.

    Returns
    -------
    Study

    Raises
    ------
    StoreError
        If there is no store.
    StudyError
        If the study is valid no longer.
    InputError
        If it brings a plugin that this user has not approved.
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
    """The study with the time axis of each experiment that its group in a store has."""
    made = list(study.experiments)
    for place, experiment in enumerate(made):
        stored = _stored_time_axis(root, experiment.name)
        if stored.get("duration", experiment.duration) != experiment.duration:
            axis = TimeAxis.of_settings(stored["duration"], stored["samples"])
            made[place] = _experiment_over_time_axis(experiment, axis)
    return dataclasses.replace(study, experiments=tuple(made))


def _stored_time_axis(root: StoredGroup, name: str) -> dict[str, Any]:
    """Duration and samples of an experiment's group in a store; empty without one."""
    axis: dict[str, Any]
    axis = json.loads(root[name].attrs.get("time_axis", "{}")) if name in root else {}
    return axis


def stored_study_text(store: str | Place | Store) -> str:
    """The text of the study that a store was asked for, as `sweep show study` prints it.

    Durations that it was extended to are said in comments. No plugin is run for it.

    Parameters
    ----------
    store : str, Path or Store

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
    text = re.sub(NOTE, "", _text_of_root(root))  # those of a store it was shown of
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
    """Experiments of a study's text: name, unit of time and time axis as they are written.

    Of those where no plugin is needed to know them that `library` does not have.
    """
    with contextlib.suppress(InputError):  # it is valid no longer, and is shown as it is
        yield from time_axes(parse_toml(text, "the study"), library)


def resolve_study_and_store(
    study: str | Path | Store | Study,
    store: str | Place | Store | None = None,
    trust_plugins: bool = False,
) -> tuple[Study, Store]:
    """The study of a file, or the one that a store keeps; and the store that it is run into.

    Parameters
    ----------
    study : str, Path, Store or Study
        A file, the name of a packaged study, or a store.
    store : str, Path or Store, optional
        ``NAME.zarr`` unless given, or the store that `study` is, which goes on.
    trust_plugins : bool
        As in `stored_study`.

    Raises
    ------
    InputError
        If `study` is none of these; and as `load_study_file` and `stored_study`.
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
    else:
        file = str(study) if isinstance(study, Store) else study
        known = _store_that_study_was_run_into(file, store)
        made = load_study_file(file, known)
        made = _unite_with_additions_of_store(made, known, Path(file).parent, trust_plugins)
    return made, Store.at(store if store is not None else f"{made.name}.zarr").absolute()


def _unite_with_additions_of_store(
    study: Study, store: str | Place | Store | None, directory: Path, trust_plugins: bool
) -> Study:
    """A study with what a store of just this one has more: durations, and runs that decide.

    Else as it is: of an edited study the store has what that asks for.
    """
    if store is None:
        return study
    with contextlib.suppress(ValueError):  # no store, or none that can be read: said later
        root = Store.at(store).existing_root()
        if root is None:
            return study
        text, own = _text_of_root(root), tomllib.loads(study.text)
        if tomllib.loads(text) == own:
            return _study_with_stored_time_axes(root, study)
        asked, *added = re.split(f"(?m)^(?={ADDED}|{EXTENDED})", text)
        if tomllib.loads(asked) == own and all(text.startswith(ADDED) for text in added):
            whole = stored_study(store, directory, trust_plugins)
            unite_libraries([study.library, whole.library])  # unless its plugins have changed
            return whole
    return study


def _store_that_study_was_run_into(
    study: str | Path, store: str | Place | Store | None
) -> Store | None:
    """The store that a study may have been run into; None if there is none."""
    if store is None:
        try:
            text = read_regular_file(Path(study), MOST_TEXT, "a study").decode("utf-8-sig")
            name = parse_toml(text, str(study)).data["name"]
        except (OSError, ValueError, KeyError):
            return None  # a packaged study, or one with a mistake, which is said later
        store = f"{name}.zarr"
    return Store.at(store) if names_existing_store(store) else None


def study_with_longer_duration(
    study: Study, duration: float, samples: int | None = None, names: Sequence[str] = ()
) -> Study:
    """A study whose experiments go on to a longer duration.

    Parameters
    ----------
    study : sweep.study.Study
    duration : float
        In the unit in which the study gives it.
    samples : int, optional
        Sample intervals from the present end on; as long as they are unless given.
    names : sequence of str, optional
        Of the experiments that are meant; all unless given.

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
    return dataclasses.replace(study, experiments=tuple(made))


def _experiment_with_longer_duration(
    experiment: ResolvedExperiment, duration: float, samples: int | None
) -> ResolvedExperiment:
    if abs(experiment.in_time_units(experiment.duration) - duration) <= 1e-12 * abs(duration):
        return experiment  # it was cut short: what is pending goes on
    diff.check_runs_allow_longer_duration(experiment)
    try:
        axis = experiment.time_axis.extended(duration * experiment.time_unit, samples)
    except InputError as error:
        raise InputError(f"experiment {experiment.name!r}: {error}") from None
    return _experiment_over_time_axis(experiment, axis)


def _experiment_over_time_axis(
    experiment: ResolvedExperiment, axis: TimeAxis
) -> ResolvedExperiment:
    """An experiment over another time axis; its reference goes as far if it went to the end."""
    reference = experiment.reference
    if reference is not None and reference.until == experiment.duration:
        reference = dataclasses.replace(reference, until=axis.duration)
    parts = tuple(_experiment_over_time_axis(part, axis) for part in experiment.parts)
    return dataclasses.replace(experiment, time_axis=axis, reference=reference, parts=parts)

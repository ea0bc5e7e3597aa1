"""The study of a store, with a longer duration."""

import dataclasses
import json

from integrators.errors import InputError, check_known
from sweep import ledger
from sweep import study as studies
from sweep.files import METADATA
from sweep.longer_axes import ExtendedTimeAxis, extended
from sweep.places import is_file, place_of, reading
from sweep.time_axis import LogarithmicTimeAxis, TimeAxis


def is_store(path):
    """Whether there is a store at `path`, rather than a study's file."""
    place = place_of(path)
    with reading(place):
        return is_file(place / METADATA)


def stored_study(path, directory=".", text=None):
    """The study that a store was brought up to, with the durations that it was extended to.

    Parameters
    ----------
    path : Path
    directory : str or Path, optional
        That files named in the study are relative to.
    text : str, optional
        To be read instead of the one that the store keeps.

    Raises
    ------
    StoreError
        If there is no store.
    """
    root = ledger.open_existing(path)
    if root is None:
        raise ledger.StoreError(f"{path}: there is no store to extend")
    study = studies.of_store(root.attrs, f"the study in {path}", directory, place_of(path), text)
    made = [as_stored(root, experiment) for experiment in study.experiments]
    return dataclasses.replace(study, experiments=tuple(made))


def extend(study, duration, samples=None, names=()):
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
    known = [experiment.name for experiment in study.experiments]
    for name in names:
        check_known("experiment", name, known)
    made = [
        _extended(experiment, duration, samples)
        if not names or experiment.name in names
        else experiment
        for experiment in study.experiments
    ]
    return dataclasses.replace(study, experiments=tuple(made))


def _extended(experiment, duration, samples):
    if abs(experiment.in_time_units(experiment.duration) - duration) <= 1e-12 * abs(duration):
        return experiment  # it was cut short: what is pending goes on
    ledger.check_extendable(experiment)
    try:
        axis = extended(experiment.time_axis, duration * experiment.time_unit, samples)
    except InputError as error:
        raise InputError(f"experiment {experiment.name!r}: {error}") from None
    return _over(experiment, axis)


def _over(experiment, axis):
    """An experiment over another time axis; its reference goes as far if it went to the end."""
    reference = experiment.reference
    if reference is not None and reference.until == experiment.duration:
        reference = dataclasses.replace(reference, until=axis.duration)
    return dataclasses.replace(experiment, time_axis=axis, reference=reference)


def as_stored(root, experiment):
    """The experiment with the time axis that its group in a store has."""
    if experiment.name not in root:
        return experiment
    stored = json.loads(root[experiment.name].attrs.get("time_axis", "{}"))
    if stored.get("duration") in (None, experiment.duration):
        return experiment
    return _over(experiment, _axis(**stored))


def _axis(duration, samples):
    """The time axis of a duration and samples, as they are stored."""
    if not isinstance(samples, dict):
        return TimeAxis(duration, samples)
    if "pieces" not in samples:
        return LogarithmicTimeAxis(duration, **samples)
    pieces = tuple((stride, count) for stride, count in samples["pieces"])
    return ExtendedTimeAxis(_axis(**samples["first"]), pieces)

"""Extend a store: longer runs, or further ones, written as one more text of its study."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

import integrators
from integrators.errors import InputError, check_known, check_number, check_whole, short_repr
from integrators.precision import ARITHMETIC
from sweep.campaign import coordinator
from sweep.store.store import Store
from sweep.store.studies import stored_studies, study_with_longer_duration
from sweep.study.experiment import ENTRY_KEYS
from sweep.study.initial_conditions.base import RandomStarts
from sweep.study.model import unite_studies
from sweep.study.run_table import expand_experiment
from sweep.study.system_defaults import label_of_entry
from sweep.study.toml.writer import write_study_text

if TYPE_CHECKING:
    from pathlib import Path

    from sweep.study import Study
    from sweep.study.experiment import ResolvedExperiment

IntegratorAsWritten = str | dict[str, Any]  # its name, or an entry of a study

EQUAL = 1e-9  # relative difference up to which two step sizes are the same


@dataclasses.dataclass(frozen=True)
class Additions:
    """Values that are added to the axes of experiments.

    Parameters
    ----------
    integrators : tuple of str or dict
        Names, or entries of a study's `integrators`: a name and options.
    initial_conditions : tuple of str
        Names.
    step_sizes, tolerances : tuple of float
        For integrators that have none of their own; step sizes in the study's unit of time.
    members : int or None
        Size to which random ensembles grow.
    own_step_sizes : dict of str to tuple of float
        Step sizes for single integrators, by their labels, in the study's unit of time.
    """

    integrators: tuple[IntegratorAsWritten, ...] = ()
    step_sizes: tuple[float, ...] = ()
    tolerances: tuple[float, ...] = ()
    initial_conditions: tuple[str, ...] = ()
    members: int | None = None
    own_step_sizes: Mapping[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(getattr(self, field.name) for field in dataclasses.fields(self))


def extend(
    store: str | Path | Store,
    duration: float | None = None,
    samples: int | None = None,
    *,
    integrators: IntegratorAsWritten | Sequence[IntegratorAsWritten] = (),
    step_sizes: float | Sequence[float] = (),
    tolerances: float | Sequence[float] = (),
    initial_conditions: str | Sequence[str] = (),
    members: int | None = None,
    experiments: str | Sequence[str] = (),
    trust_plugins: bool = False,
    **options: Any,
) -> coordinator.Outcome:
    """Continue all runs of a store to a longer duration, add runs, or both.

    Parameters
    ----------
    store : str, Path or Store
    duration : float, optional
        New end time, in the study's unit of time.
    samples : int, optional
        Number of equal sample intervals after the present end; unless given, they are as long
        as the last one.
    integrators : str, dict or sequence of these
        Integrators to add, by name, or with options as an entry of a study has them, such as
        ``{"name": "rk4", "arithmetic": "double-double"}``, also as the text of an inline table.
    initial_conditions : str or sequence of str
        Names of initial conditions to add.
    step_sizes, tolerances : float or sequence of float
        Values to add; step sizes in the study's unit of time.
    members : int, optional
        Size to which random ensembles grow.
    experiments : sequence of str, optional
        Names of the experiments to extend; all unless given.
    trust_plugins : bool
        Whether to approve the plugins that the store brings; see `sweep.plugins.approvals`.
    **options
        Of `sweep.run`.

    Returns
    -------
    sweep.campaign.coordinator.Outcome

    Raises
    ------
    InputError
        If there is nothing to extend, or an experiment cannot be extended; and as `sweep.run`.
    """
    known = {*signature(extend).parameters, *signature(coordinator.run).parameters}
    for name in options:
        check_known("argument", name, sorted(known - {"options", "study"}), key=name)
    entries = tuple(map(_integrator_entry, _as_tuple(integrators)))
    additions = Additions(
        integrators=entries,
        step_sizes=_positive_numbers("step_sizes", step_sizes),
        tolerances=_positive_numbers("tolerances", tolerances),
        initial_conditions=_as_tuple(initial_conditions),
        members=None if members is None else check_whole("members", members),
    )
    samples = None if samples is None else check_whole("samples", samples)
    if duration is None and samples is not None:
        raise InputError("samples are of a longer duration: give that too", key="samples")
    if duration is None and not additions:
        raise InputError(
            "nothing to extend: give a longer duration, integrators, step sizes, tolerances, "
            "initial conditions or members"
        )
    store = Store.at(store).absolute()
    experiments = _as_tuple(experiments)
    study = study_with_additions(store, additions, experiments, trust_plugins=trust_plugins)
    if duration is not None:
        study = study_with_longer_duration(study, duration, samples, experiments)
    return coordinator.run(study, store, **options)


def _as_tuple(values: Any) -> tuple[Any, ...]:
    """Values as a tuple; a single name, number or table is a tuple of one."""
    if isinstance(values, str | int | float | dict):
        return (values,)
    return tuple(values)


def _positive_numbers(name: str, values: Any) -> tuple[float, ...]:
    """Numbers that are added to an axis; `InputError` for anything else."""
    if isinstance(values, str | dict):
        raise InputError(f"{name} = {short_repr(values)}; expected numbers > 0", key=name)
    return tuple(check_number(name, value, above=0.0) for value in _as_tuple(values))


def _integrator_entry(given: IntegratorAsWritten) -> IntegratorAsWritten:
    """An integrator to add: its name or entry, which may be given as an inline table of TOML."""
    if isinstance(given, str) and given.lstrip().startswith("{"):
        try:
            given = tomllib.loads(f"entry = {given}")["entry"]
        except (ValueError, RecursionError) as error:  # also an integer of thousands of digits
            raise InputError(
                f"{given!r} is no inline table of TOML ({error}); expected one such as "
                '{ name = "rk4", arithmetic = "double-double" }',
                key="integrators",
            ) from None
    if isinstance(given, dict) and "name" not in given:
        raise InputError(f"{given} has no name of an integrator", key="integrators")
    return given


def study_with_additions(
    store: Store,
    additions: Additions,
    names: Sequence[str] = (),
    directory: str | Path = ".",
    trust_plugins: bool = False,
) -> Study:
    """The study that a store keeps, extended by `texts_with_additions`.

    Raises
    ------
    InputError
        If no experiment, or not each that is named, can take what is added.
    StudyError
        If the extended study is not valid.
    """
    kept = stored_studies(store, directory, trust_plugins=trust_plugins)
    texts = texts_with_additions(store, kept, additions, names)
    more = stored_studies(store, directory, texts, trust_plugins)
    return unite_studies([*kept, *more])


def texts_with_additions(
    store: Store,
    kept: Sequence[Study],
    additions: Additions,
    names: Sequence[str] = (),
    heading: str = "# Added by an extension.",
) -> list[str]:
    """Texts of studies with what is added to a store.

    For each text of the study that has an experiment to extend, there is one with the same
    experiments and more on their axes. Where several texts have an experiment, and one of them has
    all runs of another, only the larger one is extended.

    Parameters
    ----------
    store : Store
    kept : sequence of sweep.study.Study
        Those that it keeps; see `sweep.store.studies.stored_studies`.
    additions : Additions
        Values that an experiment has already are not added to it.
    names : sequence of str, optional
        Names of the experiments to extend; all that can take the additions unless given.
    heading : str, optional
        Comment with which each text begins.

    Returns
    -------
    list of str

    Raises
    ------
    InputError
        If no experiment, or not each that is named, can take what is added.
    """
    grids: dict[str, dict[int, ResolvedExperiment]] = {}
    for index, study in enumerate(kept):
        for experiment in study.experiments:
            grids.setdefault(experiment.name, {})[index] = experiment
    for name in names:
        check_known("experiment", name, grids)
    grids = {name: _without_contained_grids(grids[name]) for name in names or grids}
    added = _additions_by_key(additions)
    for key in added:
        able = [
            name
            for name, own in grids.items()
            if any(_accepts_addition(grid, key, additions) for grid in own.values())
        ]
        lacking = [name for name in names if name not in able]
        if lacking or not able:
            where = (
                f"experiment {lacking[0]!r} of {store}" if lacking else f"no experiment of {store}"
            )
            has = "has no" if lacking else "has any"
            raise InputError(f"{where} {has} {_TAKERS[key]}", key=key)
    texts = []
    for index, study in enumerate(kept):
        written = tomllib.loads(study.toml())
        defaults = written.get("defaults", {})
        tables = [
            table | changes
            for table in written.pop("experiment")
            if (grid := grids.get(table["name"], {}).get(index)) is not None
            and (changes := _keys_with_additions(defaults | table, grid, added, additions))
        ]
        if tables:
            texts.append(f"{heading}\n{write_study_text(written, tables)}")
    return texts


def _without_contained_grids(grids: dict[int, ResolvedExperiment]) -> dict[int, ResolvedExperiment]:
    """Experiments of one name by text, without those whose runs another one has, too."""
    if len(grids) == 1:
        return grids
    kept: dict[int, ResolvedExperiment] = {}
    runs = {index: set(expand_experiment(grid).run_id) for index, grid in grids.items()}
    for index in sorted(grids, key=lambda index: (-len(runs[index]), -index)):
        if not any(runs[index] <= runs[other] for other in kept):
            kept[index] = grids[index]
    return kept


_TAKERS = {
    "integrators": "integrator",
    "initial_condition": "start",
    "step_size": "integrator with a fixed step that takes the experiment's step sizes",
    "tolerance": "adaptive integrator that takes the experiment's tolerances",
    "random": "random ensemble: { random = N, seed = … }",
    "own_step_sizes": "integrator of that label",
}


def _additions_by_key(additions: Additions) -> dict[str, Any]:
    """Values to add, by the key of the study to which they belong."""
    found = {
        "integrators": additions.integrators,
        "step_size": additions.step_sizes,
        "tolerance": additions.tolerances,
        "initial_condition": additions.initial_conditions,
        "random": additions.members,
        "own_step_sizes": additions.own_step_sizes,
    }
    return {key: values for key, values in found.items() if values}


def _accepts_addition(experiment: ResolvedExperiment, key: str, additions: Additions) -> bool:
    if key in ("step_size", "tolerance"):
        adaptive = key == "tolerance"
        entries = [e for e in experiment.integrators if e.adaptive == adaptive]
        added = any(_is_adaptive_integrator(one) == adaptive for one in additions.integrators)
        return added or any((e.tolerances if adaptive else e.step_sizes) is None for e in entries)
    if key == "random":
        return any(isinstance(start, RandomStarts) for start in experiment.initial_conditions)
    if key == "own_step_sizes":
        labels = {entry.label for entry in experiment.integrators}
        return not labels.isdisjoint(additions.own_step_sizes)
    return True


def _is_adaptive_integrator(entry: IntegratorAsWritten) -> bool:
    if isinstance(entry, str):
        return integrators.get(entry).adaptive
    options = {key: value for key, value in entry.items() if key not in ENTRY_KEYS}
    return integrators.get(entry["name"], **options).adaptive


def _keys_with_additions(
    written: Mapping[str, Any],
    experiment: ResolvedExperiment,
    added: Mapping[str, Any],
    additions: Additions,
) -> dict[str, Any]:
    """Keys of an experiment's table that the additions change, with their new values.

    Parameters
    ----------
    written : dict
        The experiment's table, and the defaults.
    experiment : sweep.study.ResolvedExperiment
        The experiment that these describe.
    added : dict
        Result of `_additions_by_key`.
    additions : Additions
    """
    made: dict[str, Any] = {}
    for key, values in added.items():
        if not _accepts_addition(experiment, key, additions):
            continue
        if key == "own_step_sizes":
            given = made.get("integrators", written["integrators"])
            made["integrators"] = _with_own_step_sizes(given, experiment, values)
        elif key == "random":
            starts = made.get("initial_condition", written["initial_condition"])
            made["initial_condition"] = _with_larger_ensembles(starts, experiment, values)
        elif key in ("step_size", "tolerance"):
            there = _steps_as_written(experiment, key)
            new = [v for v in values if not any(abs(v - known) <= EQUAL * known for known in there)]
            if new:
                before = written[key] if isinstance(written.get(key), list) else there
                made[key] = [*before, *dict.fromkeys(new)]
        else:
            there = written[key] if isinstance(written[key], list) else [written[key]]
            bare = [raw["name"] if isinstance(raw, dict) and set(raw) == {"name"} else raw
                    for raw in there]  # fmt: skip
            new = [one for i, one in enumerate(values) if one not in (*bare, *values[:i])]
            if new:
                made[key] = [*there, *new]
    return {key: value for key, value in made.items() if value != written.get(key)}


def _steps_as_written(experiment: ResolvedExperiment, key: str) -> Sequence[float]:
    """Step sizes or tolerances of an experiment, in the units of the study's text."""
    if key == "tolerance":
        return experiment.tolerances
    return [exact_multiple_of_unit(size, experiment.time_unit) for size in experiment.step_sizes]


def _with_own_step_sizes(
    written: Any, experiment: ResolvedExperiment, sizes: Mapping[str, tuple[float, ...]]
) -> list[Any]:
    """Integrators as written, of which some have more step sizes than the experiment.

    Those that are written as part of all have an entry each.
    """
    entries = written if isinstance(written, list) else [written]
    by_label = {label_of_entry(entry, experiment.library): entry for entry in entries}
    made = []
    for entry in experiment.integrators:
        own = by_label.get(entry.label)
        if own is None:
            arithmetic = {ARITHMETIC: entry.options[ARITHMETIC]} if entry.is_precise else {}
            own = {"name": entry.name} | arithmetic
        if entry.label in sizes:
            known = [
                exact_multiple_of_unit(size, experiment.time_unit)
                for size, _ in experiment.steps_of(entry)
            ]
            new = [v for v in sizes[entry.label] if not any(abs(v - h) <= EQUAL * h for h in known)]
            own = {"name": own} if isinstance(own, str) else own
            own = own | {"step_size": [*known, *new]}
        made.append(own)
    return made


def exact_multiple_of_unit(value: float, unit: float) -> float:
    """A short number whose product with `unit` is `value`, bit for bit where there is one."""
    near = value / unit
    shorter = [float(f"{near:.{digits}g}") for digits in (6, 9, 12, 15, 16)]
    candidates = (*shorter, near, math.nextafter(near, math.inf), math.nextafter(near, -math.inf))
    return next((number for number in candidates if number * unit == value), near)


def _with_larger_ensembles(written: Any, experiment: ResolvedExperiment, members: int) -> Any:
    """Initial conditions as written, with so many members in each random ensemble."""
    made = list(written) if isinstance(written, list) else [written]
    for index, start in enumerate(experiment.initial_conditions):
        if not isinstance(start, RandomStarts):
            continue
        if start.size > members:
            raise InputError(
                f"the ensemble {start.label!r} of experiment {experiment.name!r} has {start.size} "
                f"members, and {members} are fewer: a store is not cut",
                key="random",
            )
        made[index] = made[index] | {"random": members}
    return made if isinstance(written, list) else made[0]

"""Extend a store: longer runs, or further ones, written as further tables of its study."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

import integrators
from integrators.errors import InputError, check_known, check_number, check_whole, short_repr
from integrators.precision import ARITHMETIC
from sweep.campaign.run import Outcome, run
from sweep.store.store import Store
from sweep.store.studies import EXTENDED, stored_study, study_with_longer_duration
from sweep.study.experiment import ENTRY_KEYS
from sweep.study.initial_conditions.base import RandomStarts
from sweep.study.run_table import expand_experiment
from sweep.study.system_defaults import label_of_entry
from sweep.study.toml.writer import text_with_experiments

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
        return bool(self.by_key)

    @property
    def by_key(self) -> dict[str, Any]:
        """Values to add, by the key of the study to which they belong."""
        found = {
            "integrators": self.integrators,
            "step_size": self.step_sizes,
            "tolerance": self.tolerances,
            "initial_condition": self.initial_conditions,
            "random": self.members,
            "own_step_sizes": self.own_step_sizes,
        }
        return {key: values for key, values in found.items() if values}


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
) -> Outcome:
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
    sweep.campaign.run.Outcome

    Raises
    ------
    InputError
        If there is nothing to extend, or an experiment cannot be extended; and as `sweep.run`.
    """
    known = {*signature(extend).parameters, *signature(run).parameters}
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
    study = stored_study(store, trust_plugins=trust_plugins)
    if tables := tables_with_additions(study, store, additions, experiments):
        text = text_with_experiments(study.text, tables, EXTENDED)
        study = stored_study(store, trust_plugins=trust_plugins, text=text)
    if duration is not None:
        study = study_with_longer_duration(study, duration, samples, experiments)
    return run(study, store, **options)


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


def tables_with_additions(
    study: Study, store: Store, additions: Additions, names: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """The ``[[experiment]]`` tables that are added to the study of a store.

    Of each experiment that is extended there is a table with more on its axes. Where it has several
    tables, and one of them has all runs of another, only the larger one is extended.

    Parameters
    ----------
    study : sweep.study.Study
        As it was read from its text.
    store : Store
        For messages.
    additions : Additions
        Values that an experiment has already are not added to it.
    names : sequence of str, optional
        Names of the experiments to extend; all that can take the additions unless given.

    Returns
    -------
    list of dict

    Raises
    ------
    InputError
        If no experiment, or not each that is named, can take what is added.
    """
    experiments = {experiment.name: experiment for experiment in study.experiments}
    for name in names:
        check_known("experiment", name, experiments)
    added = additions.by_key
    if not added:
        return []
    asked = {name: list(experiments[name].grids) for name in names or experiments}
    larger = {name: _without_contained_grids(grids) for name, grids in asked.items()}
    written = tomllib.loads(study.text)
    made, able = [], {key: set[str]() for key in added}
    for table in written["experiment"]:
        name = table["name"]
        if name not in asked:
            continue
        grid, whole = asked[name].pop(0), written.get("defaults", {}) | table
        changes: dict[str, Any] = {}
        for key in added:
            grown = _grown(whole | changes, grid, key, added)
            if grown is not None:
                able[key].add(name)
                changes |= grown
        changes = {key: value for key, value in changes.items() if value != whole.get(key)}
        if changes and grid in larger[name]:
            made.append(table | changes)
    for key, found in able.items():
        lacking = [name for name in names if name not in found]
        if lacking or not found:
            who = f"no experiment of {store} has any"
            if lacking:
                who = f"experiment {lacking[0]!r} of {store} has no"
            raise InputError(f"{who} {_TAKERS[key]}", key=key)
    return made


def _without_contained_grids(grids: Sequence[ResolvedExperiment]) -> list[ResolvedExperiment]:
    """Grids of one experiment, without those whose runs another one has, too."""
    if len(grids) == 1:
        return list(grids)
    kept: list[tuple[set[str], ResolvedExperiment]] = []
    runs = [(set(expand_experiment(grid).run_id), grid) for grid in reversed(grids)]
    for ids, grid in sorted(runs, key=lambda one: -len(one[0])):  # of equal ones the last
        if not any(ids <= others for others, _ in kept):
            kept.append((ids, grid))
    return [grid for _, grid in kept]


_TAKERS = {
    "integrators": "integrator",
    "initial_condition": "start",
    "step_size": "integrator with a fixed step that takes the experiment's step sizes",
    "tolerance": "adaptive integrator that takes the experiment's tolerances",
    "random": "random ensemble: { random = N, seed = … }",
    "own_step_sizes": "integrator of that label",
}


def _is_adaptive_integrator(entry: IntegratorAsWritten) -> bool:
    if isinstance(entry, str):
        return integrators.get(entry).adaptive
    options = {key: value for key, value in entry.items() if key not in ENTRY_KEYS}
    return integrators.get(entry["name"], **options).adaptive


def _grown(
    table: Mapping[str, Any], grid: ResolvedExperiment, key: str, added: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Keys of an experiment's table with what is added under one of those of `Additions.by_key`.

    None if its grid, which the table with the defaults describes, can take no such thing.
    """
    values = added[key]
    if key == "own_step_sizes":
        if values.keys().isdisjoint(entry.label for entry in grid.integrators):
            return None
        return {"integrators": _with_own_step_sizes(table["integrators"], grid, values)}
    if key == "random":
        if not any(isinstance(start, RandomStarts) for start in grid.initial_conditions):
            return None
        return {
            "initial_condition": _with_larger_ensembles(table["initial_condition"], grid, values)
        }
    if key in ("step_size", "tolerance"):
        adaptive = key == "tolerance"
        alike = [entry for entry in grid.integrators if entry.adaptive == adaptive]
        own = [entry.tolerances if adaptive else entry.step_sizes for entry in alike]
        new = (_is_adaptive_integrator(one) == adaptive for one in added.get("integrators", ()))
        if None not in own and not any(new):
            return None
        known = grid.tolerances if adaptive else _sizes_as_written(grid, grid.step_sizes)
        before = table[key] if isinstance(table.get(key), list) else known
        sizes = _new_sizes(values, known)
        return {key: [*before, *sizes]} if sizes else {}
    there = _as_list(table[key])
    bare = [one["name"] if isinstance(one, dict) and set(one) == {"name"} else one for one in there]
    more = [one for i, one in enumerate(values) if one not in (*bare, *values[:i])]
    return {key: [*there, *more]} if more else {}


def _as_list(written: Any) -> list[Any]:
    """One or several entries as a study has them, as a list."""
    return written if isinstance(written, list) else [written]


def _sizes_as_written(experiment: ResolvedExperiment, sizes: Iterable[float]) -> list[float]:
    """Step sizes of an experiment in the unit of the study's text."""
    return [exact_multiple_of_unit(size, experiment.time_unit) for size in sizes]


def _new_sizes(values: Iterable[float], known: Sequence[float]) -> list[float]:
    """Those values, each once, that are none of the known ones."""
    found = (v for v in values if not any(abs(v - one) <= EQUAL * one for one in known))
    return list(dict.fromkeys(found))


def _with_own_step_sizes(
    written: Any, experiment: ResolvedExperiment, sizes: Mapping[str, tuple[float, ...]]
) -> list[Any]:
    """Integrators as written, of which some have more step sizes than the experiment.

    Those that are written as part of all have an entry each.
    """
    by_label = {label_of_entry(one, experiment.library): one for one in _as_list(written)}
    made = []
    for entry in experiment.integrators:
        own = by_label.get(entry.label)
        if own is None:
            arithmetic = {ARITHMETIC: entry.options[ARITHMETIC]} if entry.is_precise else {}
            own = {"name": entry.name} | arithmetic
        if entry.label in sizes:
            known = _sizes_as_written(experiment, (size for size, _ in experiment.steps_of(entry)))
            own = {"name": own} if isinstance(own, str) else own
            own = own | {"step_size": [*known, *_new_sizes(sizes[entry.label], known)]}
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
    made = list(_as_list(written))
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

"""Extend a store by longer or further runs, written as further tables of its study."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from integrators.errors import InputError, check_known, check_number, check_whole, short_repr
from integrators.precision import ARITHMETIC
from sweep.campaign.run import Outcome, run
from sweep.errors import StudyError
from sweep.store.store import Store
from sweep.store.stored_studies import EXTENDED, stored_study, study_with_longer_duration
from sweep.study.experiment import ENTRY_KEYS
from sweep.study.resolve import label_of_entry
from sweep.study.run_table import expand_experiment
from sweep.study.starts import RandomStarts
from sweep.study.toml import text_with_experiments

if TYPE_CHECKING:
    from pathlib import Path

    from sweep.study import Study
    from sweep.study.experiment import ResolvedExperiment

IntegratorAsWritten = str | dict[str, Any]  # its name, or an entry of a study
# Values to add, by the key of an experiment's table; under `OWN_STEP_SIZES`, step sizes of single
# integrators by label. Step sizes are in the study's unit of time.
Additions = Mapping[str, Any]

EQUAL = 1e-9  # relative difference up to which two step sizes are equal
OWN_STEP_SIZES = "own_step_sizes"
ARGUMENTS = {  # of `extend`, by the key to which their values are added
    "integrators": "integrators",
    "step_size": "step_sizes",
    "tolerance": "tolerances",
    "initial_condition": "initial_conditions",
    "random": "members",
}
TAKERS = {  # what an experiment needs for an addition
    "step_size": "integrator with a fixed step that takes the experiment's step sizes",
    "tolerance": "adaptive integrator that takes the experiment's tolerances",
    "random": "random ensemble: { random = N, seed = … }",
}


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
        Integrators to add: names, or entries with options as in a study, such as
        ``{"name": "rk4", "arithmetic": "double-double"}``, as a dict or as the text of an inline
        table.
    initial_conditions : str or sequence of str
        Names of initial conditions to add.
    step_sizes, tolerances : float or sequence of float
        Values to add; step sizes in the study's unit of time.
    members : int, optional
        Size to which random ensembles grow.
    experiments : sequence of str, optional
        Names of the experiments to extend; by default all.
    trust_plugins : bool
        Whether to approve the plugins that the store brings; see `sweep.plugins.approvals`.
    **options
        Options of `sweep.run`.

    Returns
    -------
    sweep.campaign.run.Outcome

    Raises
    ------
    InputError
        If there is nothing to extend, or an experiment cannot be extended; also as `sweep.run`.
    """
    known = {*signature(extend).parameters, *signature(run).parameters}
    for name in options:
        check_known("argument", name, sorted(known - {"options", "study"}), key=name)
    additions = {
        "integrators": [_integrator_entry(one) for one in _as_tuple("integrators", integrators)],
        "step_size": _positive_numbers("step_sizes", step_sizes),
        "tolerance": _positive_numbers("tolerances", tolerances),
        "initial_condition": _as_tuple("initial_conditions", initial_conditions),
        "random": None if members is None else check_whole("members", members),
    }
    samples = None if samples is None else check_whole("samples", samples)
    if duration is None and samples is not None:
        raise InputError("samples are of a longer duration: give that too", key="samples")
    if duration is None and not any(additions.values()):
        raise InputError(
            "nothing to extend: give a longer duration, integrators, step sizes, tolerances, "
            "initial conditions or members"
        )
    store = Store.at(store).absolute()
    experiments = _as_tuple("experiments", experiments)
    study = stored_study(store, trust_plugins=trust_plugins)
    study = study_with_additions(study, store, additions, experiments, EXTENDED, trust_plugins)
    if duration is not None:
        study = study_with_longer_duration(study, duration, samples, experiments)
    return run(study, store, **options)


def _as_tuple(name: str, values: Any) -> tuple[Any, ...]:
    """Values of an argument as a tuple; a single name, number or table becomes a tuple of one."""
    if isinstance(values, str | int | float | dict):
        return (values,)
    if not isinstance(values, Iterable):
        raise InputError(
            f"{name} = {short_repr(values)}; expected one value, or a list of them", key=name
        )
    return tuple(values)


def _positive_numbers(name: str, values: Any) -> tuple[float, ...]:
    """Positive numbers to add to an axis; `InputError` for other values."""
    if isinstance(values, str | dict):
        raise InputError(f"{name} = {short_repr(values)}; expected numbers > 0", key=name)
    return tuple(check_number(name, value, above=0.0) for value in _as_tuple(name, values))


def _integrator_entry(given: IntegratorAsWritten) -> IntegratorAsWritten:
    """The name or entry of an integrator to add, which may be given as a TOML inline table."""
    if isinstance(given, str) and given.lstrip().startswith("{"):
        try:
            given = tomllib.loads(f"entry = {given}")["entry"]
        except (ValueError, RecursionError) as error:  # including integers with thousands of digits
            raise InputError(
                f"{given!r} is no inline table of TOML ({error}); expected one such as "
                '{ name = "rk4", arithmetic = "double-double" }',
                key="integrators",
            ) from None
    if isinstance(given, dict) and "name" not in given:
        raise InputError(f"{given} has no name of an integrator", key="integrators")
    return given


def study_with_additions(
    study: Study,
    store: Store,
    additions: Additions,
    names: Sequence[str],
    heading: str,
    trust_plugins: bool = False,
) -> Study:
    """The study of a store with further ``[[experiment]]`` tables, which extend the axes.

    Parameters
    ----------
    study : sweep.study.Study
        The study as read from its text.
    store : Store
    additions : dict
        Values to add; those that an experiment has already are ignored.
    names : sequence of str
        Names of the experiments to extend; if empty, all that can take the additions.
    heading : str
        Comment before each new table.
    trust_plugins : bool

    Returns
    -------
    sweep.study.Study

    Raises
    ------
    InputError
        If no experiment or a named one cannot take the additions, or a value is wrong.
    """
    tables = _tables_with_additions(study, store, additions, names)
    if not tables:
        return study
    text = text_with_experiments(study.text, tables, heading)
    try:
        return stored_study(store, trust_plugins=trust_plugins, text=text)
    except StudyError as error:  # the user has not seen this text and its lines
        whole = tomllib.loads(text)["experiment"]
        problems = dict.fromkeys(_naming_addition(problem, whole) for problem in error.problems)
        raise InputError("\n".join(problems)) from None


def _naming_addition(problem: str, tables: Sequence[dict[str, Any]]) -> str:
    """A problem that names an argument of `extend` and an experiment instead of line and key."""
    found = re.match(r".*?: experiment\[(\d+)\](\S*): (.*)", problem, re.DOTALL)
    if found is None:
        return problem
    keys = re.findall(r"\w+", found[2])
    where = [f"`{ARGUMENTS[key]}`" for key in reversed(keys) if key in ARGUMENTS][:1]
    where.append(f"experiment {tables[int(found[1])]['name']!r}")
    return f"{', '.join(where)}: {found[3]}"


def _tables_with_additions(
    study: Study, store: Store, additions: Additions, names: Sequence[str]
) -> list[dict[str, Any]]:
    """The ``[[experiment]]`` tables to add, one for each grid that is extended.

    A grid whose runs are all in another grid of the experiment is skipped.
    """
    experiments = {experiment.name: experiment for experiment in study.experiments}
    for name in names:
        check_known("experiment", name, experiments)
    added = {key: values for key, values in additions.items() if values}
    if not added:
        return []
    grids = {name: experiments[name].grids for name in names or experiments}
    following = {name: iter(own) for name, own in grids.items()}
    largest = [grid for own in grids.values() for grid in _largest_grids(own)]
    written = tomllib.loads(study.text)
    made, able = [], {key: set[str]() for key in added}
    for table in (own for own in written["experiment"] if own["name"] in grids):
        grid, whole = next(following[table["name"]]), written.get("defaults", {}) | table
        changes: dict[str, Any] = {}
        for key in added:
            if (grown := _grown(whole | changes, grid, key, added)) is not None:
                able[key].add(grid.name)
                changes |= grown
        changes = {key: value for key, value in changes.items() if value != whole.get(key)}
        if changes and grid in largest:
            made.append(table | changes)
    for key, found in able.items():
        for name in (own for own in names if own not in found):
            raise InputError(f"experiment {name!r} of {store} has no {TAKERS[key]}", key=key)
        if not found:
            raise InputError(f"no experiment of {store} has any {TAKERS[key]}", key=key)
    return made


def _largest_grids(grids: Sequence[ResolvedExperiment]) -> list[ResolvedExperiment]:
    """Grids of an experiment whose runs no other grid has; the last one of equal grids."""
    if len(grids) == 1:
        return list(grids)
    runs = [set(expand_experiment(grid).run_id) for grid in grids]
    return [
        grid
        for i, grid in enumerate(grids)
        if not any(runs[i] < other or (runs[i] == other and i < j) for j, other in enumerate(runs))
    ]


def _grown(
    table: Mapping[str, Any], grid: ResolvedExperiment, key: str, added: Additions
) -> dict[str, Any] | None:
    """The keys of an experiment's table that change if values are added under a key.

    None if its grid, which the table describes together with the defaults, cannot take them.
    """
    values = added[key]
    there: Sequence[Any]
    if key == OWN_STEP_SIZES:
        return {"integrators": _with_own_step_sizes(table["integrators"], grid, values)}
    if key == "random":
        own = [one for one in grid.initial_conditions if isinstance(one, RandomStarts)]
        for one in own:
            if values < one.size:
                raise InputError(
                    f"the ensemble {one.label!r} of experiment {grid.name!r} has {one.size} "
                    f"members, and {values} are fewer: a store is not cut",
                    key="random",
                )
        made = with_members(table["initial_condition"], grid, values)
        return {"initial_condition": made} if own else None
    if key in ("integrators", "initial_condition"):
        there = _as_list(table[key])
        bare = [one["name"] if isinstance(one, dict) and len(one) == 1 else one for one in there]
        more = [one for i, one in enumerate(values) if one not in (*bare, *values[:i])]
    else:
        adaptive = key == "tolerance"
        alike = [entry for entry in grid.integrators if entry.adaptive == adaptive]
        takes = any((one.tolerances if adaptive else one.step_sizes) is None for one in alike)
        also = added.get("integrators", ())
        if not takes and not any(_is_adaptive(one, grid) == adaptive for one in also):
            return None
        known = grid.tolerances if adaptive else _sizes_as_written(grid, grid.step_sizes)
        there = table[key] if isinstance(table.get(key), list) else known
        more = _new_sizes(values, known)
    return {key: [*there, *more]} if more else {}


def _is_adaptive(entry: IntegratorAsWritten, grid: ResolvedExperiment) -> bool:
    """Whether an integrator to be added to a grid is adaptive."""
    entry = {"name": entry} if isinstance(entry, str) else entry
    options = {key: value for key, value in entry.items() if key not in ENTRY_KEYS}
    return grid.library.integrator(entry["name"], options).adaptive


def _as_list(written: Any) -> list[Any]:
    """One or several entries of a study as a list."""
    return written if isinstance(written, list) else [written]


def _sizes_as_written(experiment: ResolvedExperiment, sizes: Iterable[float]) -> list[float]:
    """Step sizes of an experiment in the study's unit of time."""
    return [exact_multiple_of_unit(size, experiment.time_unit) for size in sizes]


def _new_sizes(values: Iterable[float], known: Sequence[float]) -> list[float]:
    """The distinct values that are not among the known ones."""
    return [v for v in dict.fromkeys(values) if not np.isclose(v, known, rtol=EQUAL, atol=0).any()]


def _with_own_step_sizes(
    written: Any, experiment: ResolvedExperiment, sizes: Mapping[str, Sequence[float]]
) -> list[Any]:
    """Integrators as written in the study, with further step sizes for some of them.

    An entry that stands for all integrators is replaced by one for each.
    """
    by_label = {label_of_entry(one, experiment.library): one for one in _as_list(written)}
    made = []
    for entry in experiment.integrators:
        arithmetic = {ARITHMETIC: entry.arithmetic} if entry.is_precise else {}
        own = by_label.get(entry.label, {"name": entry.name} | arithmetic)
        if entry.label in sizes:
            known = _sizes_as_written(experiment, (size for size, _ in experiment.steps_of(entry)))
            own = {"name": own} if isinstance(own, str) else own
            own = own | {"step_size": [*known, *_new_sizes(sizes[entry.label], known)]}
        made.append(own)
    return made


def exact_multiple_of_unit(value: float, unit: float) -> float:
    """A short number whose product with `unit` is `value`, exactly if there is such a number."""
    near = value / unit
    shorter = [float(f"{near:.{digits}g}") for digits in (6, 9, 12, 15, 16)]
    candidates = (*shorter, near, math.nextafter(near, math.inf), math.nextafter(near, -math.inf))
    return next((number for number in candidates if number * unit == value), near)


def with_members(written: Any, grid: ResolvedExperiment, members: int) -> Any:
    """Initial conditions as written, with `members` members in each random ensemble."""
    made = [
        own | {"random": members} if isinstance(start, RandomStarts) else own
        for own, start in zip(_as_list(written), grid.initial_conditions, strict=True)
    ]
    return made if isinstance(written, list) else made[0]

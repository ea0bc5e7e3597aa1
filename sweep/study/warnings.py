"""Remarks and warnings on a study before it runs.

Remarks are about parameters. Warnings are about step sizes beyond the linear stability limit of
their integrator; about step sizes, tolerances and durations outside the ranges that systems
declare; about labels without runs; about statistics of too few steps; and about verdicts that must
remain undecided. Such runs are computed all the same.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from integrators.diagnostics.stability import (
    explain_step_beyond_limit,
    frequencies,
    has_stability_limit,
    largest_step,
)
from integrators.method import EXACT
from sweep.study import variables

if TYPE_CHECKING:
    from integrators.method import Integrator
    from sweep.study.experiment import ResolvedExperiment
    from sweep.study.run_table import RunTable
    from systems.base import Convergence

FEWEST_STEP_SIZES, FEWEST_SAMPLES = 3, 8  # for an order and a drift, in `sweep.analysis`
LATE = 10.0  # times the declared horizon: later errors may have grown by chaos
MOST_SAMPLES = 1000  # that are tried for a number that step sizes allow
NEAR = 1.1  # times a declared step size, since step sizes of ranges are snapped


def remarks_on_parameters(tables: Iterable[RunTable]) -> list[str]:
    """Remarks on the parameters of experiments, worth reading before they run.

    They are the systems' own remarks, and parameters left at a default that may surprise.

    Parameters
    ----------
    tables : iterable of RunTable
        The run table of each experiment.

    Returns
    -------
    list of str
        Lines, each with the names of its experiments.
    """
    return _lines_on_experiments(tables, _remarks_on_experiment)


def warnings_before_runs(tables: Iterable[RunTable]) -> list[str]:
    """Warnings on experiments that are unlikely to give a verdict, with values that would.

    Parameters
    ----------
    tables : iterable of RunTable
        The run table of each experiment.

    Returns
    -------
    list of str
        Lines, each with the names of its experiments.
    """
    return _lines_on_experiments(tables, _warnings_on_experiment)


def _lines_on_experiments(
    tables: Iterable[RunTable], say: Callable[[RunTable], Iterator[str]]
) -> list[str]:
    found: dict[str, list[str]] = {}
    for table in tables:
        for text in dict.fromkeys(say(table)):
            found.setdefault(text, []).append(table.experiment.name)
    return [
        f"experiment{'s' * (len(names) > 1)} {', '.join(names)}: {text}"
        for text, names in found.items()
    ]


def _remarks_on_experiment(table: RunTable) -> Iterator[str]:
    for made in table.systems:
        yield from made.remarks
    experiment = table.experiment
    system = experiment.library.system_class(experiment.system)
    given = {*experiment.parameters, *(axis.name for axis in experiment.scan)}
    defaults = {field.name: field.default for field in dataclasses.fields(system)}
    for name, why in system.surprising_defaults.items():
        if name not in given:
            unit = system.parameter_units.get(name, "1")
            yield f"{name} is not given: {defaults[name]:g} {unit}, {why}"


# --- step sizes beyond the stability limit ----------------------------------------------------


def steps_beyond_stability_limit(
    table: RunTable, among: NDArray[np.bool_] | None = None
) -> list[str]:
    """Warn of integrators and step sizes beyond a linear stability limit.

    Only some methods on systems of spins have such a limit. It is compared with the turning rate of
    the spins, from the gradient at each initial state. See `integrators.diagnostics.stability`.

    Parameters
    ----------
    table : sweep.study.run_table.RunTable
    among : ndarray of bool, shape (runs,), optional
        The runs to check; by default all.

    Returns
    -------
    list of str
        Warnings in the order of the table: by integrator, then by step size.
    """
    entries, methods = table.experiment.integrators, table.methods
    made = [entry.integrator() for entry in entries]
    limited = np.array([bool(has_stability_limit(own, table.systems[0])) for own in made])
    known = np.full((len(table.systems), len(table.starts) if limited.any() else 0), np.nan)
    found = np.zeros((len(methods.keys), 3))  # runs beyond it, all runs, fastest spin
    for runs, part in table.slabs() if limited.any() else ():
        mine = limited[part.integrator_index] & (True if among is None else among[runs])
        for system in np.unique(part.system_index[mine]).tolist():
            here = np.unique(part.start_index[mine & (part.system_index == system)])
            new = here[np.isnan(known[system, here])]
            if len(new):
                states = table.starts.states_of_starts(system, new)
                known[system, new] = frequencies(table.systems[system], states)
        for method in np.unique(part.method[mine]).tolist():
            chosen = mine & (part.method == method)
            own = known[part.system_index[chosen], part.start_index[chosen]]
            limit = largest_step(made[methods.integrator[method]], own)
            outside = own[methods.step_size[method] >= limit]
            found[method, :2] += len(outside), len(own)
            found[method, 2] = max(found[method, 2], outside.max(initial=0.0))
    warnings = []
    for method in np.flatnonzero(found[:, 0]):
        many, of, worst = found[method].tolist()
        index, size = methods.integrator[method], float(methods.step_size[method])
        warnings.append(
            f"Warning: {entries[index].where()} ({entries[index].label!r}): {many:,.0f} of "
            f"{of:,.0f} runs begin beyond its linear stability limit: "
            f"{explain_step_beyond_limit(made[index], size, worst)}"
        )
    return warnings


# --- verdicts that remain undecided -----------------------------------------------------------


@dataclasses.dataclass(frozen=True, eq=False)
class _Steps:
    """An integrator with its distinct step sizes in ascending order."""

    label: str
    integrator: Integrator
    sizes: NDArray[np.float64]


def _warnings_on_experiment(table: RunTable) -> Iterator[str]:
    experiment, methods = table.experiment, table.methods
    used = table.occurring_methods()
    steps = []
    for index, entry in enumerate(experiment.integrators):
        own = used[methods.integrator[used] == index]
        if len(own) and not entry.adaptive:
            sizes = np.unique(methods.step_size[own])
            steps.append(_Steps(entry.label, entry.integrator(), sizes))
        for one in experiment.integrators[:index] if not len(own) else ():
            if (one.name, one.options) == (entry.name, entry.options):
                yield (
                    f"{entry.label!r} has no runs: {one.label!r} is the same integrator, and what "
                    "both ask for is computed once"
                )
    yield from _statistics_of_too_few_steps(experiment, steps)
    ordered = [one for one in steps if experiment.reference and len(one.sizes) > 1]
    default = experiment.library.system_class(experiment.system)()
    if default.convergence is not None and table.systems == (default,):
        yield from _outside_declared_ranges(experiment, steps, ordered, default.convergence)
    if few := [one for one in ordered if len(one.sizes) < FEWEST_STEP_SIZES]:
        yield (
            f"the order of {_labels_in_words(few, ordered)} cannot be decided from "
            f"{len(few[0].sizes)} step sizes: {FEWEST_STEP_SIZES} are needed"
        )
    enough = [one for one in steps if len(one.sizes) >= FEWEST_STEP_SIZES]
    if enough and experiment.reference is None and "state" not in experiment.record:
        yield (
            f"no order of {_labels_in_words(enough, steps)} can be measured without a "
            'reference = { integrator = "dop853" } or record = ["state"]'
        )
    if experiment.reference is not None:
        tolerances = methods.tolerance[used]
        least = np.min(tolerances, where=np.isfinite(tolerances), initial=np.inf)
        if least < experiment.reference.tolerance:
            yield (
                f"tolerances down to {least:g} are below the reference's "
                f"{experiment.reference.tolerance:g}, whose own error hides theirs"
            )
    if not ordered:
        yield from _drifts_left_undecided(table, steps)


def _statistics_of_too_few_steps(
    experiment: ResolvedExperiment, steps: Sequence[_Steps]
) -> Iterator[str]:
    """Warn of statistics of one step in more than there are between any two samples."""
    every, longest = variables.steps_between(experiment.statistics), np.diff(experiment.times).max()
    found = {one: n for one in steps for n in np.round(longest / one.sizes) if 1 < n < every}
    if found:
        yield (
            f'statistics = "{experiment.statistics}" counts only the last step of sample intervals '
            f"of {min(found.values()):,.0f} steps, of {_labels_in_words(list(found), steps)}: give "
            'a smaller number, "every_step", or fewer samples'
        )


def _outside_declared_ranges(
    experiment: ResolvedExperiment,
    steps: Sequence[_Steps],
    ordered: Sequence[_Steps],
    convergence: Convergence,
) -> Iterator[str]:
    """Warn of step sizes and times outside the ranges in which systems declare orders to show."""

    def declared(one: _Steps) -> tuple[float, float]:
        order = one.integrator.order
        order = order if isinstance(order, int) else 2
        longest, shortest, _ = convergence.steps(order, one.integrator.arithmetic)
        return max(longest, convergence.longest_step), shortest

    def is_too_long(one: _Steps) -> bool:
        longest, interval = declared(one)[0], experiment.time_axis.interval
        snapped = interval / max(1, round(interval / longest))
        return bool(one.sizes[-1] > max(NEAR * longest, snapped))

    if beyond := [one for one in steps if is_too_long(one)]:
        worst = max(one.sizes[-1] for one in beyond)
        yield (
            f"step sizes up to {worst:g} of {_labels_in_words(beyond, steps)} exceed "
            f"{convergence.longest_step:g}, the longest at which errors are known to follow the "
            "order of a method"
        )
    windows: dict[tuple[int | str, str, int, int], list[_Steps]] = {}
    for one in ordered:
        longest, shortest = declared(one)
        inside = int(np.sum((one.sizes >= shortest / NEAR) & (one.sizes <= longest * NEAR)))
        if inside < FEWEST_STEP_SIZES <= len(one.sizes) and one.integrator.order != EXACT:
            window = f"{shortest:.2g} – {longest:.2g}"
            key = one.integrator.order, window, inside, len(one.sizes)
            windows.setdefault(key, []).append(one)
    for (order, window, inside, total), those in windows.items():
        yield (
            f"only {inside} of the {total} step sizes of {_labels_in_words(those, ordered)} lie "
            f"within {window}, where order {order} is known to show, and "
            f"{FEWEST_STEP_SIZES} are needed there"
        )
    first = float(experiment.times[1])
    if ordered and first > LATE * convergence.duration:
        count = int(np.ceil(experiment.duration / convergence.duration))
        yield (
            f"the first sample is at t = {first:g}, and orders are known to show until "
            f"t = {convergence.duration:g}: give {_samples(experiment, steps, count)}"
        )


def _drifts_left_undecided(table: RunTable, steps: Sequence[_Steps]) -> Iterator[str]:
    """Warn of quantities with too few samples for a drift."""
    experiment = table.experiment
    quantities = [
        variable.name.removesuffix("_error")
        for variable in variables.sampled_variables(experiment, table.systems)
        if variable.name.endswith("_error")
        and not variables.STATE_ERROR.items() <= variable.attributes.items()
    ]
    if quantities and 1 < experiment.samples < FEWEST_SAMPLES:  # 1: only the end is meant
        yield (
            f"no drift of {', '.join(quantities)} can be measured from {experiment.samples} sample "
            f"intervals: give {_samples(experiment, steps, FEWEST_SAMPLES)}"
        )


def _samples(experiment: ResolvedExperiment, steps: Sequence[_Steps], least: int) -> str:
    """The fewest samples, `least` or more, with intervals that all step sizes divide, in words."""
    sizes = np.concatenate([[], *(one.sizes for one in steps)])
    whole = math.gcd(*(round(experiment.duration / size) for size in sizes.tolist()))
    for count in range(least, MOST_SAMPLES):
        if whole % count == 0:
            return f"samples = {count}"
    return f"samples = {least} or more, and step sizes that divide their interval"


def _labels_in_words(those: Sequence[_Steps], among: Sequence[_Steps]) -> str:
    """Labels of integrators as a list in words, shortened if there are many."""
    if len(those) == len(among) > 3:
        return f"all {len(those)} integrators"
    shown = ", ".join(repr(one.label) for one in those[:3])
    return f"{shown} and {len(those) - 3} more" if len(those) > 3 else shown

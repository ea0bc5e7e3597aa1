"""Warnings before any work about a study that cannot answer what it asks, and what would help.

They are about step sizes, tolerances and durations outside the ranges that its systems declare, and
about verdicts that can only be undecided: orders of too few step sizes, drifts of too few samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from integrators.method import EXACT
from sweep.analysis.convergence.slopes import FEWEST as FEWEST_STEP_SIZES
from sweep.analysis.drift.estimators import FEWEST as FEWEST_SAMPLES
from sweep.study import schema

if TYPE_CHECKING:
    from integrators.method import Integrator
    from sweep.study.experiment import ResolvedExperiment
    from sweep.study.run_table import RunTable
    from sweep.study.time_axis import TimeAxis
    from systems.base import Convergence

LATE = 10.0  # times the declared horizon: errors measured first after it may have grown by chaos
NEAR = 1.1  # times a declared step size: those of ranges are snapped to what divides an interval


def warnings_before_runs(tables: Iterable[RunTable]) -> list[str]:
    """Warnings on experiments that are unlikely to be decisive, with values that would be.

    Parameters
    ----------
    tables : iterable of sweep.study.run_table.RunTable
        One for each experiment.

    Returns
    -------
    list of str
        One line each, which begins with the names of the experiments.
    """
    found: dict[str, list[str]] = {}
    for table in tables:
        for text in dict.fromkeys(_warnings_on_experiment(table)):
            found.setdefault(text, []).append(table.experiment.name)
    return [f"{', '.join(names)}: {text}" for text, names in found.items()]


@dataclass(frozen=True, eq=False)
class _Steps:
    """An integrator with its distinct step sizes, ascending."""

    label: str
    integrator: Integrator
    sizes: NDArray[np.float64]


def _warnings_on_experiment(table: RunTable) -> Iterator[str]:
    steps, convergence = _steps_of_integrators(table), _declared_convergence(table)
    referred = table.experiment.reference is not None
    ordered = [one for one in steps if referred and len(one.sizes) > 1]
    if convergence is not None:
        axis = table.experiment.time_axis
        yield from _steps_too_long(steps, convergence, axis)
        yield from _steps_outside_window(ordered, convergence)
        yield from _samples_too_late(table.experiment, ordered, convergence)
    yield from _too_few_step_sizes(ordered)
    yield from _step_sizes_without_error(table.experiment, steps)
    yield from _tolerances_below_reference(table)
    if not ordered:
        yield from _drifts_left_undecided(table)


def _steps_of_integrators(table: RunTable) -> list[_Steps]:
    """`_Steps` of each integrator with a fixed step, in the order of the study."""
    methods = table.methods
    found: dict[int, set[float]] = {}
    for method in table.occurring_methods():
        if not methods.adaptive[method]:
            sizes = found.setdefault(int(methods.integrator[method]), set())
            sizes.add(float(methods.step_size[method]))
    entries = table.experiment.integrators
    return [
        _Steps(entries[index].label, entries[index].integrator(), np.array(sorted(sizes)))
        for index, sizes in sorted(found.items())
    ]


def _declared_convergence(table: RunTable) -> Convergence | None:
    """The `Convergence` that a system with default parameters declares; None for others."""
    default = table.experiment.library.system_class(table.experiment.system)()
    return default.convergence if table.systems == (default,) else None


def _declared_step_range(one: _Steps, convergence: Convergence) -> tuple[float, float]:
    """Longest and shortest step size at which the system declares an order to show."""
    order = one.integrator.order
    order = order if isinstance(order, int) else 2
    longest, shortest, _ = convergence.steps(order, one.integrator.arithmetic)
    return max(longest, convergence.longest_step), shortest


def _steps_too_long(steps: list[_Steps], convergence: Convergence, axis: TimeAxis) -> Iterator[str]:
    """Warn of step sizes longer than any at which errors fall as a power of the step size."""
    beyond = [
        one for one in steps if one.sizes[-1] > _longest_declared_step(one, convergence, axis)
    ]
    if beyond:
        worst = max(one.sizes[-1] for one in beyond)
        yield (
            f"step sizes up to {worst:g} of {_labels_in_words(beyond, steps)} are longer than "
            f"{convergence.longest_step:g}, from which on down the system declares errors to fall "
            "as a power of it"
        )


def _longest_declared_step(one: _Steps, convergence: Convergence, axis: TimeAxis) -> float:
    """The longest step size without a warning: snapping may make a declared one longer."""
    declared = _declared_step_range(one, convergence)[0]
    return max(NEAR * declared, axis.interval / max(1, round(axis.interval / declared)))


def _steps_outside_window(ordered: Sequence[_Steps], convergence: Convergence) -> Iterator[str]:
    """Warn of integrators with too few step sizes in the range that the system declares."""
    windows: dict[tuple[int | str, float, float, int, int], list[_Steps]] = {}
    for one in ordered:
        longest, shortest = _declared_step_range(one, convergence)
        inside = int(np.sum((one.sizes >= shortest / NEAR) & (one.sizes <= longest * NEAR)))
        if inside < FEWEST_STEP_SIZES <= len(one.sizes) and one.integrator.order != EXACT:
            key = one.integrator.order, longest, shortest, inside, len(one.sizes)
            windows.setdefault(key, []).append(one)
    for (order, longest, shortest, inside, total), those in windows.items():
        yield (
            f"{inside} of the {total} step sizes of {_labels_in_words(those, ordered)} lie within "
            f"{shortest:.2g} – {longest:.2g}, where the system declares order {order} to show: "
            f"{FEWEST_STEP_SIZES} there can measure it"
        )


def _samples_too_late(
    experiment: ResolvedExperiment, ordered: Sequence[_Steps], convergence: Convergence
) -> Iterator[str]:
    """Warn of a first sample so late that chaos may dominate errors against the reference."""
    first, declared = float(experiment.times[1]), convergence.duration
    if ordered and first > LATE * declared:
        count = int(np.ceil(experiment.duration / declared))
        yield (
            f"the first sample is at t = {first:g}, and the system declares orders to show until "
            f"t = {declared:g}: of samples = {count} or more one is earlier"
        )


def _too_few_step_sizes(ordered: Sequence[_Steps]) -> Iterator[str]:
    """Warn of integrators with too few step sizes to measure an order."""
    few = [one for one in ordered if len(one.sizes) < FEWEST_STEP_SIZES]
    if few:
        yield (
            f"the order of {_labels_in_words(few, ordered)} can only stay undecided: "
            f"{len(few[0].sizes)} step sizes, {FEWEST_STEP_SIZES} are needed"
        )


def _step_sizes_without_error(
    experiment: ResolvedExperiment, steps: Sequence[_Steps]
) -> Iterator[str]:
    """Warn of step sizes that would do for an order, without an error to measure it by."""
    enough = [one for one in steps if len(one.sizes) >= FEWEST_STEP_SIZES]
    if enough and experiment.reference is None and "state" not in experiment.record:
        yield (
            f"no order of {_labels_in_words(enough, steps)} can be measured, since nothing tells "
            'the error of a state: reference = { integrator = "dop853" }, or record = ["state"]'
        )


def _tolerances_below_reference(table: RunTable) -> Iterator[str]:
    """Warn of tolerances below that of the reference, whose own error hides theirs."""
    reference, methods = table.experiment.reference, table.methods
    if reference is None:
        return
    used = methods.tolerance[table.occurring_methods()]
    least = np.min(used, where=np.isfinite(used), initial=np.inf)
    if least < reference.tolerance:
        yield (
            f"tolerances down to {least:g} are below the reference's {reference.tolerance:g}, "
            "whose own error hides theirs"
        )


def _drifts_left_undecided(table: RunTable) -> Iterator[str]:
    """Warn of quantities with too few samples for a drift."""
    experiment = table.experiment
    quantities = [
        variable.name.removesuffix("_error")
        for variable in schema.sampled_variables(experiment, table.systems)
        if variable.name.endswith("_error")
        and not schema.STATE_ERROR.items() <= variable.attributes.items()
    ]
    intervals = experiment.samples
    of = ", ".join(quantities)
    if not quantities or intervals == 1:  # what is asked for is at the end
        return
    if intervals < FEWEST_SAMPLES:
        yield (
            f"no drift of {of} can be measured of {intervals} sample intervals: "
            f"samples = {FEWEST_SAMPLES} or more"
        )


def _labels_in_words(those: Sequence[_Steps], among: Sequence[_Steps]) -> str:
    """Labels of integrators as a list in words, shortened where they are many."""
    if len(those) == len(among) > 3:
        return f"all {len(those)} integrators"
    shown = ", ".join(repr(one.label) for one in those[:3])
    return f"{shown} and {len(those) - 3} more" if len(those) > 3 else shown

"""The verdicts on a store, as questions: which are open, why, and what would decide them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

import sweep.analysis
from integrators.errors import InputError
from sweep.analysis.convergence.certificates import CONFIRMED, TOLERANCE, UNDECIDED
from sweep.analysis.drift.verdicts import GROWING, LOOSE
from sweep.analysis.efficiency.timing import SHORTEST
from sweep.analysis.reasons import Reason, Remedy
from sweep.text import count_with_noun

if TYPE_CHECKING:
    import xarray

    from sweep.analysis.efficiency.pareto import WorkEstimate
    from sweep.study.experiment import ResolvedExperiment

# OrderEstimate, DriftEstimate, ChaosEstimate or CostEstimate, by the kind of the question.
Estimate = Any
# Experiment, subject, integrator, and scanned values with their names.
QuestionKey = tuple[str, str, str, tuple[tuple[str, str], ...]]

REPEATS = 5  # of runs whose CPU times are compared
ORDER, DRIFT, CHAOS, WORK = "order", "drift", "chaos", "work"
KINDS = (ORDER, DRIFT, CHAOS, WORK)
DEFAULT_KINDS = (ORDER, DRIFT, CHAOS)  # of verdicts on an experiment
MOST_LOOKS = 16  # looks at the verdicts of a store: first, and after each round of additions


def wider_after(rounds: int) -> float:
    """Factor by which an interval of 95 % is widened after so many rounds of additions.

    Its error probability after round k is 5 %/(k (k + 1)): less than 5 % in all, however many
    rounds there are.
    """
    if not rounds:
        return 1.0
    return float(ndtri(1 - 0.025 / (rounds * (rounds + 1))) / ndtri(0.975))


@dataclass(frozen=True)
class Question:
    """A verdict on a store, which may be open.

    Attributes
    ----------
    experiment : str
    kind : str
        One of `KINDS`.
    estimate : OrderEstimate, DriftEstimate, ChaosEstimate or CostEstimate
        The row of the verdict in its table.
    looks : int
        Number of rounds of additions to the store, if one was made for this integrator; else 0.
    """

    experiment: str
    kind: str
    estimate: Estimate
    looks: int

    @property
    def key(self) -> QuestionKey:
        """Unique key of the question in a store, also as the store grows."""
        row = self.estimate
        scanned = tuple(sorted((name, str(value)) for name, value in row.parameters.items()))
        return self.experiment, self.subject, row.integrator, scanned

    @property
    def subject(self) -> str:
        """``order``, ``drift of energy``, ``chaos`` or ``CPU time``."""
        if self.kind == DRIFT:
            return f"{DRIFT} of {self.estimate.quantity}"
        return "CPU time" if self.kind == WORK else self.kind

    @property
    def open(self) -> bool:
        """Whether the verdict is undecided, by a test that accounts for repeated looks."""
        if self.kind == CHAOS:
            return self.estimate.undecided > 0 or not self.estimate.starts
        return self.estimate.verdict == UNDECIDED or self._narrow_for_one_look_alone

    @property
    def loose(self) -> bool:
        """Whether a closer verdict may be possible: the error grows or wanders by no known law."""
        return self.kind == DRIFT and self.estimate.verdict in LOOSE

    @property
    def why(self) -> str:
        """Why the verdict is open, or not closer, in words; else empty."""
        if not self.open and not self.loose:
            return ""
        if self.kind == CHAOS:
            return str(self.estimate.in_words or "no run is complete")
        if self._narrow_for_one_look_alone:
            row = self.estimate
            return (
                f"{row.order:.2f} ± {(row.high - row.low) / 2:.2f} is {row.verdict} at 95 %, but "
                f"not after {count_with_noun(self.looks, 'look')} more"
            )
        return "; ".join(map(str, self.estimate.why)) or str(self.estimate.reason)

    @property
    def found(self) -> str:
        """Evidence of the verdict: the order, or the drift or its bound, with its interval."""
        row = self.estimate
        if self.kind == CHAOS:
            return f"MEGNO {row.megno.median:.3g}" if row.starts else "no run is complete"
        if self.kind == WORK:
            return str(row.found)
        if self.kind == DRIFT:
            if row.low != row.low and row.verdict != UNDECIDED:
                return str(
                    row.in_words
                )  # of samples that thin out the growth is known, and no drift
            grows = row.verdict in GROWING
            return f"{row.low:.2g} to {row.high:.2g} {row.rate}" if grows else str(row.sentence)
        if row.order != row.order:
            return str(row.reason)
        return f"{row.order:.2f} ± {(row.high - row.low) / 2:.2f}"

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """What would decide the verdict, each a `Remedy`."""
        if self._narrow_for_one_look_alone:
            used = self.estimate.used
            return (Remedy("step sizes", used + 2, used),)
        if self.kind == CHAOS:
            row = self.estimate
            longer = row.longer / row.duration if row.halved and not row.stopped else np.nan
            return (Remedy("duration", longer, 1.0),) if longer > 0 else ()
        return tuple(one for reason in self.estimate.why for one in reason.remedies)

    @property
    def _narrow_for_one_look_alone(self) -> bool:
        """Whether an order is decided by an interval for one look, but not by that for several."""
        row = self.estimate
        if self.kind != ORDER or not self.looks or row.verdict == UNDECIDED:
            return False
        order = row.declared if row.verdict == CONFIRMED else round(row.order)
        half = wider_after(self.looks) * (row.high - row.low) / 2
        return abs(row.order - order) + half > TOLERANCE if row.order == row.order else False


def kinds_asked_for(experiment: ResolvedExperiment) -> tuple[str, ...]:
    """Kinds of verdicts that an experiment is made for, a tuple of `KINDS`.

    One with several step sizes and a reference to its end is a study of convergence: its duration
    is too short for drifts.
    """
    reference = experiment.reference
    several = any(len(experiment.steps_of(e)) > 1 for e in experiment.integrators if not e.adaptive)
    whole = reference is not None and reference.until >= experiment.duration
    return (ORDER, CHAOS) if several and whole else DEFAULT_KINDS


def questions_of_experiments(
    datasets: Mapping[str, xarray.Dataset],
    smallest: Mapping[tuple[str, str], float],
    kinds: Mapping[str, Sequence[str]],
    looks: Mapping[tuple[str, str], int] | None = None,
) -> list[Question]:
    """The verdicts on some experiments, open or not.

    Parameters
    ----------
    datasets : dict of str to xarray.Dataset
    smallest : dict of (str, str) to float
        Step size or tolerance at which drifts are tested, by experiment and integrator.
    kinds : dict of str to sequence of str
        Kinds of verdicts, of `KINDS`, by experiment.
    looks : dict of (str, str) to int, optional
        Number of rounds of additions, by experiment and integrator.

    Returns
    -------
    list of Question

    Raises
    ------
    InputError
        If no experiment records what a verdict of one of the kinds needs.
    """
    found, refused = [], []
    for name, dataset in datasets.items():
        for kind in kinds[name]:
            try:
                rows = _rows_of_kind(kind, dataset, name, smallest)
            except InputError as error:
                refused.append((name, error))
                continue
            made = {row.integrator: (looks or {}).get((name, row.integrator), 0) for row in rows}
            found += [Question(name, kind, row, made[row.integrator]) for row in rows]
    if not found:
        raise InputError("\n".join(sweep.analysis.query_refusals_in_words(refused)))
    return found


def _rows_of_kind(
    kind: str, dataset: xarray.Dataset, name: str, smallest: Mapping[tuple[str, str], float]
) -> Sequence[Estimate]:
    """Rows of the table that has the verdicts of a kind."""
    table: Callable[[xarray.Dataset], Sequence[Estimate]]
    if kind == ORDER:
        table = sweep.analysis.order_table
        return table(dataset)
    if kind == WORK:
        return costs_of_integrators(sweep.analysis.work_table(dataset))
    chosen = _runs_of_sizes(dataset, name, smallest)
    table = sweep.analysis.drift_table if kind == DRIFT else sweep.analysis.chaos_table
    return table(chosen)


@dataclass(frozen=True)
class CostEstimate:
    """Whether the CPU times of an integrator can be compared with those of others.

    Attributes
    ----------
    integrator : str
    parameters : dict
        Values of the scanned axes.
    starts, left_out : int
    sizes : tuple of float
        Step sizes or tolerances with complete runs.
    measured : int
        Number of these whose CPU times can be compared.
    verdict : str
        ``comparable`` if they all can, else ``undecided``.
    why : tuple of Reason
    """

    integrator: str
    parameters: dict[str, Any]
    starts: int
    left_out: int
    sizes: tuple[float, ...]
    measured: int
    verdict: str
    why: tuple[Reason, ...]

    @property
    def found(self) -> str:
        """Number of CPU times that can be compared, in words."""
        return f"{self.measured} of {len(self.sizes)} CPU times can be compared"


def costs_of_integrators(rows: Sequence[WorkEstimate]) -> list[CostEstimate]:
    """Whether CPU times can be compared, of each integrator and scanned values.

    Parameters
    ----------
    rows : sequence of WorkEstimate

    Returns
    -------
    list of CostEstimate
    """
    together: dict[tuple[str, tuple[tuple[str, Any], ...]], list[WorkEstimate]] = {}
    for row in rows:
        if row.error == rows[0].error and np.isfinite(row.cpu_time):
            key = row.integrator, tuple(row.parameters.items())
            together.setdefault(key, []).append(row)
    return [_cost_of_integrator(of) for of in together.values()]


def _cost_of_integrator(rows: Sequence[WorkEstimate]) -> CostEstimate:
    lost, first = [row for row in rows if not row.cpu_time_measured], rows[0]
    return CostEstimate(
        integrator=first.integrator,
        parameters=first.parameters,
        starts=max(row.starts for row in rows),
        left_out=max(row.left_out for row in rows),
        sizes=tuple(np.fmax(row.step_size, row.tolerance) for row in rows),
        measured=len(rows) - len(lost),
        verdict=UNDECIDED if lost else "comparable",
        why=(_why_times_are_not_comparable(lost),) if lost else (),
    )


def _why_times_are_not_comparable(lost: Sequence[WorkEstimate]) -> Reason:
    """The `Reason` by repeats and durations of the timings, and what would suffice."""
    repeats, batch = min(row.repeats for row in lost), min(row.cpu_time_batch for row in lost)
    remedies: tuple[Remedy, ...] = ()
    if batch < SHORTEST:
        remedies = (Remedy("duration", SHORTEST / batch, 1.0),)
    elif repeats < REPEATS:
        remedies = (Remedy("repeats", REPEATS, repeats),)
    numbers = {"repeats": repeats, "milliseconds": 1e3 * batch}
    return Reason("measured times", len(lost), 0, remedies, numbers)


def _runs_of_sizes(
    dataset: xarray.Dataset, name: str, sizes: Mapping[tuple[str, str], float]
) -> xarray.Dataset:
    """Runs of each integrator at one step size or tolerance, those of `sizes`."""
    labels, adaptive = dataset["integrator"].values, dataset["adaptive"].values.astype(bool)
    steps = dataset["step_size"].values
    steps = np.where(adaptive, dataset["tolerance"].values, steps) if adaptive.any() else steps
    wanted = np.array([sizes.get((name, label), np.nan) for label in labels])
    return dataset.isel(run=np.flatnonzero(np.isclose(steps, wanted, rtol=1e-9, atol=0.0)))

"""The verdicts that a store was asked for, as they stand: which are open, and what would decide."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

import sweep.analysis
from integrators.errors import InputError
from sweep.analysis.convergence.certificates import CONFIRMED, TOLERANCE, UNDECIDED
from sweep.analysis.drift.drifts import GROWING
from sweep.analysis.reasons import Remedy

ORDER, DRIFT = "order", "drift"
KINDS = (ORDER, DRIFT)
MOST_LOOKS = 5  # at the verdicts of a store: as it was, and after each round of additions
# An interval of 95 % over all looks is by Bonferroni one of 1 - 5 %/MOST_LOOKS at each of them.
WIDER = float(ndtri(1 - 0.025 / MOST_LOOKS) / ndtri(0.975))


@dataclass(frozen=True)
class Question:
    """A verdict as it stands.

    Attributes
    ----------
    experiment : str
    kind : str
        One of `KINDS`.
    estimate : OrderEstimate or DriftEstimate
        The row of the table that the verdict stands in.
    looks : int
        Rounds of additions that the store has had, if any was made for this integrator; else 0.
    """

    experiment: str
    kind: str
    estimate: object
    looks: int

    @property
    def key(self):
        """What tells it from the other questions of the store, as the store grows."""
        row = self.estimate
        scanned = tuple(sorted((name, str(value)) for name, value in row.parameters.items()))
        return self.experiment, self.subject, row.integrator, scanned

    @property
    def subject(self):
        """``order`` or ``drift of energy``."""
        return ORDER if self.kind == ORDER else f"{DRIFT} of {self.estimate.quantity}"

    @property
    def open(self):
        """Whether it is undecided, by a test that allows for the looks that there were."""
        return self.estimate.verdict == UNDECIDED or self._narrow_for_one_look_alone

    @property
    def why(self):
        """Why it is open, in words; empty where it is not."""
        if not self.open:
            return ""
        if self._narrow_for_one_look_alone:
            row = self.estimate
            return (
                f"{row.order:.2f} ± {(row.high - row.low) / 2:.2f} is {row.verdict} at 95 %, but "
                f"not as one of {MOST_LOOKS} looks"
            )
        return "; ".join(map(str, self.estimate.why)) or self.estimate.reason

    @property
    def found(self):
        """What the verdict rests on: the order, or the drift or its bound, with the interval."""
        row = self.estimate
        if self.kind == DRIFT:
            grows = row.verdict in GROWING and row.low == row.low
            return f"{row.low:.2g} to {row.high:.2g} {row.rate}" if grows else row.sentence
        if row.order != row.order:
            return row.reason
        return f"{row.order:.2f} ± {(row.high - row.low) / 2:.2f}"

    @property
    def remedies(self):
        """What would decide it, each a `Remedy`."""
        if self._narrow_for_one_look_alone:
            used = self.estimate.used
            return (Remedy("step sizes", used + 2, used),)
        return tuple(one for reason in self.estimate.why for one in reason.remedies)

    @property
    def _narrow_for_one_look_alone(self):
        """Whether an order is decided by the interval of one look, and not by that of several."""
        row = self.estimate
        if self.kind != ORDER or not self.looks or row.verdict == UNDECIDED:
            return False
        order = row.declared if row.verdict == CONFIRMED else round(row.order)
        half = WIDER * (row.high - row.low) / 2
        return abs(row.order - order) + half > TOLERANCE if row.order == row.order else False


def kinds_asked_for(experiment):
    """Of which kinds an experiment asks for verdicts, a tuple of `KINDS`.

    One with several step sizes and a reference to its end is a study of convergence: its horizon
    is none to see drifts over.
    """
    reference = experiment.reference
    several = any(len(experiment.steps_of(e)) > 1 for e in experiment.integrators if not e.adaptive)
    whole = reference is not None and reference.until >= experiment.duration
    return (ORDER,) if several and whole else KINDS


def questions_of_experiments(datasets, smallest, kinds, looks=None):
    """The verdicts on some experiments, open or not.

    Parameters
    ----------
    datasets : dict of str to xarray.Dataset
    smallest : dict of (str, str) to float
        The step size or tolerance at which drifts are looked at, by experiment and integrator.
    kinds : dict of str to sequence of str
        Of `KINDS`, by experiment.
    looks : dict of (str, str) to int, optional
        Rounds of additions that there were, by experiment and integrator.

    Returns
    -------
    list of Question

    Raises
    ------
    InputError
        If no experiment records what one of the kinds is a verdict on.
    """
    found, refused = [], []
    for name, dataset in datasets.items():
        for kind in kinds[name]:
            try:
                if kind == ORDER:
                    rows = sweep.analysis.order_table(dataset)
                else:
                    rows = sweep.analysis.drift_table(_runs_of_sizes(dataset, name, smallest))
            except InputError as error:
                refused.append((name, error))
                continue
            made = {row.integrator: (looks or {}).get((name, row.integrator), 0) for row in rows}
            found += [Question(name, kind, row, made[row.integrator]) for row in rows]
    if not found:
        raise InputError("\n".join(sweep.analysis.query_refusals_in_words(refused)))
    return found


def _runs_of_sizes(dataset, name, sizes):
    """The runs of each integrator with one step size, or tolerance."""
    labels, adaptive = dataset["integrator"].values, dataset["adaptive"].values.astype(bool)
    steps = dataset["step_size"].values
    steps = np.where(adaptive, dataset["tolerance"].values, steps) if adaptive.any() else steps
    wanted = np.array([sizes.get((name, label), np.nan) for label in labels])
    return dataset.isel(run=np.flatnonzero(np.isclose(steps, wanted, rtol=1e-9, atol=0.0)))

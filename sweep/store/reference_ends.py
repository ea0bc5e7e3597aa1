"""`ReferenceEnd`: why a reference ends before its last sample."""

import math
from dataclasses import dataclass
from typing import Any

from sweep.study import variables

UNTRUSTED = 1e4  # error of an invariant, in tolerances, beyond which a reference is not trusted
SETTLED = 1e-6  # difference of states below which a larger tolerance may be met


@dataclass(frozen=True)
class ReferenceEnd:
    """Why a reference ends before its last sample, and where.

    Parameters
    ----------
    reference : dict
        Settings of the reference, as in `sweep.study.experiment.Reference`.
    reason : str
        One of `variables.REFERENCE_ENDS` other than the first.
    held : float
        Time of the last sample at which the reference meets its tolerance; NaN if unknown.
    lost : float
        Time of the next sample.
    step_size : float
        In double-double arithmetic, the last step size that was tried; otherwise NaN.
    difference : float
        Difference of the states computed with `step_size` and with half of it at `lost`, relative
        to the size of the initial state.
    steps : float
        In double-double arithmetic, the approximate number of steps needed up to `lost`, if they
        are too many; in double precision, the number after which ``max_steps`` ended the reference.
    stop_time : float
        In double precision, the time at which the integration ended; NaN if unknown.
    """

    reference: dict[str, Any]
    reason: str
    held: float
    lost: float
    step_size: float = math.nan
    difference: float = math.nan
    steps: float = math.nan
    stop_time: float = math.nan

    @property
    def bounded(self) -> bool:
        """Whether ``max_steps``, and not round-off, is the cause of ``step_too_small``."""
        return not math.isnan(self.steps)

    @property
    def columns(self) -> dict[str, float]:
        """The values of `variables.OF_REFERENCE_ENDS` by name, without the number of samples."""
        return {
            variables.REFERENCE_END: variables.REFERENCE_ENDS.index(self.reason),
            **{variable.name: getattr(self, variable.name) for variable in variables.STOPS},
        }

    def __str__(self) -> str:
        arithmetic = self.reference.get("arithmetic")
        where = f" in {arithmetic}" if arithmetic else ""
        return (
            f"the reference by {self.reference['integrator']!r}{where} does not meet its tolerance "
            f"{self.reference['tolerance']:g}: at t = {self._when:.6g} {self._why}. Give "
            f"{', or '.join(self._remedies)}"
        )

    @property
    def _when(self) -> float:
        return self.lost if math.isnan(self.stop_time) else self.stop_time

    @property
    def _why(self) -> str:
        apart = (
            f"the step sizes {self.step_size:.3g} and {self.step_size / 2:.3g} differ by "
            f"{self.difference:.2g} of the state's size, and "
        )
        vanished = "its steps fall below round-off, as near a singularity"
        beyond = (
            "it stops: it has taken max_steps steps, or its last 10,000 hardly advance, as near a "
            "singularity"
        )
        return {
            "not_finite": "its states are no longer finite, as at a collision",
            "step_too_small": beyond if self.bounded else vanished,
            "not_conserved": "it breaks what the system conserves by more than "
            f"{UNTRUSTED:,.0f} tolerances and one for each step, as where a step leads past a "
            "singularity, and is no longer trusted",
            "no_step_size": "no step size advances it, the last one tried was "
            f"{self.step_size / 2:.3g}: states are no longer finite or a solver does not "
            "converge, as at a collision",
            "rounding": f"{apart}shorter steps do not bring them nearer: rounding errors dominate, "
            "which grow as neighbouring trajectories separate",
            "too_many_steps": f"{apart}to meet it some {self.steps:.1g} steps are needed, which "
            "are too many",
        }[self.reason]

    @property
    def _remedies(self) -> list[str]:
        cures = ["an integrator of higher order"] if self.reason == "too_many_steps" else []
        cures += ["a larger tolerance"] if self.difference < SETTLED else []
        if self.reason == "step_too_small" and self.bounded:
            cures += ["a larger max_steps"]
        known = self.held > 0
        return [
            *cures,
            f"until = {self.held:.15g}, to which it is met" if known else "a shorter time",
        ]

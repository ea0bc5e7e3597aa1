"""`ReferenceEnd`: why a reference ends before its last sample, for workers and for readers."""

import math
from dataclasses import dataclass
from typing import Any

from sweep.study import variables

UNTRUSTED = 1e4  # tolerances by which a reference breaks an invariant that it is not trusted for
SETTLED = 1e-6  # difference of states at which a larger tolerance may be met


@dataclass(frozen=True)
class ReferenceEnd:
    """Why a reference ends before its last sample, and where.

    Parameters
    ----------
    reference : dict
        Its settings, as `sweep.study.experiment.Reference` has them.
    reason : str
        One of `variables.REFERENCE_ENDS`, not the first.
    held : float
        Time of the last sample at which it holds; NaN where that is not known.
    lost : float
        Time of the next one.
    step_size : float
        Of one in double-double, the step size that was tried last; NaN otherwise.
    difference : float
        By which the states of that and of half of it differ there, of the size of the initial one.
    steps : float
        About how many would have been needed until there, if these are too many; of one in double
        precision those after which ``max_steps`` ended it.
    stop_time : float
        Of one in double precision, when it ended; NaN where that is not known.
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
        """Whether ``max_steps`` ended one that ends as ``step_too_small``, and not round-off."""
        return not math.isnan(self.steps)

    @property
    def columns(self) -> dict[str, float]:
        """Of `variables.OF_REFERENCE_ENDS` all but the number of samples, by name."""
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
            "max_steps ended it: it took that many steps, or its last 10,000 hardly led on, as "
            "near a singularity"
        )
        return {
            "not_finite": "its states are finite no more, as at a collision",
            "step_too_small": f"it ends as step_too_small: {beyond if self.bounded else vanished}",
            "not_conserved": "it breaks what the system conserves by more than "
            f"{UNTRUSTED:,.0f} tolerances and one for each step, as where a step leads past a "
            "singularity, and is trusted no more",
            "no_step_size": f"no step size leads on, the last tried was {self.step_size / 2:.3g}: "
            "states are finite no more or a solver does not converge, as at a collision",
            "rounding": f"{apart}shorter steps do not come nearer: rounding decides, that grows "
            "as neighbouring trajectories part",
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

"""How runs end, and what a kernel reports of them: plain numbers, for all that reads results."""

COMPLETE, LEFT_DOMAIN, NOT_CONVERGED, NOT_FINITE, STEP_TOO_SMALL, NOT_CONSERVED = range(6)
STATUS = (
    "complete", "left_domain", "not_converged", "not_finite", "step_too_small", "not_conserved",
)  # fmt: skip

# The rows of a report, of the element type: one trajectory in each lane.
# EVALUATIONS are those beyond the number that the method declares.
STATUS_ROW, STOP_STEP, STOP_RESIDUAL, ITERATIONS, ITERATIONS_MAX, EVALUATIONS = range(6)
REPORT_SIZE = 6

MONITORED = 2  # energy (balance) and mean unit length error, which is never negative
ENERGY = 0  # of these
MEAN, MINIMUM, MAXIMUM, ABS_MEAN, ABS_MAX, STATISTICS = range(6)

"""Step sizes by an embedded pair, as section 4 of Celledoni et al. has them.

With an estimate e of the local error of a step of h, both an accepted and a rejected step give

    h ← θ (tol/e)^α h,   α = 1/(1 + min(p, p̃)),                                    (33)

and a step is accepted where e < tol. θ is the option ``safety``; the factor is kept within
``least_factor`` and ``most_factor``, and the first step is ``first_step``.

E. Celledoni, E. Çokaj, A. Leone, D. Murari, B. Owren, *Lie group integrators for mechanical
systems*, section 4.
"""

from collections.abc import Mapping
from typing import Any

from integrators.compiler.kernels import inlined
from integrators.options import Option
from integrators.stepping.adaptive_loop import OWN, TOLERANCE

SAFETY, FIRST_STEP, LEAST, MOST, DEGREE = range(OWN, OWN + 5)  # in the settings
OF_PAIR = DEGREE + 1  # where those of a pair begin
LEAST_RATIO = 1e-60  # of which a root is taken

CONTROL_OPTIONS = {
    "safety": Option(0.85, "safety factor of the next step size", most=0.99, positive=True),
    "first_step": Option(
        0.01, "first step size to try, in the system's unit of time", positive=True
    ),
    "least_factor": Option(
        0.2, "smallest factor between successive step sizes", most=0.99, positive=True
    ),
    "most_factor": Option(5.0, "largest factor between successive step sizes", least=1.0),
}


def control_settings(options: Mapping[str, Any], degree: float) -> list[float]:
    """The settings of the control, of the options of an integrator and of 1/α."""
    return [*(options[name] for name in CONTROL_OPTIONS), degree]


@inlined
def root(x, degree):
    """x^(1/degree) for 0 < x ≤ 1, by Newton's method from above: the same on every CPU."""
    most, least = (degree - 1.0) / degree, 1.0 / degree
    previous, below = 1.0, most + least * x
    while below < previous:
        previous = below
        power, square, bits = 1.0, previous, degree - 1
        while bits > 0:
            if bits % 2 == 1:
                power = power * square
            square = square * square
            bits = bits // 2
        below = most * previous + least * (x / power)
    return previous


@inlined
def factor_of(settings, error):
    """θ (tol/e)^α within its bounds, (33); the least one where the error is not finite."""
    tolerance, degree = settings[TOLERANCE], int(settings[DEGREE])
    factor = settings[LEAST]
    if error < tolerance:
        factor = settings[SAFETY] / root(max(error / tolerance, LEAST_RATIO), degree)
    elif error >= tolerance:
        factor = settings[SAFETY] * root(max(tolerance / error, LEAST_RATIO), degree)
    return min(max(factor, settings[LEAST]), settings[MOST])

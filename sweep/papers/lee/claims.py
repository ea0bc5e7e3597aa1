"""Lee, Leok and McClamroch, *Lagrangian mechanics and variational integrators on two-spheres*.

The properties stated in section 3.4, then the numbers of Examples 1 to 6. Several of these belong
to data that differ from those printed beside them; the note says which, and the result for the
printed data follows. The means of Examples 1 and 5 agree in all printed digits if they are taken
over every 5th and every 20th step.
"""

from functools import partial
from typing import Any

from sweep.papers import diagnostics
from sweep.papers.agreement import EnergyTrend, KeptToRoundOff
from sweep.papers.claims import Claim, Paper
from sweep.papers.measuring import Computed, Measured, Selection

ENERGY = "mean |E − E₀|"
LENGTH = "mean |q·q − 1|"
VARIATIONAL, COMPOSED, RUNGE_KUTTA = "variational", "variational+suzuki4", "rk4"
ORDERS = 0.1  # allowed deviation of a measured order
GAINED, LOST = EnergyTrend(rises=True), EnergyTrend(rises=False)  # as in the pictures of the paper


def _unit_length_error_claim(part: str, measured: Selection, paper: float) -> Claim:
    """The claim that a unit length error is at round-off, and no larger than the printed one."""
    return Claim(
        part, LENGTH, measured, paper=paper, low=0.0, high=paper, behaviour=KeptToRoundOff()
    )  # fmt: skip


_properties = partial(Computed, "lee-properties")
_one = partial(Measured, "lee-example-1")
_two = partial(Measured, "lee-example-2", "step-sizes")
_compared = partial(Computed, "lee-example-2", "step-sizes")
_MEAN_ENERGY_ERROR = "energy_error_abs_mean"
_three = partial(Measured, "lee-example-3", "formulations", step_size=5e-3)
_four = partial(Measured, "lee-example-4")
_five = partial(Measured, "lee-example-5")
_six = partial(Measured, "lee-example-6", "molecules", VARIATIONAL, step_size=5e-3)

# --- section 3.4 ---------------------------------------------------------------------------------

_SYSTEMS = ("pendulum", "bodies", "springs", "rod", "dipoles", "molecules")


def _structure_claims(name: str) -> tuple[Claim, ...]:
    """The claims that steps are symplectic, and that 100 steps back undo 100 forward."""
    experiment = f"structure-{name}"
    both = (VARIATIONAL, COMPOSED)
    symplectic, reversal = (
        _properties(experiment, both, measure=diagnostics.value_per_run(variable))
        for variable in ("symplectic_defect", "reversal_error")
    )
    return (
        Claim(
            "3.4", f"symplectic defect, {name}", symplectic, low=0.0, high=1e-11,
            note="of a step, by exact derivatives",
        ),
        Claim(
            "3.4", f"distance from the start after 100 steps forward and back, {name}", reversal,
            low=0.0, high=2e-12,
        ),
    )  # fmt: skip


def _order_claim(name: str, integrator: str, order: float, paper: float | None = None) -> Claim:
    return Claim(
        "3.4", f"order, {name}",
        _properties(
            f"orders-{name}", integrator, measure=diagnostics.measured_convergence_order
        ),
        paper=paper, digits=1, exact=True, low=order - ORDERS, high=order + ORDERS,
    )  # fmt: skip


_ORDERS = {"triple_jump4": 4, "suzuki4": 4, "yoshida6": 6, "kahan_li6": 6}
_MILLION = "1e6 steps"
_momentum = diagnostics.largest_size_over_time("momentum_error")
PROPERTIES = (
    *(claim for name in _SYSTEMS for claim in _structure_claims(name)),
    Claim(
        "3.4", "symplectic defect, pendulum",
        _properties(
            "structure-pendulum", RUNGE_KUTTA,
            measure=diagnostics.value_per_run("symplectic_defect"),
        ),
        low=1e-7, high=float("inf"), note="no symplectic method",
    ),
    *(
        claim
        for name, higher in (("pendulum", _ORDERS), ("bodies", _ORDERS | {"kahan_li8": 8}))
        for claim in (
            _order_claim(name, VARIATIONAL, 2, paper=2.0),
            *(_order_claim(name, f"{VARIATIONAL}+{one}", order) for one, order in higher.items()),
        )
    ),
    Claim(
        "3.4", "max |π − π₀|, pendulum", _properties("long", VARIATIONAL, measure=_momentum),
        low=0.0, high=1e-13, note=f"vertical angular momentum; {_MILLION}",
    ),
    Claim(
        "3.4", "max |π − π₀|, pendulum", _properties("long", RUNGE_KUTTA, measure=_momentum),
        low=1e-5, high=float("inf"), note=f"vertical angular momentum; {_MILLION}",
    ),
    Claim(
        "3.4", "|drift of E| over the run / max |E − E₀|, at most, pendulum",
        _properties("long", VARIATIONAL, measure=diagnostics.largest_drift_possible),
        low=0.0, high=0.05, note=f"{_MILLION}; what 95 % leave possible",
    ),
    Claim(
        "3.4", "slope of E times T, pendulum",
        _properties(
            "long", RUNGE_KUTTA, measure=diagnostics.trend_over_run("energy_error"),
            summary="median",
        ),
        low=-1e-3, high=-1e-4, note=_MILLION,
    ),
)  # fmt: skip

# --- the examples --------------------------------------------------------------------------------

EXAMPLE_1 = (
    Claim(
        "Example 1", ENERGY, _one("unit-data", VARIATIONAL, step_size=0.01, sampled=True),
        paper=2.1641e-5, expected=2.164092e-5, note="g = l = m = 1, which the paper ran",
    ),
    Claim(
        "Example 1", ENERGY, _one("unit-data", VARIATIONAL, step_size=0.01),
        paper=2.1641e-5, expected=2.16472e-5, note="g = l = m = 1; mean over every step",
    ),
    Claim(
        "Example 1", ENERGY, _one("printed-data", VARIATIONAL, step_size=0.01),
        paper=2.1641e-5, expected=2.0832e-3, note="m = 1 kg, l = 9.81 m, as printed",
    ),
    _unit_length_error_claim(
        "Example 1", _one("unit-data", VARIATIONAL, "unit_length", step_size=0.01), 8.8893e-15
    ),
    Claim(
        "Example 1", ENERGY, _one("runge-kutta", "rk45"),
        paper=7.8586e-4, expected=7.85863e-4, note="on (q, ω), sampled every 0.01",
        behaviour=GAINED,
    ),
    Claim(
        "Example 1", LENGTH, _one("runge-kutta", "rk45", "unit_length"),
        paper=6.2742e-5, expected=6.27417e-5, note="on (q, ω), sampled every 0.01",
        behaviour=GAINED,
    ),
)  # fmt: skip

EXAMPLE_2 = (
    Claim(
        "Example 2", ENERGY, _two(VARIATIONAL, step_size=5e-3),
        paper=1.1717e-4, expected=1.17166e-4, note="the paper prints h = 1e-3",
    ),
    Claim(
        "Example 2", ENERGY, _two(VARIATIONAL, step_size=5e-4),
        paper=1.1986e-6, expected=1.198572e-6, note="the paper prints h = 1e-4",
    ),
    Claim(
        "Example 2", ENERGY, _two(VARIATIONAL, step_size=1e-3),
        paper=1.1717e-4, expected=4.7895e-6, note="the paper prints h = 1e-3",
    ),
    Claim(
        "Example 2", ENERGY, _two(VARIATIONAL, step_size=1e-4),
        paper=1.1986e-6, expected=4.7960e-8, note="the paper prints h = 1e-4",
    ),
    Claim(
        "Example 2", f"{ENERGY} at ten times the step / {ENERGY}",
        _compared(
            VARIATIONAL, summary="median", each="step sizes",
            measure=diagnostics.ratios_over_a_decade_of_step_sizes(_MEAN_ENERGY_ERROR),
        ),
        paper=100.0, digits=1, low=95.0, high=105.0, note="“almost 100 times”",
    ),
    Claim(
        "Example 2", f"{ENERGY} of rk2 / variational",
        _compared(
            ("rk2", VARIATIONAL), summary="median", each="step sizes",
            measure=diagnostics.ratio_of_mean_errors(_MEAN_ENERGY_ERROR, "rk2", VARIATIONAL),
        ),
        low=80.0, high=110.0, note="“several orders of magnitude”",
    ),
    Claim(
        "Example 2", f"{LENGTH} of rk2 / variational",
        _compared(
            ("rk2", VARIATIONAL), summary="median", each="step sizes",
            measure=diagnostics.ratio_of_mean_errors("unit_length_error_mean", "rk2", VARIATIONAL),
        ),
        low=1e6, high=float("inf"), note="“several orders of magnitude”",
    ),
    Claim(
        "Example 2", "max |J − J₀|",
        Computed("lee-example-2", "step-sizes", VARIATIONAL, measure=_momentum),
        low=0.0, high=1e-14, note="total angular momentum",
    ),
)  # fmt: skip

EXAMPLE_3 = (
    Claim(
        "Example 3", ENERGY, _three(VARIATIONAL),
        paper=3.6171e-5, expected=3.617083e-5, note="κ = 10, 20, 30, 40; no h or T is printed",
    ),
    _unit_length_error_claim("Example 3", _three(VARIATIONAL, "unit_length"), 4.2712e-15),
    *(
        Claim("Example 3", ENERGY, _three(f"{label} (q, ω)"), expected=expected)
        for label, expected in (
            ("rk2_midpoint", 1.007e-3),
            ("rk2_midpoint+projected", 1.273e-3),
            ("rk2_heun", 1.015e-3),
            ("rk2_heun+projected", 1.203e-3),
        )
    ),
)  # fmt: skip

_printed: dict[str, Any] = {"scan": {"inertia": "printed"}, "step_size": 1e-4}
_consistent: dict[str, Any] = {"scan": {"inertia": "consistent"}, "step_size": 1e-4}
_QUARTILES = "the nearest of lee-ode45; 1e-14 apart; bounds: quartiles of 128 runs"
EXAMPLE_4 = (
    Claim(
        "Example 4", ENERGY, _four("inertia", VARIATIONAL, **_printed),
        paper=1.4310e-6, low=1.27e-6, high=2.33e-6, note="1e-14 apart; chaotic at round-off",
    ),
    Claim(
        "Example 4", ENERGY, _four("inertia", VARIATIONAL, **_consistent),
        low=3.0e-6, high=4.2e-6, note="the inertia of slender elements",
    ),
    _unit_length_error_claim(
        "Example 4", _four("inertia", VARIATIONAL, "unit_length", **_printed), 2.9747e-14
    ),
    Claim(
        "Example 4", ENERGY, _four("runge-kutta", "rk45"),
        paper=3.5244e-4, low=2.8e-4, high=4.0e-4, note=_QUARTILES, behaviour=LOST,
    ),
    Claim(
        "Example 4", LENGTH, _four("runge-kutta", "rk45", "unit_length"),
        paper=1.8725e-5, low=1.3e-5, high=1.9e-5, note=_QUARTILES, behaviour=LOST,
    ),
)  # fmt: skip

_ODE45 = "M = m l², on (q, ω), sampled every 0.01; ode45 stretches its last step to T"
EXAMPLE_5 = (
    Claim(
        "Example 5", ENERGY, _five("as-run", VARIATIONAL, step_size=1e-3, sampled=True),
        paper=8.5403e-10, expected=8.540252e-10, note="M = m l²; no h or T is printed",
    ),
    Claim(
        "Example 5", ENERGY, _five("as-run", VARIATIONAL, step_size=1e-3),
        paper=8.5403e-10, expected=8.54396e-10, note="M = m l²; mean over every step",
    ),
    Claim(
        "Example 5", ENERGY, _five("as-printed", VARIATIONAL, step_size=1e-3),
        paper=8.5403e-10, low=1.08e-8, high=1.25e-8, note="M = m l²/12, as printed; 1e-14 apart",
    ),
    _unit_length_error_claim(
        "Example 5", _five("as-run", VARIATIONAL, "unit_length", step_size=1e-3), 1.6140e-14
    ),
    Claim(
        "Example 5", ENERGY, _five("runge-kutta", "rk45"),
        paper=2.9989e-7, expected=2.99890e-7, note=_ODE45, behaviour=LOST,
    ),
    Claim(
        "Example 5", LENGTH, _five("runge-kutta", "rk45", "unit_length"),
        paper=1.7594e-4, expected=1.75941e-4, note=_ODE45, behaviour=LOST,
    ),
)  # fmt: skip

EXAMPLE_6 = (
    Claim(
        "Example 6", ENERGY, _six(),
        paper=1.8893e-3, low=1.8917e-3, high=1.9299e-3, note="the paper leaves σ and vortices open",
    ),
    _unit_length_error_claim("Example 6", _six("unit_length"), 5.2623e-15),
)  # fmt: skip

LEE = Paper(
    name="lee",
    title="Lagrangian mechanics and variational integrators on two-spheres",
    claims=(*PROPERTIES, *EXAMPLE_1, *EXAMPLE_2, *EXAMPLE_3, *EXAMPLE_4, *EXAMPLE_5, *EXAMPLE_6),
)

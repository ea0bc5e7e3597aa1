"""McLachlan, Modin and Verdier, *A minimal-variable symplectic integrator on spheres*.

The paper prints few figures and many properties; each is a number here. Where a printed figure
belongs to other data than those beside it, the note says which, and the figure of the printed data
stands there too. What is expected is exact, or what independent programs found in quadruple or
extended precision. Not run: of section 3.3, that with the load taken at the beginning of a step,
not at its middle, the order drops to 1; no integrator here does so.
"""

from functools import partial

import numpy as np
from scipy.optimize import brentq

from sweep.papers import diagnostics
from sweep.papers.claims import Claim, Paper
from sweep.papers.measuring import Computed

SPHERICAL, CLASSICAL, GEODESIC = "spherical_midpoint", "implicit_midpoint", "geodesic_midpoint"
MOSER_VESELOV = "moser_veselov"
ORDERS = 0.1  # by how much a measured order may be off

_rotation = partial(Computed, "mclachlan-rotation", "precession", SPHERICAL)
_order = partial(Computed, "mclachlan-orders", measure=diagnostics.measured_convergence_order)
_errors = partial(Computed, "mclachlan-errors")
_body = partial(Computed, "mclachlan-irreversible", "energy", step_size=0.5)
_structure = partial(Computed, "mclachlan-irreversible", "structure", step_size=0.5)
_vortices = partial(Computed, "mclachlan-vortices", step_size=0.1)
_chain = partial(Computed, "mclachlan-chain")
_nambu = partial(Computed, "mclachlan-nambu", "lagrange-system")


def _upper_bound_claim(part, text, measured, bound, note=""):
    return Claim(part, text, measured, low=0.0, high=bound, note=note)


# --- theorem 2.4 ---------------------------------------------------------------------------------


def printed_step_angle(product):
    """cos⁻¹(1 − ½ (λh)²): the angle of a step as theorem 2.4 (vi) has it, of a product λh."""
    return float(np.arccos(1.0 - 0.5 * product**2))


def exact_step_angle(product, alpha):
    """The angle φ of a step of a spin at an angle α to the axis.

    sin²(φ/2) sin²α + tan²(φ/2) cos²α = (λh/2)²
    """

    def residual(phi):
        sine, tangent = np.sin(0.5 * phi) * np.sin(alpha), np.tan(0.5 * phi) * np.cos(alpha)
        return sine**2 + tangent**2 - (0.5 * product) ** 2

    return float(brentq(residual, 0.0, np.pi * (1.0 - 1e-12), xtol=1e-15))


def _step_angle_claim(product, alpha, note):
    return Claim(
        "2.4 (vi)", "angle of a step",
        _rotation(
            measure=diagnostics.mean_first_spin_step_angle,
            scan={"axis": f"{product:g} e₃", "angle": alpha},
        ),
        paper=printed_step_angle(product), digits=12, exact=True,
        expected=exact_step_angle(product, alpha), note=note,
    )  # fmt: skip


def _convergence_order_claim(part, experiment, integrator, expected, paper=None, note=""):
    return Claim(
        part, "order", _order(experiment, integrator),
        paper=paper, digits=1, exact=True, low=expected - ORDERS, high=expected + ORDERS, note=note,
    )  # fmt: skip


def _symplectic_defect_claim(part, integrator, **bounds):
    return Claim(
        part, "symplectic defect",
        _structure(integrator, measure=diagnostics.value_per_run("symplectic_defect")),
        note="of a step, by difference quotients", **bounds,
    )  # fmt: skip


_symmetric = (SPHERICAL, CLASSICAL, GEODESIC, f"{SPHERICAL}+suzuki4", f"{SPHERICAL}+kahan_li6")
_composed = {"triple_jump4": 4, "suzuki4": 4, "yoshida6": 6, "kahan_li6": 6, "kahan_li8": 8}
THEOREM = (
    _symplectic_defect_claim("2.4 (i)", SPHERICAL, low=0.0, high=1e-12),
    _symplectic_defect_claim("2.4 (i)", CLASSICAL, low=1e-4, high=np.inf),
    _symplectic_defect_claim("remark 2.2", GEODESIC, low=1e-5, high=np.inf),
    _convergence_order_claim("2.4 (ii)", "spin-chain", SPHERICAL, 2, paper=2.0, note="5 spins"),
    *(
        _convergence_order_claim(
            "remark 2.6", "spin-chain", f"{SPHERICAL}+{name}", order, note="5 spins"
        )
        for name, order in _composed.items()
    ),
    _upper_bound_claim(
        "2.4 (v)", "distance from the start after 100 steps forward and back",
        _structure(_symmetric, measure=diagnostics.value_per_run("reversal_error")), 1e-13,
    ),
    _step_angle_claim(1.9, 1.5707963267948966, "perpendicular to the axis"),
    _step_angle_claim(
        1.9, 0.08726646259971647, "at 5° to the axis; the paper's formula is that of 90°"
    ),
    _upper_bound_claim(
        "2.4 (vi)", "|sin²(φ/2)sin²α + tan²(φ/2)cos²α − (λh/2)²|",
        _rotation(measure=diagnostics.step_angle_residual), 1e-14,
        note="φ of each step; α = 5°, 15°, 45°, 90°, λh = 0.1, 0.5, 1, 1.5, 1.9",
    ),
    _upper_bound_claim(
        "2.4 (vi)", "iterations of a step",
        _rotation(measure=diagnostics.value_per_run("iterations_max")), 25,
        note="plain fixed-point iteration takes up to 1431",
    ),
)  # fmt: skip

# --- examples ------------------------------------------------------------------------------------


def _error_ratio_claim(experiment, above, paper, low, high, note):
    return Claim(
        "3.1", f"error of {above} / {SPHERICAL}",
        _errors(
            experiment, (above, SPHERICAL), summary="median", each="step sizes",
            measure=diagnostics.ratio_of_largest_errors("global_error", above, SPHERICAL),
        ),
        paper=paper, digits=1, low=low, high=high, note=note,
    )  # fmt: skip


_PRINTED = "inertia (1, 2, 4), as printed"
_RUN = "inertia (1, 4/3, 2), that of section 3.3"
SECTION_31 = (
    _error_ratio_claim("figure-inertia", MOSER_VESELOV, 400.0, 416.0, 447.0, _RUN),
    _error_ratio_claim("figure-inertia", CLASSICAL, 30.0, 25.0, 34.0, _RUN),
    _error_ratio_claim("printed-inertia", MOSER_VESELOV, 400.0, 10.8, 11.0, _PRINTED),
    _error_ratio_claim("printed-inertia", CLASSICAL, 30.0, 2.08, 2.10, _PRINTED),
    *(
        _upper_bound_claim(
            "3.1", "max |H − H₀|",
            _errors(
                "figure-inertia", name, step_size=0.01,
                measure=diagnostics.largest_size_over_time("energy_error_abs_max"),
            ),
            2e-15, note="1000 steps",
        )
        for name in (SPHERICAL, CLASSICAL, MOSER_VESELOV)
    ),
)  # fmt: skip


def _energy_error_claim(text, integrator, measure, steps, expected):
    return Claim(
        "3.2", text, _body(integrator, measure=measure, until=0.5 * steps),
        expected=expected, note=f"{steps:,} steps",
    )  # fmt: skip


_least = diagnostics.least_value_over_time("energy_error_min")
_most = diagnostics.largest_value_over_time("energy_error_max")
_size = diagnostics.largest_size_over_time("energy_error_abs_max")
_STEPS = (10_000, 100_000, 1_000_000)
SECTION_32 = (
    *(_energy_error_claim("least H − H₀", SPHERICAL, _least, steps, -2.441e-3) for steps in _STEPS),
    *(_energy_error_claim("largest H − H₀", SPHERICAL, _most, steps, 1.091e-3) for steps in _STEPS),
    *(
        _energy_error_claim("max |H − H₀|", CLASSICAL, _size, steps, reached)
        for steps, reached in zip(_STEPS, (4.7589e-2, 0.373733, 0.554664), strict=True)
    ),
)

SECTION_33 = (
    _convergence_order_claim("3.3", "forced-body", SPHERICAL, 2, note="load at t + h/2, ε = 0.07"),
    _convergence_order_claim(
        "3.3", "forced-body", f"{SPHERICAL}+suzuki4", 4, note="load at t + h/2, ε = 0.07"
    ),
)

PERIOD = 99.49858943052823  # of C(0.7, 0.4), in quadruple precision
_closed = partial(_vortices, "period", f"{SPHERICAL}+kahan_li8")
SECTION_34 = (
    Claim(
        "3.4", "period on the manifold", _closed(measure=diagnostics.return_period),
        expected=PERIOD, note="θ = 0.7, φ = 0.4",
    ),
    _upper_bound_claim(
        "3.4", f"|period − {PERIOD}|", _closed(measure=diagnostics.return_period_error(PERIOD)),
        1e-6, note="θ = 0.7, φ = 0.4",
    ),
    _upper_bound_claim(
        "3.4", "distance from the start after it",
        _closed(measure=diagnostics.distance_at_first_return),
        1e-13, note="θ = 0.7, φ = 0.4",
    ),
    _upper_bound_claim(
        "3.4", "distance from C(θ, φ), (15)",
        _vortices(
            "manifold", SPHERICAL, measure=diagnostics.vortex_distance_from_normal_form,
            scan={"theta": 0.7, "phi": 0.4},
        ),
        1e-15, note="100 steps",
    ),
    _upper_bound_claim(
        "3.4", "distance from the manifold of proposition 3.1",
        _vortices(
            "manifold", SPHERICAL, measure=diagnostics.vortex_distance_from_manifold,
            start="turned",
        ),
        2e-15, note="100 steps; differences of opposite edges",
    ),
    Claim(
        "3.4", "distance from the manifold of proposition 3.1",
        _vortices(
            "unequal-strengths", SPHERICAL, measure=diagnostics.vortex_distance_from_manifold,
        ),
        low=0.1, high=np.inf, note="100 steps; κ = (1, 0.7, 1.3, 0.4): it is not invariant",
    ),
    *(
        _upper_bound_claim(
            "3.4", "max |Σ κw − Σ κw₀|",
            _vortices(
                "million-steps", SPHERICAL,
                measure=diagnostics.largest_size_over_time("momentum_error"),
                scan={"strengths": strengths},
            ),
            2e-13, note="1,000,000 steps",
        )
        for strengths in ("equal", "unequal")
    ),
)  # fmt: skip

_ALONG = "100 spins along (cos s, sin s, 0.3 + 0.5 cos 2s), of unit length"
_curve = partial(_chain, "closed-curve", SPHERICAL, step_size=0.1)
_circle = partial(_chain, "latitude-circle", f"{SPHERICAL}+kahan_li8")
SECTION_35 = (
    Claim(
        "3.5", "max |H − H₀|",
        _curve(measure=diagnostics.largest_size_over_time("energy_error_abs_max")),
        expected=1.88123e-9, note=_ALONG,
    ),
    _upper_bound_claim(
        "3.5", "max |Σ w − Σ w₀|",
        _curve(measure=diagnostics.largest_size_over_time("momentum_error")), 2e-13,
        note=_ALONG,
    ),
    Claim(
        "3.5", "rate on a circle of latitude",
        _circle(
            measure=diagnostics.spin_chain_turning_rates, scan={"count": 100, "colatitude": 1.0},
        ),
        expected=diagnostics.exact_latitude_circle_rate(100, 1.0),
        note="exact: −2(1 − cos(2π/n)) cos θ",
    ),
    _upper_bound_claim(
        "3.5", "|rate + 2(1 − cos(2π/n)) cos θ|",
        _circle(measure=diagnostics.turning_rate_residual), 1e-13,
        note="n = 5, 100 and θ = 0.5, 1, 2",
    ),
)  # fmt: skip

# at t = 1, in quadruple precision
LAGRANGE = (
    (-1.30560970494222729069389, -0.3075982796429944357417791, 0.8152402723365239916543819),
)
APPENDIX = (
    *(
        _upper_bound_claim(
            "A", f"max |{name} − {name}₀|/|{name}₀|",
            _nambu(
                "nambu_midpoint", step_size=0.01,
                measure=diagnostics.largest_relative_change(quantity),
            ),
            1e-15, note="100 steps",
        )
        for name, quantity in (("H", "energy"), ("C", "casimir"))
    ),
    _upper_bound_claim(
        "A", "|w − exact w| at the end",
        _nambu(
            "nambu_midpoint+kahan_li8", step_size=0.1,
            measure=diagnostics.distance_from_state_at_end(LAGRANGE),
        ),
        1e-14,
    ),
)  # fmt: skip

MCLACHLAN = Paper(
    name="mclachlan",
    title="A minimal-variable symplectic integrator on spheres",
    claims=(
        *THEOREM, *SECTION_31, *SECTION_32, *SECTION_33, *SECTION_34, *SECTION_35, *APPENDIX,
    ),
    pictures=("mclachlan-portraits", "mclachlan-sections", "mclachlan-trajectories"),
)  # fmt: skip

"""McLachlan, Modin and Verdier, *A minimal-variable symplectic integrator on spheres*.

The paper prints few numbers and states many properties, each of which is a number here. If a
printed number belongs to other data than those beside it, the note says which, and the number for
the printed data is listed too. Expected values are exact, or were computed by independent programs
in quadruple or extended precision. One claim of section 3.3 is not tested: that the order drops to
1 if the load is evaluated at the beginning of a step instead of its middle; no integrator does so.
"""

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import brentq

from sweep.papers import diagnostics
from sweep.papers.claims import Claim, Paper
from sweep.papers.diagnostics import Array, Measure, Transform
from sweep.papers.mclachlan import equilibria
from sweep.papers.measuring import Computed, Selection

SPHERICAL, CLASSICAL, GEODESIC = "spherical_midpoint", "implicit_midpoint", "geodesic_midpoint"
EXTENDED = "extended_spherical_midpoint"
MOSER_VESELOV = "moser_veselov"
ORDERS = 0.1  # allowed deviation of a measured order

_rotation = partial(Computed, "mclachlan-rotation", "precession", SPHERICAL)
_order = partial(Computed, "mclachlan-orders", measure=diagnostics.measured_convergence_order)
_errors = partial(Computed, "mclachlan-errors")
_body = partial(Computed, "mclachlan-irreversible", "energy", step_size=0.5)
_structure = partial(Computed, "mclachlan-irreversible", "structure", step_size=0.5)
_vortices = partial(Computed, "mclachlan-vortices", step_size=0.1)
_chain = partial(Computed, "mclachlan-chain")
_nambu = partial(Computed, "mclachlan-nambu", "lagrange-system")
_symmetries = partial(Computed, "mclachlan-symmetries")
_portraits = partial(Computed, "mclachlan-portraits", "vortices", SPHERICAL)


def _upper_bound_claim(
    part: str, text: str, measured: Selection, bound: float, note: str = ""
) -> Claim:
    return Claim(part, text, measured, low=0.0, high=bound, note=note)


# --- theorem 2.4 ---------------------------------------------------------------------------------


def printed_step_angle(product: float) -> float:
    """The angle cos⁻¹(1 − ½ (λh)²) of a step by theorem 2.4 (vi), from the product λh."""
    return float(np.arccos(1.0 - 0.5 * product**2))


def exact_step_angle(product: float, alpha: float) -> float:
    """The angle φ of a step for a spin at the angle α to the axis, from

    sin²(φ/2) sin²α + tan²(φ/2) cos²α = (λh/2)²
    """

    def residual(phi: float) -> float:
        sine, tangent = np.sin(0.5 * phi) * np.sin(alpha), np.tan(0.5 * phi) * np.cos(alpha)
        return sine**2 + tangent**2 - (0.5 * product) ** 2

    return float(brentq(residual, 0.0, np.pi * (1.0 - 1e-12), xtol=1e-15))


def _step_angle_claim(product: float, alpha: float, note: str) -> Claim:
    return Claim(
        "2.4 (vi)", "angle of a step",
        _rotation(
            measure=diagnostics.mean_first_spin_step_angle,
            scan={"axis": f"{product:g} e₃", "angle": alpha},
        ),
        paper=printed_step_angle(product), digits=12, exact=True,
        expected=exact_step_angle(product, alpha), note=note,
    )  # fmt: skip


def _convergence_order_claim(
    part: str,
    experiment: str,
    integrator: str,
    expected: float,
    paper: float | None = None,
    note: str = "",
) -> Claim:
    return Claim(
        part, "order", _order(experiment, integrator),
        paper=paper, digits=1, exact=True, low=expected - ORDERS, high=expected + ORDERS, note=note,
    )  # fmt: skip


def _symplectic_defect_claim(part: str, integrator: str, **bounds: Any) -> Claim:
    return Claim(
        part, "symplectic defect",
        _structure(integrator, measure=diagnostics.value_per_run("symplectic_defect")),
        note="of a step, by exact derivatives", **bounds,
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

# --- symmetries of theorems 2.4 and 2.8 ----------------------------------------------------------

TURN = np.array(  # by 1 about (1, 2, 2)/3, as the studies turn their starts
    [
        [0.5913798274383464, -0.45882561339818423, 0.663135699679011],
        [0.663135699679011, 0.7446123921489666, -0.07618024198847204],
        [-0.45882561339818423, 0.48480041455012557, 0.7446123921489666],
    ]
)


def turn(w: Array) -> Array:
    """The rotation ψ_g of all spins by the same g."""
    return w @ TURN.T


def shift(w: Array) -> Array:
    """The shift of every spin to the next place on the closed chain."""
    return np.roll(w, 1, axis=-2)


def invert(w: Array) -> Array:
    """The inversion w ↦ −w."""
    return -w


def mirror(w: Array) -> Array:
    """The reflection e3 ↦ −e3 of every spin."""
    return w * np.array([1.0, 1.0, -1.0])


def _distance_between_runs(transform: Transform, one: str, other: str) -> Measure:
    return diagnostics.distance_from_transformed_run(
        transform, {"initial_condition": one}, {"initial_condition": other}
    )


_reversal = "distance from R w₀ after T onwards from R w(T)"
_chain_of_five = partial(_symmetries, "chain", SPHERICAL)
SYMMETRIES = (
    _upper_bound_claim(
        "2.4 (iii)", "|Φ∘ψ(w) − ψ∘Φ(w)|, of four vortices",
        _vortices(
            "manifold", SPHERICAL,
            measure=diagnostics.distance_from_transformed_run(
                turn, {"theta": 0.7}, {"initial_condition": "turned"}
            ),
        ),
        1e-13, note="ψ turns all by 1 about (1, 2, 2)/3, which leaves H as it is",
    ),
    _upper_bound_claim(
        "2.4 (iii)", "|Φ(hξ)∘ψ(w) − ψ∘Φ(hψ*ξ)(w)|, of a precession",
        _symmetries(
            "precession", SPHERICAL,
            measure=diagnostics.distance_from_transformed_run(
                turn,
                {"axis": "given", "initial_condition": "given"},
                {"axis": "turned", "initial_condition": "turned"},
            ),
        ),
        1e-13, note="ψ turns the axis as well: ξ is another field than ψ*ξ",
    ),
    _upper_bound_claim(
        "2.4 (iv)", "|Φ∘ψ(w) − ψ∘Φ(w)|, of the chain moved by one spin",
        _chain_of_five(measure=_distance_between_runs(shift, "given", "shifted")),
        1e-13, note="5 spins; ψ is linear, and no rotation of the spins",
    ),
    _upper_bound_claim(
        "2.4 (v)", f"{_reversal}, R w = −w",
        _symmetries(
            "free-body", SPHERICAL, measure=diagnostics.distance_after_reversal(invert)
        ),
        1e-13, note="free rigid body",
    ),
    Claim(
        "3.2", f"{_reversal}, R w = −w",
        _symmetries(
            "irreversible-body", SPHERICAL, measure=diagnostics.distance_after_reversal(invert)
        ),
        low=0.1, high=np.inf, note="irreversible rigid body, which R does not reverse",
    ),
    _upper_bound_claim(
        "2.4 (v)", f"{_reversal}, R e₃ = −e₃",
        _vortices(
            "unequal-strengths", SPHERICAL, measure=diagnostics.distance_after_reversal(mirror)
        ),
        1e-13, note="four vortices, κ = (1, 0.7, 1.3, 0.4)",
    ),
)  # fmt: skip

_in_space = partial(_symmetries, "chain-in-space", EXTENDED)
_given_in_space = partial(_in_space, start="given")
EXTENDED_METHOD = (
    _upper_bound_claim(
        "2.8 (i)", "|J K(w) Jᵀ − K(W)|/|K(w)|", _given_in_space(measure=diagnostics.poisson_defect),
        1e-11, note="J of a step on R¹⁵, by difference quotients; K of the bracket (8)",
    ),
    Claim(
        "2.8 (i)", "|J K(w) Jᵀ − K(W)|/|K(w)|",
        _symmetries(
            "chain-in-space", CLASSICAL, start="given", measure=diagnostics.poisson_defect
        ),
        low=1e-5, high=np.inf, note="of the classical midpoint method, which is not Poisson",
    ),
    _upper_bound_claim(
        "2.8 (i)", "symplectic defect on the spheres of the start",
        _in_space(measure=diagnostics.value_per_run("symplectic_defect")), 1e-11,
        note="5 spins of lengths 0.9 to 1.2",
    ),
    _upper_bound_claim(
        "2.8 (i)", "relative change of the |w_i|",
        _in_space(measure=diagnostics.largest_change_of_lengths), 1e-14,
    ),
    _convergence_order_claim(
        "2.8 (ii)", "chain-in-space", EXTENDED, 2, paper=2.0, note="5 spins of any length"
    ),
    _upper_bound_claim(
        "2.8 (iii)", "|Φ∘ψ(w) − ψ∘Φ(w)|",
        _in_space(measure=_distance_between_runs(turn, "given", "turned")), 1e-13,
        note="ψ turns all by 1 about (1, 2, 2)/3",
    ),
    _upper_bound_claim(
        "2.8 (iv)", "|Φ∘ψ(w) − ψ∘Φ(w)|, of the chain moved by one spin",
        _in_space(measure=_distance_between_runs(shift, "given", "shifted")), 1e-13,
    ),
    _upper_bound_claim(
        "2.8 (iv)", "max |Σ w − Σ w₀|",
        _in_space(measure=diagnostics.largest_size_over_time("momentum_error")), 1e-14,
    ),
    _upper_bound_claim(
        "2.8 (iv)", "max |H − H₀|/|H₀|",
        _symmetries(
            "free-body-in-space", EXTENDED, measure=diagnostics.largest_relative_change("energy")
        ),
        2e-15, note="free rigid body, H = ½ w·I⁻¹w",
    ),
    _upper_bound_claim(
        "2.8 (v)", "distance from the start after 100 steps forward and back",
        _in_space(measure=diagnostics.value_per_run("reversal_error")), 1e-13,
    ),
    _upper_bound_claim(
        "2.8 (v)", f"{_reversal}, R w = −w",
        _given_in_space(measure=diagnostics.distance_after_reversal(invert)), 1e-13,
    ),
)  # fmt: skip

_limit = partial(Computed, "mclachlan-rotation", "limit")
STABILITY = (
    _upper_bound_claim(
        "remark 2.5", "|angle of a step − that of a leapfrog step of the oscillator|",
        _rotation(
            measure=diagnostics.step_angle_distance_from_leapfrog,
            scan={"angle": 1.5707963267948966},
        ),
        1e-13, note="λh = 0.1, 0.5, 1, 1.5, 1.9",
    ),
    Claim(
        "remark 2.5", "least λh at which a step has no solution",
        _limit(SPHERICAL, measure=diagnostics.rates_of_runs_that_fail, summary="least"),
        paper=2.0, digits=1, exact=True, low=2.0, high=2.0002,
        note="of 1.9, 1.95, 1.98, 2.0001, 2.001, 2.01; perpendicular to the axis",
    ),
    Claim(
        "remark 2.5", "runs without a solution",
        _limit(CLASSICAL, measure=lambda runs: len(diagnostics.rates_of_runs_that_fail(runs))),
        low=0.0, high=0.0, note="classical midpoint method, stable for every λh",
    ),
)  # fmt: skip

_tracers = partial(Computed, "mclachlan-tracers")
TRACERS = (
    _upper_bound_claim(
        "1", "distance of a test particle from its turn about a vortex",
        _tracers(
            "one-vortex", f"{SPHERICAL}+kahan_li8",
            measure=diagnostics.tracer_distance_from_turns,
        ),
        1e-9, note="40 of them, at the exact rate −κ/(4π(1 − cos θ))",
    ),
    _upper_bound_claim(
        "1", "distance of vortices from those without test particles",
        _tracers(
            "four-vortices", SPHERICAL, measure=diagnostics.vortex_distance_from_run_alone
        ),
        0.0, note="1000 of them: to the last bit",
    ),
)  # fmt: skip

# --- the approaches of section 1 -----------------------------------------------------------------

RATTLE, COLLECTIVE = "rattle_su2", tuple(f"collective_gauss{order}" for order in (2, 4, 6))
_approaches = partial(Computed, "mclachlan-approaches")


_BOUNDS = {RATTLE: (1.5, 4.0), COLLECTIVE[0]: (0.8, 1.3)}  # of the ratio of evaluations


def _race_claims(experiment: str, integrator: str, low: float, high: float) -> Iterator[Claim]:
    """Claims that compare an integrator of order 2 with the spherical midpoint method."""
    pair = integrator, SPHERICAL
    yield Claim(
        "1", f"error of {integrator} / {SPHERICAL}",
        _approaches(
            experiment, pair, summary="median", each="starts and step sizes",
            measure=diagnostics.ratio_of_largest_errors("global_error", *pair),
        ),
        low=low, high=high, note=f"{experiment}; the paper: its own constants are smaller",
    )  # fmt: skip
    least, most = _BOUNDS[integrator]
    yield Claim(
        "1", f"evaluations of {integrator} / {SPHERICAL}",
        _approaches(
            experiment, pair, measure=diagnostics.ratio_of_medians("evaluations", *pair)
        ),
        low=least, high=most, note=f"{experiment}; evaluations of ∂H",
    )  # fmt: skip


APPROACHES = (
    *(
        claim
        for experiment in ("free-body", "irreversible-body", "vortices")
        for integrator in (RATTLE, COLLECTIVE[0])
        for claim in _race_claims(experiment, integrator, 1.0, np.inf)
    ),
    *(
        claim
        for integrator in (RATTLE, COLLECTIVE[0])
        for claim in _race_claims("chain", integrator, 0.0, 1.0)
    ),
    *(
        _upper_bound_claim(
            "1", text,
            _approaches("chain", (RATTLE, *COLLECTIVE), measure=measure), bound, note="10 spins",
        )
        for text, measure, bound in (
            ("symplectic defect", diagnostics.value_per_run("symplectic_defect"), 1e-12),
            ("max |C − C₀|/|C₀|", diagnostics.largest_relative_change("casimir"), 2e-15),
            (
                "distance from the start forward and back",
                diagnostics.value_per_run("reversal_error"), 1e-13,
            ),
        )
    ),
)  # fmt: skip

# --- examples ------------------------------------------------------------------------------------


def _error_ratio_claim(
    experiment: str, above: str, paper: float | None, low: float, high: float, note: str
) -> Claim:
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


def _energy_error_claim(
    text: str, integrator: str, measure: Measure, steps: int, expected: float
) -> Claim:
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
            "manifold", SPHERICAL, measure=diagnostics.vortex_distance_from_invariant_manifold,
            start="turned",
        ),
        2e-15, note="100 steps; differences of opposite edges",
    ),
    Claim(
        "3.4", "distance from the manifold of proposition 3.1",
        _vortices(
            "unequal-strengths", SPHERICAL,
            measure=diagnostics.vortex_distance_from_invariant_manifold,
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

CORNERS = np.array(
    [
        sign * (np.eye(3)[i] + other * np.eye(3)[j]) / np.sqrt(2.0)
        for i, j in ((0, 1), (0, 2), (1, 2))
        for sign, other in itertools.product((1.0, -1.0), repeat=2)
    ]
)
CENTRES = np.array(list(itertools.product((1.0, -1.0), repeat=3))) / np.sqrt(3.0)
_BY_NEWTON = "by Newton's method from 54 starts"
FIGURE_7 = (
    *(
        Claim(
            "Figure 7", f"places of a vortex in {kind} equilibria",
            _portraits(measure=equilibria.number_of_places(stable)),
            low=float(len(places)), high=float(len(places)), note=_BY_NEWTON,
        )
        for kind, stable, places in (("unstable", False, CORNERS), ("stable", True, CENTRES))
    ),
    _upper_bound_claim(
        "Figure 7", "distance of the unstable ones from the triangles' corners",
        _portraits(
            measure=equilibria.distance_from_directions(CORNERS, False), each="places"
        ),
        1e-13, note="(e_i ± e_j)/√2 and opposite: four vortices on a great circle",
    ),
    _upper_bound_claim(
        "Figure 7", "distance of the stable ones from their centres",
        _portraits(
            measure=equilibria.distance_from_directions(CENTRES, True), each="places"
        ),
        1e-13, note="(±1, ±1, ±1)/√3: a tetrahedron",
    ),
    Claim(
        "Figure 7", "growth rate at the corners",
        _portraits(measure=equilibria.growth_rates_of_unstable, each="equilibria"),
        expected=0.5 / np.pi, note="exact: 1/(2π); of the linearised motion, but for turns",
    ),
    Claim(
        "Figure 7", "frequency about the centres",
        _portraits(measure=equilibria.frequencies_of_stable, each="equilibria"),
        expected=0.375 / np.pi, note="exact: 3/(8π); nothing grows there",
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
_nambu_structure = partial(
    Computed, "mclachlan-nambu", "structure",
    measure=diagnostics.value_per_run("symplectic_defect"),
)  # fmt: skip
_algebras = partial(Computed, "mclachlan-nambu", "algebras", "nambu_midpoint")
_FIVE = "A3,1, A3,4, A3,6, A3,8, A3,9; H = ½ w·Aw + b·w"
ALGEBRAS = (
    _upper_bound_claim(
        "A", "max |C − C₀|/|C₀| of five Lie algebras",
        _algebras(measure=diagnostics.largest_relative_change("casimir")), 1e-14, note=_FIVE,
    ),
    _upper_bound_claim(
        "A.1", "symplectic defect of five Lie algebras",
        _algebras(measure=diagnostics.value_per_run("symplectic_defect")), 1e-12, note=_FIVE,
    ),
    _upper_bound_claim(
        "A", "distance from the start forward and back, of five Lie algebras",
        _algebras(measure=diagnostics.value_per_run("reversal_error")), 1e-12, note=_FIVE,
    ),
    *(
        Claim(
            "A.1", "symplectic defect",
            Computed(
                "mclachlan-nambu", "algebras", CLASSICAL, scan={"algebra": name},
                measure=diagnostics.value_per_run("symplectic_defect"),
            ),
            low=1e-6, high=np.inf, note="of the classical midpoint method",
        )
        for name in ("A3,4", "A3,6", "A3,8", "A3,9")
    ),
)  # fmt: skip
APPENDIX = (
    _upper_bound_claim(
        "A.1", "symplectic defect", _nambu_structure("nambu_midpoint"), 1e-12,
        note="of a step on C = c, by exact derivatives",
    ),
    Claim(
        "A.1", "symplectic defect", _nambu_structure(CLASSICAL), low=1e-4, high=np.inf,
        note="of the classical midpoint method, H(w) itself",
    ),
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
        *APPROACHES, *TRACERS, *THEOREM, *SYMMETRIES, *STABILITY, *EXTENDED_METHOD,
        *SECTION_31, *SECTION_32, *SECTION_33, *SECTION_34, *FIGURE_7, *SECTION_35,
        *APPENDIX, *ALGEBRAS,
    ),
    pictures=("mclachlan-sections", "mclachlan-trajectories"),
)  # fmt: skip

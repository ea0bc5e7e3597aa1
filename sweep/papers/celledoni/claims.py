"""Celledoni, Çokaj, Leone, Murari and Owren, *Lie group integrators for mechanical systems*.

The paper prints pictures and almost no numbers; values read off the pictures, and the properties
that it states, are numbers here. Orders are measured from a spatial start, since for the printed
one, which is planar, q·ω stays 0 for every method.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from sweep.papers import diagnostics
from sweep.papers.agreement import KeptToRoundOff
from sweep.papers.claims import Claim, Paper
from sweep.papers.diagnostics import Measure
from sweep.papers.measuring import Computed, Selection

ORDERS = 0.1  # allowed deviation of a measured order
SPATIAL, PLANAR = "celledoni_spatial", "celledoni"
LIE_GROUP = (
    "lie_euler", "lie_euler_heun", "rkmk3", "rkmk4", "rkmk4_two_commutators", "cf4",
    "crouch_grossman3",
)  # fmt: skip

_orders = partial(
    Computed, "celledoni-orders", "spatial", measure=diagnostics.measured_convergence_order
)
_manifold = partial(Computed, "celledoni-manifold", "double-pendulum")


def _upper_bound_claim(
    part: str, text: str, measured: Selection, bound: float, note: str = "", **printed: Any
) -> Claim:
    return Claim(part, text, measured, low=0.0, high=bound, note=note, **printed)


def _convergence_order_claim(
    part: str, measured: Selection, expected: float, paper: float | None = None, note: str = ""
) -> Claim:
    low, high = expected - ORDERS, expected + ORDERS
    return Claim(
        part, "order", measured,
        paper=paper, digits=1, exact=True, low=low, high=high, note=note,
    )  # fmt: skip


# --- figures 2 and 3 -----------------------------------------------------------------------------

SLGI = {0.0: "SLGI θ = 0", 0.5: "SLGI θ = 1/2", 1.0: "SLGI θ = 1"}
PRINTED, FIXED_POINT = {"inertia": "printed"}, {"inertia": "fixed_point"}
COTANGENT, QUADRATIC = {"formulation": "cotangent"}, {"formulation": "quadratic"}
# at t = 1, the rows of Q and π, in quadruple precision
SPUN = (
    (-0.351207782547000429220932, -0.8637418804792011118687232, 0.3613904500463070094165283),
    (0.5999186514057183462495442, -0.5039324292787996791701587, -0.6214094611580288393287416),
    (0.7188537439381971067517634, -0.001438967484351577763897374, 0.6951598551402518419819909),
    (-60.78138777065879205657978, -35.34504274805124843063056, -1.0817296875),
)
_top = partial(Computed, "celledoni-top")
_least = diagnostics.least_value_over_time("energy_error_min")
_most = diagnostics.largest_value_over_time("energy_error_max")


def _heavy_top_order_claim(
    theta: Any, expected: float, scan: dict[str, Any], paper: float | None = None
) -> Claim:
    measured = _top(
        "orders", SLGI[theta], scan=scan, measure=diagnostics.measured_convergence_order
    )
    return _convergence_order_claim("Figure 2", measured, expected, paper=paper)


def _heavy_top_energy_claims(
    inertia: Any, ranges: Any, formulation: dict[str, str] = COTANGENT
) -> Iterator[Claim]:
    """Claims on the least and largest energy error, for each θ."""
    for theta, (least, most) in ranges.items():
        for text, measure, bounds in (
            ("least H − H₀", _least, least),
            ("largest H − H₀", _most, most),
        ):
            measured = _top("long", SLGI[theta], scan=inertia | formulation, measure=measure)
            yield Claim("Figure 3", text, measured, note="6000 steps", **bounds)


FIGURES_2_AND_3 = (
    _heavy_top_order_claim(0.0, 1, PRINTED | COTANGENT),
    _heavy_top_order_claim(0.5, 2, PRINTED | COTANGENT, paper=2.0),
    _heavy_top_order_claim(1.0, 1, PRINTED | COTANGENT),
    _heavy_top_order_claim(0.5, 2, PRINTED | QUADRATIC, paper=2.0),
    _heavy_top_order_claim(0.5, 2, FIXED_POINT | COTANGENT),
    _upper_bound_claim(
        "Figure 2", "distance from the state in quadruple precision",
        _top(
            "state", "SLGI θ = 1/2, Kahan–Li 8",
            measure=diagnostics.distance_from_state_at_end(SPUN),
        ),
        1e-12,
    ),
    _upper_bound_claim(
        "Figure 2", "distance of SLGIKK from SLGI",
        _top(
            "paths", SLGI[0.5], scan=PRINTED,
            measure=diagnostics.distance_between_top_formulations,
        ),
        1e-13,
        note="θ = 1/2: the quadratic formulation gives the same map",
    ),
    Claim(
        "Figure 3", "H₀",
        _top(
            "long", SLGI[0.5], scan=PRINTED | COTANGENT,
            measure=diagnostics.value_at_start("energy"),
        ),
        expected=5275.933796782547,
    ),
    *_heavy_top_energy_claims(
        PRINTED,
        {
            0.0: ({"expected": -1.7586e-2}, {"expected": 21.9655}),
            0.5: ({"low": -1e-9, "high": math.inf}, {"low": 0.0, "high": 9.22e-3}),
            1.0: ({"expected": -1.8191e-2}, {"expected": 21.9652}),
        },
    ),
    Claim(
        "Figure 3", "H₀",
        _top(
            "long", SLGI[0.5], scan=PRINTED | QUADRATIC,
            measure=diagnostics.value_at_start("energy"),
        ),
        expected=5725.933796782547, note="SLGIKK: greater by ½ M²ℓ²",
    ),
    *_heavy_top_energy_claims(
        PRINTED, {0.5: ({"low": -1e-9, "high": math.inf}, {"low": 0.0, "high": 9.22e-3})},
        formulation=QUADRATIC,
    ),
    *_heavy_top_energy_claims(
        FIXED_POINT, {0.5: ({"low": -1e-7, "high": math.inf}, {"expected": 2.44677})},
    ),
)  # fmt: skip

# --- symplecticity, orthogonality and Casimirs ---------------------------------------------------

_rotations = partial(
    _top, "rotations", measure=diagnostics.largest_size_over_time("orthogonality_error")
)
_casimirs = partial(_top, "casimirs")
_defects = partial(_top, measure=diagnostics.value_per_run("symplectic_defect"))


DEFECT = "symplectic defect"


def _preserving_claim(
    part: str, text: str, integrator: str | tuple[str, ...], experiment: str, note: str
) -> Claim:
    return _upper_bound_claim(part, text, _defects(experiment, integrator), 1e-12, note)


def _other_claim(
    part: str, text: str, integrator: str | tuple[str, ...], experiment: str, note: str
) -> Claim:
    """The claims on a method that is not symplectic."""
    measured = _defects(experiment, integrator, summary="least")
    return Claim(part, text, measured, low=1e-7, high=math.inf, note=note)


STRUCTURE = (
    _preserving_claim(
        "3.2", DEFECT, (*SLGI.values(), "SLGI θ = 0.3"), "symplectic",
        "(15)–(17), a step on T*SO(3) and on T*(SO(3) × R³)",
    ),
    _other_claim("3.2", DEFECT, "rkmk4", "symplectic", "not symplectic"),
    _preserving_claim(
        "3.4.2", f"{DEFECT} on coadjoint orbits", "dop853", "poisson",
        "the motion itself is Poisson on se(3)*",
    ),
    _preserving_claim(
        "3.4.2", f"{DEFECT} on coadjoint orbits", ("splitting", "splitting+blanes_moan6"),
        "poisson", "a step is a Poisson map",
    ),
    _other_claim(
        "3.4.2", f"{DEFECT} on coadjoint orbits", ("rkmk4", "cf4"), "poisson",
        "they stay on the orbits, and are no Poisson maps",
    ),
)  # fmt: skip
_actions = partial(_top, "actions")
TOP_SPINS, FREE_BODY = {"gravity": 9.81}, {"gravity": 0.0}


def _action_claims(name: str, order: int) -> Iterator[Claim]:
    """Claims on a method with the action of G ⋉ g*: order, and errors relative to G × g*."""
    label = f"{name}, G ⋉ g*"
    yield _convergence_order_claim(
        "3.1",
        _actions(label, scan=TOP_SPINS, measure=diagnostics.measured_convergence_order),
        order, note="(11)–(12)",
    )  # fmt: skip
    ratio = diagnostics.ratio_of_errors_at_end("global_error", label, name)
    cases: tuple[tuple[dict[str, float], dict[str, Any], str], ...] = (
        (TOP_SPINS, {"low": 2.0, "high": math.inf}, "(11)–(12) beside G × g*"),
        (FREE_BODY, {"expected": 1.0}, "free body, example 1 of 2.1: the same steps"),
    )
    for scan, bounds, note in cases:
        measured = _actions((label, name), scan=scan, step_size=2.5e-4, measure=ratio)
        yield Claim("3.1", "error with G ⋉ g* over that with G × g*", measured, note=note, **bounds)


ACTIONS = (
    *(claim for name, order in (("rkmk3", 3), ("rkmk4", 4), ("rkmk5", 5), ("cf4", 4))
      for claim in _action_claims(name, order)),
    Claim(
        "3.1", "largest relative change of π·Γ₀",
        _actions(
            ("rkmk3, G ⋉ g*", "rkmk4, G ⋉ g*", "cf4, G ⋉ g*"), scan=TOP_SPINS, step_size=1e-3,
            summary="least", measure=diagnostics.largest_relative_change("momentum"),
        ),
        low=1e-8, high=math.inf, note="(11)–(12) do not keep it; G × g* does, see 3.4.1",
    ),
)  # fmt: skip
TOP = (
    _upper_bound_claim("3.4.1", "max |RᵀR − 1|", _rotations((*SLGI.values(), *LIE_GROUP)), 1e-14),
    Claim("3.4.1", "max |RᵀR − 1|", _rotations("rk4"), expected=2.22663e-3),
    _upper_bound_claim(
        "3.4.1", "largest relative change of π·Γ₀",
        _top(
            "rotations", (*SLGI.values(), *LIE_GROUP),
            measure=diagnostics.largest_relative_change("momentum"),
        ),
        1e-15, note="a linear invariant",
    ),
    *(
        _upper_bound_claim(
            "3.4.2", f"largest relative change of {name}",
            _casimirs(LIE_GROUP[1:], measure=diagnostics.largest_relative_change(quantity)), 1e-13,
        )
        for name, quantity in (("|Γ|²", "squared_gravity"), ("Π·Γ", "momentum_along_gravity"))
    ),
    Claim(
        "3.4.2", "largest relative change of Π·Γ",
        _casimirs("rk4", measure=diagnostics.largest_relative_change("momentum_along_gravity")),
        expected=1.42796e-3,
    ),
)  # fmt: skip

# --- figure 5 ------------------------------------------------------------------------------------


_named = {  # orders that the paper states
    "rkmk3": 3, "rkmk4": 4, "rkmk4_two_commutators": 4, "rkmk5": 5, "cf4": 4, "cf32a+fixed": 3,
    "cf32b+fixed": 3, "cf43+fixed": 4,
}  # fmt: skip
_others = {
    "lie_euler": 1, "lie_euler_heun": 2, "crouch_grossman3": 3, "rkmk4, 2 commutators": 4,
    "rkmk4, 1 commutator": 3, "rkmk4, 0 commutators": 2,
}  # fmt: skip
FIGURE_5 = tuple(
    _convergence_order_claim(
        "Figure 5", _orders(label, start=SPATIAL), order, paper=_named.get(label)
    )
    for label, order in (_named | _others).items()
)

HAMILTONIAN = tuple(
    _convergence_order_claim(
        "5.2", Computed(
            "celledoni-orders", "momenta", label, measure=diagnostics.measured_convergence_order
        ), order, note="Hamilton's equations, in (q, π)",
    )
    for label, order in (
        ("rkmk3", 3), ("rkmk4", 4), ("rkmk5", 5), ("cf4", 4), ("crouch_grossman3", 3),
    )
)  # fmt: skip

# --- estimates of embedded pairs -----------------------------------------------------------------


def _estimate_order_claim(part: str, label: str, order: int) -> Claim:
    measured = partial(Computed, "celledoni-orders", "estimates", each="tolerances")
    found = measured(label, measure=diagnostics.estimate_order_from_steps)
    return Claim(
        part, "order of the estimate", found, paper=float(order), digits=1, exact=True,
        low=order - ORDERS, high=order + ORDERS, note="steps as tol^(−1/(p̃ + 1))",
    )  # fmt: skip


SECTION_4 = (
    _estimate_order_claim("4.1", "rkmk54", 4),
    _estimate_order_claim("4.2.1", "cf32a", 2),
    _estimate_order_claim("4.2.1", "cf32b", 2),
    _estimate_order_claim("4.2.2", "cf43", 3),
)

# --- figures 6 and 7 -----------------------------------------------------------------------------

_unit_length = diagnostics.largest_size_over_time("unit_length_error")
_tangency = diagnostics.largest_size_over_time("tangency_error")


def _classical_method_claim(
    part: str, text: str, integrator: str, measure: Measure, expected: float
) -> Claim:
    return Claim(
        part, text, _manifold(integrator, start=SPATIAL, measure=measure), expected=expected
    )


FIGURES_6_AND_7 = (
    _upper_bound_claim(
        "Figure 6", "max |1 − q·q|", _manifold(LIE_GROUP, start=SPATIAL, measure=_unit_length),
        5e-15,
    ),
    _classical_method_claim("Figure 6", "max |1 − q·q|", "rk4", _unit_length, 1.22322e-5),
    _classical_method_claim("Figure 6", "max |1 − q·q|", "rk45", _unit_length, 3.60208e-3),
    _upper_bound_claim(
        "Figure 7", "max |q·ω|", _manifold(LIE_GROUP, start=SPATIAL, measure=_tangency), 2e-14,
        paper=1e-14, digits=1, behaviour=KeptToRoundOff(),
    ),
    _classical_method_claim("Figure 7", "max |q·ω|", "rk4", _tangency, 6.77822e-5),
    _classical_method_claim("Figure 7", "max |q·ω|", "rk45", _tangency, 1.06192e-2),
    _upper_bound_claim(
        "Figure 7", "max |q·ω|",
        _manifold((*LIE_GROUP, "rk4", "rk45"), start=PLANAR, measure=_tangency), 0.0,
        note="planar, as printed: 0 whatever the method",
    ),
)  # fmt: skip

# --- figures 8 to 11 -----------------------------------------------------------------------------

_steps = partial(Computed, "celledoni-steps")
_pendulum = partial(_steps, "double-pendulum", "rkmk5, small steps")
_at_end = diagnostics.size_at_end("global_error")
AS_MANY = "rkmk5 (steps of rkmk54)"


def _adaptive_step_claims(
    part: str, experiment: str, count: int, steps: Any, variable: Any, constant: Any
) -> Iterator[Claim]:
    """Claims on the number of steps and error of RKMK5(4), and RKMK5 with as many steps."""
    measured = partial(_steps, experiment, scan={"count": count})
    taken = measured("rkmk54", measure=diagnostics.value_per_run("steps"))
    links = {"unit-links": "links of 1 m", "shared-length": "links of 5/N m"}[experiment]
    yield Claim(part, "steps", taken, low=steps, high=steps, note=links)
    for name, error, note in (
        ("rkmk54", variable, links),
        (AS_MANY, constant, f"{links}; as many constant steps"),
    ):
        at_end = measured(name, measure=_at_end)
        yield Claim(part, "error at the end", at_end, expected=error, note=note)


def _velocity_peak_claims(link: int, size: float, time: float) -> Iterator[Claim]:
    """Claims on the peak of |ω_y| of a link, and its time."""
    row = 1 + link
    cases: tuple[tuple[str, Callable[[int, int], Measure], dict[str, Any]], ...] = (
        (f"peak of |ω_y| of link {link}", diagnostics.component_peak_size, {"expected": size}),
        (
            "its time",
            diagnostics.component_peak_time,
            {"paper": 2.2, "digits": 2, "expected": time},
        ),
    )
    for text, measure, bounds in cases:
        yield Claim("Figure 11", text, _pendulum(measure=measure(row, 1)), **bounds)


FIGURES_8_TO_11 = (
    *_adaptive_step_claims("Figure 8", "unit-links", 2, 120, 1.1184e-5, 3.3914e-3),
    *_adaptive_step_claims("Figure 8", "unit-links", 20, 374, 1.2566e-5, 2.5160e-5),
    *_adaptive_step_claims("Figure 10", "shared-length", 20, 820, 5.6562e-5, 8.0613e-2),
    Claim(
        "Figure 10",
        "error of variable over that of as many constant steps",
        _steps(
            "shared-length",
            ("rkmk54", AS_MANY),
            scan={"count": 2},
            measure=diagnostics.ratio_of_errors_at_end("global_error", "rkmk54", AS_MANY),
        ),
        low=1.0,
        high=math.inf,
        note="links of 5/N m: constant steps win, unlike the other N",
    ),
    *_velocity_peak_claims(1, 9.67413, 2.2752),
    *_velocity_peak_claims(2, 12.2228, 2.2744),
)

# --- quadrotors ----------------------------------------------------------------------------------

# at t = 2, rows y, v, R_1, Ω_1, R_2, Ω_2, q_1, ω_1, q_2, ω_2, in quadruple precision
CARRIED = (
    (1.008711454431516907292986, 0.5166389407709791564410273, -0.5441783406100781751884035),
    (0.4835627201660254746638854, 0.4195654458080906408532796, -0.1855205920526740300764913),
    (0.5209230698221311721695664, -0.8383460405989677696127678, 0.1606706928444666159555276),
    (0.7413366997959550136179715, 0.3510153993825482366088936, -0.5720210546229502457403579),
    (0.4231536988645250225283185, 0.417090044964326664987407, 0.8043487064258429174924315),
    (0.3587835299743333525158822, 0.02557605618336353317418438, 0.5010825221824329903767025),
    (0.9154114686339596923123851, -0.395034879491308578780346, -0.07726116151537161061929736),
    (0.3256878924536086777228057, 0.6141149735498079852533185, 0.7188812113075742824487315),
    (-0.2365359165170136653985304, -0.6832351302788857237187041, 0.6908259671945246112598546),
    (-0.4120443002541395234898055, -0.007927572947570579548251106, 0.20068307530711982069064),
    (0.4972883999914045335633054, 0.01352439327618144426979389, 0.867479877588235489580999),
    (0.01027367813234368020998755, 0.005352435841556178472214693, -0.005972898670770127734812008),
    (-0.5027060517701024952159891, 0.01347568755455414506070513, 0.8643523768456051769718452),
    (0.01019053606580293322712654, 0.005533876993160829939319732, 0.005840524638988991658642954),
)
_quadrotors = partial(Computed, "celledoni-quadrotors")
_tracking = partial(_quadrotors, "tracking", "rkmk4")
_copter_orders = {"lie_euler": 1, "lie_euler_heun": 2, "rkmk3": 3, "rkmk4": 4}
FIGURES_13_TO_18 = (
    *(
        _convergence_order_claim(
            "Figure 13",
            _quadrotors("orders", label, measure=diagnostics.measured_convergence_order), order,
        )
        for label, order in _copter_orders.items()
    ),
    _upper_bound_claim(
        "6.2", "distance from the state in quadruple precision",
        _quadrotors("state", "rkmk4", measure=diagnostics.distance_from_state_at_end(CARRIED)),
        1e-9,
    ),
    Claim(
        "Figure 16", "distance of the load from its path at the end",
        _tracking(measure=diagnostics.size_at_end("tracking_distance")), expected=5.8705e-4,
    ),
    Claim(
        "Figure 17", "|q − q_d| of the first link at the end",
        _tracking(measure=diagnostics.size_at_end("link_deviation_1")), expected=7.0599e-6,
    ),
    _upper_bound_claim("Figure 18", "max |1 − q·q|", _tracking(measure=_unit_length), 5e-15),
    _upper_bound_claim("Figure 18", "max |q·ω|", _tracking(measure=_tangency), 2e-14),
    _upper_bound_claim(
        "Figure 18", "max |RᵀR − 1|",
        _tracking(measure=diagnostics.largest_size_over_time("orthogonality_error")), 1e-14,
    ),
)  # fmt: skip

SECTION_6 = (
    *(
        _upper_bound_claim(
            "6", f"largest relative change of {text}",
            _quadrotors(
                experiment, "rkmk5", measure=diagnostics.largest_relative_change(quantity)
            ),
            1e-12, note="(37) with u = 0 and M = 0" + note,
        )
        for experiment, note, quantities in (
            ("free", "", {
                "energy": "T + U", "linear_momentum": "horizontal momentum",
                "momentum": "vertical angular momentum",
            }),
            ("weightless", ", g = 0, unlike masses and links", {
                "energy": "T + U", "linear_momentum": "momentum", "momentum": "angular momentum",
            }),
        )
        for quantity, text in quantities.items()
    ),
    _upper_bound_claim(
        "6", "distance of the load from its path at the end",
        _quadrotors(
            "attitude", "rkmk4", measure=diagnostics.size_at_end("tracking_distance")
        ),
        1e-3, note="u_i = −T_i R_i e3, 0 ≤ T_i ≤ 30 N, moments that turn the bodies",
    ),
)  # fmt: skip

CELLEDONI = Paper(
    name="celledoni",
    title="Lie group integrators for mechanical systems",
    claims=(
        *FIGURES_2_AND_3, *ACTIONS, *STRUCTURE, *TOP, *FIGURE_5, *HAMILTONIAN, *SECTION_4,
        *FIGURES_6_AND_7, *FIGURES_8_TO_11, *FIGURES_13_TO_18, *SECTION_6,
    ),
)  # fmt: skip

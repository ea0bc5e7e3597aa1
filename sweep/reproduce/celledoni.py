"""Celledoni, Çokaj, Leone, Murari and Owren, *Lie group integrators for mechanical systems*.

The paper prints pictures and almost no figures; what can be read off them, and the properties that
it states, are numbers here. Orders are measured on a spatial start, since of the printed one, which
is planar, q·ω stays 0 whatever the method.
"""

from functools import partial

from sweep.reproduce import diagnostics
from sweep.reproduce.claims import Claim, Paper
from sweep.reproduce.measuring import Computed

ORDERS = 0.1  # by how much a measured order may be off
SPATIAL, PLANAR = "celledoni_spatial", "celledoni"
LIE_GROUP = (
    "lie_euler", "lie_euler_heun", "rkmk3", "rkmk4", "rkmk4_two_commutators", "cf4",
    "crouch_grossman3",
)  # fmt: skip

_orders = partial(Computed, "celledoni-orders", "spatial", measure=diagnostics.order)
_manifold = partial(Computed, "celledoni-manifold", "double-pendulum")


def _at_most(part, text, measured, bound, note=""):
    return Claim(part, text, measured, low=0.0, high=bound, note=note)


# --- figure 5 ------------------------------------------------------------------------------------


def _order(part, measured, expected, note=""):
    return Claim(part, "order", measured, low=expected - ORDERS, high=expected + ORDERS, note=note)


_declared = {
    "lie_euler": 1, "lie_euler_heun": 2, "rkmk3": 3, "rkmk4": 4, "rkmk5": 5,
    "rkmk4_two_commutators": 4, "cf4": 4, "crouch_grossman3": 3,
    "rkmk4, 2 commutators": 4, "rkmk4, 1 commutator": 3, "rkmk4, 0 commutators": 2,
}  # fmt: skip
FIGURE_5 = tuple(
    _order("Figure 5", _orders(label, start=SPATIAL), order) for label, order in _declared.items()
)

# --- figures 6 and 7 -----------------------------------------------------------------------------

_unit_length = diagnostics.largest("unit_length_error")
_tangency = diagnostics.largest("tangency_error")


def _classical(part, text, integrator, measure, expected):
    return Claim(
        part, text, _manifold(integrator, start=SPATIAL, measure=measure), expected=expected
    )


FIGURES_6_AND_7 = (
    _at_most(
        "Figure 6", "max |1 − q·q|", _manifold(LIE_GROUP, start=SPATIAL, measure=_unit_length),
        5e-15,
    ),
    _classical("Figure 6", "max |1 − q·q|", "rk4", _unit_length, 1.22322e-5),
    _classical("Figure 6", "max |1 − q·q|", "rk45", _unit_length, 3.60208e-3),
    _at_most(
        "Figure 7", "max |q·ω|", _manifold(LIE_GROUP, start=SPATIAL, measure=_tangency), 2e-14,
    ),
    _classical("Figure 7", "max |q·ω|", "rk4", _tangency, 6.77822e-5),
    _classical("Figure 7", "max |q·ω|", "rk45", _tangency, 1.06192e-2),
    _at_most(
        "Figure 7", "max |q·ω|",
        _manifold((*LIE_GROUP, "rk4", "rk45"), start=PLANAR, measure=_tangency), 0.0,
        note="planar, as printed: 0 whatever the method",
    ),
)  # fmt: skip

CELLEDONI = Paper(
    name="celledoni",
    title="Lie group integrators for mechanical systems",
    claims=(*FIGURE_5, *FIGURES_6_AND_7),
)

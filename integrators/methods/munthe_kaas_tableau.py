"""``rkmk``: the Runge–Kutta–Munthe-Kaas method of whatever tableau is given as its option.

With embedded weights it is adaptive, and ``rkmk+fixed`` its main method with a constant step.
"""

from dataclasses import replace

from integrators.errors import InputError
from integrators.method import Option
from integrators.methods.munthe_kaas import rkmk
from integrators.methods.munthe_kaas_pairs import rkmk_pair
from integrators.tableaux.butcher import EXAMPLE, as_tableau

NAME, TABLEAU = "rkmk", "tableau"
OPTION = Option(
    None,
    "a Butcher tableau: a by rows, b, order; of a pair also embedded and embedded_order",
    read=as_tableau,
)


def _made_of(given):
    """The method of the tableau among the options that are given."""
    if TABLEAU not in given:
        raise InputError(
            f"{NAME!r} is made of a Butcher tableau: give {TABLEAU} = {EXAMPLE}, and for an "
            "adaptive one embedded = […] and embedded_order in it"
        )
    tableau = as_tableau(TABLEAU, given[TABLEAU])
    if not tableau.embedded:
        return _with_option(rkmk(NAME, tableau))
    pair = rkmk_pair(NAME, tableau)
    return replace(_with_option(pair), fixed=_with_option(pair.fixed))


def _with_option(method):
    return replace(method, options={TABLEAU: OPTION, **method.options})


HEUN_EULER = {
    "a": [[], [1.0]],
    "b": [0.5, 0.5],
    "embedded": [1.0, 0.0],
    "order": 2,
    "embedded_order": 1,
}
RKMK = replace(
    _made_of({TABLEAU: HEUN_EULER}),
    description="Runge–Kutta–Munthe-Kaas of any tableau; adaptive with embedded weights",
    order=None,
    adaptive=False,
    bind=None,
    made_of=_made_of,
    example={TABLEAU: HEUN_EULER},
)

"""Butcher tableaux of explicit Runge–Kutta methods, and of embedded pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np

from integrators.errors import InputError, check_known, check_number, check_whole, short_repr
from integrators.precision import simplest_fractions
from integrators.tableaux.order_conditions import CHECKED, classical_order

MOST_STAGES = 64  # kernels of more take minutes to compile
CONSISTENT = 1e-12  # how far a sum may be from what it must be
SEQUENCES = (tuple, list, np.ndarray)
EXAMPLE = "{ a = [[], [0.5]], b = [0.0, 1.0], order = 2 }"


@dataclass(frozen=True)
class Tableau:
    """An explicit Butcher tableau, with the weights of an embedded method where it is a pair.

    Parameters
    ----------
    a : tuple of tuple of float
        Row i has the i coefficients of stage i on the stages before it; trailing zeros may be
        left out.
    b : tuple of float
        The weights.
    embedded : tuple of float
        Weights of the embedded method, which estimates errors; empty without one.
    order, embedded_order : int
        Orders of the method and of the embedded one; order conditions up to 8 are checked.

    Raises
    ------
    InputError
        If it is not explicit (a stage depends on itself or a later one), not consistent (weights
        that do not sum to 1), of unequal lengths, not of the orders, or has what is no finite
        number.
    """

    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    embedded: tuple[float, ...] = ()
    order: int = 1
    embedded_order: int = 0

    def __post_init__(self) -> None:
        b = checked_numbers("b", self.b)
        stages = len(b)
        if stages > MOST_STAGES:
            raise InputError(
                f"b has {stages:,} weights; at most {MOST_STAGES} stages are possible", key="b"
            )
        if not stages:
            raise InputError("b is empty; expected a weight for each stage", key="b")
        if not isinstance(self.a, SEQUENCES) or len(self.a) != stages:
            raise InputError(
                f"a = {short_repr(self.a)}; expected {stages} rows, as many as b has", key="a"
            )
        rows = tuple(self._check_explicit_row(i, row) for i, row in enumerate(self.a))
        _check_sum("b", b)
        embedded = checked_numbers("embedded", self.embedded)
        if embedded:
            if len(embedded) != stages:
                raise InputError(
                    f"embedded has {len(embedded)} weights and b {stages}; expected as many",
                    key="embedded",
                )
            _check_sum("embedded", embedded)
            if embedded == b:
                raise InputError(
                    "embedded has the weights of b; expected others, to estimate errors by",
                    key="embedded",
                )
        for name, value in (("a", rows), ("b", b), ("embedded", embedded)):
            object.__setattr__(self, name, value)
        self._check_order("order", b)
        if embedded:
            self._check_order("embedded_order", embedded)
        else:
            object.__setattr__(self, "embedded_order", 0)

    def _check_order(self, name: str, weights: Sequence[float]) -> None:
        order = check_whole(name, getattr(self, name))
        found = classical_order(self.matrix, weights, min(order, CHECKED))
        if found < min(order, CHECKED):
            which = "b" if name == "order" else "embedded"
            raise InputError(
                f"{name} = {order}: the method with the weights {which} has order {found}", key=name
            )
        object.__setattr__(self, name, order)

    @staticmethod
    def _check_explicit_row(i: int, row: Any) -> tuple[float, ...]:
        row = checked_numbers(f"a[{i}]", row)
        for j in range(i, len(row)):
            if row[j]:
                raise InputError(
                    f"a[{i}][{j}] = {row[j]!r}: stage {i} depends on "
                    f"{'itself' if j == i else f'the later stage {j}'}; expected an explicit "
                    "tableau, zero from the diagonal on",
                    key=f"a[{i}][{j}]",
                )
        return row[:i] + (0.0,) * (i - len(row))

    @property
    def stages(self) -> int:
        """The number of stages."""
        return len(self.b)

    @property
    def matrix(self) -> np.ndarray:
        """a as a square matrix, shape (stages, stages)."""
        matrix = np.zeros((self.stages, self.stages))
        for i, row in enumerate(self.a):
            matrix[i, : len(row)] = row
        return matrix

    @property
    def nodes(self) -> np.ndarray:
        """c, the row sums of a, shape (stages,)."""
        return self.matrix.sum(axis=1)

    @property
    def constants(self) -> np.ndarray:
        """``[b, c, a row by row]`` as kernels read it; of a pair then b less the embedded one."""
        return _flat_coefficients(self.b, self.matrix, self.embedded)

    @property
    def exact_constants(self) -> np.ndarray:
        """The constants as `Fraction`: of each number its `precision.simplest_fraction`."""
        b, embedded = map(simplest_fractions, (self.b, self.embedded))
        return _flat_coefficients(b, simplest_fractions(self.matrix), embedded)


class DecimalTableau(Tableau):
    """A tableau without an embedded method, whose coefficients are decimals as text.

    For coefficients that floats do not determine to the digits of double-double.
    """

    _exact: np.ndarray

    def __init__(self, a: Sequence[str], b: str, order: int) -> None:
        rows = [[Fraction(digits) for digits in row.split()] for row in (*a, b)]
        square = [row + [Fraction()] * (len(rows) - 1 - len(row)) for row in rows]
        object.__setattr__(self, "_exact", np.array(square))
        *floats, weights = [tuple(map(float, row)) for row in rows]
        super().__init__(a=tuple(floats), b=weights, order=order)

    @property
    def constants(self) -> np.ndarray:
        """The constants, correctly rounded."""
        return self.exact_constants.astype(float)

    @property
    def exact_constants(self) -> np.ndarray:
        """The constants as `Fraction`, of all digits given."""
        return _flat_coefficients(self._exact[-1], self._exact[:-1], ())


def _flat_coefficients(
    b: Sequence[float] | np.ndarray, matrix: np.ndarray, embedded: Sequence[float] | np.ndarray
) -> np.ndarray:
    errors = np.subtract(b, embedded) if len(embedded) else []
    return np.concatenate([b, matrix.sum(axis=1), matrix.ravel(), errors])


def checked_numbers(name: str, values: Any) -> tuple[float, ...]:
    """A list of finite numbers as a tuple of float, or `InputError`."""
    if not isinstance(values, SEQUENCES) or isinstance(values, np.ndarray) and not values.ndim:
        raise InputError(f"{name} = {short_repr(values)}; expected a list of numbers", key=name)
    return tuple(check_number(f"{name}[{i}]", value) for i, value in enumerate(values))


def _check_sum(name: str, weights: Sequence[float]) -> None:
    total = sum(weights)
    if abs(total - 1.0) > CONSISTENT:
        raise InputError(
            f"the weights {name} sum to {total!r}; a consistent method needs 1", key=name
        )


def as_tableau(name: str, value: Any) -> Tableau:
    """A tableau, or a mapping of its parameters, as a `Tableau`.

    Parameters
    ----------
    name : str
        Name of the value in messages.
    value : Tableau or mapping of str to object

    Returns
    -------
    Tableau

    Raises
    ------
    InputError
        If it is none; its `key` is a key path in the mapping, ``tableau.a[1]``.
    """
    if isinstance(value, Tableau):
        return value
    if not isinstance(value, Mapping):
        raise InputError(
            f"{name} = {short_repr(value)}; expected a table, such as {EXAMPLE}", key=name
        )
    known = [field.name for field in fields(Tableau)]
    for key in value:
        check_known("key", key, known, f"{name}.{key}", f"of {name}")
    for key in ("a", "b", "order"):
        if key not in value:
            raise InputError(f"{name} has no {key}; expected one such as {EXAMPLE}", key=name)
    try:
        tableau = Tableau(**value)
    except InputError as error:
        raise InputError(str(error), key=f"{name}.{error.key}") from None
    if value.get("embedded_order", 0) != tableau.embedded_order:
        raise InputError(
            f"embedded_order = {value['embedded_order']!r} of no method: give its weights, "
            "embedded, or leave it out",
            key=f"{name}.embedded_order",
        )
    return tableau


EULER = Tableau(a=((),), b=(1.0,), order=1)
MIDPOINT = Tableau(a=((), (0.5,)), b=(0.0, 1.0), order=2)
HEUN = Tableau(a=((), (1.0,)), b=(0.5, 0.5), order=2)
KUTTA3 = Tableau(a=((), (0.5,), (-1.0, 2.0)), b=(1 / 6, 2 / 3, 1 / 6), order=3)
KUTTA4 = Tableau(
    a=((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)), b=(1 / 6, 1 / 3, 1 / 3, 1 / 6), order=4
)
_WEIGHTS = (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84)
_ROWS = (
    (),
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
)
DORMAND_PRINCE5 = Tableau(a=_ROWS, b=_WEIGHTS, order=5)
DORMAND_PRINCE54 = Tableau(
    a=(*_ROWS, _WEIGHTS),  # the last slope is the first of the next step
    b=(*_WEIGHTS, 0.0),
    embedded=(
        5179 / 57600, 0.0, 7571 / 16695, 393 / 640, -92097 / 339200, 187 / 2100, 1 / 40,
    ),
    order=5,
    embedded_order=4,
)  # fmt: skip
"""J. R. Dormand and P. J. Prince, *A family of embedded Runge–Kutta formulae* (1980)."""
VERNER9 = DecimalTableau(
    a=(
        "",
        "0.03462",
        "-0.03893354388572873270170426872292844785319 0.1359578945245091786499878854939346230295",
        "0.03638413148954266723060635628912731569112 0 0.1091523944686280016918190688673819470733",
        "2.025763914393969636805657604282571047511 0 -7.638023836496292020387602153091964592952 "
        "6.173259922102322383581944548809393545441",
        "0.05112275589406060872792270881648288397197 0 0 "
        "0.1770823794555021537929910813839068684086 0.0008027762409222501453613869810802528375789",
        "0.1316006357975216279279871693164256985334 0 0 "
        "-0.2957276252669636417685183174672273730698 0.08781378035642952374211247040538866670829 "
        "0.62130529752252747743214350056394300261",
        "0.07166666666666666666666666666666666666667 0 0 0 0 "
        "0.3305533578915319409260346730051472207727 0.2427799754418013924072986603281861125606",
        "0.071806640625 0 0 0 0 0.3294380283228177160744825466257672816401 "
        "0.1165190029271822839255174533742327183599 -0.034013671875",
        "0.04836757646340646986611287718844085773549 0 0 0 0 "
        "0.03928989925676163974333190042057047002854 0.1054740945890344608263649267140088017604 "
        "-0.02143865284648312665982642293830533996214 -0.1041229174627194437759832813847147895623",
        "-0.02664561487201478635337289243849737340534 0 0 0 0 "
        "0.03333333333333333333333333333333333333333 -0.1631072244872467239162704487554706387141 "
        "0.03396081684127761199487954930015522928243 0.1572319413814626097110769806810024118077 "
        "0.215226747803187955230353477879477037696",
        "0.03689009248708622334786359863227633989719 0 0 0 0 "
        "-0.1465181576725542928653609891758501156785 0.2242577768172024345345469822625833796001 "
        "0.02294405717066072637090897902753790803033 "
        "-0.003585005290572876135739442488933033433436 "
        "0.08669223316444385506869203619044453906051 0.4383840651968337846196219974168630120572",
        "-0.4866012215113340846662212357570395295089 0 0 0 0 "
        "-6.304602650282852990657772792012007122988 -0.2812456182894725647782841837901184181118 "
        "-2.679019236219849057687906597489223155566 0.5188156639241575115653111646150125220241 "
        "1.365353187603341710683633635235238678626 5.885091088503946585721274891680604830712 "
        "2.802808786272062889819965117517532194812",
        "0.418536745775347144147102524647193164963 0 0 0 0 "
        "6.724547581906459363100870806514855026677 -0.4254442801646117906069834096971130646156 "
        "3.34327915300126557781181694755798263775 0.6170816631175377595284211175077097847373 "
        "-0.9299661239399328339377495239888008520137 -6.099948804751010722472962837945508844846 "
        "-3.002206187889399044804158084895173690015 0.2553202529443445472336424602988558373637",
        "-0.7793740861228846646446230408438405063434 0 0 0 0 "
        "-13.93734253810777678786523664804936051203 1.25204885337935732094973518392420089514 "
        "-14.69150040801686878191527989293072091588 -0.4947050585331416856551919921369628735756 "
        "2.242974909146236657906984549543692874754 13.36789380382864375813864978592679139881 "
        "14.39665048665068644512236935340272139005 -0.7975813331776800379127866056663258667437 "
        "0.4409353709534277758753793068298041158235",
    ),
    b=(
        "0.01461197685842315252051541915018784713459 0 0 0 0 0 0 "
        "-0.391521186233133908941022826728824203081 0.2310932500289506415909675644868993669908 "
        "0.1274766769992852382560589467488989175618 0.2246434176204157731566981937082069688984 "
        "0.5684352689748512932705226972873692126743 0.05825871557215827200814768021863420902155 "
        "0.1364317403482215641609022744494239843327 0.03057013983082797397721005067920369646664"
    ),
    order=9,
)
"""J. H. Verner, *Numerically optimal Runge–Kutta pairs with interpolants* (2010).

The method of order 9 of his most efficient pair of orders 9 and 8, without the 16th stage, which
only the method of order 8 has; numbers with √6 and long fractions to 40 digits.
"""

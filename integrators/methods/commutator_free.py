"""Commutator-free Lie group methods: products of exponentials of sums of generators.

A stage is a row of exponentials after one another, each of a combination of the generators of
the stages before, and begins at y_n or at an earlier stage:

    Y_r = exp(h Σ_k α_r,J^k f_k) ⋯ exp(h Σ_k α_r,1^k f_k)·y_n,   f_r = f(Y_r),

and so does y_{n+1}. Crouch–Grossman methods have one generator in each exponential. A step adds up
the increments of its exponentials, and compensates their sum.

E. Celledoni, E. Çokaj, A. Leone, D. Murari, B. Owren, *Lie group integrators for mechanical
systems*, section 2.2 and, the pairs, 4.2. The coefficients of ``crouch_grossman3`` are those of
P. E. Crouch and R. Grossman, *Numerical integration of ordinary differential equations on
manifolds* (1993).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from integrators.compiler.kernels import Kernel, inlined
from integrators.compiler.vectors import add, get, put
from integrators.compiler.views import rows_of, tail
from integrators.errors import InputError, check_whole
from integrators.forms.flows import AlongAction, HomogeneousFlow
from integrators.method import Integrator, Method
from integrators.methods.munthe_kaas import (
    ALONG,
    ON_ORBITS,
    finished,
    flow_of,
    linear_combination,
    problem_of,
)
from integrators.precision import simplest_fractions
from integrators.stepping.loop import method_signature
from integrators.stepping.problem import Problem
from integrators.tableaux.butcher import CONSISTENT, checked_numbers

STAGES, ALGEBRA_ROWS, LINES = range(3)  # in the options of the kernel
START, STAGE, NODE, HEAD = range(4)  # of a line in the constants, before its coefficients
NONE = -1


@dataclass(frozen=True)
class Exponential:
    """One exponential of a step, exp(h Σ_k coefficients_k f_k) applied to a point.

    Parameters
    ----------
    coefficients : tuple of float
        Coefficients of f_0, f_1, …, where f_0 = f(y_n); trailing zeros may be left out.
    start : int
        Number of the exponential at whose result this one begins, or −1 for y_n.
    stage : int
        The number of the generator that is evaluated at its end, or −1.

    Raises
    ------
    InputError
        If a coefficient is no finite number, or another value no such number.
    """

    coefficients: tuple[float, ...]
    start: int = NONE
    stage: int = NONE

    def __post_init__(self) -> None:
        object.__setattr__(self, "coefficients", checked_numbers("coefficients", self.coefficients))
        for name in ("start", "stage"):
            check_whole(name, getattr(self, name), least=NONE)


@dataclass(frozen=True)
class Scheme:
    """A commutator-free method: its exponentials in order, the last of which ends at y_{n+1}.

    Parameters
    ----------
    exponentials : tuple of Exponential
    order : int
    estimate : tuple of Exponential
        Further exponentials, which lead to the embedded method's result; empty without one.
    estimate_order : int

    Raises
    ------
    InputError
        If an exponential is none or uses what comes after it, a result is not consistent, or an
        order is no whole number.
    """

    exponentials: tuple[Exponential, ...]
    order: int
    estimate: tuple[Exponential, ...] = ()
    estimate_order: int = 0

    def __post_init__(self) -> None:
        self._check_kinds()
        ends: list[float] = []
        known = 1
        for number, line in enumerate((*self.exponentials, *self.estimate)):
            if line.start >= number or len(line.coefficients) > known:
                raise InputError(
                    f"exponential {number} depends on what comes after it; expected an explicit "
                    "scheme"
                )
            if line.stage != NONE:
                if line.stage != known:
                    raise InputError(
                        f"exponential {number} is stage {line.stage}; the next is {known}"
                    )
                known += 1
            ends.append(sum(line.coefficients) + (ends[line.start] if line.start >= 0 else 0.0))
        for last in {len(self.exponentials), len(ends)}:
            if not last or abs(ends[last - 1] - 1.0) > CONSISTENT:
                found = f"at a time of {ends[last - 1]!r}" if last else "nowhere"
                raise InputError(f"a scheme ends {found}; a consistent one ends at a time of 1")

    def _check_kinds(self) -> None:
        for name in ("exponentials", "estimate"):
            lines = getattr(self, name)
            kinds = isinstance(lines, tuple) and all(isinstance(x, Exponential) for x in lines)
            if not kinds:
                raise InputError(f"{name} = {lines!r}; expected a tuple of Exponential", key=name)
        check_whole("order", self.order)
        if self.estimate:
            check_whole("estimate_order", self.estimate_order)

    @property
    def stages(self) -> int:
        """Evaluations of the generator in a step without its estimate."""
        return 1 + sum(line.stage != NONE for line in self.exponentials)

    @property
    def all_stages(self) -> int:
        """Evaluations with the estimate."""
        return self.stages + sum(line.stage != NONE for line in self.estimate)

    @property
    def constants(self) -> np.ndarray:
        """A row for each exponential: start, stage, node, coefficients of all stages."""
        return self._table(np.array)

    @property
    def exact_constants(self) -> np.ndarray:
        """The constants as `Fraction`: of each number its `precision.simplest_fraction`."""
        return self._table(simplest_fractions)

    def _table(self, numbers_of: Callable[[Any], np.ndarray]) -> np.ndarray:
        lines, count = (*self.exponentials, *self.estimate), self.all_stages
        table = numbers_of(np.zeros((len(lines), HEAD + count)))
        for row, line in zip(table, lines, strict=True):
            own = numbers_of(line.coefficients)
            row[START], row[STAGE] = line.start, line.stage
            row[NODE] = sum(own) + (table[line.start, NODE] if line.start >= 0 else 0)
            row[HEAD : HEAD + len(own)] = own
        return table.ravel()


@inlined
def take_exponentials(
    generator, act, t, h, constants, first, last, stages, m, y, p, moves, slopes, flat, work
):
    """The exponentials from `first` to before `last`: what each adds to y, into `moves`.

    `slopes` holds the generators, stage by stage; `flat` takes σ; `work` is scratch: a point,
    then the generator's.
    """
    size, sigma = y.shape[0], rows_of(flat, 0, m)
    point, scratch = rows_of(work, 0, size), tail(work, 3 * size)
    for j in range(first, last):
        line = tail(constants, j * (HEAD + stages))
        start, stage = int(line[START]), int(line[STAGE])
        linear_combination(tail(line, HEAD), stages, h, slopes, m, sigma)
        d = rows_of(moves, 3 * size * j, size)
        for i in range(size):
            put(point, i, get(y, i))
        if start >= 0:
            before = rows_of(moves, 3 * size * start, size)
            for i in range(size):
                put(point, i, add(get(point, i), get(before, i)))
        act(t, point, p, d, flat)
        if start >= 0:
            before = rows_of(moves, 3 * size * start, size)
            for i in range(size):
                put(d, i, add(get(d, i), get(before, i)))
        if stage >= 0:
            for i in range(size):
                put(point, i, add(get(y, i), get(d, i)))
            generator(t + line[NODE] * h, point, p, rows_of(flat, 3 * m * (stage + 1), m), scratch)


def _commutator_free(
    generator, act, unused, t0, h, first, count, constants, options, y, memory, p, work, report
):
    size, stages, m = y.shape[0], int(options[STAGES]), int(options[ALGEBRA_ROWS])
    lines = int(options[LINES])
    low, moves = rows_of(memory, 0, size), work
    flat = tail(work, 3 * size * lines)
    slopes, scratch = rows_of(flat, 3 * m, stages * m), tail(flat, 3 * m * (stages + 1))
    for k in range(first, first + count):
        t = t0 + k * h
        generator(t, y, p, slopes, scratch)
        take_exponentials(
            generator, act, t, h, constants, 0, lines, stages, m, y, p, moves, slopes, flat, scratch
        )
        d = rows_of(moves, 3 * size * (lines - 1), size)
        finished(y, low, d, 0.0 * report[0], report, k)


advance = Kernel(_commutator_free, method_signature)


def work_size(rows: int, m: int, lines: int, stages: int) -> int:
    """Elements of scratch besides the generator's: increments, σ, generators, a point."""
    return 3 * rows * (lines + 1) + 3 * m * (stages + 1)


def _bind(scheme: Scheme) -> Callable[[Any, Integrator], Problem]:
    def bind(form: AlongAction, integrator: Integrator) -> Problem:
        flow, lines = flow_of(form, integrator.options), len(scheme.exponentials)
        m, stages = flow.action.algebra_rows, scheme.all_stages
        return problem_of(
            flow, advance, None, integrator.constants_of(scheme), [stages, m, lines],
            work_size(flow.rows, m, lines, stages),
        )  # fmt: skip

    return bind


CF4_EXPONENTIALS = (  # (9)
    Exponential((1 / 2,), stage=1),
    Exponential((0.0, 1 / 2), stage=2),
    Exponential((-1 / 2, 0.0, 1.0), start=0, stage=3),
    Exponential((3 / 12, 2 / 12, 2 / 12, -1 / 12)),
    Exponential((-1 / 12, 2 / 12, 2 / 12, 3 / 12), start=3),
)
CF4_SCHEME = Scheme(CF4_EXPONENTIALS, order=4)
CROUCH_GROSSMAN_SCHEME = Scheme(
    exponentials=(
        Exponential((3 / 4,), stage=1),
        Exponential((119 / 216,)),
        Exponential((0.0, 17 / 108), start=1, stage=2),
        Exponential((13 / 51,)),
        Exponential((0.0, -2 / 3), start=3),
        Exponential((0.0, 0.0, 24 / 17), start=4),
    ),
    order=3,
)
CF32A_SCHEME = Scheme(  # 4.2.1, the first
    exponentials=(
        Exponential((1 / 3,), stage=1),
        Exponential((0.0, 2 / 3), stage=2),
        Exponential((-1 / 12, 0.0, 3 / 4), start=0),
    ),
    order=3,
    estimate=(Exponential((0.0, 1 / 2, 1 / 2)),),
    estimate_order=2,
)
CF32B_SCHEME = Scheme(  # 4.2.1, the second
    exponentials=(
        Exponential((2 / 3,), stage=1),
        Exponential((5 / 12, 1 / 4), stage=2),
        Exponential((-1 / 6, -1 / 2, 1.0), start=1),
    ),
    order=3,
    estimate=(Exponential((1 / 4, 0.0, 3 / 4)),),
    estimate_order=2,
)
CF43_SCHEME = Scheme(  # (9) and (34)
    exponentials=CF4_EXPONENTIALS,
    order=4,
    estimate=(
        Exponential((0.0, 3 / 4), stage=4),
        Exponential((1 / 3,)),
        Exponential((-1 / 9, 3 / 9, 0.0, 0.0, 4 / 9), start=6),
    ),
    estimate_order=3,
)


SOURCES = ("celledoni2003", "celledoni2022")


def commutator_free(
    name: str, scheme: Scheme, description: str = "", sources: tuple[str, ...] = SOURCES
) -> Method:
    """The commutator-free method of a scheme, with a fixed step.

    Parameters
    ----------
    name : str
    scheme : Scheme
    description : str, optional
    sources : tuple of str, optional
        Sources of the method, as in `Method`.

    Returns
    -------
    Method
    """
    return Method(
        name=name,
        description=description or f"commutator-free Lie group method of order {scheme.order}",
        order=scheme.order,
        symmetric=False,
        forms=(HomogeneousFlow,),
        preserves=ON_ORBITS,
        bind=_bind(scheme),
        evaluations=scheme.stages,
        family="commutator_free",
        options=ALONG,
        sources=sources,
    )


COMMUTATOR_FREE_METHODS = (
    commutator_free("cf4", CF4_SCHEME, "commutator-free, of order 4 with five exponentials"),
    commutator_free(
        "crouch_grossman3",
        CROUCH_GROSSMAN_SCHEME,
        "Crouch–Grossman, of order 3",
        ("crouchgrossman1993", "celledoni2022"),
    ),
)

"""Splitting: explicit symplectic steps from the exact flows of the pieces of a Hamiltonian.

H = H_1 + … + H_P, and φ_k(h) is the exact flow of piece k for a time h. A step is a row of maps
that let the pieces act one after the other, forth and back in turn:

    χ(h) = φ_P(h) ∘ … ∘ φ_1(h),  then its adjoint  χ*(h) = φ_1(h) ∘ … ∘ φ_P(h).

Each is of order 1. Strang's step is χ*(h/2) ∘ χ(h/2), symmetric and of order 2; compositions have
other shares of h. Where two maps meet, the two flows of one piece are merged, between steps too:
``memory`` carries the state before the last share of piece 1, and y is completed from it whenever
the method returns. This changes rounding only. A stage, χ and χ*, so costs the flows of the
first and the last piece once, of those between twice.

A processed composition has a processor π of further stages: the inverse of π comes before the first
step, π acts on a copy of the state wherever the method returns. So whatever is seen is processed,
samples and statistics; the memory, and so a checkpoint, has the state of the kernel. Statistics of
every step take a processor for every step.

Explicit time is the last piece's, and passes by its shares.

The state is w + low: flows add to ``low``, the running change of the last stages, which is folded
into w every few stages, at the end of a step at least, and then keeps what that lost. So what a
flow rounds is small, as the change is, and no flow pays for a compensated sum. Over the whole of a
long step the change is large enough for its round-off to show in the energy. Exact flows keep every
|w_i| of spins, and rotations orthogonal, but round-off would drift as √t: at each fold an eighth of
the rows, in turn, is led back to its length, that of w + low, and so are the rows of a rotation to
right angles. From a w that lags behind, what is missing would be added again.
"""

import functools
import math

import numpy as np

from integrators.compiler.kernels import Kernel, inlined
from integrators.compiler.lanes import select
from integrators.compiler.vectors import add, axpy, dot, get, lacking, put, sub
from integrators.compiler.views import rows_of, tail
from integrators.forms.cotangent import CotangentHamiltonian
from integrators.forms.flows import HomogeneousFlow, SplitFlow
from integrators.forms.hamiltonians import SpinHamiltonian
from integrators.forms.lie_poisson import LiePoissonHamiltonian
from integrators.method import ALL_DEGREES, Integrator, Method
from integrators.solvers.failures import fail, poison
from integrators.status import EVALUATIONS, NOT_FINITE
from integrators.stepping.loop import method_signature
from integrators.stepping.problem import Problem

SplitForm = HomogeneousFlow | SpinHamiltonian | CotangentHamiltonian | LiePoissonHamiltonian

STAGES = 5  # of a fold
TURNS = 8  # folds in which every row is led back to its length once
VARYING, OWN, UNIT = 0.0, 1.0, 2.0  # lengths of rows: not kept, those at the start, and 1
LEAST = 1e-300  # squared length of a vector that is led back


def memory_size(n: int) -> int:
    """Elements carried from step to step: w and low; ℓ² and its half reciprocal."""
    return 8 * n


@inlined
def _note_lengths(kept, w, lengths):
    """ℓ² = w_i·w_i of all rows, or 1, and then ½/ℓ², or 0 for what is too short or varies."""
    n = w.shape[0]
    for i in range(n):
        squared = dot(get(w, i), get(w, i))
        if kept[i] == UNIT:
            squared = 1.0 + 0.0 * squared  # of the state's element type
        lengths[i] = squared
        half = 0.0 if kept[i] == VARYING else 0.5
        lengths[n + i] = select(squared > LEAST, half / squared, 0.0 * squared)


@inlined
def _fold(w, low):
    """The sum w + low into w, what that loses into `low`; whether every number of w is finite."""
    total = sub(get(w, 0), get(w, 0))
    for i in range(w.shape[0]):
        old, gained = get(w, i), get(low, i)
        new = add(old, gained)
        put(low, i, sub(gained, sub(new, old)))
        put(w, i, new)
        total = add(total, new)
    every = total[0] + total[1] + total[2]
    return every - every <= 0.0


@inlined
def _restore(w, low, lengths, first):
    """Lead every eighth row from `first` on back to its length, by `low`.

    It takes ½ (ℓ² − |w + low|²)/ℓ² w, whose part low·low is far below round-off.
    """
    n = w.shape[0]
    for i in range(first, n, TURNS):
        a = get(w, i)
        missing = lengths[n + i] * (lacking(lengths[i], a) - 2.0 * dot(a, get(low, i)))
        put(low, i, axpy(missing, a, get(low, i)))


@inlined
def _straighten(w, low, first):
    """Lead the rows of the rotation from row `first` on back to right angles, by `low`."""
    for k in range(3):
        i, j = first + k, first + (k + 1) % 3
        a, b = get(w, i), get(w, j)
        product = dot(a, b) + dot(a, get(low, j)) + dot(get(low, i), b)
        put(low, i, axpy(-0.5 * product, b, get(low, i)))
        put(low, j, axpy(-0.5 * product, a, get(low, j)))


@functools.cache
def advance(flow: Kernel, rotations: tuple[int, ...]) -> Kernel:
    """The method's kernel for one system, whatever the number of pieces.

    Parameters
    ----------
    flow : Kernel
        Flow of a `SplitFlow`.
    rotations : tuple of int
        The rows of the state where a rotation begins.

    Returns
    -------
    Kernel
        Signature `loop.method_signature`; the constants are the shares of h of χ, χ*, χ, … in a
        step, then those in the processor; the options the number of pieces, how many parameters
        precede the system's own, the number of stages of a step, and of each row `VARYING`, `OWN`
        or `UNIT`.
    """
    flow_of = flow.inline
    count_of_rotations = len(rotations)
    rotated = rotations or (0,)

    def advance_split(
        function, unused, none, t0, h, first, count, shares, options, y, memory, p, work, report
    ):
        n, last, stages = y.shape[0], int(options[0]) - 1, int(options[2])
        w, low, lengths = rows_of(memory, 0, n), rows_of(memory, 3 * n, n), tail(memory, 6 * n)
        lost, own = rows_of(work, 0, n), tail(p, int(options[1]))
        kept, kept_low = rows_of(work, 3 * n, n), rows_of(work, 6 * n, n)
        folds = (stages + STAGES - 1) // STAGES
        processor = shares.shape[0] // 2 - stages
        begin, end = first, first + count
        open_share = shares[2 * stages - 1]  # of piece 1, from the step before
        if first == 0:
            open_share = 0.0
            for i in range(n):
                put(w, i, get(y, i))
            _note_lengths(tail(options, 3), w, lengths)
        if processor > 0:
            begin, end = begin - (1 if first == 0 else 0), end + 1
        for k in range(begin, end):
            step, to_do = max(first, k), stages
            if k < first or k == first + count:
                to_do = processor
                report[EVALUATIONS] = report[EVALUATIONS] + 1.0 * processor
            if k == first + count:  # π acts on a copy
                for i in range(n):
                    put(kept, i, get(w, i))
                    put(kept_low, i, get(low, i))
            passed = 0.0
            for s in range(to_do):
                forth, back = shares[2 * s], shares[2 * s + 1]
                if k == first + count:
                    forth, back = shares[2 * (stages + s)], shares[2 * (stages + s) + 1]
                elif k < first:  # the inverse of π
                    mirrored = shares.shape[0] - 1 - 2 * s
                    forth, back = -shares[mirrored], -shares[mirrored - 1]
                for m in range(max(1, 2 * last)):  # pieces 1 … P … 2
                    piece, share = (m, forth) if m < last else (2 * last - m, back)
                    if m == 0:
                        share = open_share + forth
                    if m == last:
                        share = forth + back
                    flow_of(piece, t0 + step * h + passed * h, share * h, w, low, own)
                open_share = back
                passed += forth + back
                if s % STAGES == STAGES - 1 or s == to_do - 1:
                    ok = _fold(w, low)
                    turn = (step * folds + s // STAGES) % TURNS
                    _restore(w, low, lengths, turn)
                    if count_of_rotations > 0 and turn == TURNS - 1:
                        for row in rotated:
                            _straighten(w, low, row)
            fail(report, ok, NOT_FINITE, min(step, first + count - 1), math.nan)
            poison(w, ok)
        for i in range(n):
            put(y, i, get(w, i))
            put(lost, i, get(low, i))
        if processor > 0:
            for i in range(n):
                put(w, i, get(kept, i))
                put(low, i, get(kept_low, i))
            poison(w, ok)
        if last > 0:
            flow_of(0, t0, open_share * h, y, lost, own)
        _fold(y, lost)

    return Kernel(advance_split, method_signature, (flow, rotations))


def _bind(form: SplitForm, integrator: Integrator) -> Problem:
    assert form.split is not None  # of all forms that it fits
    along = form.homogeneous_flow()
    kept = np.full(form.rows, OWN)
    kept[list(form.split.varying)] = VARYING
    kept[list(along.action.unit_rows)] = UNIT
    for row in along.action.rotations:
        kept[row : row + 3] = UNIT
    preceding = len(form.packed) - len(form.parameters)
    stages = integrator.composition.stages if integrator.composition else 1
    return Problem(
        advance=advance(form.split.flow, along.action.rotations),
        function=along.monitor,  # not called
        monitor=along.monitor,
        constants=integrator.shares,
        options=np.array([form.split.pieces, preceding, stages, *kept]),
        parameters=form.packed,
        rows=form.rows,
        memory=memory_size(form.rows),
        work=9 * form.rows,
        formulation="state",
        seen=len(integrator.shares) // 2 - stages,
    )


SPLITTING = Method(
    name="splitting",
    sources=("strang1968", "mclachlan2002"),
    description="symmetric splitting into exact flows of the pieces of H (Strang); explicit",
    order=2,
    symmetric=True,
    forms=(SplitFlow,),
    preserves={
        "symplectic_form": (),
        "momentum_map": ALL_DEGREES,  # of which every piece is invariant
        "casimir": ALL_DEGREES,
        "unit_length": ALL_DEGREES,
        "orthogonality": ALL_DEGREES,
    },
    bind=_bind,
    evaluations=1,  # of the flow of all pieces; those of processors are counted besides
    adjoint=True,
)

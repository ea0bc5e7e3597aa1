"""Splitting: explicit symplectic steps from the exact flows of the pieces of a Hamiltonian.

H = H_1 + … + H_P, and φ_k(h) is the exact flow of piece k for a time h. A step is a row of maps
that let the pieces act one after the other, forth and back in turn:

    χ(h) = φ_P(h) ∘ … ∘ φ_1(h),  then its adjoint  χ*(h) = φ_1(h) ∘ … ∘ φ_P(h).

Each is of order 1. Strang's step is χ*(h/2) ∘ χ(h/2), symmetric and of order 2; compositions have
other shares of h. Where two maps meet, the two flows of one piece are merged, between steps too:
``memory`` carries the state before the last share of piece 1, and y is completed from it whenever
the method returns. This changes rounding only. A stage, χ and χ*, so costs the flows of the
first and the last piece once, of those between twice.

Explicit time is the last piece's, and passes by its shares. Exact flows keep every |w_i|, but
round-off would drift as √t: in each stage an eighth of the spins, in turn, is led back to its
length.
"""

import functools
import math

import numpy as np

from integrators.hamiltonians import SplitFlow
from integrators.kernels import Kernel, inlined
from integrators.lanes import select
from integrators.methods import ALL_DEGREES, Method, Problem
from integrators.stepping import NOT_FINITE, fail, is_finite, method_signature, poison
from integrators.vectors import axpy, dot, get, put
from integrators.views import rows_of, tail

TURNS = 8  # stages in which every spin is led back to its length once
LEAST = 1e-280  # squared length of a vector that is led back


def memory_size(n, unit):
    """Elements carried from step to step: w, what its sums lost; w·w and its half reciprocal."""
    return 6 * n if unit else 8 * n


@inlined
def _note_lengths(w, lengths):
    """w_i·w_i and then ½/(w_i·w_i) of all spins; 0 for what is too short."""
    n = w.shape[0]
    for i in range(n):
        squared = dot(get(w, i), get(w, i))
        lengths[i] = squared
        lengths[n + i] = select(squared > LEAST, 0.5 / squared, 0.0 * squared)


@inlined
def _restore(unit, w, low, lengths, first):
    """Lead every eighth spin from `first` on back to its length: ½ (ℓ² − w·w)/ℓ² w to its sum."""
    n = w.shape[0]
    for i in range(first, n, TURNS):
        a = get(w, i)
        squared = dot(a, a)
        missing = 0.5 * (1.0 - squared) if unit else lengths[n + i] * (lengths[i] - squared)
        put(low, i, axpy(missing, a, get(low, i)))


@functools.cache
def advance(flow, pieces, unit):
    """The method's kernel for one system.

    Parameters
    ----------
    flow : Kernel
        Of a `SplitFlow`.
    pieces : int
    unit : bool
        Whether the spins are unit vectors; else they keep the lengths that they begin with.

    Returns
    -------
    Kernel
        Signature `stepping.method_signature`; the constants are the shares of h of χ, χ*, χ, ….
    """
    flow_of = flow.inline
    last = pieces - 1
    flows = max(1, 2 * last)  # in a stage

    def advance_split(
        function, projection, t0, h, first, count, shares, options, y, memory, p, work, report
    ):
        n = y.shape[0]
        w, low, lengths = rows_of(memory, 0, n), rows_of(memory, 3 * n, n), tail(memory, 6 * n)
        lost, own = rows_of(work, 0, n), tail(p, 2 * n)
        stages = shares.shape[0] // 2
        open_share = shares[2 * stages - 1]  # of piece 1, from the step before
        if first == 0:
            open_share = 0.0
            for i in range(n):
                put(w, i, get(y, i))
            if not unit:
                _note_lengths(w, lengths)
        for k in range(first, first + count):
            passed = 0.0
            for s in range(stages):
                forth, back = shares[2 * s], shares[2 * s + 1]
                for m in range(flows):
                    piece = m if m <= last else flows - m
                    share = forth if m < last else back
                    if m == 0:
                        share = open_share + forth
                    if m == last:
                        share = forth + back
                    flow_of(piece, t0 + k * h + passed * h, share * h, w, low, own)
                open_share = back
                passed += forth + back
                _restore(unit, w, low, lengths, (k * stages + s) % TURNS)
            ok = is_finite(w)
            fail(report, ok, NOT_FINITE, k, math.nan)
            poison(w, ok)
        for i in range(n):
            put(y, i, get(w, i))
            put(lost, i, get(low, i))
        if pieces > 1:
            flow_of(0, t0, open_share * h, y, lost, own)

    return Kernel(advance_split, method_signature, (flow, pieces, unit))


def _bind(form, integrator):
    unit = form.lengths == "unit"
    monitor = form.monitor()
    return Problem(
        advance=advance(form.split.flow, form.split.pieces, unit),
        function=monitor,  # not called, nor as a projection
        projection=monitor,
        monitor=monitor,
        constants=integrator.shares,
        options=np.zeros(0),
        parameters=form.packed,
        rows=form.rows,
        memory=memory_size(form.rows, unit),
        work=3 * form.rows,
        formulation="state",
    )


SPLITTING = Method(
    name="splitting",
    description="symmetric splitting into exact flows of the pieces of H (Strang); explicit",
    order=2,
    symmetric=True,
    forms=(SplitFlow,),
    preserves={
        "symplectic_form": (),
        "momentum_map": ALL_DEGREES,  # of which every piece is invariant
        "casimir": ALL_DEGREES,
        "unit_length": ALL_DEGREES,
    },
    bind=_bind,
    evaluations=1,  # of the flow of all pieces
    adjoint=True,
)

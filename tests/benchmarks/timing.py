"""What the kernel benchmarks share: a case that is stepped, C++ beside it, turns, a table."""

import ctypes
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from integrators import status
from integrators.compiler.elements import aligned
from integrators.compiler.lanes import WIDTH
from integrators.stepping.problem import Problem

HERE = Path(__file__).parent
FLAGS = ["-std=c++17", "-O3", "-march=native", "-shared", "-fPIC", "-Wno-psabi"]
CONTRACT = "-ffp-contract=fast"  # of what is timed; what is checked rounds as it is written
SPARSE = 10  # steps of which one has statistics, beside those of every step
STATISTICS = 1.25  # most that such statistics may cost, over the bare kernel
REPEATS = 60
CHECKED_STEPS = 300
SAME = 1e-12  # difference of states after so many steps, where arithmetic differs


@dataclass(frozen=True)
class Case:
    """A problem with its initial states, y of shape (rows, 3) or (rows, 3, 8)."""

    problem: Problem
    initial: np.ndarray
    step_size: float
    steps: int

    @property
    def trajectories(self):
        return WIDTH if self.initial.ndim == 3 else 1

    def ours(self, statistics=0):
        """``run(y, steps)``: our loop over a sample interval; statistics of one step in so many."""
        problem, lanes = self.problem, self.trajectories > 1
        width = self.initial.shape[2:]
        memory, baseline, report = (
            aligned((1, size, *width)) for size in (problem.memory, 2, status.REPORT_SIZE)
        )
        work = aligned((problem.scratch, *width))
        sampled = aligned((1, 2, *self.initial.shape))
        kept = aligned((1, int(statistics > 0), status.MONITORED, status.STATISTICS, *width))
        loop = problem.trajectory(problem.elements[lanes])

        clock = np.array([0.0, self.step_size])

        def run(y, steps):
            memory[...] = 0.0
            report[...] = 0.0
            loop(
                clock, 0, 0, steps, np.array([steps]), statistics, problem.constants,
                problem.options, y[None], memory, problem.parameters, work, baseline, sampled, kept,
                report,
            )  # fmt: skip

        return run

    def in_turn(self):
        """The `Peer` that is our scalar loop over the lanes' trajectories, one after another."""
        alone = Case(self.problem, self.initial[..., 0].copy(), self.step_size, self.steps).ours()

        def run(y, steps):
            for i in range(WIDTH):
                part = aligned(y.shape[:2])
                part[...] = y[..., i]
                alone(part, steps)
                y[..., i] = part

        return Peer(run, run)

    def theirs(self, function, *arguments):
        """The `Peer` that is a `Function` ``(y, *arguments, h, steps)`` of C++."""
        converted = [_argument(value) for value in arguments]

        def running(compiled):
            def run(y, steps):
                compiled(
                    _argument(y), *converted, ctypes.c_double(self.step_size), ctypes.c_long(steps)
                )

            return run

        return Peer(running(function.contracted), running(function.as_written))

    def state_after(self, run, steps):
        """The state after so many steps."""
        y = aligned(self.initial.shape)
        y[...] = self.initial
        run(y, steps)
        return y

    def timer(self, run):
        """A function that takes nothing and returns ns of CPU per step of one trajectory."""
        y = aligned(self.initial.shape)

        def once():
            y[...] = self.initial
            begin = time.thread_time_ns()
            run(y, self.steps)
            return (time.thread_time_ns() - begin) / (self.steps * self.trajectories)

        return once


def _argument(value):
    if isinstance(value, float):
        return ctypes.c_double(value)
    return value.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


@dataclass(frozen=True)
class Peer:
    """What ours stands beside, as ``run(y, steps)``: to be timed, and to be checked."""

    timed: Callable
    checked: Callable


@dataclass(frozen=True)
class Row:
    """One line of the table; without a figure to reach, None.

    `statistics` is ours with the statistics of every step, whose `cost` is its ratio to `ours`;
    `sparse_cost` is that of the statistics of one step in `SPARSE`.
    """

    what: str
    ours: float
    statistics: float
    cost: float
    sparse_cost: float
    cpp: float
    ratio: float
    with_statistics: float
    difference: float
    figure: str | None = None
    holds: bool | None = None

    @property
    def cheap(self):
        """Whether statistics cost as little as they should."""
        return self.sparse_cost <= STATISTICS


@dataclass(frozen=True)
class Comparison:
    """What is timed: a case, ours without and with statistics, and what it stands beside.

    `cpp` is C++, or the `peer`, without statistics; `bound`, of the ratio to it.
    `exact` says that the arithmetic is the same, so that the states must be, to the last bit;
    `last` is where its rows end: −1 for a peer that keeps no work.
    """

    what: str
    case: Case
    cpp: Peer
    bound: float | None = None
    exact: bool = True
    peer: str = "C++"
    last: int | None = None

    def difference(self):
        """Largest difference of the states of ours and C++ after some steps; exits if too large."""
        case = self.case
        ours = case.state_after(case.ours(), CHECKED_STEPS)
        theirs = case.state_after(self.cpp.checked, CHECKED_STEPS)
        found = float(np.max(np.abs(ours - theirs)[: self.last]))
        allowed = 0.0 if self.exact else SAME
        if not found <= allowed:
            sys.exit(
                f"{self.what}: after {CHECKED_STEPS} steps the states of ours and {self.peer} "
                f"differ by {found:.3g}, more than {allowed:g}: the comparison would not be fair"
            )
        return found

    @property
    def timers(self):
        """Of ours, of ours with both kinds of statistics, and of what it stands beside."""
        runs = [self.case.ours(every) for every in (0, 1, SPARSE)]
        return [self.case.timer(run) for run in (*runs, self.cpp.timed)]

    def row(self, times, difference):
        """The line for the times measured."""
        ours, statistics, sparse, cpp = times
        measured = Row(
            self.what, ours, statistics, statistics / ours, sparse / ours, cpp, ours / cpp,
            statistics / cpp, difference,
        )  # fmt: skip
        if self.bound is None:
            return measured
        figure = f"≤ {self.bound:g} × {self.peer}"
        return replace(measured, figure=figure, holds=measured.ratio <= self.bound)


def measure(compared):
    """Check that the states agree, then time everything in turn; a `Row` for each comparison."""
    differences = [comparison.difference() for comparison in compared]
    timers = [comparison.timers for comparison in compared]
    turns = [[[timed() for timed in together] for together in timers] for _ in range(REPEATS)]
    least = [min(times, key=sum) for times in zip(*turns, strict=True)]
    return [
        comparison.row(times, difference)
        for comparison, times, difference in zip(compared, least, differences, strict=True)
    ]


def cell(value, form):
    """A number in a table, or a dash."""
    return "–" if value is None else format(value, form)


def table(rows):
    """The rows as text."""
    lines = [
        ("", "ours", "C++", "ratio", "figure", "holds", "with statistics", "ratio", "their cost",
         f"of 1 in {SPARSE}", f"≤ {STATISTICS:g}", "states differ")
    ]  # fmt: skip
    for row in rows:
        holds = {None: "–", True: "yes", False: "no"}[row.holds]
        lines.append(
            (row.what, f"{row.ours:.1f}", f"{row.cpp:.1f}", f"{row.ratio:.2f}", row.figure or "–",
             holds, f"{row.statistics:.1f}", f"{row.with_statistics:.2f}", f"{row.cost:.2f}",
             f"{row.sparse_cost:.2f}", "yes" if row.cheap else "no", f"{row.difference:.1g}")
        )  # fmt: skip
    return columns(lines)


def columns(lines):
    """Lines of cells as text; the first cell to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            text.ljust(width) if i == 0 else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


@dataclass(frozen=True)
class Function:
    """A function of C++, compiled twice."""

    contracted: Callable
    as_written: Callable


@dataclass(frozen=True)
class Library:
    """C++ compiled twice; its attributes are its functions, each a `Function`.

    The compiler may fuse products and sums where that is fastest. What is compared to the last bit
    rounds as the source says.
    """

    contracted: ctypes.CDLL
    as_written: ctypes.CDLL

    def __getattr__(self, name):
        return Function(getattr(self.contracted, name), getattr(self.as_written, name))


def compile_cpp(compiler, name, folder):
    """The `Library` made from ``name.cpp``."""
    return Library(
        *(_compiled(compiler, name, folder, option) for option in (CONTRACT, "-ffp-contract=off"))
    )


def _compiled(compiler, name, folder, option):
    target = Path(folder) / f"{name}{option}.so"
    subprocess.run([compiler, *FLAGS, option, HERE / f"{name}.cpp", "-o", target], check=True)
    return ctypes.CDLL(str(target))

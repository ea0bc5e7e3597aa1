"""How tests are collected: generated for all that is registered, and in the order that they run.

A test that asks for an argument in `GENERATED` runs for all that is registered.
"""

import functools
import gc
import multiprocessing
import operator
import os
import resource
import threading
from pathlib import Path

import cases
import hypothesis
import pytest

from integrators.compiler import kernels
from integrators.stepping import loop

hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("repeatable")  # compiling takes time, and a test must not flicker
gc.disable()  # until all is collected: it finds nothing there

TESTS = Path(__file__).parents[1]
FORKS = multiprocessing.get_context("fork")

GENERATED = {
    "case": cases.cases,
    "mechanical_case": cases.mechanical_cases,
    "spin_case": cases.spin_cases,
    "covering": cases.covering_pairings,
    "costly": cases.costly_pairings,
    "with_new_kernels": cases.kernel_pairings,
    "in_lanes": cases.lane_pairings,
    "symmetric_pairing": cases.symmetric_pairings,
    "adaptive_pairing": cases.adaptive_pairings,
    "reversible_pairing": cases.reversible_pairings,
    "promise": cases.promises,
}
CHEAP = {  # where it is not the item that says so
    "costly": cases.is_usual,
    "in_lanes": operator.attrgetter("cheap_in_lanes"),
    "symmetric_pairing": cases.covers,
    "reversible_pairing": cases.covers,
    "promise": cases.covers,
}


def pytest_configure(config):
    """Compile no loop with all that it calls into it, which is faster to run, for seconds.

    But those of `cases.with_own_loops`, and in processes that are executed, not forked (see
    `forking`).
    """
    cases.everything = config.option.everything
    loop.FEW_ROWS = 0
    if hasattr(config, "workerinput"):
        kernels.Kernel._compile = _in_a_fork(kernels.Kernel._compile)


def pytest_generate_tests(metafunc):
    for argument, make in GENERATED.items():
        if argument in metafunc.fixturenames:
            is_cheap = CHEAP.get(argument, operator.attrgetter("cheap"))
            metafunc.parametrize(argument, cases.parameters(make(), is_cheap))


MOST_LINES = 24  # of a failing test that are printed, with those about it 30


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Print the first and the last lines of a long failure, unless another style is asked for."""
    report = yield
    told = getattr(report.longrepr, "chain", None)
    if told and item.config.option.tbstyle == "short":
        traceback, crash, _ = told[-1]
        told[:] = [(traceback, crash, None)]
        traceback.reprentries[:] = traceback.reprentries[-2:]
        for entry in traceback.reprentries:
            if len(entry.lines) > MOST_LINES // 2:
                quarter = MOST_LINES // 4
                entry.lines[:] = [*entry.lines[:quarter], "…", *entry.lines[-quarter:]]
        if crash:
            crash.message = crash.message.partition("\n")[0]
    return report


# Files whose tests take longest, or wait longest, are first of their kind.
COMPUTING = ("properties/test_precise_runs", "properties", "integrators", "systems")
WAITING = (
    "sweep/plugins/test_wrong_plugins", "guide", "service", "sweep/clusters", "sweep/store/buckets",
    "sweep/campaign", "",
)  # fmt: skip


def pytest_collection_modifyitems(config, items):
    """Leave out the slow tests; let files that compute and files that wait take turns.

    So no core is idle while processes wait, and none ends long before others.
    """
    if not cases.everything:
        slow = [item for item in items if item.get_closest_marker("slow")]
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=slow)
    places = {}
    for path in dict.fromkeys(item.path for item in items):
        name = path.relative_to(TESTS).as_posix()
        kind = COMPUTING if name.startswith(COMPUTING) else WAITING
        rank = next(rank for rank, start in enumerate(kind) if name.startswith(start))
        places.setdefault(kind, []).append((rank, path))
    turns = {
        path: number / len(files)
        for files in places.values()
        for number, (_, path) in enumerate(sorted(files))
    }
    items.sort(key=lambda item: turns[item.path])


MOST_MEMORY = 1.0e9  # bytes of a process that compiles one more kernel itself


def pytest_collection_finish(session):
    """Compile what the tests of cases and pairings need, shared among as many processes as cores.

    In forks of each, which give the memory back: the process itself loads what it uses.
    """
    gc.freeze()  # what was collected stays, and is not looked through again
    process = getattr(session.config, "workerinput", None)
    if process is not None and not session.config.option.collectonly:
        compilings = {}
        for item in session.items:
            if hasattr(item, "callspec"):
                for argument, value in item.callspec.params.items():
                    compilings |= cases.compilings(value, argument)
        number = int(process["workerid"].removeprefix("gw"))
        count = min(process["workercount"], len(os.sched_getaffinity(0)))
        # Scalars and lanes in turn: they share nothing.
        labels = sorted(compilings)[number::count] if number < count else []
        own, begun = [compilings[label] for label in labels], FORKS.Value("i", 0, lock=False)
        while begun.value < len(own):
            _fork(_compile, own, begun)
    gc.set_threshold(50_000, 20, 50)  # Dask is called back at each collection
    gc.enable()


def _fork(function, *arguments):
    """Call a function in a fork, and wait for its end."""
    fork = FORKS.Process(target=function, args=arguments)
    fork.start()
    fork.join()


def _compile(compilings, begun):
    """Compile in turn from the one that nobody has begun, until much memory is used."""
    while begun.value < len(compilings):
        begun.value += 1
        compilings[begun.value - 1]()
        gc.collect()
        gc.freeze()  # what the next one shares is not looked through again
        if _memory() > MOST_MEMORY:
            break


def _memory():
    """The most bytes that this process had."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class _Missing(Exception):
    """A kernel is to be compiled, since the disk cache lacks it."""


def _refuse(name):
    raise _Missing


def _in_a_fork(compile_kernel):
    """A `Kernel._compile` that compiles in a fork where the process has become large.

    LLVM keeps five times as much memory of a kernel that it compiled as of one that was loaded from
    the disk cache. But a fork compiles once more what kernels share.
    """
    process = os.getpid()  # not its forks, which are to end soon

    @functools.wraps(compile_kernel)
    def compiled(kernel, element):
        is_main = threading.current_thread() is threading.main_thread()
        if _memory() > MOST_MEMORY and os.getpid() == process and is_main:
            try:
                with kernels.checking(kernels._check.get(), _refuse):
                    return compile_kernel(kernel, element)
            except _Missing:
                _fork(compile_kernel, kernel, element)
        return compile_kernel(kernel, element)

    return compiled

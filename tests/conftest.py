"""Inherited tests: one that asks for an argument in `GENERATED` runs for all that is registered."""

import compileall
import gc
from functools import partial
from pathlib import Path

import cases
import hypothesis
import pytest

from integrators.compiler.elements import DOUBLE, LANES, TANGENTS
from integrators.stepping import loop

hypothesis.settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("repeatable")  # compiling takes time, and a test must not flicker

ROOT = Path(__file__).parents[1]
pytest_plugins = ("service_fixtures",)

GENERATED = {
    "case": cases.cases,
    "mechanical_case": cases.mechanical_cases,
    "spin_case": cases.spin_cases,
    "split_case": cases.split_cases,
    "pairing": cases.pairings,
    "covering": cases.covering_pairings,
    "with_new_kernels": cases.kernel_pairings,
    "symmetric_pairing": cases.symmetric_pairings,
    "adaptive_pairing": cases.adaptive_pairings,
    "reversible_pairing": cases.reversible_pairings,
    "promise": cases.promises,
}


def pytest_generate_tests(metafunc):
    for argument, make in GENERATED.items():
        if argument in metafunc.fixturenames:
            metafunc.parametrize(argument, [pytest.param(item, id=str(item)) for item in make()])


def pytest_configure(config):
    """Compile the sources: where Python may write no bytecode, every process would for itself."""
    if not hasattr(config, "workerinput"):
        for package in ("integrators", "systems", "sweep"):
            compileall.compile_dir(ROOT / package, quiet=2)


WAITING = ("guide", "service", "sweep/clusters", "sweep/store/buckets", "sweep/campaign", "sweep")


def pytest_collection_modifyitems(items):
    """Begin with the files whose tests take longest, so that no process ends long before others."""

    def place(item):
        folder = item.path.parent.relative_to(ROOT / "tests").as_posix()
        return next((i for i, name in enumerate(WAITING) if folder.startswith(name)), len(WAITING))

    items.sort(key=place)


MANY = 3000  # tests in a run that comes to nearly all kernels


def pytest_collection_finish(session):
    """Share the compiling among the processes of a whole run: each would compile everything."""
    process = getattr(session.config, "workerinput", None)
    if process is None or len(session.items) < MANY:
        return
    number, count = int(process["workerid"].removeprefix("gw")), process["workercount"]
    compilings = _compilings()
    labels = sorted(compilings)  # scalars and lanes in turn, which share no helper
    gc.freeze()  # what was collected stays, and compiling leaves little to find
    gc.disable()
    for label in labels[number::count]:
        compilings[label]()
        gc.collect()
        gc.freeze()
    gc.enable()


def _compilings():
    """A function that compiles, by label and whether for lanes, of all that `cases` come to."""
    both = DOUBLE, LANES
    found = {("trajectory", e.name): partial(loop.trajectory_kernel(e).compiled, e) for e in both}
    found["images", TANGENTS.name] = partial(loop.image_kernel(TANGENTS).compiled, TANGENTS)
    for pairing in cases.kernel_pairings():
        for label, kernel in pairing.kernels.items():
            found |= {(label, e.name): partial(kernel.compiled, e) for e in both}
            if kernel is not pairing.problem.monitor:
                found[label, TANGENTS.name] = partial(kernel.compiled, TANGENTS)
    for pairing in cases.with_own_loops():
        if own := pairing.problem.own_loop:
            found[own.label, LANES.name] = partial(own.compiled, LANES)
    for pairing in cases.adaptive_pairings():
        for kernel in pairing.problem(1e-3).made_from:
            found[kernel.label, DOUBLE.name] = partial(kernel.compiled, DOUBLE)
    for case in cases.cases():
        for quantity in case.system.quantities:
            label = quantity.function.label
            found[label, DOUBLE.name] = partial(quantity.function.compiled, DOUBLE)
    return found

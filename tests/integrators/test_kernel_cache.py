"""Kernels are compiled once, found again by every later process, and never mistaken."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cases import Pairing, cases, kernel_pairings

import integrators
from integrators import kernels

ROOT = Path(integrators.__file__).parents[1]
PATHS = [ROOT, Path(sys.modules["cases"].__file__).parent]

COMPILED = """
import numba.core.event as event
recorder = event.RecordingListener()
event.register("numba:compile", recorder)
def compiled(): return sum(e.is_start for _, e in recorder.buffer)
"""


def run(script, *arguments, paths=PATHS, **environment):
    """What a fresh process prints."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))} | environment
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, *map(str, arguments)],
        env=environment, check=True, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    return done.stdout.split()


RUN_EVERYTHING = f"""{COMPILED}
from cases import cases, kernel_pairings
for pairing in kernel_pairings():
    for count in (1, 2):
        pairing.batch([pairing.case.state] * count, steps=1, samples=1)
for case in cases():
    case.exact(0.01 * case.time_scale)
    for quantity in case.system.quantities:
        quantity.function.scalar
print(compiled())
"""


def test_a_later_process_compiles_nothing():
    for pairing in kernel_pairings():  # most have run in this process before
        for count in (1, 2):
            pairing.batch([pairing.case.state] * count, steps=1, samples=1)
    for case in cases():
        case.exact(0.01 * case.time_scale)
        for quantity in case.system.quantities:
            assert quantity.function.scalar  # nothing evaluates them in lanes
    assert run(RUN_EVERYTHING) == ["0"]


ENERGY = f"""{COMPILED}
import sys
from cases import cases
chosen = [case for case in cases() if case.label in sys.argv[1:]]
energies = [case.system.form.energy.scalar for case in chosen]
for case in chosen:
    print(case.evaluate(case.system.form.energy, case.state[None])[0, 0].hex())
print(compiled())
"""


def test_a_fresh_cache_is_filled_once(tmp_path):
    first, again = (run(ENERGY, "nbody_sphere", GEOSWEEP_CACHE_DIR=str(tmp_path)) for _ in range(2))
    assert first[0] == again[0]
    assert int(first[1]) > 0 and int(again[1]) == 0
    assert list(tmp_path.rglob("*.nbc"))


def test_processes_that_compile_apart_do_not_mix_kernels_up(tmp_path):
    """Closures of one name, compiled by two processes, loaded together by a third."""
    labels = ["spherical_pendulum_chain", "nbody_sphere"]
    cache = {"GEOSWEEP_CACHE_DIR": str(tmp_path)}
    apart = [run(ENERGY, label, **cache)[0] for label in labels]
    assert run(ENERGY, *labels, **cache) == [*apart, "0"]


PRINT_HASH = "from integrators import kernels; print(kernels.sources_hash(frozenset({'systems'})))"


def test_an_edited_source_changes_the_directory(tmp_path):
    for package in ("integrators", "systems"):
        shutil.copytree(ROOT / package, tmp_path / package)
    before = run(PRINT_HASH, paths=[tmp_path])
    assert before == [kernels.sources_hash(frozenset({"systems"}))]
    (tmp_path / "integrators" / "vectors.py").open("a").write("# edited\n")
    helper = run(PRINT_HASH, paths=[tmp_path])
    (tmp_path / "systems" / "nbody.py").open("a").write("# edited\n")
    physics = run(PRINT_HASH, paths=[tmp_path])
    assert len({*before, *helper, *physics}) == 3


def test_the_cache_moves_where_it_can_write(tmp_path, monkeypatch):
    monkeypatch.setenv("GEOSWEEP_CACHE_DIR", str(tmp_path / "here"))
    assert kernels.cache_root().is_relative_to(tmp_path / "here")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GEOSWEEP_CACHE_DIR", str(tmp_path / "file"))
    elsewhere = kernels.cache_root()
    assert not elsewhere.is_relative_to(tmp_path / "file")


def test_a_kernel_refuses_types_that_it_was_not_compiled_for():
    case = cases()[0]
    kernel = case.system.form.energy.scalar
    with pytest.raises(TypeError, match="No matching definition"):
        kernel(0.0, case.state.astype("float32"), case.state[0], case.state, case.state[0])


def test_labels_tell_kernels_apart():
    made = [
        Pairing("rk4", (("formulation", formulation),), case).problem.function
        for case in cases()
        for formulation in ("q_omega", "q_qdot")[: 1 + case.mechanical]
    ]
    assert len({kernel.label for kernel in made}) == len(set(made)) > 4


OWN_FACTOR = """
import dataclasses
from integrators.factors import TRANSLATION
from integrators.kernels import inlined
from integrators.vectors import get, put, scale
from constants import SHARE

@inlined
def once(sigma, i, y, j, out):
    put(out, j, scale({once}, get(sigma, i)))

@inlined
def shared(sigma, i, y, j, out):
    put(out, j, scale(SHARE, get(sigma, i)))

ONCE, SHARED = (
    dataclasses.replace(TRANSLATION, name="mine", act=act) for act in (once, shared)
)
"""

USE_FACTORS = """
import numpy as np, factors_of_mine
from integrators.actions import product
for factor in (factors_of_mine.ONCE, factors_of_mine.SHARED):
    out, y, nothing = np.zeros((1, 3)), np.ones((1, 3)), np.zeros(1)
    product(factor).act.scalar(0.0, y, nothing, out, np.ones(3))
    print(out[0, 0])
"""


def test_an_edited_helper_of_another_package_is_compiled_again(tmp_path):
    """A `Factor` of one's own, and a constant that it imports: two of one name, then edited."""
    for once, share in ((2.0, 3.0), (4.0, 3.0), (4.0, 5.0)):
        (tmp_path / "factors_of_mine.py").write_text(OWN_FACTOR.format(once=once))
        (tmp_path / "constants.py").write_text(f"SHARE = {share}")
        cache = {"GEOSWEEP_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
        assert run(USE_FACTORS, paths=[ROOT, tmp_path], **cache) == [str(once), str(share)]

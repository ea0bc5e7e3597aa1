"""Kernels are compiled once, found again by every later process, and never mistaken."""

import os
import pickle
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cases import Pairing, cases
from waiting import HANG

import integrators
from integrators.compiler import cache_directory, kernels

ROOT = Path(integrators.__file__).parents[1]
PATHS = [ROOT, Path(sys.modules["cases"].__file__).parent]

COMPILED = """
import numba.core.event as event
recorder = event.RecordingListener()
event.register("numba:compile", recorder)
def compiled(): return sum(e.is_start for _, e in recorder.buffer)
"""


def environment_of(paths=PATHS, **variables):
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))} | variables


def run(script, *arguments, paths=PATHS, **variables):
    """What a fresh process prints."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, *map(str, arguments)],
        env=environment_of(paths, **variables), check=True, capture_output=True, text=True,
        timeout=HANG,
    )  # fmt: skip
    return done.stdout.split()


FEW = ["variational-spherical_pendulum_chain", "spherical_midpoint-free_rigid_body"]
RUN_FEW = """
import gc, sys
from integrators.compiler.kernels import Kernel
from cases import pairings
for pairing in [pairing for pairing in pairings() if str(pairing) in sys.argv[1:]]:
    for count in (1, 2):
        pairing.batch([pairing.case.state] * count, steps=1, samples=1)
    pairing.case.exact(0.01 * pairing.case.time_scale)
    for quantity in pairing.case.system.quantities:
        quantity.function.scalar  # nothing evaluates them in lanes
"""
TELL = """
made = [it for it in gc.get_objects() if isinstance(it, Kernel)]
print(compiled(), *sorted({element.name for kernel in made for element in kernel._compiled}))
"""


def test_a_later_process_compiles_nothing_and_loads_no_arithmetic_that_is_not_asked_for():
    run(RUN_FEW, *FEW)
    assert run(COMPILED + RUN_FEW + TELL, *FEW) == ["0", "double", "lanes"]


ENERGY = f"""{COMPILED}
import sys
import numpy as np, systems
forms = [systems.get(name).form for name in sys.argv[1:]]
energies = [form.energy.scalar for form in forms]
for name, form, energy in zip(sys.argv[1:], forms, energies):
    state, out = systems.get(name).start("lee"), np.zeros((1, 3))
    energy(0.0, state, form.packed, out, np.zeros(1 + form.energy.work(len(state))))
    print(out[0, 0].hex())
print(compiled())
"""


NAMES = "spherical_pendulum_chain", "nbody_sphere"


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A cache that two processes filled, and what these printed."""
    directory = tmp_path_factory.mktemp("cache")
    return directory, [run(ENERGY, name, GEOSWEEP_CACHE_DIR=str(directory)) for name in NAMES]


def test_processes_that_fill_a_fresh_cache_apart_do_not_mix_kernels_up(filled):
    """Closures of one name, compiled by two processes, loaded together by a third."""
    directory, apart = filled
    assert all(int(compiled) > 0 for _, compiled in apart)
    assert list(directory.rglob("*.nbc"))
    together = run(ENERGY, *NAMES, GEOSWEEP_CACHE_DIR=str(directory))
    assert together == [*(energy for energy, _ in apart), "0"]


# --- several processes at once -----------------------------------------------------------------

NEEDS_A_KERNEL = """
import sys
import systems
from integrators.compiler.kernels import checking
def compiling(name):
    print("compiles", flush=True)
    sys.stdin.readline()
energy = systems.get("nbody_sphere").form.energy
with checking(lambda: print("needs", flush=True), compiling):
    energy.scalar
print("has", flush=True)
"""


@pytest.fixture
def needing(tmp_path):
    """Start a process that needs a kernel and stands still while it compiles, until told."""
    started = []

    def start():
        environment = environment_of(GEOSWEEP_CACHE_DIR=str(tmp_path))
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", NEEDS_A_KERNEL],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        assert process.stdout.readline() == "needs\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_two_processes_that_need_a_kernel_at_once_compile_it_once(needing, tmp_path):
    first = needing()
    assert first.stdout.readline() == "compiles\n"
    second = needing()
    assert first.communicate("go on\n", timeout=HANG)[0] == "has\n"
    assert second.communicate(timeout=HANG)[0] == "has\n"
    assert not list(tmp_path.rglob("*.lock"))


def test_a_process_that_was_killed_while_it_compiled_holds_nobody_up(needing, tmp_path):
    first = needing()
    assert first.stdout.readline() == "compiles\n"
    second = needing()
    first.kill()
    assert second.communicate("go on\n", timeout=HANG)[0] == "compiles\nhas\n"
    assert not list(tmp_path.rglob("*.lock"))


PRINT_HASH = (
    "from integrators.compiler import kernels; print(kernels.sources_hash(frozenset({'systems'})))"
)


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


@pytest.fixture
def chosen(monkeypatch, capfd):
    """Where kernels go with a GEOSWEEP_CACHE_DIR, and what is said: ``chosen(directory)``."""
    monkeypatch.delenv(cache_directory.HANDED, raising=False)

    def choose(directory):
        monkeypatch.setenv(cache_directory.NAMED, str(directory))
        return cache_directory.cache_root(), capfd.readouterr().err

    yield choose
    if made := os.environ.get(cache_directory.HANDED):
        shutil.rmtree(made)


def test_the_cache_is_made_for_this_user_alone(chosen, tmp_path):
    assert chosen(tmp_path / "a" / "b") == (tmp_path / "a" / "b" / "kernels", "")
    for path in (tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "kernels"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_a_cache_that_others_could_read_is_closed(chosen, tmp_path):
    """Files in it may be writable by a group, as with the umask 002."""
    (tmp_path / "kernels").mkdir(mode=0o755)
    assert chosen(tmp_path) == (tmp_path / "kernels", "")
    assert stat.S_IMODE((tmp_path / "kernels").stat().st_mode) == 0o700


def test_the_cache_moves_where_it_can_write(chosen, tmp_path):
    (tmp_path / "file").write_text("")
    elsewhere, said = chosen(tmp_path / "file")
    assert not elsewhere.is_relative_to(tmp_path) and said == ""
    assert stat.S_IMODE(elsewhere.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("refused", [".", "kernels", "link"])
def test_a_cache_that_others_may_write_is_not_used(chosen, tmp_path, refused):
    named = tmp_path / "cache"
    (named / "kernels").mkdir(parents=True, mode=0o700)
    shared = named / refused
    if refused == "link":
        named, shared = tmp_path / "link", named
        named.symlink_to(shared)
    shared.chmod(0o777)
    elsewhere, said = chosen(named)
    assert not elsewhere.is_relative_to(tmp_path)
    assert said.startswith(f"Warning: {shared} may be written by others (mode 777): compiled ")
    assert f"in {elsewhere.parent} until" in said and said.count("\n") == 1
    assert chosen(named) == (elsewhere, "")  # and is not said again


def test_sources_of_which_others_may_write_the_kernels_are_compiled_anew(chosen, tmp_path):
    root, _ = chosen(tmp_path)
    (root / "abc").mkdir()
    assert cache_directory.cache_root("abc") == root / "abc"
    (root / "abc").chmod(0o777)
    elsewhere = cache_directory.cache_root("abc")
    assert elsewhere.name == "abc" and not elsewhere.is_relative_to(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give directories away")
def test_a_cache_of_another_user_is_not_used(chosen, tmp_path):
    (tmp_path / "kernels").mkdir(mode=0o700)
    os.chown(tmp_path / "kernels", 65534, 65534)
    elsewhere, said = chosen(tmp_path)
    assert not elsewhere.is_relative_to(tmp_path)
    assert f"{tmp_path / 'kernels'} belongs to user 65534" in said


LOADED = f"""{COMPILED}
import os, subprocess, sys
import systems
systems.get("nbody_sphere").form.energy.scalar
print(compiled(), os.environ["GEOSWEEP_PRIVATE_CACHE"], flush=True)
if len(sys.argv) > 1:
    subprocess.run([sys.executable, "-P", "-c", sys.argv[1]], check=True)
"""


def test_what_another_put_there_is_not_loaded_and_children_share_the_private_cache(
    tmp_path, filled
):
    """A pickle that writes a file, in the place of every index, in a directory of mode 777."""
    cache = {"GEOSWEEP_CACHE_DIR": str(tmp_path / "cache")}
    shutil.copytree(filled[0], tmp_path / "cache")
    for index in (tmp_path / "cache").rglob("*.nbi"):
        index.write_bytes(pickle.dumps(Loaded(str(tmp_path / "loaded"))))
    (tmp_path / "cache" / "kernels").chmod(0o777)
    first, private, again, same = run(LOADED, LOADED, **cache)
    assert not (tmp_path / "loaded").exists()
    assert int(first) > 0 and int(again) == 0 and private == same
    assert not Path(private).exists()  # it is removed at the end
    (tmp_path / "cache" / "kernels").chmod(0o700)
    run(ENERGY, "nbody_sphere", **cache)
    assert (tmp_path / "loaded").exists()  # that is what is at stake


class Loaded:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


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
from integrators.lie_groups.factors import TRANSLATION
from integrators.compiler.kernels import inlined
from integrators.compiler.vectors import get, put, scale
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
from integrators.lie_groups.actions import product
for factor in (factors_of_mine.ONCE, factors_of_mine.SHARED):
    out, y, nothing = np.zeros((1, 3)), np.ones((1, 3)), np.zeros(1)
    product(factor).act.scalar(0.0, y, nothing, out, np.ones(3))
    print(out[0, 0])
"""


def test_an_edited_helper_of_another_package_is_compiled_again(tmp_path):
    """A `Factor` of one's own, and a constant that it imports: two of one name, then edited."""
    for once, share in ((2.0, 3.0), (4.0, 5.0)):
        (tmp_path / "factors_of_mine.py").write_text(OWN_FACTOR.format(once=once))
        (tmp_path / "constants.py").write_text(f"SHARE = {share}")
        cache = {"GEOSWEEP_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
        assert run(USE_FACTORS, paths=[ROOT, tmp_path], **cache) == [str(once), str(share)]

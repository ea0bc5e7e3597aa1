"""Kernels are compiled once, found again by every later process, and never mistaken."""

import contextlib
import importlib
import multiprocessing
import os
import pickle
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases import Pairing, cases
from waiting import HANG

import integrators
from integrators.compiler import cache_directory, kernels
from integrators.compiler.kernels import checking, kernel
from integrators.lie_groups.actions import product

ROOT = Path(integrators.__file__).parents[1]
PATHS = [ROOT, Path(sys.modules["cases"].__file__).parent]


def run(script, *arguments, paths=PATHS, **variables):
    """What a fresh process prints."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))} | variables
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, *map(str, arguments)],
        env=environment, check=True, capture_output=True, text=True, timeout=HANG,
    )  # fmt: skip
    return done.stdout.split()


@contextlib.contextmanager
def copied(directory, function, *arguments):
    """A copy of this process that has loaded no kernel of `directory`, and a connection to it.

    It calls the function with its own end of that and the arguments.
    """

    def begin():
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(directory))
        os.environ.pop(cache_directory.HANDED, None)
        os.environ[cache_directory.NAMED] = str(directory / "cache")
        function(end, *arguments)

    context = multiprocessing.get_context("fork")
    connection, end = context.Pipe()
    process = context.Process(target=begin)
    process.start()
    end.close()
    try:
        yield process, connection
    finally:
        process.kill()
        process.join()


def told(connection):
    """What a copy says next."""
    assert connection.poll(HANG)
    return connection.recv()


def found_apart(directory, function, *arguments):
    """What a function returns in such a copy."""

    def tell(connection):
        connection.send(function(*arguments))

    with copied(directory, tell) as (_, connection):
        return told(connection)


COMPILED = """
import numba.core.event as event
recorder = event.RecordingListener()
event.register("numba:compile", recorder)
def compiled(): return sum(e.is_start for _, e in recorder.buffer)
"""
RUN_BRIEFLY = """
import integrators, systems
from integrators.stepping import loop
loop.FEW_ROWS = 0  # a loop of one's own takes seconds to compile
system = systems.get("spherical_pendulum_chain")
for name, given in (("variational", {"step_size": 0.01}), ("dop853", {"tolerance": 1e-6})):
    for count in (1, 2):
        integrators.integrate(
            system, integrators.get(name), system.ensemble(count, 1), duration=0.01, samples=1,
            **given,
        )
"""
RUN_AND_COUNT = f"""{COMPILED}
import gc, sys
from integrators.compiler.kernels import Kernel
{RUN_BRIEFLY}
made = [it for it in gc.get_objects() if isinstance(it, Kernel)]
elements = {{element.name for kernel in made for element in kernel._compiled}}
print(compiled(), "mpmath" in sys.modules, *sorted(elements))
"""


def test_a_later_process_compiles_nothing_and_loads_no_arithmetic_that_is_not_asked_for():
    exec(RUN_BRIEFLY)
    assert run(RUN_AND_COUNT) == ["0", "False", "double", "lanes"]


TWO_ENERGIES = f"""{COMPILED}
import numpy as np
from integrators.compiler.kernels import kernel, state_value
from integrators.forms.spheres import energy_kernel
from integrators.solvers.inertia import DIAGONAL, FULL

@kernel(state_value)
def potential(t, q, p):
    return 2.0 * q[0, 0]

KERNELS = {{
    "diagonal": energy_kernel(potential, DIAGONAL), "full": energy_kernel(potential, FULL)
}}

def energies(*names):
    '''Of two bodies, and how many kernels were compiled for that.'''
    evaluating, found = [KERNELS[name].scalar for name in names], []
    for energy in evaluating:
        out = np.zeros((1, 3))
        energy(0.0, np.ones((4, 3)), np.array([1.0, 2.0, 2.0, 5.0]), out, np.zeros(1))
        found.append(out[0, 0])
    return [*found, compiled()]
"""


def energies(*names):
    return importlib.import_module("two_energies").energies(*names)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A folder with a cache that two processes filled, and what these found."""
    directory = tmp_path_factory.mktemp("filled")
    (directory / "two_energies.py").write_text(TWO_ENERGIES)
    return directory, [found_apart(directory, energies, name) for name in ("diagonal", "full")]


def test_processes_that_fill_a_fresh_cache_apart_do_not_mix_kernels_up(filled):
    """Closures of one name, compiled by two processes, loaded together by a third."""
    directory, apart = filled
    assert [energy for energy, _ in apart] == [6.5, 17.0]
    assert all(compiled > 0 for _, compiled in apart)
    assert list((directory / "cache").rglob("*.nbc"))
    assert found_apart(directory, energies, "diagonal", "full") == [6.5, 17.0, 0]


# --- several processes at once -----------------------------------------------------------------


@kernel()
def halved(t, y, p, out, work):
    out[0, 0] = 0.5 * y[0, 0]


def need(connection):
    """Say when a kernel is needed, compiled, which goes on when it is told so, and there."""

    def compiling(name):
        connection.send("compiles")
        connection.recv()

    with checking(lambda: connection.send("needs"), compiling):
        assert halved.scalar
    connection.send("has")


@pytest.fixture
def two_needing(tmp_path):
    """Two processes that need a kernel, of which the first stands still while it compiles it."""
    with copied(tmp_path, need) as first:
        assert [told(first[1]), told(first[1])] == ["needs", "compiles"]
        with copied(tmp_path, need) as second:
            assert told(second[1]) == "needs"
            yield first, second


def test_two_processes_that_need_a_kernel_at_once_compile_it_once(two_needing, tmp_path):
    (_, first), (_, second) = two_needing
    first.send("go on")
    assert [told(first), told(second)] == ["has", "has"]
    assert not list(tmp_path.rglob("*.lock"))


def test_a_process_that_was_killed_while_it_compiled_holds_nobody_up(two_needing, tmp_path):
    (process, _), (_, second) = two_needing
    process.kill()
    assert told(second) == "compiles"
    second.send("go on")
    assert told(second) == "has"
    assert not list(tmp_path.rglob("*.lock"))


PRINT_HASHES = """
import os, sys
from pathlib import Path
from integrators.compiler import kernels
for edited in ("", "integrators/vectors.py", "systems/nbody.py"):
    if edited:
        Path(sys.argv[1], edited).write_text("# edited")
    if not os.fork():
        print(kernels.sources_hash(frozenset({"systems"})))
        sys.exit()
    os.wait()
"""


def test_an_edited_source_changes_the_directory(tmp_path):
    for package in ("integrators", "systems"):
        shutil.copytree(ROOT / package, tmp_path / package)
    before, *after = run(PRINT_HASHES, tmp_path, paths=[tmp_path])
    assert before == kernels.sources_hash(frozenset({"systems"}))
    assert len({before, *after}) == 3


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


PRINT_PLACE = """
import os, subprocess, sys, two_energies
print(two_energies.energies("diagonal")[1], os.environ["GEOSWEEP_PRIVATE_CACHE"], flush=True)
if len(sys.argv) > 1:
    subprocess.run([sys.executable, "-P", "-c", sys.argv[1]], check=True)
"""


@pytest.mark.slow
def test_what_another_put_there_is_not_loaded_and_children_share_the_private_cache(tmp_path):
    """A pickle that writes a file, in the place of every index, in a directory of mode 777."""
    (tmp_path / "two_energies.py").write_text(TWO_ENERGIES)
    found_apart(tmp_path, energies, "diagonal")
    cache = tmp_path / "cache"
    for index in cache.rglob("*.nbi"):
        index.write_bytes(pickle.dumps(Loaded(str(tmp_path / "loaded"))))
    (cache / "kernels").chmod(0o777)
    first, private, again, same = run(
        PRINT_PLACE, PRINT_PLACE, paths=[ROOT, tmp_path], **{cache_directory.NAMED: str(cache)}
    )
    assert not (tmp_path / "loaded").exists()
    assert int(first) > 0 and int(again) == 0 and private == same
    assert not Path(private).exists()  # it is removed at the end
    (cache / "kernels").chmod(0o700)
    found_apart(tmp_path, energies, "diagonal")
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


def moved_by_factors():
    """What each of the factors makes of 1."""
    mine, moved = importlib.import_module("factors_of_mine"), []
    for factor in (mine.ONCE, mine.SHARED):
        out, y, nothing = np.zeros((1, 3)), np.ones((1, 3)), np.zeros(1)
        product(factor).act.scalar(0.0, y, nothing, out, np.ones(3))
        moved.append(out[0, 0])
    return moved


@pytest.mark.slow
def test_an_edited_helper_of_another_package_is_compiled_again(tmp_path):
    """A `Factor` of one's own, and a constant that it imports: two of one name, then edited."""
    for once, share in ((2.0, 3.0), (4.0, 5.0)):
        (tmp_path / "factors_of_mine.py").write_text(OWN_FACTOR.format(once=once))
        (tmp_path / "constants.py").write_text(f"SHARE = {share}")
        assert found_apart(tmp_path, moved_by_factors) == [once, share]

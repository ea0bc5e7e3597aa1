"""What the tests of the service share: a cluster, the command, and stores read with plain zarr.

What takes long to import is imported where it is used: few tests use all of it.
"""

import contextlib
import fcntl
import gc
import hashlib
import importlib.metadata
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest
from forking import Forked
from study_text import LONG, study_of
from waiting import HANG
from waiting import until as wait_until

import sweep
from integrators.errors import InputError
from integrators.stepping import loop

PROGRAMS = Path(sys.executable).parent
TIMES = ("cpu_time", "wall_time", "environment")  # which runs may have, and be the same


@pytest.fixture(scope="session", autouse=True)
def own_configuration(tmp_path_factory):
    """A configuration of the tests' own: they approve plugins."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("configuration")))
        yield


@pytest.fixture(scope="session", autouse=True)
def brief_probes():
    """Probes that measure little, once: a plan need not be good to be tried.

    Their kernels are compiled in this process alone, as `collecting.pytest_configure` has it.
    """
    from sweep.campaign import plan, probe

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probe, "REPEATS", 1)
        patch.setattr(probe, "MOST_SECONDS", probe.LEAST_SECONDS)
        patch.setattr(plan, "compiling_on_all_cores", lambda probes: contextlib.nullcontext([]))
        yield


@contextlib.contextmanager
def local_cluster(workers):
    """Within ``with``, a client of a local cluster of so many worker processes."""
    from distributed import Client

    from sweep.clusters.local import start_local_cluster

    with start_local_cluster(workers) as local, Client(local) as client:
        client.run(setattr, loop, "FEW_ROWS", loop.FEW_ROWS)  # as this process has it
        yield client


@pytest.fixture(scope="session")
def cluster():
    """A client of a local cluster of two worker processes."""
    with local_cluster(2) as client:
        yield client


@pytest.fixture(scope="session")
def undisturbed(cluster, tmp_path_factory):
    """The store of a study of some seconds, ``long.toml`` in the directory `long_study`.

    It is computed once for all processes of a run of the tests, of which the others find it.
    """
    place = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent
    path = place / "undisturbed" / "long.zarr"
    path.parent.mkdir(exist_ok=True)
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert sweep.run(study_of(LONG), path, cluster).complete
    return path


@pytest.fixture(scope="session")
def run_text(cluster):
    """Run a study, given as text, on the shared cluster: ``run_text(text, store)``."""

    def run(text, store, **options):
        return sweep.run(study_of(text), store, cluster, **options)

    return run


@pytest.fixture
def long_study(tmp_path):
    """A directory with ``long.toml``, whose 136 runs take some seconds."""
    (tmp_path / "long.toml").write_text(LONG)
    return tmp_path


@pytest.fixture(scope="session")
def program():
    """Run `sweep` as a user does, in a process of its own: ``program(cwd, *arguments, code=0)``."""

    def run(cwd, *arguments, code=0):
        with Forked([PROGRAMS / "sweep", *arguments], cwd) as process:
            try:
                printed = process.communicate(timeout=HANG)
            except BaseException:
                process.kill()
                raise
        done = subprocess.CompletedProcess(process.args, process.returncode, *printed)
        check(done, code)
        return done

    return run


@pytest.fixture(scope="session")
def command(called):
    """The same without the start of a process, on the shared cluster: ``command(cwd, …)``."""

    def run(cwd, *arguments, code=0):
        done = called(cwd, *arguments)
        check(done, code)
        return done

    return run


def check(done, code):
    assert done.returncode == code, f"{done.args}: {done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stdout + done.stderr


@pytest.fixture(scope="session")
def called(lent):
    """Call the entry point of `sweep` and catch its exit: ``called(cwd, *arguments)``.

    Its standard output is a text, or ``out``, a stream.
    """
    (program,) = importlib.metadata.entry_points(group="console_scripts", name="sweep")
    main = program.load()

    def call(cwd, *arguments, out=None):
        arguments, thresholds = [*map(str, arguments)], gc.get_threshold()
        text, errors = io.StringIO(), io.StringIO()
        # What thousands of tests have left is not looked through again by what is to come.
        gc.collect()
        gc.freeze()
        with pytest.MonkeyPatch.context() as patch, lent():
            patch.setattr(sys, "argv", ["sweep", *arguments])
            patch.setattr(sys.modules["__main__"], "__package__", None)  # not "python -m …"
            with (
                contextlib.chdir(cwd),
                contextlib.redirect_stdout(text if out is None else out),
                contextlib.redirect_stderr(errors),
                pytest.raises(SystemExit) as end,
            ):
                main()
        gc.set_threshold(*thresholds)
        code = end.value.code or 0
        return subprocess.CompletedProcess(arguments, code, text.getvalue(), errors.getvalue())

    return call


class Lent:
    """A cluster that is not closed by those who borrow it."""

    worker_spec = range(1000)  # it need not grow

    def __init__(self, cluster):
        self._cluster = cluster

    def __getattr__(self, name):
        return getattr(self._cluster, name)

    def __await__(self):
        return self._cluster.__await__()

    def close(self):
        pass


@pytest.fixture(scope="session")
def lent(cluster):
    """Within ``with lent():`` a local cluster is the shared one, which need not start."""
    from sweep.clusters import connect as starting
    from sweep.clusters import processes

    @contextlib.contextmanager
    def lend():
        with pytest.MonkeyPatch.context() as patch:
            shared = Lent(cluster.cluster)
            patch.setattr(starting, "start_local_cluster", lambda *arguments, **options: shared)
            # This process has imported what draws, which others would have to.
            patch.setattr(processes, "pool_of_server", lambda processes: None)
            yield

    return lend


@pytest.fixture
def start():
    """Start `sweep` or `dask` in a process group of its own, killed when the test ends."""
    yield from _launching()


@pytest.fixture(scope="module")
def start_once():
    """The same for all tests of a module."""
    yield from _launching()


def _launching():
    processes = []

    def launch(program, *arguments, cwd):
        process = Group([PROGRAMS / program, *arguments], cwd)
        processes.append(process)
        return process

    yield launch
    for process in processes:
        process.kill()


class Group(Forked):
    """A process, and all those that it starts."""

    def finish(self):
        """Wait for the end; what was written to stdout and stderr."""
        return self.communicate(timeout=HANG)

    def signal_all(self, number):
        """Send a signal to every process of the group."""
        os.killpg(self.pid, number)

    def kill(self):
        """SIGKILL to every process of the group, and wait until none lives."""
        if self.members():
            self.signal_all(signal.SIGKILL)
        self.communicate(timeout=HANG)
        wait_until(lambda: not self.members())

    def members(self):
        """The living processes of the group."""
        found = []
        for process in psutil.process_iter():
            try:
                if os.getpgid(process.pid) == self.pid and process.status() != "zombie":
                    found.append(process)
            except (ProcessLookupError, psutil.NoSuchProcess):
                continue
        return found

    def busiest_worker(self):
        """The process, other than the first one, that has computed most."""
        others = [process for process in self.members() if process.pid != self.pid]
        return max(others, key=lambda process: sum(process.cpu_times()[:2]))


@pytest.fixture(scope="session")
def until():
    """Wait for a condition: ``until(condition)`` returns what it gives as soon as that is true."""
    return wait_until


@pytest.fixture(scope="session")
def arrays():
    """All arrays of a group, what is not folded too: ``arrays(store, "experiment")``."""
    return _arrays


@pytest.fixture(scope="session")
def committed():
    """Number of runs that a store counts as computed, also while it is written."""

    def count(store, name):
        try:
            return sum(found.done for found in sweep.status(store) if found.experiment == name)
        except InputError:
            return 0

    return count


@pytest.fixture(scope="session")
def assert_same_runs():
    """Assert that two groups agree to the last bit on all their runs, whatever their rows.

    ``assert_same_runs(store, other, name, runs=None, timings=False)``: `runs` are the ids to
    compare, by default all of both; `timings` says whether times must agree too.
    """

    def check(store, other, name, runs=None, timings=False):
        one, two = (_arrays(path, name) for path in (store, other))
        row_of = [
            {run_id: row for row, run_id in enumerate(table["run_id"].tolist())}
            for table in (one, two)
        ]
        if runs is None:
            assert set(row_of[0]) == set(row_of[1])
            assert set(one) == set(two)
            runs = row_of[0]
        rows = [np.array([row[run_id] for run_id in runs]) for row in row_of]
        for key in set(one) & set(two) - {"run", "in_study"} - set(() if timings else TIMES):
            a, b = one[key], two[key]
            if key not in ("time", "row", "component"):
                a, b = a[rows[0]], b[rows[1]]
            same = a.tolist() == b.tolist() if a.dtype.kind in "UT" else bits(a) == bits(b)
            assert same, f"{key} differs"

    def bits(array):
        return array.dtype, array.shape, array.tobytes()

    return check


@pytest.fixture(scope="session")
def fingerprint():
    """A hash of everything below a path: names and bytes."""

    def of(path):
        path, digest = Path(path), hashlib.sha256()
        for file in sorted([path, *path.rglob("*")]):
            digest.update(str(file.relative_to(path)).encode())
            if file.is_file():
                digest.update(file.read_bytes())
        return digest.hexdigest()

    return of


def _arrays(store, name):
    if name.startswith("_geosweep/"):  # which `sweep` does not open
        import zarr

        group = zarr.open_group(store, path=name, mode="r", use_consolidated=False)
        return {key: array[...] for key, array in group.arrays()}
    variables = sweep.open_study(store)[name].to_dataset().load().variables
    texts = {key for key, array in variables.items() if array.dtype.kind == "O"}
    return {
        key: array.values.astype(np.dtypes.StringDType()) if key in texts else array.values
        for key, array in variables.items()
    }

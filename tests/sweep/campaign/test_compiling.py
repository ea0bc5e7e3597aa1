"""Ending while kernels compile: in order, with exit code 4, and the same command goes on."""

import os
import signal
import subprocess

import numba
import numpy as np
import pytest
from dask_processes import SMALL
from numba.core.codegen import CPUCodeLibrary

from integrators.compiler import kernels
from integrators.compiler.kernels import Kernel, checking
from integrators.compiler.vectors import dot
from sweep.campaign import pilot
from sweep.campaign.worker import compute
from sweep.errors import Interrupted
from sweep.plugins.loader import Plugin
from sweep.store.lease import sessions

STOPPED = "Stopped (SIGTERM) with 0 of 4 runs committed. To go on: sweep run small.toml"
INTERRUPTED = "Interrupted; the same command goes on from what is recorded."


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A function that counts the kernels in the cache of the processes to come, which is empty."""
    monkeypatch.setenv("GEOSWEEP_CACHE_DIR", str(tmp_path / "cache"))
    return lambda: len(list((tmp_path / "cache").rglob("*.nbi")))


def ended_while_compiling(run, number, cache, until):
    """Send a signal when the first kernel is compiled; what is printed."""
    until(lambda: cache() or run.poll() is not None)
    run.send_signal(number)
    compiled = cache()
    printed, errors = run.finish()
    assert run.returncode == 4, printed + errors
    assert "Traceback" not in printed + errors
    assert cache() <= compiled + 2  # the one that was being compiled, and one that was not seen
    return printed, errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_signal_while_kernels_compile(command, number, start, until, cache, tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    process = start("sweep", command, "small.toml", cwd=tmp_path)
    printed, errors = ended_while_compiling(process, number, cache, until)
    orderly = command == "run" and number == signal.SIGTERM
    assert STOPPED in printed if orderly else INTERRUPTED in errors
    assert not (tmp_path / "small.zarr").exists()


def test_the_same_command_goes_on(start, until, cache, tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    command = ("sweep", "run", "small.toml", "--no-summary", "--workers", 1)
    ended_while_compiling(start(*command, cwd=tmp_path), signal.SIGTERM, cache, until)
    before, again = cache(), start(*command, cwd=tmp_path)
    printed, errors = finished(again, cache)
    assert again.returncode == 0, errors
    assert "Complete: 4 runs" in printed
    assert cache() > before  # it had not compiled all


def finished(run, cache):
    """What a process prints, which is waited for as long as it compiles further kernels."""
    while True:
        compiled = cache()
        try:
            return run.finish()
        except subprocess.TimeoutExpired:
            assert cache() > compiled


def kernel(name):
    """A kernel that no other test compiles."""
    text = f"def {name}(t, q, p):\n    return t + {os.getpid()} * p[0] + dot(q[0], q[0])\n"
    names = {"dot": dot}
    exec(text, names)  # of no module: it is not cached
    return Kernel(names[name], kernels.state_value)


@pytest.fixture
def signalled(monkeypatch):
    """Ctrl-C arrives as LLVM hands over machine code."""
    known = CPUCodeLibrary._object_compiled_hook.__func__

    def hook(cls, *arguments):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(100):  # where a handler would raise
            pass
        return known(cls, *arguments)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background none
    engine = numba.core.registry.cpu_target.target_context.codegen()._engine
    with monkeypatch.context() as patch:
        patch.setattr(engine._ee, "_object_cache_notify", hook.__get__(CPUCodeLibrary))
        yield
    signal.signal(signal.SIGINT, before)


def test_what_a_handler_raises_waits_for_the_kernel(signalled):
    made = kernel("interrupted")
    with pytest.raises(KeyboardInterrupt):
        made.scalar  # noqa: B018 (compiles it)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_kernel_that_was_interrupted_is_compiled_another_time():
    made, asked = kernel("checked"), []

    def check():
        asked.append(None)
        raise Interrupted("enough")

    with checking(check), pytest.raises(Interrupted):
        made.scalar  # noqa: B018 (compiles it)
    assert asked
    q, p = np.ones((1, 3)), np.zeros(1)
    assert made.scalar(1.0, q, p) == 4.0


def test_an_interruption_is_no_fault_of_a_plugin():
    with (
        pytest.raises(Interrupted, match="enough"),
        Plugin("own.py", "").blame_plugin_for_errors("fails"),
    ):
        raise Interrupted("enough")


class Compiling:
    """In place of a rehearsal, of two kernels."""

    def __init__(self, session):
        self.kernels, self.session = [kernel("first"), kernel("second")], session
        self.compiled = []

    def compile(self):
        for made in self.kernels:
            self.compiled.append(made.scalar)
            self.session.stop()


def test_a_worker_stops_compiling_when_its_session_does():
    assert pilot.Rehearsal.compile  # what this stands for
    session = sessions.Session("of this test", "", sessions.code_hash())
    rehearsal = Compiling(session)
    compute.compile_rehearsed_kernels(rehearsal, session)
    assert rehearsal.compiled == [rehearsal.kernels[0].scalar]
    assert not sessions.is_process_computing_tasks()

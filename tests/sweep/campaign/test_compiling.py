"""Ending while kernels compile: in order, with exit code 4, and the same command goes on."""

import os
import signal
import subprocess

import numpy as np
import pytest
from dask_processes import SMALL
from numba.core.event import Listener, install_listener

from integrators.compiler.kernels import Kernel, checking, state_value
from integrators.compiler.vectors import dot
from sweep.errors import Interrupted

STOPPED = "Stopped (SIGTERM) with 0 of 4 runs committed. To go on: sweep run small.toml"
INTERRUPTED = "Interrupted; the same command resumes from what is recorded."


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A function that counts the kernels in the cache of the processes to come, which is empty."""
    monkeypatch.setenv("GEOSWEEP_CACHE_DIR", str(tmp_path / "cache"))
    return lambda: len(list((tmp_path / "cache").rglob("*.nbi")))


@pytest.fixture
def ended(start, until, cache, tmp_path):
    """Start a command and send a signal when its first kernel is compiled; what it prints."""

    def end(number, *arguments):
        (tmp_path / "small.toml").write_text(SMALL)
        run = start("sweep", *arguments, cwd=tmp_path)
        until(lambda: cache() or run.poll() is not None)
        run.send_signal(number)
        compiled = cache()
        printed, errors = run.finish()
        assert run.returncode == 4, printed + errors
        assert "Traceback" not in printed + errors
        assert cache() <= compiled + 2  # the one that was being compiled, and one not seen
        assert not (tmp_path / "small.zarr").exists()
        return printed, errors

    return end


@pytest.mark.slow
def test_a_signal_while_a_plan_compiles_kernels(ended):
    _, errors = ended(signal.SIGTERM, "plan", "small.toml")
    assert INTERRUPTED in errors


@pytest.mark.slow
def test_the_same_command_goes_on(start, ended, cache, tmp_path):
    command = ("run", "small.toml", "--no-summary", "--workers", 1)
    printed, _ = ended(signal.SIGTERM, *command)
    assert STOPPED in printed
    before, again = cache(), start("sweep", *command, cwd=tmp_path)
    printed, errors = finished(again, cache)
    assert again.returncode == 0, errors
    assert "Complete: 4 runs" in printed
    assert cache() > before  # it had not compiled all
    assert cache() == len(list((tmp_path / "cache").rglob("*.nbc")))  # each is compiled once


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
    return Kernel(names[name], state_value)


class CtrlC(Listener):
    """Ctrl-C arrives when a function begins to compile; `passed` says that nothing was raised."""

    passed = False

    def on_start(self, event):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(100):  # where a handler would raise
            pass
        self.passed = True

    def on_end(self, event):
        pass


def test_what_a_handler_raises_waits_for_the_kernel():
    made, arriving = kernel("interrupted"), CtrlC()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background none
    with install_listener("numba:compile", arriving), pytest.raises(KeyboardInterrupt):
        made.scalar  # noqa: B018 (compiles it)
    assert arriving.passed
    assert signal.signal(signal.SIGINT, before) is signal.default_int_handler


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

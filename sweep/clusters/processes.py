"""Processes that are forked from one without threads, which has imported what they need.

This is Python's fork server. The command line keeps a fork of itself for it, from before its first
thread: most is imported there, so that workers begin half a second sooner. Elsewhere it is started
anew.
"""

import contextlib
import importlib
import os
import signal
import socket
import sys
import threading
import types
from collections.abc import Collection, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import (
    connection,
    context,
    forkserver,
    parent_process,
    resource_tracker,
    util,
)
from typing import Any, NoReturn

from integrators.compiler.cache_directory import cache_root
from sweep.clusters.stop_request import ENDING

FORKED = "sweep.clusters.forked"
START_METHOD = "geosweep-forkserver"
# BLAS reads them when it is loaded. A worker has one core.
ENVIRONMENT = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
MOST_FILES = 4096  # that this process has open by the time that it keeps a fork

_server: Any = forkserver._forkserver
_waiting = False  # whether the server is a kept fork that imports nothing yet


class _Process(context.ForkServerProcess):
    """A process that does not import the main script of its parent, unlike Python's own.

    A script without ``if __name__ == "__main__":`` would run again in every worker. Workers do not
    need it, since Dask sends functions of a script by value.
    """

    _starting = threading.Lock()

    def start(self) -> None:
        """Start while an empty module without a name or file stands in for the main script."""
        with self._starting:
            script = sys.modules["__main__"]
            sys.modules["__main__"] = types.ModuleType("__main__")
            try:
                super().start()
            finally:
                sys.modules["__main__"] = script


class _Context(context.ForkServerContext):
    Process = _Process


# `multiprocessing` has no public function to add a start method; joblib adds its own like this.
vars(context)["_concrete_contexts"][START_METHOD] = _Context()


def keep_fork() -> None:
    """Keep a fork of this process for `ensure_server`; only if this has but one thread.

    It waits for that, without importing more, and ends with this process.
    """
    global _waiting
    known = sys.platform == "linux" and sys.version_info < (3, 14)  # since then it has a key
    if not known or _server._forkserver_pid is not None:
        return
    if len(os.listdir("/proc/self/task")) > 1:  # of libraries too
        return
    cache_root()  # as in `ensure_server`
    address = connection.arbitrary_address("AF_UNIX")  # type: ignore[attr-defined]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        os.chmod(address, 0o600)
        listener.listen()
        alive, held = os.pipe()
        util._flush_std_streams()  # type: ignore[attr-defined]
        with signals_blocked(ENDING):
            pid = os.fork()
            if not pid:
                _serve(listener.detach(), alive)
    os.close(alive)
    _server._forkserver_address, _server._forkserver_alive_fd = address, held
    _server._forkserver_pid, _waiting = pid, True


def _serve(listener: int, alive: int) -> NoReturn:
    """Become a fork server once `ensure_server` says so; end with the process that it is for."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        low, high = sorted((listener, alive))
        os.closerange(3, low)
        os.closerange(low + 1, high)
        os.closerange(high + 1, MOST_FILES)
        if os.read(alive, 1):
            importlib.import_module(FORKED)
            forkserver.main(listener, alive, [])
    finally:
        os._exit(0)


def ensure_server() -> bool:
    """Let the fork server run, and import what workers need; return whether there is one."""
    global _waiting
    cache_root()  # so that all share the kernel cache, even a temporary one
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if _waiting:
        _waiting = False
        with contextlib.suppress(BrokenPipeError):  # it was killed: another one is started
            os.write(_server._forkserver_alive_fd, b"\n")
    if sys.platform == "linux":  # elsewhere system libraries are not safe to fork
        forkserver.set_forkserver_preload([FORKED])
    resource_tracker.ensure_running()  # first, since its start would unblock the signals
    with signals_blocked(ENDING), contextlib.suppress(OSError):  # as without a socket
        forkserver.ensure_running()
    return _server._forkserver_pid is not None


def pool_of_server(processes: int) -> ProcessPoolExecutor | None:
    """A pool of processes for other work, forked like the workers of a local cluster.

    None if this process has no fork server that has been needed. They ignore Ctrl-C, which ends
    this process, and end with it.
    """
    if _server._forkserver_pid is None or _waiting:
        return None
    return ProcessPoolExecutor(processes, _Context(), initializer=_end_with_parent)


def _end_with_parent() -> None:
    """End this process as soon as its parent has ended, even if that was killed."""

    def wait() -> None:
        if (parent := parent_process()) is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@contextlib.contextmanager
def signals_blocked(signals: Collection[signal.Signals]) -> Iterator[None]:
    """Block signals in this thread and in the threads and processes that it starts."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

"""Kills or suspends a process before a chosen one of its file operations below a directory."""

import multiprocessing
import os
import signal
import sys

import psutil
from waiting import HANG, until

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}
PRELOADED = ["sweep.campaign.coordinator", "sweep.store.upkeep.repair", "zarr", "numcodecs.blosc"]


def server():
    """Where processes are forked from that have loaded what they need, and have no threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    return context


class Process:
    """A process that calls a function, and is interrupted there.

    Parameters
    ----------
    function : callable
        Of a module; called with `arguments`.
    directory : Path
    at : int
        Which operation is not done any more, or not until it is woken.
    number : signal.Signals
        SIGKILL or SIGSTOP.
    """

    def __init__(self, function, arguments, directory, at, number):
        self._process = server().Process(
            target=_called, args=(function, arguments, str(directory), at, number)
        )
        self._process.start()

    def wait(self):
        """Wait until it is interrupted, or has ended; whether it was interrupted."""
        until(lambda: not self._process.is_alive() or self._is_stopped())
        return self._process.is_alive() or self._process.exitcode < 0

    def _is_stopped(self):
        try:
            return psutil.Process(self._process.pid).status() == "stopped"
        except psutil.NoSuchProcess:  # it ended just now
            return False

    def wake(self):
        """Let it go on, to its end."""
        os.kill(self._process.pid, signal.SIGCONT)
        self._process.join(HANG)
        assert not self._process.is_alive()


def _called(function, arguments, directory, at, number):
    left = at

    def hook(event, args):
        nonlocal left
        if not _is_change(event, args, directory):
            return
        if left == 0:
            os.kill(os.getpid(), number)
        left -= 1

    sys.addaudithook(hook)
    function(*arguments)


def _is_change(event, args, directory):
    """Whether something below a directory is about to change."""
    if event == "open":
        path, _, flags = args
        writes = isinstance(flags, int) and flags & WRITING
        return bool(writes) and _is_below(path, directory)
    return event in CHANGES and _is_below(args[0], directory)


def _is_below(path, directory):
    try:
        name = os.fsdecode(path)
    except TypeError:  # of an open file
        return False
    return name.startswith(directory) or not os.path.isabs(name)

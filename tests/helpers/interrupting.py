"""Kills or suspends a process before a chosen one of its file operations below a directory.

What it does is Python code, in which `sweep` is imported, and in which ``client()`` is a client of
a cluster within the process: coordinator and worker stop at once, as where the power fails.
"""

import contextlib
import errno
import os
import signal
import sys
from pathlib import Path

import psutil
from forking import Forked
from waiting import HANG, until

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}
FULL = 0


class Process(Forked):
    """A process that runs code in a directory, and is interrupted there.

    Parameters
    ----------
    code : str
    directory : Path
        Where it runs.
    at : int
        Which operation is not done any more, or not until it is woken.
    number : signal.Signals or `FULL`
        SIGKILL or SIGSTOP; or from then on nothing can be written: the disk is full.
    below : str
        Where file operations are counted: the directory, or one in it.
    """

    script = True

    def __init__(self, code, directory, at, number, below=""):
        directory = Path(directory).resolve()
        arguments = [sys.executable, __file__, code, at, int(number), directory / below]
        super().__init__(arguments, directory)

    def was_interrupted(self):
        """Wait until it is interrupted, or has ended; whether it was interrupted."""
        until(lambda: self.poll() is not None or self._is_stopped())
        if self.poll() is None:
            return True
        printed = self.communicate()
        assert self.returncode in (0, -signal.SIGKILL), printed
        return self.returncode < 0

    def _is_stopped(self):
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended just now
            return psutil.Process(self.pid).status() == "stopped"

    def wake(self):
        """Let it go on to its end, which may be an error where another took its place."""
        os.kill(self.pid, signal.SIGCONT)
        printed = self.communicate(timeout=HANG)
        assert self.returncode in (0, 1), printed


def main(code, at, number, directory):
    """Be the process."""
    import sweep

    with contextlib.ExitStack() as stack:
        names = {"sweep": sweep, "client": lambda: stack.enter_context(_cluster_within())}
        left = at

        def hook(event, args):
            nonlocal left
            if not _is_change(event, args, directory):
                return
            left -= 1
            if left < 0 and number == FULL and event in ("open", "os.mkdir"):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if left == -1 and number != FULL:
                os.kill(os.getpid(), number)

        sys.addaudithook(hook)
        exec(code, names)


def _cluster_within():
    from distributed import Client

    return Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None)


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
    return os.path.abspath(name).startswith(f"{directory}/")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])

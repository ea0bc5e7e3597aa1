"""Processes of `sweep` and `dask`, forked from one in which what they import is imported.

Each is a process of its own, with its own signals, files and end, as one that is executed; but
importing takes most of the time of a small run, and is done once for all of them. Only a process
without threads may fork like this: a server, that does nothing else. For the same reason each
process has a fork of itself from before its first thread, which becomes its fork server if it
needs one.

Like the process of the tests, all of these step with the kernels that methods share, and compile no
loop with all that it calls into it: that would take seconds a method and system. What is executed
does.
"""

import fcntl
import functools
import gc
import importlib.metadata
import json
import multiprocessing.util
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

MESSAGE = 1 << 17  # bytes of arguments and environment, at most
AWAY = 512  # above the numbers of files that a process is to have
LATE = ("AWS_", "DASK_", "GEOSWEEP_", "PATH", "PYTEST_")  # read after the imports; by Dask, again
PRELOADS = (
    "distributed.cli.dask_scheduler", "distributed.cli.dask_worker", "matplotlib.figure",
    "matplotlib.backends.backend_agg", "numba", "integrators.registry", "systems.registry",
)  # fmt: skip
DOORS = ("run", "plan", "status", "verify", "repair", "extend", "merge")  # with all behind them


class Forked(subprocess.Popen):
    """A process in a session of its own; see the module.

    It is executed if it is no program of this environment, as `sweep` is, or where variables that
    imports may read are not those with which the server has imported.
    """

    _status = None  # where the server writes the exit status of a process that was forked
    script = False  # whether it is a script of the tests, and no program of this environment

    def __init__(self, arguments, cwd):
        super().__init__(
            [str(argument) for argument in arguments],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # Tests that are run in the background ignore Ctrl-C, and so would what they start.
            preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )

    def _execute_child(self, args, *others):
        python = args[0] == sys.executable
        ours = Path(args[0]).parent == Path(sys.executable).parent and not python
        server, imported_with = fork_server() if ours or self.script else (None, None)
        if imported_with != _early_variables():
            super()._execute_child(args, *others)
            return
        cwd, pipes = others[4], others[9:15]  # as `subprocess` has them
        self._status, status = os.pipe()
        files = pipes[0], pipes[3], pipes[5], status
        request = json.dumps([args[python:], os.fspath(cwd), dict(os.environ)])
        socket.send_fds(server, [request.encode()], files)
        self.pid = int(server.recv(MESSAGE))
        os.close(status)
        self._child_created = True
        self._close_pipe_fds(*pipes)

    def _internal_poll(self, *arguments, **options):
        if self._status is None:
            return super()._internal_poll(*arguments, **options)
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def _try_wait(self, wait_flags):
        if self._status is None:
            return super()._try_wait(wait_flags)
        if wait_flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        status = int(os.read(self._status, MESSAGE) or 0)
        os.close(self._status)
        return self.pid, status


@functools.cache
def fork_server():
    """Start the server of this process: its socket, and the variables with which it imports."""
    own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    early = _early_variables()
    with theirs:
        file = theirs.fileno()
        command = [sys.executable, __file__, str(file)]
        subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[file], env=early)
    return own, early


def _early_variables():
    return {name: value for name, value in os.environ.items() if not name.startswith(LATE)}


def main(number):
    """Be the server, until whoever started it is gone; and in its forks a program."""
    asked = socket.socket(fileno=number)
    for name in PRELOADS:
        importlib.import_module(name)
    sweep = importlib.import_module("sweep")
    for name in DOORS:
        getattr(sweep, name)
    (program,) = importlib.metadata.entry_points(group="console_scripts", name="sweep")
    program.load()
    importlib.import_module("integrators.stepping.loop").FEW_ROWS = 0  # see above
    gc.collect()
    gc.freeze()
    request = _serve(asked)
    asked.detach()  # or, when this is over, it would close what has its number by then
    if request is not None:
        _become(*request)


def _serve(asked):
    """Fork for each request; in the fork, return what is asked for and its files."""
    statuses = {}

    def tell_of_ends(*_):
        while statuses:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            os.write(statuses[pid], str(status).encode())
            os.close(statuses.pop(pid))

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, tell_of_ends)
    while True:
        message, files, *_ = socket.recv_fds(asked, MESSAGE, 4)
        if not message:
            return None
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            return *json.loads(message), files[:3]
        for file in files[:3]:
            os.close(file)
        statuses[pid] = files[3]
        asked.send(str(pid).encode())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])


def _become(arguments, folder, variables, files):
    """Run a program in this process, as if it was executed."""
    os.setsid()
    os.chdir(folder)
    os.environ.update(variables)  # beside those that imports have set
    config = importlib.import_module("dask.config")
    config.paths[:] = config._get_paths()
    config.refresh()
    _keep_only(dict(enumerate(files)))
    _keep_a_fork_for_a_fork_server()
    sys.argv, sys.path[0] = arguments, str(Path(arguments[0]).parent)
    runpy.run_path(arguments[0], run_name="__main__")


def _keep_only(files):
    """Close all files but the values, which are to have the numbers that are the keys."""
    away = {number: fcntl.fcntl(file, fcntl.F_DUPFD, AWAY) for number, file in files.items()}
    os.closerange(3, AWAY)
    for number, file in away.items():
        os.dup2(file, number)
        os.close(file)


def _keep_a_fork_for_a_fork_server():
    """Let this process have a fork of itself as its fork server, instead of executing one."""
    own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid:
        theirs.close()
        execute = multiprocessing.util.spawnv_passfds
        multiprocessing.util.spawnv_passfds = functools.partial(_start_python, execute, own, [pid])
        return
    own.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    message, files, *_ = socket.recv_fds(theirs, MESSAGE, AWAY)
    if not message:
        os._exit(0)  # nobody needs it
    theirs.detach()
    code, numbers, environment, blocked = json.loads(message)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    os.environ.clear()
    os.environ.update(environment)
    _keep_only(dict(zip(numbers, files, strict=True)))
    exec(code)
    sys.exit()


def _start_python(execute, fork, waiting, path, arguments, files):
    """Have the fork that waits run the code of a fork server; execute what else there is."""
    if "multiprocessing.forkserver" not in arguments[-1] or not waiting:
        return execute(path, arguments, files)
    blocked = sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))
    message = json.dumps([arguments[-1], list(files), dict(os.environ), blocked]).encode()
    try:
        socket.send_fds(fork, [message], files)
    except OSError:  # it was killed
        return execute(path, arguments, files)
    fork.close()
    return waiting.pop()


if __name__ == "__main__":
    main(int(sys.argv[1]))

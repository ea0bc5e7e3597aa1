"""A start method of `multiprocessing` for workers, which do not import the user's script.

Python's own have each new process import the script of the process that starts it. A script
without ``if __name__ == "__main__":`` would then run again in every worker. No worker needs it:
what Dask sends of a script, it sends by value.
"""

import contextlib
import sys
import types
from collections.abc import Sequence
from multiprocessing import context, forkserver, popen_forkserver, popen_spawn_posix, spawn
from multiprocessing.process import BaseProcess
from typing import Any

FORKED, SPAWNED = "geosweep-forkserver", "geosweep-spawn"
SCRIPT = ("init_main_from_name", "init_main_from_path")  # what a new process is told of it


def start_method(preloads: Sequence[str]) -> str:
    """The name of the start method to use; its fork server runs until this process ends.

    Parameters
    ----------
    preloads : sequence of str
        Modules that the fork server imports, so that forked workers have them at once.

    Returns
    -------
    str
        For `multiprocessing.get_context`, and so for Dask's configuration.
    """
    if sys.platform == "linux":  # elsewhere libraries of the system are not safe to fork
        forkserver.set_forkserver_preload(list(preloads))
        with contextlib.suppress(OSError):  # where no socket can be made for it
            forkserver.ensure_running()
            return FORKED
    return SPAWNED


def _preparation_without_script(name: str) -> dict[str, Any]:
    data = spawn.get_preparation_data(name)
    return {key: value for key, value in data.items() if key not in SCRIPT}


_SPAWN = types.SimpleNamespace(
    **vars(spawn) | {"get_preparation_data": _preparation_without_script}
)


def _launching_without_script(popen: types.ModuleType) -> types.FunctionType:
    """Python's `_launch` of a start method, which finds `_SPAWN` where it looks for `spawn`."""
    launch = popen.Popen._launch
    return types.FunctionType(launch.__code__, vars(popen) | {"spawn": _SPAWN}, launch.__name__)


class _ForkedPopen(popen_forkserver.Popen):
    _launch = _launching_without_script(popen_forkserver)


class _SpawnedPopen(popen_spawn_posix.Popen):
    _launch = _launching_without_script(popen_spawn_posix)


class _ForkedProcess(context.ForkServerProcess):
    @staticmethod
    def _Popen(process: BaseProcess) -> _ForkedPopen:
        return _ForkedPopen(process)


class _SpawnedProcess(context.SpawnProcess):
    @staticmethod
    def _Popen(process: BaseProcess) -> _SpawnedPopen:
        return _SpawnedPopen(process)


class _ForkedContext(context.ForkServerContext):
    Process = _ForkedProcess


class _SpawnedContext(context.SpawnContext):
    Process = _SpawnedProcess


# As joblib does with its own: `multiprocessing` has no public function to add one.
_known: dict[str, context.BaseContext] = vars(context)["_concrete_contexts"]
_known |= {FORKED: _ForkedContext(), SPAWNED: _SpawnedContext()}

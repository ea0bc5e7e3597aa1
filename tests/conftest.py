"""Two stages of tests, and tests that run for all that is registered.

``python -m pytest`` runs the first stage: all that is cheap, and of each kind of slow test one.
``--everything`` adds those that are marked slow; ``-m slow`` runs these alone, and a test that is
named by its id runs in any case.

What collects and runs tests is in `collecting`: the process that shares them out needs none of it.
"""

import compileall
import os
import shutil
import sys
from pathlib import Path

from integrators.compiler.cache_directory import cache_root

sys.dont_write_bytecode = False  # rewriting the assertions takes every process seconds

ROOT = Path(__file__).parents[1]
MEMORY, ROOM = Path("/dev/shm"), 8_000_000_000  # a file system in memory, and what is free there
QUIET = {  # what Dask measures of itself: otherwise clusters that wait take as long as many tests
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s",
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "10s",
}


def pytest_addoption(parser):
    parser.addoption("--everything", action="store_true", help="run the tests marked slow too")


def pytest_configure(config):
    """Compile the sources, and have one kernel cache: every process would for itself.

    Where Python may write no bytecode, and where the home directory cannot be written. Keep
    clusters quiet, and the tests' files in memory where it has room: stores are many small files.
    There they are files as on a disk, but a journal that all processes share is not waited for.
    """
    option = config.option
    if not hasattr(config, "workerinput"):  # which has these variables
        os.environ.update(QUIET)
        if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
        for package in ("integrators", "systems", "sweep"):
            compileall.compile_dir(ROOT / package, quiet=2)
        cache_root()
    if option.dist == "no" or option.collectonly:
        chosen = any("::" in name for name in config.args)
        option.everything = bool(_has_second_stage(config) or chosen)
        for plugin in ("collecting", "service_fixtures"):
            config.pluginmanager.import_plugin(plugin)


def _has_second_stage(config):
    """Whether tests that are marked slow are asked for."""
    return bool(config.option.everything or config.option.markexpr)


def pytest_xdist_auto_num_workers(config):
    """A process for each core; in the second stage two more, since many tests wait for others."""
    return len(os.sched_getaffinity(0)) + 2 * _has_second_stage(config)

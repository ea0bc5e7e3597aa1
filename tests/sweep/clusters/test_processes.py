"""Processes that workers are started in, which import no script of the user's."""

import subprocess
import sys

import pytest

from sweep.clusters.processes import FORKED, SPAWNED, start_method

SCRIPT = """
import multiprocessing, os, sys
from sweep.clusters import processes

print("imported")
context = multiprocessing.get_context(sys.argv[1])
queue = context.Queue()
process = context.Process(target=queue.put, args=(7,))
process.start()
print(queue.get(), process.pid != os.getpid())
process.join()
print(process.exitcode)
"""


@pytest.mark.parametrize("method", [FORKED, SPAWNED])
def test_a_process_does_not_import_the_script_that_starts_it(tmp_path, method):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, tmp_path / "script.py", method]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("imported\n7 True\n0\n", "")


def test_processes_are_spawned_where_they_cannot_be_forked(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert start_method(()) == SPAWNED

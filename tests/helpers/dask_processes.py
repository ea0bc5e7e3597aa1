"""Real `dask scheduler` and `dask worker` processes, for tests; and a study for them."""

import json
import sys
from pathlib import Path

DASK = Path(sys.executable).with_name("dask")

SMALL = """\
format = 1
name = "small"

[[experiment]]
name = "spins"
system = "heisenberg_chain"  # so large that no loop is compiled with all that it calls
integrators = ["rk4"]
step_size = 0.01
initial_condition = { random = 4, seed = 1 }
duration = 1.0
samples = 10
record = ["energy"]
"""

# A preload that lets a process say that it has another version of Dask.
OLDER = """\
from distributed import versions


def version(name, known=versions._version_cached):
    return "2023.5.0" if name == "distributed" else known(name)


versions._version_cached = version
"""


def files(folder, role):
    """Options of Dask for what `make_certificates` made."""
    return (
        "--tls-ca-file", folder / "ca.pem", "--tls-cert", folder / f"{role}.pem",
        "--tls-key", folder / f"{role}-key.pem",
    )  # fmt: skip


def start_scheduler(start, folder, *options):
    """Start a scheduler on loopback; ``scheduler.json`` in its folder is written soon."""
    folder.mkdir(parents=True, exist_ok=True)
    return start(
        "dask", "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
        "--dashboard-address", ":0", "--scheduler-file", folder / "scheduler.json", *options,
        cwd=folder,
    )  # fmt: skip


def await_scheduler(start, until, folder):
    """Start a scheduler and wait for it: its process and its address."""
    process = start_scheduler(start, folder)
    return process, until(lambda: address_in(folder / "scheduler.json"))


def start_worker(start, address, folder, *options):
    """Start a worker of one thread."""
    folder.mkdir(parents=True, exist_ok=True)
    return start(
        "dask", "worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard", *options,
        cwd=folder,
    )  # fmt: skip


def address_in(file):
    """The address in a scheduler's file; None as long as that is not whole."""
    try:
        return json.loads(file.read_text())["address"]
    except (FileNotFoundError, ValueError):
        return None


def refused(command, tmp_path, *arguments):
    """The message of a run that was refused before it left anything behind."""
    (tmp_path / "small.toml").write_text(SMALL)
    before = sorted(tmp_path.iterdir())
    done = command(tmp_path, "run", "small.toml", "--no-summary", *arguments, code=2)
    assert sorted(tmp_path.iterdir()) == before
    (message,) = done.stderr.splitlines()
    return message

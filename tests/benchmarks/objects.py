"""A study into a bucket against the same study into a directory, in one run.

    python tests/benchmarks/objects.py [--rounds 3] [--workers 2] [--seconds 2] [--quick] [--json]

The server is moto on loopback, one Python process that keeps its objects in memory and shares the
cores with the workers: the CPU time that it takes itself is printed, since it is not the service's.
A task is about 64 runs with 7 MB of results, states of 1000 samples, and about so many
seconds of computing. The figure is the throughput, runs a second from the first task to the end
of the last, of the bucket over that of the directory: least times of rounds that alternate.
``--quick`` has one round of shorter tasks. Exit code 3: the figure does not hold.
"""

import os
import sys

import psutil
from reporting import HELPERS, options, report_parts
from streams import Stream, local_client

import sweep

sys.path.insert(0, str(HELPERS))

from s3_server import Server

BOUND = 0.80
ROWS, TASKS = 64, 12  # runs of a task, and tasks
STEP_SECONDS = 1.4e-8  # of a run, with all that is recorded
STUDY = """
format = 1
name = "objects"
[[experiment]]
name = "states"
system = "spherical_pendulum_chain"
integrators = ["variational"]
step_size = {step}
initial_condition = {{ around = "lee", random = {runs}, spread = 1e-2, seed = 1 }}
duration = 100.0
samples = 1000
record = ["energy", "state"]
statistics = "none"
"""


def throughput(folder, given):
    """Rows about the throughput."""
    study, steps = folder / "objects.toml", given.seconds / ROWS / STEP_SECONDS / 1000
    study.write_text(STUDY.format(step=0.1 / max(1, round(steps)), runs=ROWS * TASKS))
    server = Server()
    os.environ.update(server.environment)  # of workers, too
    server.client().create_bucket(Bucket="studies")
    found, busy = {"directory": [], "bucket": []}, []
    with local_client(given.workers) as client:
        for number in range(-1, given.rounds):  # the first is for kernels and imports
            for where, place in (("directory", folder), ("bucket", "s3://studies")):
                before = sum(psutil.Process(server.process.pid).cpu_times()[:2])
                with Stream(client) as stream:
                    assert sweep.run(study, f"{place}/{number}.zarr", client).complete
                after = sum(psutil.Process(server.process.pid).cpu_times()[:2])
                if number >= 0:
                    found[where].append(stream.seconds)
                    busy += [after - before] if where == "bucket" else []
    server.stop()
    least = {where: min(times) for where, times in found.items()}
    ratio = least["directory"] / least["bucket"]
    tasks = f"{len(stream.tasks)}, {stream.work / len(stream.tasks):.2f} s"
    return [
        ("tasks, and how long one is", "", tasks, None),
        ("into a directory", "", f"{least['directory']:.2f} s", None),
        ("into a bucket", "", f"{least['bucket']:.2f} s", None),
        ("server's CPU time meanwhile", "", f"{min(busy):.2f} s", None),
        ("throughput, bucket / directory", f">= {BOUND:g}", f"{ratio:.2f}", ratio >= BOUND),
    ]


def main():
    """Measure and print; the exit code."""
    parser = options(__doc__, "one round, tasks of half a second")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0, help="of a task")
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.seconds = 1, 0.5
    return report_parts({"throughput": throughput}, given)


if __name__ == "__main__":
    sys.exit(main())

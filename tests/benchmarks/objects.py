"""A study into a bucket against the same study into a directory, in one run.

    python tests/benchmarks/objects.py [--rounds 3] [--workers 2] [--seconds 2] [--json]

The server is moto on loopback, one Python process that keeps its objects in memory and shares the
cores with the workers: the CPU time that it takes itself is printed, since it is not the service's.
A task is 64 runs with 7 MB of results, states of 1000 samples, and about so many
seconds of computing. The figure is the throughput, runs a second from the first task to the end
of the last, of the bucket over that of the directory: least times of rounds that alternate. The
raw writing speed is of records of that store, from one process, without computing.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from s3_server import Server

BOUND = 0.80
ROWS, CHUNKS = 64, 12  # runs of a task, and tasks
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


def study_of(seconds):
    """The study whose tasks take about so many seconds."""
    from sweep.store import studies

    steps = max(1, round(seconds / ROWS / STEP_SECONDS / 1000))  # in a sample interval
    return studies.parse_study(STUDY.format(step=0.1 / steps, runs=ROWS * CHUNKS))


def timed_run(study, store, client):
    """Seconds from the first task to the end of the last, and what a task writes in MB."""
    import sweep
    from sweep.campaign.watch import Watcher
    from sweep.store.store import Store

    class Clock(Watcher):
        def planned(self, plans, tasks, workers):
            self.start = time.perf_counter()

        def ended(self, text, share):
            self.seconds = time.perf_counter() - self.start

    clock = Clock()
    assert sweep.run(study, store, client, watcher=clock).complete
    group = Store.at(store).group("states")
    return clock.seconds, group["state"].chunks[0]


def raw_speed(store, rounds=5):
    """MB a second of putting a record of a task, and its MB, without computing."""
    from sweep.store.commit.fold import written_by_tasks
    from sweep.store.commit.records import RECORD, RecordName, write_record
    from sweep.store.store import Store

    store = Store.at(store)
    arrays = written_by_tasks(store.arrays_of_group("states"))
    rows = np.arange(ROWS)
    columns = {name: array.read_rows(rows) for name, array in arrays.items()}
    size, last = sum(values.nbytes for values in columns.values()), columns["energy"].shape[1]
    seconds = []
    for number in range(rounds + 1):
        name = RecordName(0, ROWS, ROWS, 0, last, 0, 0, 0, "raw", str(number), RECORD)
        began = time.perf_counter()
        write_record(store.internal("raw"), name, arrays, rows, columns)
        seconds.append(time.perf_counter() - began)
    return size / min(seconds[1:]) / 1e6, size / 1e6


def measured(rounds, workers, seconds):
    """The figures, as a dict."""
    from distributed import Client

    from sweep.clusters.local import start_local_cluster

    server = Server()
    os.environ.update(server.environment)
    server.client().create_bucket(Bucket="studies")
    study, found, busy = study_of(seconds), {"directory": [], "bucket": []}, []
    with (
        tempfile.TemporaryDirectory() as folder,
        start_local_cluster(workers) as cluster,
        Client(cluster) as client,
    ):
        for number in range(-1, rounds):  # the first is for kernels and imports
            for where, place in (("directory", folder), ("bucket", "s3://studies")):
                before = sum(psutil.Process(server.process.pid).cpu_times()[:2])
                took, rows = timed_run(study, f"{place}/{number}.zarr", client)
                if number >= 0:
                    found[where].append(took)
                    after = sum(psutil.Process(server.process.pid).cpu_times()[:2])
                    busy += [after - before] if where == "bucket" else []
        raw, size = raw_speed(f"{folder}/0.zarr")
        raw_bucket, _ = raw_speed("s3://studies/0.zarr")
    server.stop()
    least = {where: min(times) for where, times in found.items()}
    return {
        "rows of a chunk": rows,
        "MB of a record": size,
        "directory [s]": least["directory"],
        "bucket [s]": least["bucket"],
        "all [s]": found,
        "server's CPU time [s]": min(busy),
        "raw, directory [MB/s]": raw,
        "raw, bucket [MB/s]": raw_bucket,
        "throughput, bucket / directory": least["directory"] / least["bucket"],
    }


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measured(given.rounds, given.workers, given.seconds)
    ratio = found["throughput, bucket / directory"]
    if given.json:
        json.dump(found | {"bound": BOUND, "holds": ratio >= BOUND}, sys.stdout, indent=2)
        return
    for what, value in found.items():
        said = f"{value:.3g}" if isinstance(value, (int, float, np.number)) else value
        print(f"{what:<32} {said}")
    print(f"bound {BOUND}: {'holds' if ratio >= BOUND else 'FAILS'}")


if __name__ == "__main__":
    main()

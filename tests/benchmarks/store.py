"""What the store costs: commits and folds, files, requests, and a million runs; beside bounds.

    python tests/benchmarks/store.py [--part commit|requests|large] [--runs 1000000]

``commit``: CPU time of putting and folding a task of 512 runs × 101 samples, over that of writing
the same through zarr, a file for each variable, at the same compression. ``requests``: to a server
(moto) for 12 runs and what is asked of them. ``large``: a store of so many runs × 5
samples, made of records that are put without computing; half of them are not folded at first.
"""

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

ROUNDS = 7
STUDY = """
format = 1
name = "bench"
[[experiment]]
name = "only"
system = "spherical_pendulum_chain"
integrators = ["rk4"]
step_size = {steps}
initial_condition = {{ around = "lee", random = {starts}, spread = 1e-2, seed = 1 }}
duration = {duration}
samples = {samples}
record = ["energy", "unit_length", "tangency"]
"""


def created(place, runs, samples):
    """A store of a study that has nothing of it yet, and a session whose records count."""
    from sweep.store import create, diff, studies
    from sweep.store.commit import fold
    from sweep.store.store import Store

    starts = min(runs, 100_000)
    steps = [0.1 / 2**k for k in range(max(1, runs // starts))]
    text = STUDY.format(steps=steps, starts=starts, duration=0.1 * samples, samples=samples)
    store, study = Store.at(place), studies.parse_study(text)
    create.create_or_grow_store(store, study, diff.diff_store_against_study(store, study))
    fold.begin_session(store.anew(), "bench")
    return store.anew()


def columns_of(arrays, count, samples):
    """Results that no run has had, of as many rows."""
    chance, found = np.random.default_rng(1), {}
    for name, array in arrays.items():
        sizes = zip(array.dims, array.shape, strict=True)
        shape = [samples if dim == "time" else n for dim, n in sizes]
        drawn = chance.normal(size=(count, *shape[1:]))
        found[name] = (drawn if array.dtype.kind == "f" else 0 * drawn).astype(array.dtype)
    found["sample_count"][:] = samples
    return found


def put(store, arrays, rows, columns, samples):
    """Put a record as a task does."""
    from sweep.store.commit import records

    name = records.RecordName(
        int(rows[0]),
        int(rows[-1]) + 1,
        len(rows),
        0,
        samples,
        0,
        0,
        1,
        "bench",
        "t",
        records.RECORD,
    )
    shard_row = int(rows[0]) // arrays["sample_count"].chunks[0]
    folder = records.records_folder(store.place, "only", shard_row)
    records.write_record(folder, name, arrays, rows, columns)


# --- a commit ----------------------------------------------------------------------------------


def commit(folder, given):
    """Rows about putting and folding a task."""
    import zarr

    from sweep.store import storage
    from sweep.store.commit import fold

    rows, samples, put_seconds, fold_seconds, zarr_seconds = 512, 101, [], [], []
    for number in range(ROUNDS):
        store = created(folder / f"{number}.zarr", rows, samples - 1)
        arrays = fold.written_by_tasks(store.arrays_of_group("only"))
        columns = columns_of(arrays, rows, samples)
        began = time.process_time()
        put(store, arrays, np.arange(rows), columns, samples)
        put_seconds.append(time.process_time() - began)
        files = sum(file.is_file() for file in store.internal("records").rglob("*"))
        began = time.process_time()
        fold.fold_all(store, "bench")
        fold_seconds.append(time.process_time() - began)
        group = zarr.open_group(folder / f"{number}-files.zarr", mode="w", zarr_format=3)
        for name, values in columns.items():
            group.create_array(
                name, shape=values.shape, chunks=values.shape, dtype=values.dtype,
                **storage.CODECS,
            )  # fmt: skip
        began = time.process_time()
        for name, values in columns.items():
            group[name][:] = values
        zarr_seconds.append(time.process_time() - began)
    series = sum("time" in array.dims for array in arrays.values())
    ratio = (min(put_seconds) + min(fold_seconds)) / min(zarr_seconds)
    return [
        (
            f"objects put for a task ({series} series, {len(arrays)} variables)",
            1,
            files,
            files <= 1,
        ),
        ("CPU of a commit and its fold, over a file for each variable", 0.5, ratio, ratio <= 0.5),
        ("CPU of the commit alone [ms]", "", 1e3 * min(put_seconds), None),
        ("CPU of the fold alone [ms]", "", 1e3 * min(fold_seconds), None),
    ]


# --- requests ------------------------------------------------------------------------------------


@contextlib.contextmanager
def counted_requests():
    """Counts the requests of this process; a list with a name for each."""
    from sweep.store.backends import s3
    from sweep.store.backends.places import ObjectPlace

    seen, replaced = [], {}

    def counted(name, function):
        def called(*arguments, **options):
            seen.append(name)
            return function(*arguments, **options)

        return called

    for name in (
        "stat", "read_tagged", "read_range", "write_bytes", "put_if", "delete", "copy", "walk",
        "iterdir",
    ):  # fmt: skip
        replaced[ObjectPlace, name] = getattr(ObjectPlace, name)
    objects = s3._zarr_bucket_store_class()
    for name in ("get", "set", "delete", "exists", "list_dir"):
        replaced[objects, name] = getattr(objects, name)
    for (owner, name), function in replaced.items():
        setattr(owner, name, counted(name, function))
    try:
        yield seen
    finally:
        for (owner, name), function in replaced.items():
            setattr(owner, name, function)


def requests(folder, given):
    """Rows about what is asked of a server."""
    from distributed import Client
    from s3_server import Server

    import sweep
    from sweep.store import studies

    server = Server()
    os.environ.update(server.environment)
    server.client().create_bucket(Bucket="studies")
    text = STUDY.format(steps=[0.1, 0.05], starts=6, duration=1.0, samples=10)
    store, found = "s3://studies/a.zarr", []
    with Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None
    ) as client:
        for what, most, call in (
            ("12 runs", 120, lambda: sweep.run(studies.parse_study(text), store, client)),
            ("status", 6, lambda: sweep.status(store)),
            ("verify", 80, lambda: sweep.verify(store)),
        ):
            with counted_requests() as seen:
                call()
            found.append((f"requests: {what}", most, len(seen), len(seen) <= most))
    server.stop()
    return found


# --- a million runs ------------------------------------------------------------------------------


def large(folder, given):
    """Rows about a store of very many runs."""
    from sweep.store.commit import fold

    samples, place = 5, folder / "large.zarr"
    store = created(place, given.runs, samples - 1)
    arrays = fold.written_by_tasks(store.arrays_of_group("only"))
    columns = columns_of(arrays, 4096, samples)
    for start in range(0, given.runs, 4096):
        rows = np.arange(start, min(start + 4096, given.runs))
        put(store, arrays, rows, {name: v[: len(rows)] for name, v in columns.items()}, samples)
        if start < given.runs // 2 <= start + 4096:
            fold.fold_all(store, "bench")
    found = [_asked("status, half not folded", 0.5, None, ("status", place, "--json"))]
    began = time.process_time()
    fold.fold_all(store, "bench")
    fold.end_session(store, checkpoints=True)
    found.append(("CPU of folding the other half [s]", "", time.process_time() - began, None))
    files = sum(file.is_file() for file in place.rglob("*"))
    study = folder / "study.toml"
    study.write_text(store.attributes["studies"][0])
    tasks, least = _count_tasks_of_long_runs(store, given.runs), given.runs // 20
    opened = f"import sweep; t = sweep.open_study({str(place)!r})['only'].to_dataset()"
    return [
        *found,
        ("files", 2000 * max(1, given.runs / 1e6), files, files <= 2000 * max(1, given.runs / 1e6)),
        ("tasks, had each run taken 60 s, of 10,000 workers", least, tasks, tasks >= least),
        _asked("run, nothing to do", 5.0, None, ("run", study, place, "--no-summary"), cpu=True),
        _asked("query --limit 3", 1.5, 300, ("query", place, "step_size < 1", "--limit", "3")),
        _asked("open_study", 1.5, 400, opened),
    ]


def _count_tasks_of_long_runs(store, runs):
    """Tasks of a study of runs of 60 s each, for 10,000 workers."""
    from sweep.campaign.plan import Batches, ExperimentPlan, count_tasks
    from sweep.campaign.probe import Cost
    from sweep.store import diff, studies
    from sweep.store.store import Store

    (entry,) = diff.diff_store_against_study(Store.at("nowhere"), studies.stored_study(store))
    batches = Batches.of(entry)
    cost = Cost(call=0.0, unit=0.0, steps=1.0, run=60.0, sample=0.0, beside=0.0)
    plan = ExperimentPlan(batches, dict.fromkeys(batches.kind, cost), None, np.zeros(0))
    return count_tasks([plan], 10_000)


def _asked(what, seconds, megabytes, command, cpu=False):
    """A row of what a process takes."""
    python = [sys.executable, "-c", command]
    program = [Path(sys.executable).parent / "sweep", *map(str, command)]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        ["/usr/bin/env", "time", "-f", "%M", *(python if isinstance(command, str) else program)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if cpu:
        took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    memory = int(done.stderr.split()[-1]) / 1000
    holds = done.returncode == 0 and took <= seconds and (megabytes is None or memory <= megabytes)
    bound = f"{seconds} s" + (f", {megabytes} MB" if megabytes else "")
    return f"{what}{' (CPU)' if cpu else ''}", bound, f"{took:.2f} s, {memory:.0f} MB", holds


PARTS = {"commit": commit, "requests": requests, "large": large}


def main():
    """Measure and print; the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=PARTS, action="append", help="repeatable; all")
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for name in given.part or PARTS for row in PARTS[name](Path(folder), given)]
    if given.json:
        json.dump(rows, sys.stdout, indent=2, default=str)
    for what, bound, measured, holds in () if given.json else rows:
        shown = f"{measured:.3g}" if isinstance(measured, float) else measured
        word = {None: "", True: "holds", False: "FAILS"}[holds]
        print(f"{what:<66} {shown!s:>18}  {bound!s:>14}  {word}")
    return int(any(holds is False for _, _, _, holds in rows))


if __name__ == "__main__":
    sys.exit(main())

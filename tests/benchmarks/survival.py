"""What a campaign loses under SIGKILL, on a full disk, and by a flipped bit.

    python tests/benchmarks/survival.py [--part kills|setup|long|disk|bits] [--quick] [--json]

``kills``: 40,000 runs under a SIGKILL of a worker that is up every 10 s, three of everything and
one of the scheduler, then the same number of shorter runs under one of a worker every second; each
store is compared bit by bit with an undisturbed one. ``setup``: a SIGKILL of a worker every 100 ms
from the first second of `sweep run`, up to 60 times, in 20 starts, by turns on a cluster of its own
and, 12 times, on a running one. ``long``: a SIGKILL of everything in a run of
1e8 steps. ``disk``: a small tmpfs (root may mount one; skipped otherwise) fills up in the middle.
``bits``: a bit flips in a shard of samples, of their counts, of another scalar. Real processes of
`dask scheduler`, `dask worker` and `sweep`. All of it takes a quarter of an hour on two cores,
``--quick`` some minutes. Exit code 3: a figure does not hold.
"""

import contextlib
import math
import os
import random
import shutil
import subprocess
import sys
import time

from disasters import Cluster, Done, Group, compare, disturbed, steps_begun
from reporting import PROGRAMS, call_sweep, options, report_parts, write_study

WORKERS = max(2, os.cpu_count() or 1)
LONG = {"duration": 85.0, "samples": 50}  # some milliseconds
SHORT = {"duration": 8.5, "samples": 5}
RECORD = '"energy", "momentum", "unit_length", "tangency"'
MOST_REPEATED = 0.15


def written(folder, name, runs, record=RECORD, **keys):
    """A study file; its path, and that of its store."""
    study = write_study(folder, name, runs, more=f"record = [{record}]", **keys)
    return study, folder / f"{name}.zarr"


@contextlib.contextmanager
def cluster_in(folder):
    """A started `Cluster` whose logs are in a new folder; killed at the end."""
    folder.mkdir()
    cluster = Cluster(folder, WORKERS)
    try:
        yield cluster.start()
    finally:
        cluster.kill()


# --- kills -----------------------------------------------------------------------------------

DISASTERS = ((0.15, "all"), (0.35, "all"), (0.55, "scheduler"), (0.75, "all"))


def kills(folder, given):
    """Rows about a study under kills of workers, of everything, of the scheduler."""
    rows = []
    for every, disasters, length in ((10.0, DISASTERS, LONG), (1.0, (), SHORT)):
        name = f"every-{every:g}"
        study, store = written(folder, name, given.runs, **length)
        whole = store.with_suffix(".undisturbed.zarr")
        command = ("run", study, store, "--no-summary", "--checkpoint-every", "1")
        with cluster_in(folder / f"{name}-undisturbed") as cluster:
            plain = disturbed(cluster, (*command[:2], whole, *command[3:]), whole)
            usual = steps_begun(cluster.steps)[:, 3].sum()
        with cluster_in(folder / f"{name}-disturbed") as cluster:
            found = disturbed(cluster, command, store, every, disasters)
            begun = steps_begun(cluster.steps)[:, 3].sum()
        lost, wrong = compare(store, whole, "ensemble")
        what = f"{given.runs:,} runs, a worker killed every {every:g} s"
        times = f"{found.seconds:.0f} s, not {plain.seconds:.0f}"
        struck = f"{found.workers_killed} workers, {found.all_killed} whole runs, "
        struck += f"{found.schedulers_killed} schedulers killed"
        ends = not found.unexpected and not plain.unexpected
        rows += [
            (f"{what}: ends by itself", "yes", found.unexpected or f"yes, {times}", ends),
            (f"  ({struck})", "", "", bool(found.workers_killed) or None),
            (f"{what}: runs lost", 0, lost, lost == 0),
            (f"{what}: runs with other bits", 0, wrong, wrong == 0),
        ]
        repeated = begun / usual - 1
        counts = disasters and not given.quick  # of so little work a disaster repeats a larger part
        claim = f"<= {MOST_REPEATED:.0%}" if counts else ""
        holds = bool(repeated <= MOST_REPEATED) if counts else None
        rows.append((f"{what}: steps begun again", claim, f"{repeated:.1%}", holds))
    return rows


# --- setting up ------------------------------------------------------------------------------

FIRST, EVERY = 1.0, 0.1  # seconds: the first kill, and between two
MOST_KILLS = 60  # the last one is by chance: any phase of setting up is hit
MOST_KILLS_UP = 12  # of workers that are up, which takes seconds each time
PATIENCE = 900.0


def setup(folder, given):
    """Rows about runs whose workers are killed while they set up."""
    starts = 4 if given.quick else 20
    study, whole = written(folder, "setup", 400, **SHORT)
    call_sweep("run", study, whole, "--no-summary", cwd=folder)
    codes, killed, lost, wrong = [], 0, 0, 0
    for number in range(starts):
        store, log = folder / f"setup-{number}.zarr", folder / f"setup-{number}"
        command = ("run", study, store, "--no-summary")
        if number % 2:
            with cluster_in(log) as cluster:
                end = _killed_at_first((*command, "--scheduler", cluster.address), log, cluster)
        else:
            log.mkdir()
            end = _killed_at_first((*command, "--workers", WORKERS), log)
        codes.append(end[0])
        killed += end[1]
        if end[0] == 0:
            found = compare(store, whole, "ensemble")
            lost, wrong = lost + found[0], wrong + found[1]
    what, well = f"{starts} starts, a worker killed every {EVERY} s", codes.count(0)
    return [
        (f"{what}: complete", starts, well if well == starts else codes, well == starts),
        (f"  ({killed} workers killed)", "", "", bool(killed) or None),
        (f"{what}: runs lost or with other bits", 0, lost + wrong, lost + wrong == 0),
    ]


def _killed_at_first(command, folder, cluster=None):
    """The exit code of `sweep` under kills of workers, of its own cluster or another; how many."""
    began, killed = time.monotonic(), 0
    run = Group(PROGRAMS / "sweep", *command, log=folder / "sweep.log")
    kill = run.kill_worker if cluster is None else cluster.kill_worker
    most = random.randint(1, MOST_KILLS if cluster is None else MOST_KILLS_UP)
    time.sleep(FIRST)
    while run.poll() is None:
        if killed < most:
            killed += kill()
        if time.monotonic() > began + PATIENCE:
            run.kill_all()
        time.sleep(EVERY)
    return run.returncode, killed


# --- a long run ------------------------------------------------------------------------------


def long(folder, given):
    """Rows about one run of many steps, of which everything is killed halfway."""
    step_size = 1e-3
    keys = {"duration": given.steps * step_size, "samples": 1000, "steps": (step_size,)}
    study, store = written(folder, "long", 1, **keys)
    command = ("run", study, store, "--no-summary", "--checkpoint-every", "1")
    whole = folder / "long.undisturbed.zarr"
    with cluster_in(folder / "long-undisturbed") as cluster:
        disturbed(cluster, (*command[:2], whole, *command[3:]), whole)
    done, stood = Done(store, partly=True), []
    with cluster_in(folder / "long-disturbed") as cluster:

        def note():
            stood.extend((round(done.look() * given.steps), len(steps_begun(cluster.steps))))

        strike = ((0.5, "all"),)
        journal = disturbed(cluster, command, store, None, strike, done=done, after=note)
        begun = steps_begun(cluster.steps)
    lost, wrong = compare(store, whole, "ensemble")
    stood, before = stood or (None, len(begun))
    later = begun[before:, 1]
    went_on = int(next(iter(later[later > 0]), 0))  # kernels may be tried from 0 first
    repeated, longest = begun[:, 3].sum() - given.steps, begun[:, 3].max()
    what = f"{given.steps:.0e} steps, everything killed halfway"
    ends = not journal.unexpected and journal.all_killed == 1
    return [
        (f"{what}: ends when started again", "yes", journal.unexpected or "yes", ends),
        (f"{what}: goes on from step", stood, went_on, went_on == stood),
        (
            f"{what}: segments done again",
            "<= 1",
            f"{repeated / longest:.2f} of {longest / given.steps:.1%} of the steps",
            bool(repeated <= longest),
        ),
        (f"{what}: runs lost or with other bits", 0, lost + wrong, lost + wrong == 0),
    ]


# --- a full disk -----------------------------------------------------------------------------


@contextlib.contextmanager
def small_disk(folder, megabytes):
    """A mounted file system of that size, or None where none can be had."""
    place = folder / "small"
    place.mkdir()
    size = f"size={megabytes}m"
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(place)], capture_output=True
    )
    try:
        yield place if done.returncode == 0 else None
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", "-l", str(place)], check=False)


def disk(folder, given):
    """Rows about a disk that is full in the middle of a run."""
    keys = {"steps": (1e-3, 5e-4), "duration": 8.5, "samples": 50, "record": '"energy", "state"'}
    study, whole = written(folder, "full", max(2000, given.runs // 20), **keys)
    code, said = call_sweep("run", study, whole, "--no-summary", cwd=folder)
    if code:
        return [("the undisturbed run", "ends", said, False)]
    files = [file.stat().st_size for file in whole.rglob("*") if file.is_file()]
    size = sum(4096 * math.ceil(file / 4096) for file in files)  # on a tmpfs
    room = int(2.5 * size / 2**20) + 2  # for records, which are not compressed, and for shards
    with small_disk(folder, room) as place:
        if place is None:
            return [("a full disk: no file system can be mounted here", "", "", None)]
        return _filled(study, whole, place, size)


def _filled(study, whole, place, size):
    store, ballast = place / "full.zarr", place / "ballast"
    free = shutil.disk_usage(place).free
    with open(ballast, "wb") as file:  # part of what the store will need stays free
        file.write(bytes(free - int(0.7 * size)))
    code, said = call_sweep("run", study, store, "--no-summary", cwd=place.parent)
    names = str(place) in said and "disk" in said and "Traceback" not in said
    again, _ = call_sweep("run", study, store, "--no-summary", cwd=place.parent)
    looked, _ = call_sweep("status", store, cwd=place.parent)
    ballast.unlink()
    freed, last = call_sweep("run", study, store, "--no-summary", cwd=place.parent)
    lost, wrong = compare(store, whole, "ensemble")
    shown = next((line for line in said.splitlines() if "disk" in line), said[-300:])
    print(f"a full disk says: {shown}", file=sys.stderr)
    strays = [file.name for file in store.rglob("*.partial")]
    return [
        ("a full disk: exit code of `sweep run`", 4, code, code == 4),
        ("a full disk: the message names it", "yes", "yes" if names else shown, names),
        ("a full disk: exit code of a second attempt on it", 4, again, again == 4),
        ("a full disk: exit code of `sweep status`", 0, looked, looked == 0),
        ("after space is freed: exit code of the same command", 0, freed, freed == 0),
        ("after space is freed: runs lost", 0, lost, lost == 0),
        ("after space is freed: runs with other bits", 0, wrong, wrong == 0),
        ("after space is freed: unfinished files", 0, len(strays), not strays),
    ]


# --- a flipped bit ---------------------------------------------------------------------------

FLIPPED = {"samples": "energy", "counts of samples": "sample_count", "another scalar": "steps"}


def bits(folder, given):
    """Rows about a bit that flips in a chunk of each kind."""
    study, whole = written(folder, "bits", 760, **SHORT)
    call_sweep("run", study, whole, "--no-summary", cwd=folder)
    rows = []
    for kind, array in FLIPPED.items():
        store = folder / f"{array}.zarr"
        shutil.copytree(whole, store)
        files = sorted((store / "ensemble" / array).glob("c.*"))
        flip(random.choice(files))
        found = call_sweep("verify", store, cwd=folder)[0]
        mended = call_sweep("verify", store, "--repair", cwd=folder)[0]
        code, _ = call_sweep("run", study, store, "--no-summary", cwd=folder)
        sound = call_sweep("verify", store, cwd=folder)[0]
        lost, wrong = compare(store, whole, "ensemble")
        what = f"a bit flipped in {kind}"
        rows += [
            (f"{what}: exit code of verify, verify --repair", (3, 3), (found, mended),
             (found, mended) == (3, 3)),
            (f"{what}: exit code of run, verify", (0, 0), (code, sound), (code, sound) == (0, 0)),
            (f"{what}: runs lost or with other bits", 0, lost + wrong, lost + wrong == 0),
        ]  # fmt: skip
    return rows


def flip(file):
    """Flip one bit of a file, anywhere."""
    data = bytearray(file.read_bytes())
    place = random.randrange(8 * len(data))
    data[place // 8] ^= 1 << place % 8
    file.write_bytes(data)


# --- all ---------------------------------------------------------------------------------------

PARTS = {"kills": kills, "setup": setup, "long": long, "disk": disk, "bits": bits}


def main():
    """Measure and print; the exit code."""
    parser = options(__doc__, "4,000 runs", PARTS)
    parser.add_argument("--runs", type=int, default=40_000)
    parser.add_argument("--steps", type=float, default=1e8, help="of the long run")
    given = parser.parse_args()
    given.steps = int(given.steps)
    if given.quick:
        given.runs = 4000
    return report_parts(PARTS, given)


if __name__ == "__main__":
    sys.exit(main())

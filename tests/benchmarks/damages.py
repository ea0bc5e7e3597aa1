"""Damage files of a store at random, mend it, run again, and count what comes of it.

    python tests/benchmarks/damages.py [--count 1000] [--seed 1]

A bit, a range of bytes, a truncated, deleted, replaced or foreign file, or a folder instead of one;
in arrays, metadata, ledgers, records and the lease, of a store that is complete and of one whose
records are not folded. After `verify --repair` and `run` it must be that of an undisturbed run, bit
for bit. A damage without effect, as where a record is gone that is then computed again, need not be
found.
"""

import argparse
import collections
import random
import shutil
import tempfile
from pathlib import Path

import disasters
from distributed import Client

import sweep
from sweep.errors import GeosweepError
from sweep.store.commit import fold

STUDY = """
format = 1
name = "damaged"

[defaults]
integrators = ["rk4", "variational"]
step_size = [0.1, 0.05]
initial_condition = ["lee", { around = "lee", random = 3, spread = 1e-2, seed = 1 }]
duration = 1.0
samples = 10
record = ["energy", "unit_length", "state"]

[[experiment]]
name = "one"
system = "spherical_pendulum_chain"
reference = { integrator = "dop853", tolerance = 1e-8 }

[[experiment]]
name = "two"
system = "spherical_pendulum_chain"
scan = { gravity = [1.0, 9.81] }
"""


def bit(file, chance, _):
    """Flip a bit."""
    data = bytearray(file.read_bytes())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    file.write_bytes(data)


def span(file, chance, _):
    """Overwrite a range of bytes."""
    data = bytearray(file.read_bytes())
    begin = chance.randrange(len(data))
    end = min(len(data), begin + 1 + chance.randrange(64))
    data[begin:end] = chance.randbytes(end - begin)
    file.write_bytes(data)


def truncated(file, chance, _):
    """Cut the end off."""
    file.write_bytes(file.read_bytes()[: chance.randrange(file.stat().st_size)])


def deleted(file, *_):
    """Remove the file."""
    file.unlink()


def folder(file, *_):
    """Put a folder in place of the file."""
    file.unlink()
    file.mkdir()


def replaced(file, chance, others):
    """Put another file of this store, or one of its place in another store, there."""
    known = file.read_bytes()
    file.write_bytes(
        chance.choice([own for own in others if own.read_bytes() != known]).read_bytes()
    )


def foreign(file, chance, _):
    """Put a file beside it that no store has."""
    (file.parent / f"notes-{chance.randrange(100)}.txt").write_bytes(chance.randbytes(20))


KINDS = (bit, span, truncated, deleted, folder, replaced, foreign)


def damaged_stores(folder):
    """A whole store, the same with records that are not folded, and one of another study."""
    found = {}
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as own:
        for name, text in (("whole", STUDY), ("other", STUDY.replace("9.81", "9.0"))):
            (folder / f"{name}.toml").write_text(text)
            found[name] = folder / f"{name}.zarr"
            assert sweep.run(folder / f"{name}.toml", found[name], own).complete
        folded = {name: getattr(fold, name) for name in ("fold_group", "fold_all", "end_session")}

        def of_references(store, group, *rest, **options):
            if group.startswith("_geosweep"):  # runs are measured against what is folded
                folded["fold_group"](store, group, *rest, **options)

        fold.fold_group = of_references
        fold.fold_all = fold.end_session = lambda *_, **__: None
        try:
            found["unfolded"] = folder / "unfolded.zarr"
            sweep.run(folder / "whole.toml", found["unfolded"], own)
        finally:
            for name, function in folded.items():
                setattr(fold, name, function)
    lock = '{"token": "abc", "pid": 4711, "host": "node7", "user": "emmy", "command": "sweep run", '
    lock += '"born": "1", "place": "", "since": "2026-01-01 00:00:00", "beat_seconds": 0.01}\n'
    found["unfolded"].with_name("unfolded.zarr.lock").write_text(f"{lock}{7:012d}\n")
    return found


def sort_of(file):
    """Which of the sorts of files of a store one is; the lease if there is none."""
    if file is None:
        return "lease"
    if file.name == "zarr.json":
        return "metadata"
    names = {"folded": "ledger", "records": "record"}
    inner = file.parts[1] if file.parts[0] == "_geosweep" else ""
    return names.get(inner, "note" if file.suffix == ".json" else "array")


def damage_once(kind, file, chance, stores, name, place, client):
    """Damage a copy of a store, or its lease if there is no file, and mend it: what came of it."""
    copy = shutil.copytree(stores[name], place / "copy.zarr")
    lock = stores[name].with_name(f"{name}.zarr.lock")
    if lock.exists():
        shutil.copy(lock, place / "copy.zarr.lock")
    others = [own for own in sorted(stores[name].rglob("*")) if own.is_file()]
    twin = stores["other"] / (file or "")
    others = [twin] * len(others) + others if twin.is_file() else others
    target = copy / file if file else place / "copy.zarr.lock"
    known = target.read_bytes()
    kind(target, chance, others)
    if kind is not foreign and target.is_file() and target.read_bytes() == known:
        return "no change"
    try:
        found = len(sweep.verify(copy)) > 0
        mended = sweep.repair(copy)
        said = [finding for finding in mended.left if finding.remedy != "foreign"]
    except GeosweepError as error:
        return "said, cannot be mended" if str(copy) in str(error) else f"badly said: {error}"
    if said:
        return "said, cannot be mended"
    if not sweep.run(place.parent / "whole.toml", copy, client).complete:
        return "not complete"
    left = [finding for finding in sweep.verify(copy) if finding.remedy != "foreign"]
    differ = [disasters.compare(copy, stores["whole"], group) for group in ("one", "two")]
    if left or differ != [(0, 0), (0, 0)]:
        return f"WRONG: {differ}, {[finding.text for finding in left]}"
    return "found and mended" if found else "not found, and nothing is wrong"


def main():
    """Damage a store at random, again and again, and count what comes of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    chance, counts = random.Random(given.seed), collections.Counter()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        stores = damaged_stores(folder)
        files = {
            name: [own.relative_to(path) for own in sorted(path.rglob("*")) if own.is_file()]
            for name, path in stores.items()
        }
        here = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
        with Client(processes=False, **here) as client:
            for _ in range(given.count):
                name = chance.choice(["whole", "unfolded"])
                kind, file = chance.choice(KINDS), chance.choice(files[name])
                if name == "unfolded" and chance.random() < 0.05:
                    file = None
                place = folder / "work"
                place.mkdir()
                came = damage_once(kind, file, chance, stores, name, place, client)
                counts[kind.__name__, sort_of(file), came] += 1
                if came.startswith(("WRONG", "not", "badly", "said")):
                    print(f"{kind.__name__:10} {name:9} {file or 'lease'}: {came}", flush=True)
                shutil.rmtree(place)
    for (kind, sort, came), count in sorted(counts.items()):
        print(f"{kind:10} {sort:9} {came:32} {count:5,}")
    outcomes = collections.Counter()
    for (*_, came), count in counts.items():
        outcomes[came] += count
    for came, count in outcomes.most_common():
        print(f"of {given.count:,}: {came:32} {count:5,}")


if __name__ == "__main__":
    main()

"""Stores that a test makes from the text of a study, and damages by plain writes to its files."""

import contextlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import zarr
from study_text import study_of
from waiting import HANG, until

import sweep


def run(text, store, client):
    """Run the study of a text to its end."""
    outcome = sweep.run(study_of(text), store, client)
    assert outcome.complete
    return outcome


def flip_bit(file, place=None):
    """Flip a bit of a file: of a shard, at 5, in the first of its chunks."""
    file = Path(file)
    data = bytearray(file.read_bytes())
    data[len(data) // 2 if place is None else place] ^= 8
    file.write_bytes(data)


def chunks(array):
    """The files of an array of a store."""
    return sorted(array.glob("c.*"))


@contextlib.contextmanager
def held(store):
    """Within ``with``, a thread of this process holds a store: it mends it, and is made to wait."""
    begun, over = threading.Event(), threading.Event()

    def wait(*_):
        begun.set()
        assert over.wait(HANG)

    with ThreadPoolExecutor(1) as thread:
        mending = thread.submit(sweep.repair, store, progress=wait)
        try:
            until(lambda: begun.is_set() or mending.done())
            yield
        finally:
            over.set()
        mending.result()


def lose(store, rows):
    """Let the results of some runs be not computed: counts that none has are mended like that."""
    group = zarr.open_group(store, path="only", mode="r+", use_consolidated=False)
    for row in rows:
        group["sample_count"][row] = 2**30
    assert sweep.repair(store).marked == {"only": len(rows)}


def accept(store):
    """Let a store's ledgers say what is in its files, as if a run had written it."""
    for ledger in (Path(store) / "_geosweep" / "folded").rglob("*.json"):
        ledger.unlink()
    assert not sweep.repair(store).left


class Killed(BaseException):
    """What happens to a process."""


def run_until_results_are_moved(text, store, client):
    """Run a study; it is killed when all is computed, and nothing of it is in an array yet."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("rename", "replace"):
            moved = getattr(os, name)

            def killed(source, target, moved=moved, **options):
                if f"{Path(store).name}/only/" in str(target):
                    raise Killed
                return moved(source, target, **options)

            patch.setattr(os, name, killed)
        with pytest.raises(Killed):
            sweep.run(study_of(text), store, client)

"""What is computed outlasts a failure of the power, whenever that is."""

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest
from distributed import Client
from study_text import one_experiment, study_of
from waiting import HANG
from zarr.core.sync import sync

import sweep
from sweep.store.create import creating_store_atomically

TEXT = one_experiment(
    integrators='"rk4"',
    record='["energy"]',
    statistics='"none"',
    reference='{ integrator = "dop853", tolerance = 1e-6 }',
)


class Disk:
    """Which files, of those that get a name below a directory, a failure of the power may undo.

    A file lasts when it was synced, and after it got its name the directory.
    """

    def __init__(self, store, patch):
        self.store, self.synced, self.named, self.removed = str(store), set(), set(), 0
        for name, noted in (
            ("fsync", self.sync), ("rename", self.rename), ("replace", self.rename),
            ("unlink", self.remove), ("remove", self.remove),
        ):  # fmt: skip
            patch.setattr(os, name, self._noting(getattr(os, name), noted))

    @staticmethod
    def _noting(function, noted):
        def call(*arguments, **options):
            noted(*arguments)
            return function(*arguments, **options)

        return call

    def sync(self, file):
        number = file if isinstance(file, int) else file.fileno()
        path = os.readlink(f"/proc/self/fd/{number}")
        self.synced.add(path)
        self.named -= {named for named in self.named if os.path.dirname(named) == path}

    def rename(self, source, target):
        """Results are in files that are no text of the coordinator's."""
        source, target = str(source), str(target)
        if target.startswith(f"{self.store}/") and not target.endswith((".json", ".partial")):
            assert os.path.isdir(source) or source in self.synced, f"{target} is not synced"
            self.named.add(target)

    def remove(self, path, *_):
        """What others are made of goes when all of them last; a worker just names its own."""
        if "/_geosweep/" in str(path) and not str(path).endswith((".partial", ".json")):
            self.removed += 1
            assert not {name for name in self.named if Path(name).name.startswith("c.")}


def test_what_is_computed_outlasts_a_failure_of_the_power(tmp_path, monkeypatch):
    store = tmp_path / "a.zarr"
    with (
        monkeypatch.context() as patch,
        Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0") as own,
    ):
        disk = Disk(store, patch)
        assert sweep.run(study_of(TEXT), store, own, checkpoint_every=1e-9).complete
    assert disk.removed > 0 and not disk.named
    results = {path for path in store.glob("only/*/c.*") if str(path.parent) in disk.synced}
    assert {"energy", "sample_count", "status", "global_error"} <= {p.parent.name for p in results}


def test_a_store_whose_making_fails_is_gone_with_what_zarr_still_writes_of_it(tmp_path):
    """Of several writes at once others go on where one fails, and make its directories again."""
    written = threading.Event()

    def write_late(file):
        time.sleep(0.1)  # until after the failure
        file.parent.mkdir(parents=True)
        file.write_text("late")
        written.set()

    async def fail():
        raise FileNotFoundError("as where another process has removed it")

    async def at_once(file):
        await asyncio.gather(asyncio.to_thread(write_late, file), fail())

    store = sweep.Store.at(tmp_path / "a.zarr")
    with (
        pytest.raises(FileNotFoundError, match="another process"),
        creating_store_atomically(store, lambda: None) as made,
    ):
        sync(at_once(made.place / "only" / "zarr.json"))
    assert written.wait(HANG)
    assert list(tmp_path.iterdir()) == []

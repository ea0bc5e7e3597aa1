"""Records and folding: whatever is put in parts reads as if it had been written at once."""

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.errors import Damaged, Interrupted
from sweep.store import storage
from sweep.store.backends.places import files_below
from sweep.store.chunk_layout import Layout
from sweep.store.commit import fold, records
from sweep.store.commit.records import (
    CHECKPOINT,
    RECORD,
    Record,
    RecordName,
    Unfolded,
    list_records,
    write_record,
)
from sweep.store.commit.shards import Draft, shard_with_rows
from sweep.store.files import ABSENT, ArrayFiles, encode_chunk
from sweep.study.schema import SAMPLE_COUNT, Variable

ROWS, SAMPLES = 20, 7
LAYOUT = Layout(shard_rows=8, time_chunk=3, time_chunks=2)
SERIES = Variable("energy", ("run", "time"), "1", "energy")
STATE = Variable("state", ("run", "time", "row", "component"), "1", "state")
SIZES = {"run": ROWS, "time": SAMPLES, "row": 2, "component": 3}


class OneGroup:
    """As much of a store as folding needs."""

    in_bucket = False

    def __init__(self, place):
        self.place = place
        group = zarr.open_group(place / "only", mode="w", zarr_format=3)
        storage.configure_zarr()
        for variable in (SERIES, STATE, SAMPLE_COUNT):
            storage.create_variable_array(group, variable, SIZES, LAYOUT)

    @property
    def session_file(self):
        return self.internal("session")

    def internal(self, *names):
        return self.place.joinpath("_geosweep", *names)

    def arrays_of_group(self, place):
        names = (SERIES.name, STATE.name, SAMPLE_COUNT.name)
        return {name: ArrayFiles.read(self.place / place / name) for name in names}

    def values(self, name):
        return zarr.open_group(self.place / "only", mode="r")[name][...]

    def put(self, rows, first=0, last=SAMPLES, session="s", token="t", shift=0.0, kind=RECORD):
        rows = np.array(rows)
        columns = {name: values[rows] + shift for name, values in WHOLE.items()}
        over_time = {name: columns[name][:, first:last] for name in (SERIES.name, STATE.name)}
        row = int(rows[0]) // LAYOUT.shard_rows
        name = RecordName(
            int(rows[0]), int(rows[-1]) + 1, len(rows), first, last, 0, 5, session, token, kind
        )
        folder = records.records_folder(self.place, "only", row)
        return write_record(folder, name, self.arrays_of_group("only"), rows, columns | over_time)


random = np.random.default_rng(1)
WHOLE = {
    SERIES.name: random.normal(size=(ROWS, SAMPLES)),
    STATE.name: random.normal(size=(ROWS, SAMPLES, 2, 3)),
    SAMPLE_COUNT.name: np.full(ROWS, SAMPLES),
}


@pytest.fixture
def store(tmp_path):
    return OneGroup(tmp_path / "s.zarr")


def check(values, rows, name):
    fill = 0 if name == SAMPLE_COUNT.name else np.nan
    expected = np.full(WHOLE[name].shape, fill, WHOLE[name].dtype)
    expected[rows] = WHOLE[name][rows]
    np.testing.assert_array_equal(values, expected)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_rows_in_any_parts_fold_to_what_they_are(data, tmp_path_factory):
    """Also read as if they were folded, before and between two folds."""
    store = OneGroup(tmp_path_factory.mktemp("records") / "s.zarr")
    order = data.draw(st.permutations(range(ROWS)))
    cuts = data.draw(st.sets(st.integers(1, ROWS - 1), max_size=6))
    done = []
    for part in np.split(np.array(order), sorted(cuts)):
        for row in np.unique(part // LAYOUT.shard_rows):
            store.put(sorted(part[part // LAYOUT.shard_rows == row]))
        done += part.tolist()
        unfolded = Unfolded.of(store.place, "only", "s")
        for name, array in store.arrays_of_group("only").items():
            read = ArrayFiles.read(array.directory, unfolded).read_rows(np.arange(ROWS))
            check(read, done, name)
        if data.draw(st.booleans()):
            fold.fold_all(store, "s")
            assert Unfolded.of(store.place, "only", "s") is None
            for name in WHOLE:
                check(store.values(name), done, name)
    fold.fold_all(store, "s")
    for name in WHOLE:
        check(store.values(name), range(ROWS), name)


def test_samples_may_come_one_after_the_other(store):
    """As when runs are extended, also in the middle of a chunk."""
    for first, last in ((0, 2), (2, 4), (4, SAMPLES)):
        store.put(range(8), first, last)
        fold.fold_all(store, "s")
    check(store.values(SERIES.name), range(8), SERIES.name)


def test_a_fresh_shard_is_what_zarr_writes(store):
    for start in (0, 8, 16):
        store.put(range(start, min(start + 8, ROWS)))
    fold.fold_all(store, "s")
    twin = OneGroup(store.place.with_name("twin.zarr"))
    for name, values in WHOLE.items():
        zarr.open_group(twin.place / "only", mode="r+")[name][...] = values
        for file in (store.place / "only" / name).glob("c.*"):
            if file.is_file():
                assert (
                    file.read_bytes() == (twin.place / file.relative_to(store.place)).read_bytes()
                )


def test_a_reader_with_the_old_index_reads_the_old_values(store):
    """A shard grows at its end: an index that was fetched before still says where chunks are."""
    store.put([0, 1, 2])
    fold.fold_all(store, "s")
    array = store.arrays_of_group("only")[SERIES.name]
    old = array.read_file((0, 0))
    store.put([3, 4])
    fold.fold_all(store, "s")
    new = array.read_file((0, 0))
    assert new[: len(old)] == old and len(new) > len(old)
    spans = array.chunk_spans(old)
    for at in np.ndindex(array.inner_grid):
        offset, size = map(int, spans[at])
        if offset != ABSENT:
            kept = array.decode_chunk(new[offset : offset + size])
            np.testing.assert_array_equal(kept, array.decode_chunk(old[offset : offset + size]))


def test_of_two_attempts_at_a_row_one_counts_whole(store):
    """A worker that was given up and lives puts a record of rows that another one has put."""
    store.put([0, 1, 2], token="a")
    store.put([0, 1, 2], token="b", shift=1.0)
    store.put([2, 3], token="c", shift=2.0)
    assert fold.fold_all(store, "s") == 3
    np.testing.assert_array_equal(store.values(SERIES.name)[:3], WHOLE[SERIES.name][:3])
    np.testing.assert_array_equal(store.values(SERIES.name)[3], WHOLE[SERIES.name][3] + 2.0)
    np.testing.assert_array_equal(store.values(STATE.name)[3], WHOLE[STATE.name][3] + 2.0)


def test_checkpoints_stay_where_the_session_ends_before_all_is_done(store):
    """As at a retry: runs that did not fail go on from theirs."""
    store.put(range(4))
    left = store.put([4, 5], 0, 3, kind=CHECKPOINT)
    store.session_name = "s"
    fold.fold_all(store, "s")
    fold.end_session(store)
    assert left.place.is_file() and store.session_file.read_bytes() == b""
    fold.end_session(store, checkpoints=True)
    assert not left.place.exists()


def test_only_the_chunks_that_are_asked_for_are_decoded(store, monkeypatch):
    """A task looks up a few runs in shards of many."""
    for start in (0, 8, 16):
        store.put(range(start, min(start + 8, ROWS)))
    fold.fold_all(store, "s")
    array, decoded = store.arrays_of_group("only")[SERIES.name], []
    decode = ArrayFiles.decode_chunk
    monkeypatch.setattr(ArrayFiles, "decode_chunk", lambda *of: decoded.append(of) or decode(*of))
    rows = np.array([9, 2])
    np.testing.assert_array_equal(array.read_rows(rows), WHOLE[SERIES.name][rows])
    of_rows = {row // array.inner[0] for row in rows.tolist()}
    assert len(decoded) == len(of_rows) * -(-SAMPLES // array.inner[1])


def test_records_of_another_session_do_not_count(store):
    store.put([0, 1], session="before")
    assert fold.fold_all(store, "now") == 0
    assert np.isnan(store.values(SERIES.name)).all()


def test_a_record_that_is_not_whole_is_refused(store):
    record = store.put(range(8))
    data = record.place.read_bytes()
    for changed in (data[:-1], data[:40], b"", data[:-20] + b"?" + data[-19:]):
        record.place.write_bytes(changed)
        with pytest.raises(Damaged):
            Record(record.place, record.name).check()
    record.place.write_bytes(data)
    Record(record.place, record.name).check()


def test_what_is_folded_while_it_is_read_is_read_once_more(store):
    """The records were listed, and are gone when they are read."""
    store.put(range(8))
    listed = Unfolded.of(store.place, "only", "s")
    fold.fold_all(store, "s")
    for name, array in store.arrays_of_group("only").items():
        check(ArrayFiles.read(array.directory, listed).read_rows(np.arange(ROWS)), range(8), name)


def test_names_say_what_is_in_records(store):
    record = store.put([1, 2, 5])
    assert RecordName.parse(record.place.name) == record.name
    assert RecordName.parse("anything.record") is None
    (found,) = list_records(record.place.parent, RECORD, "s")
    assert found.rows.tolist() == [1, 2, 5] and found.name.count == 3


def test_shards_that_are_gone_are_known(store):
    store.put(range(8))
    fold.fold_all(store, "s")
    arrays = fold.written_by_tasks(store.arrays_of_group("only"))
    assert fold.missing_shards(store, "only", arrays, files_below(store.place)) == []
    gone = store.place / "only" / "state" / "c.0.0.0.0"
    gone.unlink()
    ((array, index),) = fold.missing_shards(store, "only", arrays, files_below(store.place))
    assert array.file(index) == gone


def test_a_chunk_that_cannot_be_read_is_refused_or_taken_as_blank(store):
    store.put(range(8))
    fold.fold_all(store, "s")
    array = store.arrays_of_group("only")[SAMPLE_COUNT.name]
    data = bytearray(array.read_file((0,)))
    data[0] ^= 255
    with pytest.raises(Damaged, match="checksum"):
        Draft(array, bytes(data)).values((0,))
    mended = shard_with_rows(array, (0,), bytes(data), np.array([3]), 4, lenient=True)
    spans = array.chunk_spans(mended)
    offset, size = map(int, spans[0])
    values = array.decode_chunk(mended[offset : offset + size])
    assert values[:8].tolist() == [0, 0, 0, 4, 0, 0, 0, 0]


def test_what_is_put_is_there_whole_or_not_at_all(tmp_path):
    """One that takes over removes what is not finished: who passed the check cannot finish."""
    place = tmp_path / "folder" / "file"
    place.parent.mkdir()

    def taken_over():
        for partial in place.parent.glob(f"*{records.PARTIAL}"):
            partial.unlink()

    with pytest.raises(FileNotFoundError):
        records.put_durably(place, b"late", taken_over)
    assert list(place.parent.iterdir()) == []
    records.put_durably(place, b"in time")
    assert place.read_bytes() == b"in time"
    assert encode_chunk(np.arange(3.0)) != encode_chunk(np.arange(4.0))


def test_who_misses_a_file_that_the_next_lease_holder_removed_says_so(store):
    """Suspended after the check: its unfinished file is gone, or the records that it folds."""
    removed = []

    def passed_once():
        if removed:
            raise Interrupted("another process holds the store")
        for file in store.place.rglob("*"):
            if file.suffix in (records.PARTIAL, f".{RECORD}"):
                removed.append(file)
                file.unlink()

    with pytest.raises(Interrupted, match="another process"):
        records.put_durably(store.session_file, b"late", passed_once)
    assert removed and not store.session_file.is_file()
    for many in (1, fold.MOST_LOADED + 1):  # read at once, or one after the other
        for row in range(many):
            store.put([row % 8], token=f"t{row}")
        removed.clear()
        with pytest.raises(Interrupted, match="another process"):
            fold.fold_group(store, "only", "s", [0], passed_once)


def test_a_record_that_is_in_memory_is_loaded_again(tmp_path):
    record = OneGroup(tmp_path / "small.zarr").put([0, 1, 2])
    content = record.place.read_bytes()
    for _ in range(2):
        assert record.load()._data == content

"""Stores in a bucket, on an S3 server on loopback: the same as local ones, whatever is killed."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import LONG
from s3_server import Server
from study_text import one_experiment

import sweep
from integrators.errors import InputError
from sweep import (
    compacting,
    files,
    growing,
    holder,
    ledger,
    objects,
    places,
    rechunking,
    runner,
    storage,
    study,
    verifying,
)  # fmt: skip
from sweep.holder import Holder, counter_line, first_line
from sweep.holding import hold
from sweep.ledger import StoreError
from sweep.mending import mend
from sweep.places import ObjectPlace, copy_tree, place_of, remove_tree, take_place

FEW = {"record": '["energy", "state"]', "reference": '{ integrator = "dop853", tolerance = 1e-6 }'}
MANY = {"record": "[]", "initial_condition": "{ random = 10, seed = 1 }"}  # 5 chunks
SHORT = LONG.replace("random = 68", "random = 34")
BUCKET = "s3://studies"

# Newcomers in threads of several processes; each says whether it is alone while it is in.
NEWCOMERS = r"""
import os, sys, threading, time
from sweep.holding import hold
from sweep.ledger import StoreError
from sweep.places import place_of

def try_it(store):
    inside = place_of(store + ".inside")
    try:
        with hold(store):
            assert inside.put_if(b"") is not None, "another one is inside"
            time.sleep(0.3)
            inside.unlink()
        os.write(1, b"held\n")
    except StoreError:
        os.write(1, b"refused\n")
    except BaseException as error:
        os.write(1, repr(error).replace(" ", "_").encode() + b"\n")

print("ready", flush=True)
sys.stdin.readline()
for store in sys.argv[1:]:
    threads = [threading.Thread(target=try_it, args=(store,)) for _ in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
"""


@pytest.fixture(scope="module")
def server(cluster):
    made = Server()
    made.client().create_bucket(Bucket="studies")
    set_on_workers(cluster, made.environment)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment.items():
            patch.setenv(name, value)
        yield made
    made.stop()


def set_on_workers(cluster, environment):
    cluster.run(lambda: os.environ.update(environment))


@pytest.fixture
def bucket(server):
    """Names a place of the test's own, of which nothing stays."""
    place = place_of(f"{BUCKET}/{time.monotonic_ns()}")
    yield place
    remove_tree(place)


def run(written, store, cluster):
    outcome = sweep.run(study.parse(one_experiment(**written)), store, cluster)
    assert outcome.complete
    return outcome


@pytest.fixture(scope="module")
def local(cluster, tmp_path_factory):
    path = tmp_path_factory.mktemp("local") / "few.zarr"
    run(FEW, path, cluster)
    return path


@pytest.fixture(scope="module")
def base(server, cluster):
    """The same in the bucket; tests copy it."""
    run(FEW, f"{BUCKET}/base.zarr", cluster)
    return place_of(f"{BUCKET}/base.zarr")


@pytest.fixture
def store(base, bucket):
    copy_tree(base, bucket / "few.zarr")
    return bucket / "few.zarr"


@pytest.fixture
def assert_like(assert_same_runs, tmp_path):
    """Assert that a store in the bucket has the runs of a local one, bit for bit."""

    def check(path, place, name="only"):
        fetched = tmp_path / f"{time.monotonic_ns()}.zarr"
        copy_tree(place, fetched)
        assert_same_runs(path, fetched, name)
        return fetched

    return check


def keys(place):
    return {str(found.relative_to(place)) for found in place.walk()}


# --- a store is a store ----------------------------------------------------------------------


def test_a_study_in_a_bucket_is_the_local_one(base, local, assert_like, cluster, server):
    fetched = assert_like(local, base)
    assert {str(f.relative_to(fetched)) for f in fetched.rglob("*") if f.is_file()} == {
        str(f.relative_to(local)) for f in local.rglob("*") if f.is_file()
    }
    listed = server.client().list_objects_v2(Bucket="studies", Delimiter="/", Prefix="base")
    assert [each["Prefix"] for each in listed["CommonPrefixes"]] == ["base.zarr/"]
    assert [each["Key"] for each in listed["Contents"]] == ["base.zarr.lock"]
    assert holder.holder_of(base) is None

    class Refuses(runner.Watcher):
        def progressed(self, task, receipt):
            pytest.fail("it computed something twice")

    before = {found.key: found.stat().st_ino for found in base.walk()}
    parsed = study.parse(one_experiment(**FEW))
    assert sweep.run(parsed, str(base), cluster, watcher=Refuses()).complete
    assert {found.key: found.stat().st_ino for found in base.walk()} == before
    assert "secret" not in json.dumps(dict(storage.open_root(base).attrs))


def test_commands_take_it(base, local, command, tmp_path):
    (tmp_path / "test.toml").write_text(one_experiment(**FEW))
    for arguments, said in (
        (("run", "test.toml", base), "Nothing to compute."),
        (("plan", "test.toml", base), "0 runs to compute"),
        (("status", base), "only"),
        (("verify", base), "is sound"),
        (("query", base, "integrator == 'rk4'"), "6 of 12 runs"),
        (("order", base), "variational"),
        (("show", "study", base), 'name = "test"'),
        (("export", base, "runs.csv"), "Wrote runs.csv"),
        (("plot", "order", base, "-o", "order.png"), "order.png"),
    ):
        assert said in command(tmp_path, *arguments).stdout
    report = command(tmp_path, "report", base).stdout.strip()
    assert report == "base-report.html" and (tmp_path / report).stat().st_size > 1e4
    assert not list(tmp_path.glob("s3:*"))


def test_it_grows_and_is_extended(store, local, cluster, command, tmp_path, assert_like):
    grown = FEW | {"step_size": "[0.1, 0.05, 0.02]"}
    path = tmp_path / "grown.zarr"
    for place in (path, store):
        run(grown, place, cluster)
        command(tmp_path, "extend", place, "--duration", "2")
    assert_like(path, store)
    assert sweep.open_study(str(store))["only"].sizes["time"] == 21


def test_starts_from_a_store_in_a_bucket(base, local, cluster, tmp_path, server):
    for number, place in enumerate((base, local)):
        where = "integrator == 'rk4' and step_size > 0.06"
        start = f'{{ store = "{place}", where = "{where}", normalize = true }}'
        run(
            {"initial_condition": start, "record": '["state"]'},
            tmp_path / f"{number}.zarr",
            cluster,
        )
    one, two = (sweep.open_study(tmp_path / f"{number}.zarr")["only"] for number in range(2))
    assert np.array_equal(one["state"], two["state"]) and one.sizes["run"] == 12


def test_stores_are_merged_into_a_bucket(base, bucket, cluster, tmp_path, assert_same_runs):
    other = FEW | {"step_size": "[0.05, 0.02]"}
    run(other, tmp_path / "other.zarr", cluster)
    sweep_merge = __import__("sweep.merging", fromlist=["merge"]).merge
    merged = sweep_merge([base, tmp_path / "other.zarr"], bucket / "both.zarr")
    assert not merged.pending and merged.shares[0].both == 6
    copy_tree(bucket / "both.zarr", tmp_path / "both.zarr")
    ids = sweep.open_study(tmp_path / "other.zarr")["only"].run_id.values.tolist()
    assert_same_runs(tmp_path / "other.zarr", tmp_path / "both.zarr", "only", runs=ids)
    with pytest.raises(StoreError, match="exists: a merge makes a new store"):
        sweep_merge([base, tmp_path / "other.zarr"], bucket / "both.zarr")
    assert keys(bucket) - {f"both.zarr/{key}" for key in keys(bucket / "both.zarr")} == {
        "both.zarr.lock"
    }


# --- what is killed --------------------------------------------------------------------------


def test_a_worker_and_then_all_are_killed(
    bucket, cluster, start, until, tmp_path, assert_like, server
):
    """Several workers write at once, some die: the same command finishes the job."""
    (tmp_path / "long.toml").write_text(SHORT)
    store = bucket / "long.zarr"
    process = start(
        "sweep", "run", "long.toml", store, "--no-summary", "--workers", 2, cwd=tmp_path
    )

    def committed():
        marker = files.ArrayFiles.read(store / "pendulum" / "sample_count")
        return int((marker.values() > 0).sum())

    def enough(runs):
        time.sleep(0.1)  # it is the server's time
        if process.poll() is None and (store / "zarr.json").is_file():
            return committed() >= runs
        return process.poll() is not None

    until(lambda: enough(1))
    process.busiest_worker().send_signal(signal.SIGKILL)
    until(lambda: enough(13))
    assert process.poll() is None, process.communicate()
    process.kill()
    done = committed()
    assert 13 <= done < 68
    before = sweep.open_study(str(store))["pendulum"].cpu_time.values
    path = tmp_path / "local.zarr"
    for place in (store, path):  # its holder on this host is dead: no waiting
        assert sweep.run(tmp_path / "long.toml", place, cluster).complete
    after = sweep.open_study(str(store))["pendulum"].cpu_time.values
    assert int((before == after).sum()) >= done
    assert_like(path, store, "pendulum")


def test_a_server_that_falls_silent_ends_the_run_and_it_goes_on(
    bucket, cluster, tmp_path, assert_like, monkeypatch, server
):
    monkeypatch.setenv(objects.PATIENCE, "0.5")
    monkeypatch.setattr(objects, "AT_START", 0.5)
    set_on_workers(cluster, {objects.PATIENCE: "0.5"})
    store, parsed = bucket / "long.zarr", study.parse(SHORT)

    class Silences(runner.Watcher):
        def progressed(self, task, receipt):
            server.process.send_signal(signal.SIGSTOP)

    try:
        with pytest.raises(runner.Interrupted, match="does not answer"):
            sweep.run(parsed, store, cluster, watcher=Silences())
    finally:
        server.process.send_signal(signal.SIGCONT)
        set_on_workers(cluster, {objects.PATIENCE: "60"})
    monkeypatch.undo()
    assert sweep.run(parsed, store, cluster).complete


class Killed(BaseException):
    """What happens to the process at the chosen request."""


def stopped(action, last):
    """Whether `action` was stopped before the request `last` that changes something."""
    left = [last]

    def counted(function):
        def called(*arguments):
            if left[0] <= 0:
                raise Killed
            left[0] -= 1
            return function(*arguments)

        return called

    with pytest.MonkeyPatch.context() as patch:
        for name in ("put", "copy", "delete"):
            patch.setattr(objects, name, counted(getattr(objects, name)))
        made = objects._zarr_class()
        for name in ("set", "delete"):
            patch.setattr(made, name, counted(getattr(made, name)))
        patch.setattr(places, "AT_ONCE", 1)
        try:
            action()
        except Killed:
            return True
    return False


def steps(action, prepare, every):
    """Each step at which `action` is stopped, prepared anew."""
    for last in range(0, 10_000, every):
        prepare()
        if not stopped(action, last):
            assert last > 2 * every, "hardly a step was found"
            return
        yield last
    raise AssertionError("it never came to its end")


def test_stopped_while_a_store_is_made(bucket, cluster, local, assert_like):
    """Without its zarr.json there is no store, and the next run begins anew."""
    store, parsed = bucket / "few.zarr", study.parse(one_experiment(**FEW))

    def make():
        growing.bring_up(store, parsed, ledger.compare(store, parsed), {"only": 8})

    for _ in steps(make, lambda: None, 33):
        assert not (store / "zarr.json").is_file()
        assert ledger.open_existing(store) is None
        with pytest.raises(InputError, match=r"is not a store|half deleted"):
            files.open_store(store)
    assert ledger.open_existing(store) is not None and not ledger.is_half_made(store)
    run(FEW, store, cluster)
    assert_like(local, store)


def test_what_is_not_ours_is_not_swept_away(bucket, cluster, server):
    (bucket / "few.zarr" / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="exists and is not a Geosweep store"):
        run(FEW, bucket / "few.zarr", cluster)
    assert keys(bucket / "few.zarr") == {"notes.txt"}


def test_stopped_at_any_step_of_taking_a_place(bucket):
    """Done again it comes to its end, with all of the new and nothing of the old."""
    old, new = (
        {"zarr.json": b"old", "c/0": b"0", "c/1": b"1"},
        {"zarr.json": b"new", "c/0": b"both"},
    )
    staged, place = bucket / "staged", bucket / "place"

    def prepare():
        remove_tree(bucket)
        for where, content in ((staged, new), (place, old)):
            for key, data in content.items():
                (where / key).write_bytes(data)

    for _ in steps(lambda: take_place(staged, place), prepare, 1):
        take_place(staged, place)
        remove_tree(staged)
        assert {key: (place / key).read_bytes() for key in keys(place)} == new


@pytest.fixture(scope="module")
def many(server, cluster):
    place = place_of(f"{BUCKET}/many.zarr")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compacting, "WORTHWHILE", 2)
        run(MANY, place, cluster)
        assert scalar_chunk(place) > 40
        yield place


def scalar_chunk(place):
    return storage.open_group(storage.open_root(place), "only")["sample_count"].chunks[0]


def test_stopped_while_it_spreads_and_compacts(many, bucket, assert_same_runs, tmp_path):
    store, whole = bucket / "many.zarr", tmp_path / "whole.zarr"
    copy_tree(many, store)
    copy_tree(many, whole)
    found = set()
    for action, every in ((compacting.spread, 50), (compacting.compact, 40)):
        for last in steps(lambda action=action: action(store), lambda: None, every):
            compacting.recover(store)
            found.add(scalar_chunk(store) == 8)
            if last % 2:
                copied = tmp_path / f"{action.__name__}-{last}.zarr"
                copy_tree(store, copied)
                assert_same_runs(whole, copied, "only", timings=True)
        assert not places.is_dir(store.with_name(store.name + compacting.STAGING))
    assert found == {True, False}
    assert not verifying.find(store)


def test_stopped_while_it_is_rechunked(many, bucket, assert_same_runs, tmp_path):
    store, whole, copied = bucket / "many.zarr", tmp_path / "whole.zarr", tmp_path / "copied.zarr"
    copy_tree(many, store)
    copy_tree(many, whole)
    parsed = study.parse(one_experiment(**MANY))
    layout = runner.planning.plan_study(ledger.compare(store, parsed))[0].layout
    layout = dataclasses.replace(layout, chunk_rows=32, coordinate_chunks=(256, 16))
    for _ in steps(lambda: rechunking.rechunk(store, "only", layout), lambda: None, 60):
        compacting.recover(store)
    assert storage.chunk_rows_of(storage.open_group(storage.open_root(store), "only")) == 32
    copy_tree(store, copied)
    assert_same_runs(whole, copied, "only", timings=True)
    assert not verifying.find(store)


# --- one coordinator at a time ---------------------------------------------------------------


def test_of_newcomers_at_once_one_is_in(bucket, server):
    stores = [f"{bucket}/{number}.zarr" for number in range(3)]
    for link, store in enumerate(stores[1:]):  # nobody's, a dead one's, a silent one's elsewhere
        found = dataclasses.replace(Holder.here(), pid=os.getpid() if link else 1, born="0")
        found = dataclasses.replace(found, place="elsewhere", beat_seconds=0.05) if link else found
        holder.lock_of(store).write_bytes(first_line(found) + counter_line(7))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", NEWCOMERS, *stores],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [word for process in processes for word in process.communicate(timeout=60)[0].split()]
    assert len(said) == 18 and set(said) <= {"held", "refused"}, said
    assert said.count("held") >= 3
    assert all(holder.read(holder.lock_of(store)) is None for store in stores)


def test_a_living_coordinator_is_named_and_its_store_left_alone(base, bucket, called, tmp_path):
    (tmp_path / "test.toml").write_text(one_experiment(**FEW))
    before = keys(base)
    with hold(base) as held:
        living = dataclasses.replace(Holder.here(), token=held.token, user="emmy")
        done = called(tmp_path, "status", base)
        assert done.returncode == 0
        refused = []
        thread = threading.Thread(target=lambda: refused.append(try_hold(base)))
        thread.start()
        thread.join()
    assert f"is held by {Holder.here().user} on {living.host}" in refused[0]
    assert keys(base) == before


def try_hold(store):
    try:
        with hold(store):
            return "it held it"
    except StoreError as error:
        return str(error)


def test_a_heart_beats_and_who_lost_the_lock_stops(bucket, monkeypatch):
    monkeypatch.setattr(holder, "BEAT_SECONDS", 0.02)
    store, lost = bucket / "a.zarr", threading.Event()
    lock = holder.lock_of(store)
    with hold(store, on_loss=lambda reason: lost.set()) as held:
        deadline = time.monotonic() + 10
        while holder.read(lock).beat < 3:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        real, failed = objects.put_if, []

        def answer_lost(place, data, tag):  # it is written, and nobody hears of it
            made = real(place, data, tag)
            if not failed and made is not None:
                failed.append(made)
                raise places.Unreachable.because("no answer")
            return made

        with monkeypatch.context() as patch:
            patch.setattr(objects, "put_if", answer_lost)
            beat = holder.read(lock).beat
            while holder.read(lock).beat < beat + 4:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        assert failed and held.holds()
        other = dataclasses.replace(Holder.here(), host="node7", token="other")
        lock.write_bytes(first_line(other) + counter_line(0))
        assert lost.wait(10) and not held.holds()
    assert holder.read(lock).token == "other"


# --- damage ----------------------------------------------------------------------------------


def test_damage_is_found_and_mended(store, local, cluster, command, tmp_path, assert_like):
    chunk, gone = (
        store / "only" / "energy" / "c" / "0" / "0",
        store / "only" / "state" / "zarr.json",
    )
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 1
    chunk.write_bytes(data)
    gone.unlink()
    (store / "only" / "step_size" / "c" / "0").unlink()
    done = command(tmp_path, "verify", store, "--json", code=3)
    found = {(f["array"], f["problem"]) for f in json.loads(done.stdout)["findings"]}
    assert found == {
        ("energy", "fails its checksum"),
        ("state", "metadata are gone or garbled"),
        ("step_size", "is not there"),
    }
    command(tmp_path, "verify", store, "--repair", code=3)
    run(FEW, store, cluster)
    assert_like(local, store)
    assert not verifying.find(store)


def test_a_silent_server_is_no_damage(store, monkeypatch):
    """Nothing is marked as damaged that only was not read."""

    def silent(place):
        if place.name != "zarr.json":
            raise places.Unreachable.because("no answer")
        return real(place)

    real = objects.get
    monkeypatch.setattr(objects, "get", silent)
    with pytest.raises(places.Unreachable, match="no answer"):
        mend(store, lambda: None)


# --- what cannot be --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, words",
    [
        ("gs://studies/a.zarr", "no address of a store that can be used; expected a directory, or"),
        ("http://host/a.zarr", "no address of a store"),
        ("s3://", "names no bucket: ''"),
        ("s3://x/a.zarr", "names no bucket: 'x'"),
        ("s3://studies", "names no place in the bucket 'studies': ''"),
        ("s3://studies/", "names no place"),
        ("s3://studies/a//b.zarr", "names no place"),
        ("s3://studies/../b.zarr", "names no place"),
        ("s3://studies/a.zarr?x=1", "names no place"),
        ("s3://nowhere/a.zarr", "there is no bucket 'nowhere' at http://127.0.0.1:"),
        ("s3://studies/none.zarr", "is not a store"),
    ],
)
def test_names_that_are_none(name, words, called, tmp_path, server):
    done = called(tmp_path, "status", name)
    assert done.returncode == 2 and words in done.stderr and len(done.stderr.splitlines()) == 1
    with pytest.raises(InputError, match="there is no bucket" if "nowhere" in name else None):
        sweep.open_study(name)
    if "none.zarr" not in name:
        done = called(tmp_path, "run", "quickstart", name)
        assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_buckets_that_cannot_be_used(server, called, tmp_path, monkeypatch, base):
    """Found before any work, each with one line."""
    policy = {"Version": "2012-10-17", "Statement": [{
        "Effect": "Deny", "Principal": "*", "Action": "s3:PutObject",
        "Resource": "arn:aws:s3:::closed/*",
    }]}  # fmt: skip
    client = server.client()
    client.create_bucket(Bucket="closed")
    client.put_bucket_policy(Bucket="closed", Policy=json.dumps(policy))

    def refused(store):
        monkeypatch.setattr(runner.ledger, "compare", lambda *_: pytest.fail("it went on"))
        done = called(tmp_path, "run", "quickstart", store)
        assert done.returncode == 2, done.stderr
        (line,) = done.stderr.splitlines()
        return line

    assert "'closed' at http://127.0.0.1" in refused("s3://closed/a.zarr")
    assert "may not be written" in refused("s3://closed/a.zarr")
    monkeypatch.setattr(objects, "AT_START", 0.3)
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        began = time.monotonic()
        assert "at http://127.0.0.1:9 does not answer" in refused(f"{BUCKET}/a.zarr")
        assert time.monotonic() - began < 5
    with monkeypatch.context() as patch:
        patch.delenv("AWS_ACCESS_KEY_ID")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("HOME", str(tmp_path))
        assert "no credentials for the object store were found" in refused(f"{BUCKET}/a.zarr")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "obstore", None)
        assert "pip install 'geosweep[s3]'" in refused(f"{BUCKET}/a.zarr")


def test_only_stores_are_in_buckets(base, called, tmp_path):
    for arguments in (
        ("plot", base, "-o", f"{BUCKET}/plots"),
        ("report", base, "-o", f"{BUCKET}/a.html"),
        ("export", base, f"{BUCKET}/a.csv"),
        ("init", f"{BUCKET}/a.toml"),
    ):
        done = called(tmp_path, *arguments)
        assert done.returncode == 2 and "only stores are in buckets" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_place_is_named_like_a_path():
    place = place_of("s3://studies/a/b.zarr/")
    assert str(place) == "s3://studies/a/b.zarr" and place_of(place) is place
    assert (place.name, place.stem, str(place.parent)) == ("b.zarr", "b", "s3://studies/a")
    assert place / "x" / "0" == ObjectPlace("studies", "a/b.zarr/x/0")
    assert str((place / "x" / "0").relative_to(place)) == "x/0"
    assert place.parents[0] == place.parent and place.absolute() == place
    with pytest.raises(InputError, match="give it as a text"):
        place_of(places.Path("s3://studies/a.zarr"))
    assert isinstance(place_of("a/b.zarr"), places.Path)

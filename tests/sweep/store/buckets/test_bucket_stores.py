"""Stores in a bucket are what local ones are; what is damaged, and buckets that are none."""

import json
import sys

import numpy as np
import pytest
from studies_in_buckets import BUCKET, FEW, keys, run
from study_text import one_experiment

import sweep
from integrators.errors import InputError
from sweep import errors
from sweep.campaign import coordinator
from sweep.campaign.merge.merge import merge
from sweep.errors import StoreError
from sweep.store import backends, studies
from sweep.store.backends import places, s3
from sweep.store.backends.places import ObjectPlace, place_of_store_name
from sweep.store.backends.trees import copy_tree
from sweep.store.lease.lease import lease_holder_of_store
from sweep.store.store import Store
from sweep.store.upkeep import verify
from sweep.store.upkeep.repair import mend_held_store


def test_a_study_in_a_bucket_is_the_local_one(base, local, assert_like, cluster, server):
    fetched = assert_like(local, base)
    assert {str(f.relative_to(fetched)) for f in fetched.rglob("*") if f.is_file()} == {
        str(f.relative_to(local)) for f in local.rglob("*") if f.is_file()
    }
    listed = server.client().list_objects_v2(Bucket="studies", Delimiter="/", Prefix="base")
    assert [each["Prefix"] for each in listed["CommonPrefixes"]] == ["base.zarr/"]
    assert [each["Key"] for each in listed["Contents"]] == ["base.zarr.lock"]
    assert lease_holder_of_store(Store.at(base)) is None

    class Refuses(coordinator.Watcher):
        def progressed(self, task, receipt):
            pytest.fail("it computed something twice")

    before = {found.key: found.stat().st_ino for found in base.walk()}
    parsed = studies.parse_study(one_experiment(**FEW))
    assert sweep.run(parsed, str(base), cluster, watcher=Refuses()).complete
    assert {found.key: found.stat().st_ino for found in base.walk()} == before
    assert "secret" not in json.dumps(dict(Store.at(base).root().attrs))


def test_commands_take_it(base, local, command, tmp_path):
    (tmp_path / "test.toml").write_text(one_experiment(**FEW))
    for arguments, said in (
        (("run", "test.toml", base, "--no-summary"), "Nothing to compute."),
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
    merged = merge([base, tmp_path / "other.zarr"], bucket / "both.zarr")
    assert not merged.pending and merged.shares[0].both == 6
    copy_tree(bucket / "both.zarr", tmp_path / "both.zarr")
    ids = sweep.open_study(tmp_path / "other.zarr")["only"].run_id.values.tolist()
    assert_same_runs(tmp_path / "other.zarr", tmp_path / "both.zarr", "only", runs=ids)
    with pytest.raises(StoreError, match="exists: a merge makes a new store"):
        merge([base, tmp_path / "other.zarr"], bucket / "both.zarr")
    assert keys(bucket) - {f"both.zarr/{key}" for key in keys(bucket / "both.zarr")} == {
        "both.zarr.lock"
    }


# --- damage ----------------------------------------------------------------------------------


def test_damage_is_found_and_mended(store, local, cluster, command, tmp_path, assert_like):
    chunk, gone = (
        store / "only" / "energy" / "c.0.0",
        store / "only" / "state" / "zarr.json",
    )
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 1
    chunk.write_bytes(data)
    gone.unlink()
    (store / "only" / "step_size" / "c.0").unlink()
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
    assert not verify.verify(store)


def test_a_silent_server_is_no_damage(store, monkeypatch):
    """Nothing is marked as damaged that only was not read."""

    def silent(place):
        if place.name != "zarr.json":
            raise errors.Unreachable.for_reason("no answer")
        return real(place)

    real = ObjectPlace.read_tagged
    monkeypatch.setattr(ObjectPlace, "read_tagged", silent)
    with pytest.raises(errors.Unreachable, match="no answer"):
        mend_held_store(Store.at(store), lambda: None)


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
        monkeypatch.setattr(
            coordinator.diff, "diff_store_against_study", lambda *_: pytest.fail("it went on")
        )
        done = called(tmp_path, "run", "quickstart", store)
        assert done.returncode == 2, done.stderr
        (line,) = done.stderr.splitlines()
        return line

    assert "'closed' at http://127.0.0.1" in refused("s3://closed/a.zarr")
    assert "may not be written" in refused("s3://closed/a.zarr")
    monkeypatch.setattr(s3, "AT_START", 0.3)
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        assert "at http://127.0.0.1:9 does not answer" in refused(f"{BUCKET}/a.zarr")
    with monkeypatch.context() as patch:
        patch.delenv("AWS_ACCESS_KEY_ID")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("HOME", str(tmp_path))
        assert "no credentials for the object store were found" in refused(f"{BUCKET}/a.zarr")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "obstore", None)
        patch.delitem(sys.modules, s3.__name__)  # as in a process that has not imported it yet
        patch.delattr(backends, "s3")
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


def test_a_store_that_is_not_there_is_no_study(bucket):
    store = Store(bucket / "missing.zarr")
    for into in (None, bucket / "other.zarr"):
        with pytest.raises(InputError, match="missing.zarr: there is no such file"):
            studies.resolve_study_and_store(store, into)


def test_a_place_is_named_like_a_path():
    place = place_of_store_name("s3://studies/a/b.zarr/")
    assert str(place) == "s3://studies/a/b.zarr" and place_of_store_name(place) is place
    assert (place.name, place.stem, str(place.parent)) == ("b.zarr", "b", "s3://studies/a")
    assert place / "x" / "0" == ObjectPlace("studies", "a/b.zarr/x/0")
    assert str((place / "x" / "0").relative_to(place)) == "x/0"
    assert place.parents[0] == place.parent and place.absolute() == place
    with pytest.raises(InputError, match="give it as a text"):
        place_of_store_name(places.Path("s3://studies/a.zarr"))
    assert isinstance(place_of_store_name("a/b.zarr"), places.Path)

"""Stores in a bucket are what local ones are, whoever dies or begins; and buckets that are none."""

import contextlib
import json
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from studies_in_buckets import BUCKET, FEW, PATIENCE, TEXT, path_of
from study_text import one_experiment, study_of
from written_stores import held, run

import sweep
from integrators.errors import InputError
from sweep.errors import GeosweepError, Interrupted, StoreError

MORE = FEW | {"step_size": "[0.1, 0.05, 0.02]"}
GROWN = one_experiment(**MORE)
# A holder that is elsewhere, whose heart has stopped.
HOLDER = {
    "token": "abc", "user": "emmy", "host": "node7", "command": "sweep run", "pid": 4711,
    "born": "1", "place": "another boot", "since": "2026-01-01 00:00:00", "beat_seconds": 0.05,
}  # fmt: skip


def files_below(path):
    return sorted(str(f.relative_to(path)) for f in path.rglob("*") if f.is_file())


def test_a_study_in_a_bucket_is_the_local_one(base, local, assert_like, command, server, tmp_path):
    """Also for the commands; and nothing is computed twice."""
    assert files_below(assert_like(local, base)) == files_below(local)
    root = path_of(base)
    assert server.read(f"{root}.lock") == b"released\n"
    (tmp_path / "test.toml").write_text(TEXT)
    before = server.contents(root)
    for arguments, said in (
        (("run", "test.toml", base, "--no-summary"), "Nothing to compute."),
        (("status", base), "only"),
        (("verify", base), "is sound"),
        (("query", base, "integrator == 'rk4'"), "6 of 12 runs"),
        (("show", "study", base), 'name = "test"'),
    ):
        assert said in command(tmp_path, *arguments).stdout
    assert server.contents(root) == before
    assert b"secret" not in b"".join(before.values())


@pytest.mark.slow
def test_products_of_commands_are_here(base, command, tmp_path):
    (tmp_path / "test.toml").write_text(TEXT)
    for arguments, said in (
        (("plan", "test.toml", base), "0 runs to compute"),
        (("order", base), "variational"),
        (("export", base, "runs.csv"), "Wrote runs.csv"),
        (("plot", "order", base, "-o", "order.png"), "order.png"),
    ):
        assert said in command(tmp_path, *arguments).stdout
    report = command(tmp_path, "report", base).stdout.strip()
    assert report == "base-report.html" and (tmp_path / report).stat().st_size > 1e4
    assert not list(tmp_path.glob("s3:*"))


@pytest.mark.slow
def test_it_grows_and_is_extended(store, cluster, command, tmp_path, assert_like):
    run(GROWN, store, cluster)
    command(tmp_path, "extend", store, "--no-summary", "--duration", "2")
    path = tmp_path / "at-once.zarr"
    run(one_experiment(**MORE | {"duration": "2.0", "samples": "20"}), path, cluster)
    assert_like(path, store)
    assert sweep.open_study(store)["only"].sizes["time"] == 21


@pytest.mark.slow
def test_starts_from_a_store_in_a_bucket(base, local, cluster, tmp_path):
    for number, place in enumerate((base, local)):
        where = "integrator == 'rk4' and step_size > 0.06"
        start = f'{{ store = "{place}", where = "{where}", normalize = true }}'
        text = one_experiment(initial_condition=start, record='["state"]')
        run(text, tmp_path / f"{number}.zarr", cluster)
    one, two = (sweep.open_study(tmp_path / f"{number}.zarr")["only"] for number in range(2))
    assert np.array_equal(one["state"], two["state"]) and one.sizes["run"] == 12


@pytest.mark.slow
def test_stores_are_merged_into_a_bucket(
    base, bucket, server, cluster, tmp_path, assert_same_runs, assert_like
):
    run(one_experiment(**FEW | {"step_size": "[0.05, 0.02]"}), tmp_path / "other.zarr", cluster)
    merged = sweep.merge([base, tmp_path / "other.zarr"], f"{bucket}/both.zarr")
    assert not merged.pending and merged.shares[0].both == 6
    run(GROWN, tmp_path / "whole.zarr", cluster)
    fetched = assert_like(tmp_path / "whole.zarr", f"{bucket}/both.zarr")
    ids = sweep.open_study(tmp_path / "other.zarr")["only"].run_id.values.tolist()
    assert_same_runs(tmp_path / "other.zarr", fetched, "only", runs=ids)
    with pytest.raises(StoreError, match="exists: a merge makes a new store"):
        sweep.merge([base, tmp_path / "other.zarr"], f"{bucket}/both.zarr")
    outside = [name for name in server.below(path_of(bucket)) if "both.zarr/" not in name]
    assert outside == ["both.zarr.lock"]


@pytest.mark.slow
def test_damage_is_found_and_mended(store, local, server, cluster, command, tmp_path, assert_like):
    group = f"{path_of(store)}/only"
    data = bytearray(server.read(f"{group}/energy/c.0.0"))
    data[len(data) // 2] ^= 1
    server.write(f"{group}/energy/c.0.0", bytes(data))
    server.remove(f"{group}/state/zarr.json")
    server.remove(f"{group}/step_size/c.0")
    done = command(tmp_path, "verify", store, "--json", code=3)
    found = {(f["array"], f["problem"]) for f in json.loads(done.stdout)["findings"]}
    assert found == {
        ("energy", "fails its checksum"),
        ("state", "metadata are gone or garbled"),
        ("step_size", "is not there"),
    }
    command(tmp_path, "verify", store, "--repair", code=3)
    run(TEXT, store, cluster)
    assert_like(local, store)
    assert sweep.verify(store) == []


@pytest.mark.parametrize(
    ("patience", "said"),
    [
        ("0.1", "is not a store|does not answer"),  # if it takes longer
        *((text, f"PATIENCE is '{text}'") for text in ("soon", "0", "inf")),
    ],
)
def test_patience_is_any_time(patience, said, bucket, monkeypatch):
    """Also one shorter than the first pause between two tries."""
    monkeypatch.setenv(PATIENCE, patience)
    with pytest.raises((InputError, GeosweepError), match=said):
        sweep.status(f"{bucket}/none.zarr")


@pytest.mark.slow
def test_a_silent_server_is_no_damage(store, server, impatient):
    """Nothing is marked as damaged that only was not read."""
    root = path_of(store)
    before = server.contents(root)
    server.have(failing="/only/energy/c.0.0")
    for asked in (sweep.verify, sweep.repair):
        with impatient(), pytest.raises(GeosweepError, match="does not answer|no answer"):
            asked(store)
    server.have()
    assert server.contents(root) == before


# --- crashes, and others that write ------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "stops"), [(0.02, False), (0.5, True)], ids=["it-fails", "it-is-silent"]
)
def test_a_run_whose_server_fails_ends_and_the_next_one_goes_on(
    part, stops, made, bucket, server, cluster, local, impatient, assert_like
):
    """Whatever it wrote last. Without its zarr.json there is no store, and it begins anew."""
    store = f"{bucket}/few.zarr"
    server.have(changes=int(part * made[1]), stops=stops)
    try:
        with impatient(), pytest.raises(GeosweepError, match="does not answer"):
            run(TEXT, store, cluster)
    finally:
        server.wake()
    if "zarr.json" in server.below(path_of(store)):
        assert sweep.status(store)[0].done in (0, 12)
    else:
        with pytest.raises(InputError, match="is not a store|half deleted"):
            sweep.status(store)
    run(TEXT, store, cluster)
    assert_like(local, store)
    assert sweep.verify(store) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["_geosweep/session.json", "only/energy/c.0.0"])
def test_what_another_process_puts_after_the_last_check_is_kept(name, store, server, cluster):
    """It has taken the store over just before a process that was suspended puts the same."""
    place = f"/{path_of(store)}"
    path = f"{place}/{name}"
    holder = {"token": "other", "user": "emmy", "host": "node7", "pid": 4711, "beat_seconds": 3.0}
    others = {f"{place}.lock": f"{json.dumps(holder)}\n{0:012d}\n", path: "theirs"}
    server.have(before=path, others=others)
    with contextlib.suppress(Interrupted):
        assert sweep.run(study_of(GROWN), store, cluster).stopped
    server.have()
    assert server.read(path[1:]) == b"theirs"
    assert b"emmy" in server.read(f"{place}.lock"[1:])


@pytest.mark.slow
def test_all_processes_are_killed(
    made, bucket, cluster, start, until, server, local, tmp_path, assert_like
):
    """Its holder on this host is dead: the same command need not wait to finish the job."""
    (tmp_path / "test.toml").write_text(TEXT)
    store = f"{bucket}/few.zarr"
    server.have(changes=int(0.9 * made[1]), stops=True)
    arguments = ("test.toml", store, "--no-summary", "--workers", 1)
    process = start("sweep", "run", *arguments, cwd=tmp_path)
    until(lambda: server.is_stopped() or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    process.kill()
    server.wake()
    (progress,) = sweep.status(store)
    before = sweep.open_study(store)["only"].cpu_time.values
    run(TEXT, store, cluster)
    after = sweep.open_study(store)["only"].cpu_time.values
    assert int((before == after).sum()) >= progress.done
    assert_like(local, store)


@pytest.mark.slow
def test_of_newcomers_at_once_one_is_in(bucket, base, server):
    """Also where the holder before is dead, here or elsewhere."""
    here = json.loads(lease_while_held(base, server).partition(b"\n")[0])
    for holder in (None, here, HOLDER):
        store, inside, said = f"{bucket}/{holder and holder['host']}.zarr", set(), []
        server.copy(path_of(base), path_of(store))
        if holder is not None:
            server.write(f"{path_of(store)}.lock", f"{json.dumps(holder)}\n{7:012d}\n".encode())

        def alone(*_, inside=inside):
            inside.add(threading.get_ident())
            time.sleep(0.02)
            assert inside == {threading.get_ident()}
            inside.clear()

        def enter(store=store, alone=alone, said=said):
            try:
                sweep.repair(store, progress=alone)
                said.append("held")
            except StoreError as error:
                said.append("refused" if "is held by" in str(error) else str(error))

        threads = [threading.Thread(target=enter) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(said) == 6 and set(said) <= {"held", "refused"} and "held" in said, said
        assert server.read(f"{path_of(store)}.lock") == b"released\n"


def lease_while_held(store, server):
    """What the lease of a store says of a process that has it."""
    with held(store):
        with pytest.raises(StoreError, match=f"{store} is held by"):
            sweep.repair(store)
        return server.read(f"{path_of(store)}.lock")


@pytest.mark.slow
def test_a_heart_beats_though_an_answer_was_not_heard(store, server, until, monkeypatch):
    monkeypatch.setattr("sweep.store.lease.holder.BEAT_SECONDS", 0.3)
    lock = f"{path_of(store)}.lock"

    def beats():
        return int(server.read(lock).splitlines()[1])

    with held(store):
        server.have(unheard=".lock")
        until(lambda: beats() >= 2)
    assert server.read(lock) == b"released\n"


# --- what cannot be --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, words",
    [
        ("gs://studies/a.zarr", "is not an address of a store; expected a directory, or"),
        ("http://host/a.zarr", "is not an address of a store"),
        ("s3://", "names no bucket: ''"),
        ("s3://x/a.zarr", "names no bucket: 'x'"),
        ("s3://studies/", "names no place in the bucket 'studies': ''"),
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


@pytest.fixture
def refused(command, tmp_path):
    """The one line by which a run is refused before any work."""

    def run_it(store):
        (line,) = command(tmp_path, "run", "quickstart", store, code=2).stderr.splitlines()
        return line

    return run_it


def test_a_bucket_that_may_not_be_written(server, refused):
    policy = {"Version": "2012-10-17", "Statement": [{
        "Effect": "Deny", "Principal": "*", "Action": "s3:PutObject",
        "Resource": "arn:aws:s3:::closed/*",
    }]}  # fmt: skip
    server.write("closed")
    server.write("closed", json.dumps(policy).encode(), "policy")
    line = refused("s3://closed/a.zarr")
    assert "'closed' at http://127.0.0.1" in line and "may not be written" in line


@pytest.mark.slow
def test_servers_that_cannot_be_used(refused, server, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        assert "at http://127.0.0.1:9 does not answer" in refused(f"{BUCKET}/a.zarr")
    with monkeypatch.context() as patch:
        patch.delenv("AWS_ACCESS_KEY_ID")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        patch.setenv("HOME", str(tmp_path))
        assert "no credentials for the object store were found" in refused(f"{BUCKET}/a.zarr")
    code = "import sys; sys.modules['obstore'] = None; import sweep; sweep.status(sys.argv[1])"
    without = subprocess.run(
        [sys.executable, "-c", code, f"{BUCKET}/a.zarr"], capture_output=True, text=True
    )
    assert "pip install 'geosweep[s3]'" in without.stderr.splitlines()[-1]


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


def test_a_store_that_is_not_there_is_no_study(bucket, cluster):
    for into in (None, f"{bucket}/other.zarr"):
        with pytest.raises(InputError, match="missing.zarr is not a store"):
            sweep.run(sweep.Store.at(f"{bucket}/missing.zarr"), into, cluster)


def test_what_is_not_ours_is_not_swept_away(bucket, server, cluster):
    server.write(f"{path_of(bucket)}/few.zarr/notes.txt", b"mine")
    with pytest.raises(StoreError, match="exists and is not a Geosweep store"):
        run(TEXT, f"{bucket}/few.zarr", cluster)
    assert server.below(f"{path_of(bucket)}/few.zarr") == ["notes.txt"]

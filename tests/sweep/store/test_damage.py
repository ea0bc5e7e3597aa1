"""Damage that a reader meets: `Damaged`, with array, chunk and remedy, whoever reads."""

import io
import os
import shutil
from errno import EACCES, EIO

import pytest
from study_runs import write
from study_text import one_experiment
from written_stores import flip_bit

import sweep
from sweep.errors import Damaged, StoreError

TEXT = one_experiment(
    integrators='"rk4"',
    step_size="[0.1, 0.05]",
    record='["energy", "state"]',
    samples="5",
    reference='{ integrator = "dop853", tolerance = 1e-6 }',
)
SERIES = "only/energy/c.0.0"


def replaced_by_a_loop(path):
    remove(path)
    path.symlink_to(path.name)


def replaced_by_a_directory(file):
    file.unlink()
    file.mkdir()


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def load(store):
    return sweep.open_study(store)["only"].to_dataset().load()


@pytest.fixture(scope="module")
def whole(run_text, tmp_path_factory):
    path = tmp_path_factory.mktemp("damage") / "test.zarr"
    assert run_text(TEXT, path).complete
    return path


@pytest.fixture
def copy(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "test.zarr")


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (flip_bit, "only/energy: chunk c.0.0 fails its checksum"),
        (lambda file: file.write_bytes(b"no"), "only/energy: chunk c.0.0 fails its checksum"),
        (replaced_by_a_loop, "only/energy: chunk c.0.0 cannot be read: Too many levels of"),
        (replaced_by_a_directory, "only/energy/c.0.0 is not there"),
    ],
)
def test_a_chunk_is_named_where_it_is_read_with_what_mends_it(harm, said, copy):
    harm(copy / SERIES)
    with pytest.raises(Damaged) as met:
        load(copy)
    text = str(met.value)
    assert said in text and f"`sweep verify {copy} --repair`" in text and "\n" not in text
    assert not sweep.repair(copy).left
    assert len(load(copy)["energy"]) == 6


@pytest.mark.parametrize("path", ["only/energy", "only", "_geosweep/references/only/error"])
def test_a_loop_of_links_instead_of_a_directory(path, copy):
    replaced_by_a_loop(copy / path)
    with pytest.raises(Damaged, match="--repair") as met:
        load(copy)
        sweep.verify(copy)
        sweep.extend(copy, duration=2.0)
    assert "\n" not in str(met.value)


def test_an_experiment_that_cannot_be_read_is_not_taken_for_a_new_one(copy, tmp_path):
    """A plan that said so would be followed by a run that computes it anew."""
    replaced_by_a_loop(copy / "only/zarr.json")
    with pytest.raises(Damaged, match="cannot be read: Too many levels of"):
        sweep.plan(write(TEXT, tmp_path), copy)


@pytest.mark.parametrize(("number", "error"), [(EIO, Damaged), (EACCES, StoreError)])
@pytest.mark.parametrize("file", [SERIES, "only/status/c.0", "only/integrator/c.0"])
def test_a_file_that_cannot_be_read_is_no_damage_without_the_right_to(
    number, error, file, copy, monkeypatch
):
    opened = io.open

    def refuse(path, *rest, **options):
        if str(path) == str(copy / file):
            raise OSError(number, os.strerror(number), str(path))
        return opened(path, *rest, **options)

    monkeypatch.setattr(io, "open", refuse)
    with pytest.raises(error, match=f"cannot be read: {os.strerror(number)}"):
        load(copy)


COMMANDS = (
    "query test.zarr", "work test.zarr", "plot test.zarr -o plots", "report test.zarr -o a.html",
    "export test.zarr a.csv", "export test.zarr a.nc", "merge test.zarr whole.zarr -o out.zarr",
    "decide test.zarr",
)  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "order test.zarr",
        "status test.zarr --failures",
        *(pytest.param(line, marks=pytest.mark.slow) for line in COMMANDS),
    ],
)
def test_every_command_says_it_in_a_line(line, copy, whole, command):
    if "whole.zarr" in line:
        shutil.copytree(whole, copy.with_name("whole.zarr"))
    name = "integrator/c.0" if line.endswith("--failures") else "global_error/c.0.0"
    flip_bit(copy / "only" / name)
    said = command(copy.parent, *line.split(), code=3).stderr
    (error,) = [text for text in said.splitlines() if text.startswith("Error")]
    assert f"only/{name}".replace("/c.", ": chunk c.") in error and "--repair" in error


def test_the_root_says_what_mends_it(copy, command):
    (copy / "zarr.json").write_text("{")
    said = command(copy.parent, "status", "test.zarr", code=3).stderr
    assert "test.zarr/zarr.json is not JSON" in said and "from a copy" in said

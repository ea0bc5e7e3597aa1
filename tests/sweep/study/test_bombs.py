"""Studies that ask for too much are refused with the number, before anything is allocated."""

import os
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from studies_at_odds import BOMBS, bomb, bounded, changed_studies, checked
from study_text import one_experiment
from waiting import HANG

from sweep import errors, text
from sweep.errors import StudyError
from sweep.store import studies
from sweep.study import limits, model

PROGRAM = Path(sys.executable).with_name("sweep")
ADDRESSES = 2_000_000_000  # bytes; checking the quickstart takes less than half of it
LISTED = (
    "samples", "bodies", "level", "repeats", "random starts", "lattice", "scanned values", "plugin",
    "piped plugin", "file", "piped file", "claims", "nested", "nested integrators", "uneven mass",
    "text", "store",
)  # fmt: skip
PACKAGED = [file.read_text() for file in model._packaged_files().values()]


def header(file, shape):
    made = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, made)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with devices, pipes, and files that say that they are huge."""
    folder = tmp_path_factory.mktemp("bombs")
    (folder / "zero.npy").symlink_to("/dev/zero")
    for name in ("pipe.py", "pipe.npy", "pipe.toml"):
        os.mkfifo(folder / name)
    for name, shape in (
        ("claims", (10**12, 4, 3)),
        ("hollow", (10**9, 4, 3)),
        ("short", (9, 4, 3)),
    ):
        with open(folder / f"{name}.npy", "wb") as file:
            header(file, shape)
    os.truncate(folder / "hollow.npy", 128 + 96 * 10**9)
    (folder / "large.py").touch()
    os.truncate(folder / "large.py", 10**10)
    with (
        zipfile.ZipFile(folder / "packed.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.npy", "w") as file,
    ):
        header(file, (2 * 10**7, 4, 3))
    root = zarr.open_group(folder / "vast.zarr", mode="w", zarr_format=3)
    root.attrs.update({"format_version": 2, "experiments": ["only"], "studies": [""]})
    root.create_array(
        "only/status", shape=(10**15,), chunks=(10**6,), dtype="i1", dimension_names=("run",)
    )
    zarr.consolidate_metadata(folder / "vast.zarr")
    return folder


@pytest.mark.parametrize("name", BOMBS)
def test_what_is_too_much_is_refused(name, place):
    text = bomb(name)
    with bounded(), pytest.raises(StudyError) as caught:
        checked(text, place)
    assert BOMBS[name][1] in str(caught.value)
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("name", LISTED)
def test_the_command_refuses_it(name, place):
    file = place / f"{name}.toml"
    file.write_text(bomb(name))
    done = subprocess.run(
        [PROGRAM, "check", file.name],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=HANG,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES)),
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert BOMBS[name][1] in done.stderr


@pytest.mark.parametrize("name", ["/dev/zero", "pipe.toml"])
def test_studies_are_regular_files(name, place):
    with bounded(), pytest.raises(limits.InputError, match="a device, a pipe or a socket"):
        studies.load_study_file(place / name)
    with bounded():
        assert studies._store_that_study_was_run_into(place / name, None) is None


def test_files_that_grow_while_they_are_read(tmp_path, monkeypatch):
    (tmp_path / "log").write_bytes(b"x" * 20)
    monkeypatch.setattr(limits, "MOST_TEXT", 10)
    real = os.fstat

    def before_it_grew(descriptor):
        return os.stat_result((*real(descriptor)[:6], 1, *real(descriptor)[7:]))

    monkeypatch.setattr(os, "fstat", before_it_grew)
    with pytest.raises(limits.InputError, match="grows beyond 10 bytes"):
        text.read_regular_file(tmp_path / "log", 10, "a text")


def test_many_problems_are_told_in_part():
    steps = ", ".join(["-1.0"] * 5000)
    with bounded(), pytest.raises(StudyError) as caught:
        checked(one_experiment(step_size=f"[{steps}]"))
    assert str(caught.value).endswith("and further problems")
    assert len(str(caught.value).splitlines()) == errors.MOST_PROBLEMS + 1


def test_what_experiments_ask_for_is_counted_together():
    one = one_experiment(initial_condition="{ random = 1000000, seed = 1 }")
    assert checked(one) == 4_000_000
    more = "".join(
        "[[experiment]]\n" + one.partition("]]\n")[2].replace('"only"', f'"n{k}"') for k in range(2)
    )
    with pytest.raises(StudyError, match="comes to 12,000,000 runs in all experiments"):
        checked(one + more)


STEPS = "[0.1, 0.05, 0.025, 0.02]"
MILLIONS = {
    "starts": {"initial_condition": "{ random = 125000, seed = 1 }", "step_size": STEPS},
    "repeats": {
        "repeat": "12500",
        "step_size": STEPS,
        "initial_condition": "{ random = 10, seed = 1 }",
    },
    "steps": {
        "scan": "{ gravity = { start = 1.0, stop = 2.0, count = 100 } }",
        "step_size": STEPS,
        "initial_condition": "{ random = 1250, seed = 1 }",
    },
}


@pytest.mark.parametrize("name", MILLIONS)
def test_a_million_runs_are_looked_at_without_drawing_them(name, monkeypatch):
    """Counted in calls, not in seconds: nothing is done for each run, and nothing is drawn."""
    drawn = []
    monkeypatch.setattr("systems.ensembles.draw_uniform", lambda *of: drawn.append(of))
    monkeypatch.setattr(
        "sweep.study.initial_conditions.reader.RandomStarts.check", lambda *of: None
    )
    with monkeypatch.context() as patch:
        patch.setattr("sweep.study.run_table.run_digests", None)
        assert checked(one_experiment(**MILLIONS[name])) == 1_000_000
    assert not drawn


@given(changed_studies(PACKAGED))
@settings(max_examples=300, suppress_health_check=list(HealthCheck))
def test_changed_studies_are_read_or_refused(text):
    """Never a traceback, 10 s or 1 GB; ``tests/benchmarks/fuzz_studies.py`` tries many more."""
    with bounded():
        try:
            checked(text)
        except StudyError as error:
            assert error.problems

"""Studies that ask for too much are refused with the number, before anything is allocated."""

import json
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
from study_runs import PACKAGED
from study_text import one_experiment
from waiting import HANG

import sweep
import systems.ensembles
from sweep.errors import InputError, StudyError

PROGRAM = Path(sys.executable).with_name("sweep")
ADDRESSES = 2_000_000_000  # bytes; checking the quickstart takes less than half of it
BRIEF = [text for text in PACKAGED.values() if '"all"' not in text]  # not all pairings


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
    root.attrs.update({"format_version": 3, "experiments": ["only"], "studies": [""]})
    root.create_array(
        "only/status", shape=(10**15,), chunks=(10**6,), dtype="i1", dimension_names=("run",)
    )
    zarr.consolidate_metadata(folder / "vast.zarr")
    return folder


def told(names, place):
    """What one process of little memory says of each study: name to message."""
    for name in names:
        (place / f"{name}.toml").write_text(bomb(name))
    done = subprocess.run(
        [PROGRAM, "check", "--json", *(f"{name}.toml" for name in names)],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=HANG,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES)),
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    found = json.loads(done.stdout)
    assert not any(facts["valid"] for facts in found)
    return {name: "\n".join(facts["problems"]) for name, facts in zip(names, found, strict=True)}


def test_what_is_too_much_is_refused(place):
    for name, message in told(BOMBS, place).items():
        assert all(word in message for word in BOMBS[name][1].split("…")), f"{name}: {message}"
        assert len(message) < 2000


@pytest.mark.parametrize("name", ["/dev/zero", "pipe.toml"])
def test_studies_are_regular_files(name, place, monkeypatch):
    monkeypatch.chdir(place)
    for function in (sweep.load_study, sweep.plan, sweep.run):
        with bounded(), pytest.raises(InputError, match="a device, a pipe or a socket"):
            function(name)


def test_a_file_that_grows_while_it_is_read(here, monkeypatch):
    (here / "s.toml").write_bytes(b"#" * 2_000_000)
    real = os.fstat

    def before_it_grew(descriptor):
        return os.stat_result((*real(descriptor)[:6], 1, *real(descriptor)[7:]))

    monkeypatch.setattr(os, "fstat", before_it_grew)
    with pytest.raises(InputError, match="grows beyond 1,000,000 bytes"):
        sweep.load_study("s.toml")


def test_many_problems_are_told_in_part():
    steps = ", ".join(["-1.0"] * 5000)
    with bounded(), pytest.raises(StudyError) as caught:
        checked(one_experiment(step_size=f"[{steps}]"))
    assert str(caught.value).endswith("and further problems")
    assert len(str(caught.value).splitlines()) == 100 + 1


def test_what_experiments_ask_for_is_counted_together():
    one = one_experiment(initial_condition="{ random = 1000000, seed = 1 }")
    assert checked(one) == 4_000_000
    more = "".join(
        "[[experiment]]\n" + one.partition("]]\n")[2].replace('"only"', f'"n{k}"') for k in range(2)
    )
    with pytest.raises(StudyError, match="12,000,000 runs in all experiments"):
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
    """Counted in states, not in seconds: nothing is done for each run, or each start."""
    drawn = []

    def draw(bodies, seed, members, known=systems.ensembles.draw_uniform):
        drawn.extend(members)
        return known(bodies, seed, members)

    monkeypatch.setattr(systems.ensembles, "draw_uniform", draw)
    assert checked(one_experiment(**MILLIONS[name])) == 1_000_000
    assert len(drawn) <= 1000


@given(changed_studies(BRIEF))
@settings(max_examples=30, suppress_health_check=list(HealthCheck))
def test_changed_studies_are_read_or_refused(text):
    """Never a traceback, 10 s or 1 GB; ``tests/benchmarks/fuzz_studies.py`` tries many more."""
    with bounded():
        try:
            checked(text)
        except StudyError as error:
            assert error.problems

"""Standard output in encodings that lack characters, and where nothing more can be written."""

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from study_text import study_of
from waiting import without_progress

import sweep

PROGRAM = Path(sys.executable).with_name("sweep")
STUDY = """\
format = 1
name = "small"
description = "λ ≤ ½, 一 für √t ~ 10⁻³"

[[experiment]]
name = "pendulum"
system = "spherical_pendulum_chain"
integrators = ["variational", "rk4", { name = "rk4", formulation = "q_qdot", label = "für q" }]
step_size = { start = 0.05, stop = 0.0125, count = 3, spacing = "log" }
initial_condition = "lee"
duration = 1.0
samples = 5
record = ["energy", "momentum", "lyapunov", "megno"]
reference = { integrator = "dop853" }
"""
# All that print, but those that start a cluster, or another program, and wait for it.
QUESTIONS = [
    ("--help",), ("run", "--help"), ("init", "mine.toml"), ("new", "spin-system", "mine"),
    ("check", "small.toml"), ("plan", "small.toml"), ("plan", "small.toml", "--json"),
    ("run", "small.toml", "--no-summary"), ("status", "small.zarr", "--failures"),
    ("status", "small.zarr", "--json"), ("decide", "small.zarr", "--dry-run"),
    ("summary", "small.zarr"),
    ("verify", "small.zarr"), ("ls", "systems"), ("ls", "integrators"), ("guide",),
    ("show", "system", "heavy_top"), ("show", "integrator", "variational"),
    ("show", "study", "small.toml"), ("query", "small.zarr"), ("query", "small.zarr", "--json"),
    ("order", "small.zarr"), ("order", "small.zarr", "--json"), ("drift", "small.zarr"),
    ("order", "small.zarr", "--format", "csv"), ("chaos", "small.zarr"), ("work", "small.zarr"),
    ("export", "small.zarr", "mine.csv"), ("retry", "small.zarr"), ("schema",),
    ("guide", "drift"),
]  # fmt: skip
EVERY_FIFTH = QUESTIONS[::5]
OTHERS = [question for question in QUESTIONS if question not in EVERY_FIFTH]


@pytest.fixture(scope="module")
def place(tmp_path_factory, cluster):
    place = tmp_path_factory.mktemp("streams")
    (place / "small.toml").write_text(STUDY)
    assert sweep.run(study_of(STUDY), place / "small.zarr", cluster).complete
    return place


def ask(called, place, question, out):
    for file in place.glob("mine.*"):
        file.unlink()
    return called(place, *question, out=out)


def printed_in(encoding, called, place, question):
    out = io.TextIOWrapper(io.BytesIO(), encoding)
    done = ask(called, place, question, out)
    assert done.returncode == 0, (question, done.stderr)
    return out.buffer.getvalue().decode(encoding)


@pytest.mark.parametrize(
    "questions", [EVERY_FIFTH, pytest.param(OTHERS, marks=pytest.mark.slow)], ids=len
)
def test_every_command_prints_in_ascii(place, called, questions):
    for question in questions:
        text = printed_in("ascii", called, place, question)
        assert text and ("--json" not in question or json.loads(text))


def test_what_a_terminal_has_no_sign_for_is_written_in_ascii(place, called):
    order = "order", "small.zarr"
    text = printed_in("ascii", called, place, order)
    assert "fur q" in text and "+-0.0" in text and "?" not in text
    text = printed_in("latin-1", called, place, order)
    assert "für q" in text and "±0.0" in text
    rows = json.loads(printed_in("ascii", called, place, (*order, "--json")))["pendulum"]["rows"]
    assert {row["integrator"] for row in rows} == {"variational", "rk4", "für q"}
    described = printed_in("ascii", called, place, ("show", "study", "small.toml"))
    assert "lambda <= 1/2, \\u4e00 fur sqrt t ~ 10^-3" in described


class Unwritable(io.StringIO):
    """A stream that fails with an error of this number."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def write(self, text):
        raise OSError(self.number, os.strerror(self.number))


def test_a_full_standard_output_is_named(place, called):
    for question in QUESTIONS[2::5]:
        done = ask(called, place, question, Unwritable(errno.ENOSPC))
        assert done.returncode == 4, question
        (line,) = without_progress(done.stderr)
        assert line.startswith("Stopped: standard output is full: No space left on device.")


def test_a_closed_pipe_is_silent(place, called):
    done = called(place, "guide", "drift", out=Unwritable(errno.EPIPE))
    assert (done.returncode, done.stderr) == (1, "")


def test_a_process_whose_streams_are_full_ends_with_its_code():
    """Also where Python tries once more to write what is left."""
    with open("/dev/full", "w") as full:
        done = subprocess.run([PROGRAM, "guide", "drift"], stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == 4 and done.stderr.count(b"\n") == 1

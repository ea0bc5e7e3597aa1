"""With --json standard output is one document, of commands that compute or write files too."""

import json
import os
import shutil

import pytest

STUDY = """\
format = 1
name = "tiny"

[[experiment]]
name = "pendulum"
system = "spherical_pendulum_chain"
integrators = ["variational", "rk4"]
initial_condition = "lee"
step_size = [0.1, 0.05, 0.025]
duration = 1.0
samples = 5
reference = { integrator = "dop853" }
"""


@pytest.fixture(scope="module")
def said(command, tmp_path_factory):
    """A function that gives what a command prints as JSON, in a directory with a study's store."""
    place = tmp_path_factory.mktemp("json")
    (place / "tiny.toml").write_text(STUDY)

    def call(*arguments, code=0):
        return json.loads(command(place, *arguments, "--json", code=code).stdout)

    call.place, call.ran = place, call("run", "tiny.toml")
    return call


def test_a_run_says_how_it_ended(said):
    row = {"experiment": "pendulum", "runs": 6, "done": 6, "failed": 0}
    assert os.path.basename(said.ran.pop("store")) == "tiny.zarr"
    assert said.ran == {"complete": True, "stopped": None, "experiments": [row]}


def test_a_run_that_does_not_end_says_why(said):
    found = said("run", "tiny.toml", "late.zarr", "--max-time", "0.001", code=4)
    assert found["complete"] is False and "time" in found["stopped"]


def test_runs_that_go_on_and_those_tried_again(said):
    shutil.copytree(said.place / "tiny.zarr", said.place / "other.zarr")
    longer = said("extend", "other.zarr", "--duration", "2")
    assert longer["complete"] and longer["experiments"][0]["done"] == 6
    assert said("retry", "other.zarr")["experiments"] == []


def test_merged_stores_say_what_came_from_where(said):
    shutil.copytree(said.place / "tiny.zarr", said.place / "again.zarr")
    (share,) = said("merge", "tiny.zarr", "again.zarr", "-o", "both.zarr")["experiments"]
    assert (share["experiment"], share["taken"], share["both"]) == ("pendulum", [6, 0], 6)


def test_files_that_were_written_are_named(said):
    exported = said("export", "tiny.zarr", "tiny.csv")
    assert exported["runs"] == 6 and exported["paths"][0].endswith("tiny.csv")
    drawn = said("plot", "order", "tiny.zarr", "-o", "order.svg", "--data", "order.csv")
    assert [os.path.basename(file) for file in drawn["files"]] == ["order.svg", "order.csv"]


def test_checks_of_several_studies(said):
    right, wrong = said("check", "tiny.toml", "missing.toml", code=2)
    assert right["valid"] and right["runs"] == 6
    (experiment,) = right["experiments"]
    assert experiment["step_sizes"] == [0.025, 0.05, 0.1] and experiment["tolerances"] == []
    assert not wrong["valid"] and "there is no such file" in wrong["problems"][0]


def test_topics_of_the_guide(said):
    assert "tutorial" in said("guide")
    assert said("guide", "order")["text"].startswith("# ")

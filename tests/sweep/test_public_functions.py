"""The public functions of `sweep`: there, documented, and as many as commands."""

import inspect
import re

import pytest
from study_text import one_experiment

import sweep
from sweep.errors import InputError, StudyError
from sweep.tables.answers import ANSWERS

# What only makes sense at a terminal, or is a file that is read or written.
TERMINAL = {"init", "new", "schema", "cancel", "ls", "show", "serve", "guide", "summary"}


def test_each_command_has_a_function_that_the_guide_names(tmp_path, command):
    text = command(tmp_path, "guide", "python").stdout
    listed = command(tmp_path, "--help").stdout.partition("\nBegin:\n")[2]
    for name in {*re.findall(r"^  (\w+)", listed, re.M)} - TERMINAL:
        own = getattr(sweep, name, None), getattr(sweep, f"{name}_table", None)
        found = sweep.plots.picture if name == "plot" else next(filter(callable, own))
        told = "`_table`" if name in ANSWERS else {"plot": "`plots.picture`"}.get(name, f"`{name}`")
        assert found.__doc__ and told in text, name


def test_every_public_name_is_there_and_says_what_it_is():
    assert [name for name in sweep.__all__ if not inspect.getdoc(getattr(sweep, name))] == []


def test_functions_do_what_commands_do(tmp_path, command, cluster):
    path = tmp_path / "test.toml"
    path.write_text(one_experiment())
    study, (table,) = sweep.check(path)
    planned = sweep.plan(path, tmp_path / "test.zarr")
    assert planned.to_dataframe()["runs"].tolist() == [table.size]
    assert planned.cpu_seconds > 0.0
    assert sweep.run(study, tmp_path / "test.zarr", cluster).complete
    (progress,) = sweep.status(tmp_path / "test.zarr")
    assert progress.done == progress.runs == table.size and not progress.left
    assert sweep.failures(tmp_path / "test.zarr") == [] == sweep.verify(tmp_path / "test.zarr")
    assert not sweep.repair(tmp_path / "test.zarr").findings
    duration = 2.0 * study.experiments[0].duration
    extended = sweep.extend(tmp_path / "test.zarr", duration, client=cluster)
    assert extended.complete and sweep.status(tmp_path / "test.zarr")[0].done == table.size


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda place: sweep.check(place / "none.toml"), StudyError, "there is no such file"),
        (lambda place: sweep.status(place / "none.zarr"), InputError, "none.zarr"),
        (lambda place: sweep.extend(place / "none.zarr"), InputError, "nothing to extend"),
        (lambda place: sweep.extend(place, integrators=None), InputError, "integrators = None; ex"),
        (lambda place: sweep.run(None), InputError, "study = None; expected a file, the name"),
        (lambda place: sweep.plan(3), InputError, "study = 3; expected a file, the name"),
        (lambda place: sweep.Store.at(3), InputError, "store = 3; expected a directory, or s3://"),
        (lambda place: sweep.extend(place, samples=3), InputError, "a longer duration"),
        (lambda place: sweep.submit("quickstart", place / "q.zarr"), InputError, "expected the"),
        (
            lambda place: sweep.submit(
                "quickstart",
                place / "q.zarr",
                sweep.ClusterSpec(scheduler="tcp://h:1"),
                max_time=-1.0,
            ),
            InputError,
            "max_time",
        ),
        (lambda place: sweep.reproduce("leee", place), InputError, "Did you mean 'lee'?"),
    ],
    ids=[
        "check", "status", "extend", "integrators", "run", "plan", "store", "samples", "submit",
        "max_time", "reproduce",
    ],
)  # fmt: skip
def test_bad_input_is_refused(tmp_path, call, error, text):
    with pytest.raises(error, match=re.escape(text)):
        call(tmp_path)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"step_sizes": ["a"]}, "step_sizes = 'a'; expected a number > 0"),
        ({"tolerances": {"start": 1e-6}}, "tolerances = {'start': 1e-06}; expected numbers > 0"),
        ({"members": "x"}, "members = 'x'; expected a whole number"),
        ({"duration": 2.0, "samples": 2.5}, "samples = 2.5; expected a whole number"),
        ({"step_size": 0.03}, "Did you mean 'step_sizes'?"),
        ({"study": "small.toml"}, "unknown argument 'study'"),
    ],
)
def test_arguments_of_an_extension_are_checked(tmp_path, given, text):
    with pytest.raises(InputError, match=re.escape(text)):
        sweep.extend(tmp_path / "test.zarr", **given)

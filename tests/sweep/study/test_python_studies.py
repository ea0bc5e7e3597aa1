"""Studies that are built in Python are those that their text describes."""

import numpy as np
import plugin_text
import pytest

import sweep
from sweep.errors import StudyError

KEYS = {
    "name": "pendulum",
    "system": "spherical_pendulum_chain",
    "integrators": ["variational", {"name": "rk4", "label": "classic"}],
    "initial_condition": ["lee", {"around": "lee", "random": 3, "spread": 0.1, "seed": 1}],
    "duration": 2.0,
    "samples": 10,
    "step_size": np.array([0.01, 0.005]),
    "scan": {"gravity": (1.0, 2.0)},
}


def a_study(**changes):
    return sweep.Study("order", [sweep.Experiment(**KEYS | changes)], description="As asked")


def test_a_study_is_the_one_that_its_text_describes(here):
    built, file = a_study(), here / "order.toml"
    file.write_text(built.toml())
    read = sweep.load_study(file)
    assert (read.name, read.description, read.toml()) == ("order", "As asked", built.toml())
    (table,), (same,) = built.check(), read.check()
    assert table.to_dataframe().equals(same.to_dataframe())
    assert len(table.to_dataframe()) == 2 * 2 * 4 * 2


def test_what_takes_a_study_takes_one_that_was_built():
    built = a_study()
    study, tables = sweep.check(built)
    assert study is built and len(tables) == 1
    assert sweep.plan(built, "s.zarr").to_dataframe()["runs"].tolist() == [32]
    assert sweep.load_study(built) is built


@pytest.mark.parametrize(
    "changes, where, words",
    [
        ({"system": "pendulum"}, "experiment[0].system: ", ("unknown", "'pendulum'")),
        ({"step_size": 0.3}, "experiment[0].step_size: ", ("0.3",)),
        ({"exclude": [{"step_siz": 0.1}]}, "experiment[0].exclude[0].step_siz: ", ("step_size",)),
    ],
)
def test_a_mistake_is_told_with_its_key_and_without_a_line(changes, where, words):
    with pytest.raises(StudyError) as refused:
        a_study(**changes)
    found = str(refused.value)
    assert found.startswith(f"study 'order': {where}") and all(word in found for word in words)


@pytest.mark.parametrize(
    "changes, where, words",
    [
        ({"scan": {"gravity": [object()]}}, "scan.gravity[0]: ", ("number",)),
        ({"duration": float("nan")}, "duration: ", ("finite",)),
        ({"samples": True}, "samples: ", ("integer", "boolean")),
        ({"initial_condition": [{"random": 3}]}, "initial_condition[0]: ", ("'seed'", "missing")),
    ],
)
def test_an_experiment_says_itself_what_is_of_a_wrong_type(changes, where, words):
    with pytest.raises(StudyError) as refused:
        sweep.Experiment(**KEYS | changes)
    found = str(refused.value)
    assert found.startswith(f"sweep.Experiment: {where}") and all(word in found for word in words)


def test_an_experiment_stays_as_it_is():
    experiment = sweep.Experiment(**KEYS)
    with pytest.raises(StudyError, match=r"duration = -1 cannot be set.*model_copy\(update="):
        experiment.duration = -1
    longer = experiment.model_copy(update={"duration": 2.0})
    assert sweep.Study("order", [longer]).experiments[0].duration == 2.0


@pytest.mark.parametrize(
    "experiments, words",
    [([KEYS], "sweep.Experiment"), (sweep.Experiment(**KEYS), "list of experiments, got one")],
    ids=["a dict", "no list"],
)
def test_a_study_has_a_list_of_experiments(experiments, words):
    with pytest.raises(StudyError, match=f"^study 'order': expected .*{words}"):
        sweep.Study("order", experiments)


def test_plugins_are_found_from_the_directory(tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "bead.py").write_text(plugin_text.BEAD)
    experiment = sweep.Experiment(**KEYS | {"integrators": ["ralston"]})
    made = sweep.Study("order", [experiment], plugins=["bead.py"], directory=elsewhere)
    assert set(made.check()[0].to_dataframe()["integrator"]) == {"ralston"}
    with pytest.raises(StudyError, match="no file 'bead.py'"):
        sweep.Study("order", [experiment], plugins=["bead.py"])


@pytest.mark.parametrize(
    "keys, words",
    [
        (KEYS | {"integrator": ["rk4"]}, ("'integrator'", "Did you mean 'integrators'?")),
        ({"name": "pendulum"}, ("'system'", "'integrators'", "missing")),
    ],
)
def test_a_wrong_keyword_is_told_as_a_wrong_key_is(keys, words):
    with pytest.raises(StudyError) as refused:
        sweep.Experiment(**keys)
    found = str(refused.value)
    assert found.startswith("sweep.Experiment: ") and all(word in found for word in words)


def test_every_key_of_a_file_is_a_keyword_and_every_keyword_a_key():
    for name in sweep.Experiment.model_fields:
        with pytest.raises(StudyError) as refused:
            a_study(**{name: {"wrong": "\x00"}})
        assert f": {name}" in str(refused.value) or f"[0].{name}" in str(refused.value)


def test_the_keys_of_a_single_experiment_make_a_study_of_its_name():
    keys = {key: of for key, of in KEYS.items() if key != "name"}
    short = sweep.Study("order", **keys, description="As asked")
    assert short.toml() == a_study(name="order").toml()
    with pytest.raises(StudyError, match="'repeat' belongs to a sweep.Experiment"):
        sweep.Study("order", [sweep.Experiment(**KEYS)], repeat=2)


def test_methods_are_the_functions():
    built = a_study()
    frame = built.check()[0].to_dataframe()
    assert list(frame)[:2] == ["integrator", "step_size"] and set(frame["gravity"]) == {1.0, 2.0}
    assert built.plan("s.zarr", workers=3).to_dataframe()["runs"].tolist() == [32]
    assert built.run.__doc__ == sweep.run.__doc__


def test_what_python_shows_says_what_one_would_ask():
    built, planned = a_study(), a_study().plan("s.zarr")
    for shown, words in (
        (built, ["Study order: As asked", "variational, classic", "step 0.005 – 0.01", "32"]),
        (planned, ["s.zarr", "pendulum", "32 runs to compute in", "of CPU time"]),
        (sweep.check(built), ["Study order: As asked", "order: valid, 32 runs"]),
    ):
        page = shown._repr_html_()
        assert [word for word in words if word not in repr(shown) or word not in page] == []
        assert len(repr(shown).splitlines()) <= 5 and "<table" in page
    assert repr(built.check()) == "[<RunTable pendulum: 32 runs of spherical_pendulum_chain>]"
    given = sweep.Experiment(**KEYS | {"step_size": 0.01})
    assert repr(given).startswith("Experiment(name='pendulum', system='spherical_pendulum_chain', ")
    assert "{'name': 'rk4', 'label': 'classic'}], step_size=0.01, " in repr(given)

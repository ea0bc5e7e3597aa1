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


def test_a_study_is_the_one_that_its_text_describes(tmp_path):
    built, file = a_study(), tmp_path / "order.toml"
    file.write_text(built.toml())
    read = sweep.load_study(file)
    assert read.experiments == built.experiments
    assert (read.name, read.description) == (built.name, built.description)
    assert built.experiments[0].step_sizes == (0.01, 0.005)
    assert built.experiments[0].size == 2 * 2 * 4 * 2


def test_what_takes_a_study_takes_one_that_was_built(tmp_path):
    built = a_study()
    study, (table,) = sweep.check(built)
    assert study is built and len(table.step_size) == 32
    assert (
        sum(
            len(part.rows)
            for part in (one.entry for one in sweep.plan(built, tmp_path / "s.zarr").experiments)
        )
        == 32
    )
    assert sweep.load_study(built) is built


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"system": "pendulum"}, "study 'order': experiment[0].system: unknown system 'pendulum'"),
        ({"step_size": 0.3}, "study 'order': experiment[0].step_size: "),
        ({"scan": {"gravity": [object()]}}, "study 'order': experiment[0].scan: expected a number"),
        ({"duration": float("nan")}, "study 'order': experiment[0].duration: expected a finite"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_key_and_without_a_line(changes, message):
    with pytest.raises(StudyError) as refused:
        a_study(**changes)
    assert str(refused.value).startswith(message)


def test_an_experiment_is_no_dict():
    with pytest.raises(StudyError, match="expected each experiment as a sweep.Experiment"):
        sweep.Study("order", [KEYS])


def test_plugins_are_found_from_the_directory(tmp_path):
    (tmp_path / "bead.py").write_text(plugin_text.BEAD)
    made = sweep.Study("order", [sweep.Experiment(**KEYS)], plugins=["bead.py"], directory=tmp_path)
    assert [plugin.name for plugin in made.plugins] == ["bead.py"]
    assert made.plugins == made.library.plugins


@pytest.mark.parametrize(
    "keys, message",
    [
        (
            KEYS | {"integrator": ["rk4"]},
            "unknown keyword 'integrator'. Did you mean 'integrators'?",
        ),
        (
            {"name": "pendulum"},
            "missing 5 required keyword-only arguments: 'system', 'integrators',",
        ),
    ],
)
def test_a_wrong_keyword_is_told_as_a_wrong_key_is(keys, message):
    with pytest.raises(StudyError) as refused:
        sweep.Experiment(**keys)
    assert str(refused.value).startswith(f"sweep.Experiment: {message}")


def test_one_experiment_is_no_list():
    with pytest.raises(
        StudyError, match="^study 'order': expected a list of experiments, got one$"
    ):
        sweep.Study("order", sweep.Experiment(**KEYS))


def test_methods_are_the_functions(tmp_path):
    built = a_study()
    assert [table.size for table in built.check()] == [32]
    frame = built.check()[0].to_dataframe()
    assert list(frame)[:2] == ["integrator", "step_size"] and set(frame["gravity"]) == {1.0, 2.0}
    plan = built.plan(tmp_path / "s.zarr", workers=3)
    assert plan.to_dataframe()["runs"].tolist() == [32] and "of CPU time" in plan._repr_html_()
    page = built._repr_html_()
    assert "Study order: As asked" in page and "variational, classic" in page
    assert "step 0.005 – 0.01" in page

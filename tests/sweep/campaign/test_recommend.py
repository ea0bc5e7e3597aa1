"""Recommendations: what they promise holds, against what is measured apart from them."""

import dataclasses
import json
import math

import numpy as np
import pytest

import integrators
import sweep
from sweep.campaign.recommend import recommend as module
from sweep.errors import InputError

STUDY = """\
format = 1
name = "top"

[[experiment]]
name = "only"
system = "free_rigid_body"
integrators = ["rk4"]
step_size = 0.01
initial_condition = {start}
duration = {duration}
samples = 10
"""
RANDOM = '["figure3", { around = "figure3", random = 4, spread = 0.1, seed = 3 }]'
UNTIL, BOUND = 40.0, 1e-6


def study(start=RANDOM, duration=UNTIL):
    return sweep.study.model.parse_study(STUDY.format(start=start, duration=duration))


@pytest.fixture
def few(monkeypatch):
    """Only some integrators: kernels of all would take minutes to compile."""
    names = ("spherical_midpoint", "spherical_midpoint+suzuki4", "rk4", "rk2_heun", "rk45")

    def fitting(family, library):
        return {name: integrators.get(name) for name in names}

    monkeypatch.setattr(module, "fitting_integrators", fitting)
    return names


@pytest.fixture
def found(few):
    return sweep.recommend(study(), energy_error=BOUND, global_error=1e-2)


def errors_of(choice, states, until=UNTIL):
    """Largest error of the energy at the steps, and of the state, of each of some states."""
    system = study().experiments[0].make_systems()[0]
    steps = round(until / choice.size)
    run = integrators.integrate(
        system, integrators.get(choice.integrator), states, step_size=until / steps,
        duration=until, samples=steps,
    )  # fmt: skip
    exact = integrators.integrate(
        system, integrators.get("exact"), states, step_size=until / steps, duration=until,
        samples=steps,
    )  # fmt: skip
    energy = 0.5 * np.sum(run.states[:, :, 0] ** 2 / np.array(system.inertia), axis=-1)
    change = np.abs(energy - energy[:, :1]).max(axis=1)
    return change, np.linalg.norm(run.states - exact.states, axis=(2, 3)).max(axis=1)


def test_what_is_recommended_keeps_the_bounds_of_new_starts(found, few):
    assert found.best.integrator in few and not found.best.adaptive
    assert (found.above, found.held_back) == (0, module.HELD_BACK) and found.in_time
    attempts = [(0.05 * 0.5**k) ** (1 / found.held_back) for k in range(1, 1 + module.ATTEMPTS)]
    assert min(abs(found.share - share) for share in attempts) < 1e-12
    system = study().experiments[0].make_systems()[0]
    new = system.ensemble(100, seed=99, around="figure3", spread=0.1)
    energy, state = errors_of(found.best, new)
    assert np.mean((energy <= BOUND) & (state <= 1e-2)) >= found.share


def test_a_larger_step_would_not_keep_them(found):
    """What is recommended is no smaller than it has to be: twice as large a step errs too much."""
    system = study().experiments[0].make_systems()[0]
    new = system.ensemble(100, seed=98, around="figure3", spread=0.1)
    steps = round(UNTIL / found.best.size) // 2
    larger = type(found.best)(**vars(found.best) | {"size": UNTIL / steps})
    energy, state = errors_of(larger, new)
    assert not np.all((energy <= BOUND) & (state <= 1e-2))


def test_runners_up_are_in_the_order_of_their_cost(found):
    seconds = [own.seconds for own in found.others if own.is_expected]
    assert seconds == sorted(seconds)
    assert all(own.seconds >= found.best.seconds for own in found.others if not own.is_expected)
    assert {own.integrator for own in found.others}.isdisjoint(found.unable)


def test_the_study_of_the_answer_runs(found, cluster, tmp_path):
    path = tmp_path / "answer.toml"
    path.write_text(found.text)
    outcome = sweep.run(path, tmp_path / "answer.zarr", cluster)
    assert outcome.complete
    runs = sweep.open_study(tmp_path / "answer.zarr")["only"].to_dataset()
    best = sweep.query(runs, f"integrator == '{found.best.integrator}'")
    assert float(best["step_size"][0]) == pytest.approx(found.best.size)
    assert float(best["energy_error_abs_max"].max()) <= BOUND
    assert float(best["global_error"].max()) <= 1e-2


def test_the_answer_in_words_and_as_a_picture(found):
    first, verified, *_, tried = sweep.tables.recommendation_in_sentences(found)
    assert first.startswith(f"{found.best.integrator} with step size ")
    assert "the energy error below 1e-06" in first and "the global error below 0.01" in first
    assert f"0 of {found.held_back} initial conditions that were held back" in verified
    assert tried.startswith(f"Tried {found.tried} of 5 integrators that fit")
    table = sweep.tables.recommendation_as_table(found)
    assert len(table.rows) == 1 + len(found.others)
    figure = sweep.plots.recommendation_picture(found)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[0] == found.best.integrator and labels[-1] == "recommended"


def test_the_command_writes_the_answer_a_picture_and_a_study(few, command, tmp_path):
    (tmp_path / "top.toml").write_text(STUDY.format(start=RANDOM, duration=8.0))
    asked = ["recommend", "top.toml", "--energy-error", "1e-6", "--until", "4"]
    done = command(tmp_path, *asked, "--plot", "a.svg", "--study", "a.toml")
    assert "keeps the energy error below 1e-06 until t = 4" in done.stdout.splitlines()[0]
    assert "integrators until t = 4" in done.stderr
    assert "recommended" in (tmp_path / "a.svg").read_text()
    assert "a.toml" in done.stdout
    assert "top-recommended: valid" in command(tmp_path, "check", "a.toml").stdout
    found = json.loads(command(tmp_path, *asked, "--json").stdout)
    assert found["best"]["integrator"] in few and found["until"] == 4.0
    assert found["bounds"][0]["error"] == "energy_error"


PLUGIN = """
import dataclasses
from integrators.plugin import named
INTEGRATORS = [dataclasses.replace(named("rk4")[0], name="mine")]
"""


def test_a_study_of_the_answer_finds_its_plugins(command, tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "mine.py").write_text(PLUGIN)
    text = STUDY.format(start=RANDOM, duration=8.0)
    text = text.replace("[[", 'plugins = ["mine.py"]\n[[')
    (tmp_path / "far" / "top.toml").write_text(text)
    asked = ["recommend", "far/top.toml", "--energy-error", "1e-6", "--study", "a.toml"]
    done = command(tmp_path, *asked, code=2)
    assert "--study a.toml: far/top.toml names files beside it; expected one in far" in done.stderr
    assert not (tmp_path / "a.toml").exists()


def test_of_a_single_start_nothing_is_said_of_others(few):
    found = sweep.recommend(study('"figure3"', 8.0), energy_error=1e-3)
    assert (found.searched, found.held_back, found.together) == (1, 0, 1)
    _, verified, *_ = sweep.tables.recommendation_in_sentences(found)
    assert "of others nothing is known" in verified


def test_doubt_is_said_in_words(found):
    """Each of them where there is a field for it, and nowhere else."""
    say = sweep.tables.recommendation_in_sentences
    best, other = found.best, dataclasses.replace(found.best, integrator="another")
    alike = dataclasses.replace(found, others=(dataclasses.replace(other, is_apart=False),))
    assert "another may be as cheap" in say(alike)[0] and "times cheaper" not in say(alike)[0]
    dearer = dataclasses.replace(other, seconds=3 * best.seconds)
    assert "3 times cheaper than another" in say(dataclasses.replace(found, others=(dearer,)))[0]
    expected = dataclasses.replace(best, is_expected=True, until=2.0)
    early = say(dataclasses.replace(found, best=expected, in_time=False))
    assert "is expected to keep" in early[0] and early[1].startswith("Not verified: the budget")
    small = dataclasses.replace(best, errors=dict.fromkeys(best.errors, 1e-14), at_largest=True)
    both = say(dataclasses.replace(found, best=small))[2]
    assert both == "No larger step was tried."  # the global error is bound already
    energy = dataclasses.replace(found, best=small, bounds=found.bounds[:1])
    assert say(energy)[2].endswith("bound the global error as well.")
    far = dataclasses.replace(small, at_largest=False)
    failed = dataclasses.replace(found.points[0], integrator=best.integrator, ratio=np.inf)
    failed = dataclasses.replace(failed, size=2 * best.size)
    seen = say(dataclasses.replace(found, best=far, points=(failed,)))[2]
    assert f"with step size {2 * best.size:.3g}" in seen
    assert not say(dataclasses.replace(found, best=far, points=()))[2].startswith("That is far")


def test_a_bound_that_none_keeps_says_the_least_that_is_reached(few):
    with pytest.raises(InputError, match=r"no integrator keeps .* the least is .* at ") as caught:
        sweep.recommend(study(duration=8.0), energy_error=1e-19)
    assert "of CPU time a run" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, "no error to keep below a bound"),
        ({"energy_error": -1.0}, "energy_error = -1.0; expected a number > 0"),
        ({"energy_error": math.nan}, "energy_error = nan; expected a number"),
        ({"energy_error": 1.0, "budget": 0.0}, "budget = 0.0; expected a number > 0"),
        ({"energy_error": 1.0, "until": 0.0}, "until = 0.0; expected a number > 0"),
        ({"energy_error": 1.0, "experiment": "onyl"}, "Did you mean 'only'?"),
        ({"energy_error": 1.0, "budget": 1e-9}, "the budget ended before any"),
        ({"global_error": 1e-15}, "the reference itself is uncertain by"),
    ],
)
def test_bad_input_is_refused_in_a_line(few, asked, words):
    with pytest.raises(InputError) as caught:
        sweep.recommend(study(), **asked)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_system_without_momentum_has_no_error_of_it():
    text = STUDY.format(start='"figure3"', duration=1.0)
    text = text.replace("free_rigid_body", "magnetic_dipoles").replace("figure3", "lee")
    with pytest.raises(InputError, match="magnetic_dipoles has no momentum map"):
        sweep.recommend(sweep.study.model.parse_study(text), momentum_error=1e-3)


def test_an_experiment_that_scans_is_refused():
    text = STUDY.format(start='"figure3"', duration=1.0)
    text = text.replace("free_rigid_body", "spherical_pendulum_chain").replace("figure3", "lee")
    text += "scan = { gravity = [1.0, 2.0] }\n"
    with pytest.raises(InputError, match="'only' scans gravity"):
        sweep.recommend(sweep.study.model.parse_study(text), energy_error=1e-3)


def test_random_states_that_are_drawn_are_those_of_the_study_and_more():
    experiment = study().experiments[0]
    (system,) = experiment.make_systems()
    draw = module.StartSampler(experiment, system)
    drawn = np.concatenate([draw.take(3), draw.take(5)])
    again = system.ensemble(8, seed=3, around="figure3", spread=0.1)
    assert np.array_equal(drawn, again) and draw.is_endless
    assert np.array_equal(draw.single, system.start("figure3")[np.newaxis])

"""Recommendations: what they promise holds, against what is measured apart from them.

What a sentence or a message advises is put into the study, and checked or run.
"""

import dataclasses
import functools
import json
import math
import re
import tomllib

import numpy as np
import pytest
from study_runs import write

import integrators
import sweep
import systems
from integrators.compiler.lanes import WIDTH
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
UNTIL, BOUND = 8.0, 1e-6


@pytest.fixture(scope="module", autouse=True)
def few():
    """Only some integrators: kernels of all would take minutes to compile."""
    names = ("spherical_midpoint", "spherical_midpoint+suzuki4", "rk4", "rk2_heun", "rk45")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(integrators, "names", lambda also=(): [*names, *(one.name for one in also)])
        yield names


@pytest.fixture
def two(monkeypatch):
    """Only two of them, where it does not matter which is the best."""
    monkeypatch.setattr(integrators, "names", lambda also=(): ["rk4", "rk2_heun"])


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Write the study with some changes: the path of its file."""

    def of(start=RANDOM, duration=UNTIL, more="", **changes):
        text = STUDY.format(start=start, duration=duration)
        for before, after in changes.items():
            text = text.replace(before, after)
        return write(text + more, tmp_path_factory.mktemp("study"))

    return of


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The store that the runs of `found` are kept in."""
    return tmp_path_factory.mktemp("search") / "kept.zarr"


@pytest.fixture(scope="module")
def found(few, study, cluster, kept):
    return sweep.recommend(
        study(), energy_error=BOUND, global_error=1e-5, keep=kept, client=cluster
    )


@pytest.fixture(scope="module")
def recommend(cluster):
    """`sweep.recommend` on the shared cluster."""
    return functools.partial(sweep.recommend, client=cluster)


class ReferencesDo(Exception):
    """The references can tell the error: the search begins."""


def begin(line):
    if "integrators until" in line:
        raise ReferencesDo


@pytest.fixture(scope="module")
def top():
    return systems.get("free_rigid_body")


def energy_changes(integrator, size, states, until=UNTIL):
    """Largest error of the energy at the steps, of each of some states, and the run."""
    system, steps = systems.get("free_rigid_body"), round(until / size)
    run = integrators.integrate(
        system, integrators.get(integrator), states, step_size=until / steps, duration=until,
        samples=steps,
    )  # fmt: skip
    energy = 0.5 * np.sum(run.states[:, :, 0] ** 2 / np.array(system.inertia), axis=-1)
    return np.abs(energy - energy[:, :1]).max(axis=1), run


def errors_of(integrator, size, states):
    """Largest errors of the energy and of the state, of each of some states.

    No more states are integrated side by side than in a search: their kernels are compiled.
    """
    found = []
    for first in range(0, len(states), WIDTH):
        part = states[first : first + WIDTH]
        change, run = energy_changes(integrator, size, part)
        exact = integrators.integrate(
            systems.get("free_rigid_body"), integrators.get("dop853"), part, tolerance=2.3e-14,
            duration=UNTIL, samples=len(run.times) - 1,
        )  # fmt: skip
        off = np.linalg.norm(run.states - exact.states, axis=(2, 3)).max(axis=1)
        found.append((change, off))
    return np.concatenate(found, axis=1)


@pytest.mark.slow
def test_what_is_recommended_keeps_the_bounds_of_new_starts(found, few, top):
    assert found.best.integrator in few and not found.best.adaptive
    assert (found.above, found.held_back) == (0, 40) and found.in_time
    attempts = [(0.05 * 0.5**attempt) ** (1 / 40) for attempt in (1, 2, 3)]
    assert min(abs(found.share - share) for share in attempts) < 1e-12
    new = top.ensemble(100, seed=99, around="figure3", spread=0.1)
    energy, state = errors_of(found.best.integrator, found.best.size, new)
    assert np.mean((energy <= BOUND) & (state <= 1e-5)) >= found.share


@pytest.mark.slow
def test_a_larger_step_would_not_keep_them(found, top):
    """What is recommended is no smaller than it has to be: twice as large a step errs too much."""
    new = top.ensemble(100, seed=98, around="figure3", spread=0.1)
    steps = round(UNTIL / found.best.size) // 2
    energy, state = errors_of(found.best.integrator, UNTIL / steps, new)
    assert not np.all((energy <= BOUND) & (state <= 1e-5))


@pytest.mark.slow
def test_runners_up_are_in_the_order_of_their_cost(found):
    seconds = [own.seconds for own in (found.best, *found.others)]
    assert seconds == sorted(seconds) and found.others
    assert all(own.errors["energy_error"] <= BOUND for own in found.others)
    least = max(found.best.seconds_next, 1.1 * found.best.seconds)
    assert all(own.is_apart == (own.seconds > least) for own in found.others)


@pytest.mark.slow
def test_the_rounds_are_runs_of_a_store_with_which_the_search_goes_on(
    found, kept, study, recommend
):
    """It finds the same from the same runs, and `sweep run` has nothing to add.

    Also after another search of the same store, of other sample times, that is cut short.
    """
    before = {name: group.sizes["run"] for name, group in sweep.open_study(kept).children.items()}
    parts = ("sixteenth", "quarter", "whole")
    assert set(before) == {f"only-energy-global-8-10-{part}" for part in parts}
    runs = sweep.open_study(kept)["only-energy-global-8-10-whole"].to_dataset()
    best = sweep.query(runs, f"integrator == '{found.best.integrator}'")
    at = np.isclose(best["step_size"], found.best.size) & (best["repeat"] == 0)
    assert at.sum() == found.searched + found.held_back
    assert float(best["global_error"][at].max()) == found.best.errors["global_error"]
    assert not any(sweep.plan(kept, kept).to_dataframe()["runs"])
    asked = {"energy_error": BOUND, "global_error": 1e-5, "keep": kept}
    with pytest.raises(ReferencesDo):
        recommend(study(), **asked | {"until": 0.5}, say=begin)
    again = recommend(study(), **asked)
    assert again.search_seconds > found.search_seconds
    assert dataclasses.replace(again, search_seconds=found.search_seconds) == found


@pytest.mark.slow
def test_one_that_is_cut_short_goes_on(two, study, recommend, tmp_path):
    """At whatever run that was: here after the first of a round."""
    asked = {"energy_error": 1e-4, "until": 1.0, "keep": tmp_path / "cut.zarr"}
    lines = []

    def end(line):
        lines.append(line)
        if len(lines) == 2:
            raise KeyboardInterrupt

    single = study(start='"figure3"')
    with pytest.raises(KeyboardInterrupt):
        recommend(single, **asked, say=end)

    def cpu_times():
        tree = sweep.open_study(tmp_path / "cut.zarr")
        return tree["only-energy-1-sixteenth"].to_dataset()["cpu_time"].values

    first = cpu_times()
    found = recommend(single, **asked)
    assert found.best.errors["energy_error"] <= 1e-4
    np.testing.assert_array_equal(cpu_times(), first)  # none was computed again


@pytest.mark.slow
def test_the_study_of_the_answer_runs(found, cluster, tmp_path):
    path = tmp_path / "answer.toml"
    path.write_text(found.text)
    outcome = sweep.run(path, tmp_path / "answer.zarr", cluster)
    assert outcome.complete
    runs = sweep.open_study(tmp_path / "answer.zarr")["only"].to_dataset()
    best = sweep.query(runs, f"integrator == '{found.best.integrator}'")
    assert float(best["step_size"][0]) == pytest.approx(found.best.size)
    assert float(best["energy_error_abs_max"].max()) <= BOUND
    assert float(best["global_error"].max()) <= 1e-5


@pytest.mark.slow
def test_the_answer_in_words_and_as_a_picture(found):
    first, verified, *_, stages = sweep.tables.recommendation_in_sentences(found)
    assert first.startswith(f"{found.best.integrator} with step size ")
    assert "the energy error below 1e-06" in first and "the global error below 1e-05" in first
    assert f"0 of {found.held_back} initial conditions that were held back" in verified
    assert f"{found.stages[0].kept} of 5 until t = 0.5" in stages
    table = sweep.tables.recommendation_as_table(found)
    assert len(table.rows) == 1 + len(found.others)
    figure = sweep.plots.recommendation_picture(found)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels[0] == found.best.integrator and labels[-1] == "recommended"
    points = sweep.plots.numbers(figure)
    choices = [found.best, *found.others]
    assert list(points["series"]) == [own.integrator for own in choices]
    assert list(points["x"]) == [own.seconds for own in choices]


def test_the_command_writes_the_answer_a_picture_and_a_study(two, command, tmp_path):
    """Of a single start: of others it says nothing."""
    text = STUDY.format(start='"figure3"', duration=4.0).replace("samples = 10", "samples = 2")
    (tmp_path / "top.toml").write_text(text)
    asked = ["recommend", "top.toml", "--energy-error", "1e-11", "--until", "2"]
    done = command(tmp_path, *asked, "--plot", "a.svg", "--study", "a.toml", "--keep", "s.zarr")
    assert "keeps the energy error below 1e-11 until t = 2" in done.stdout.splitlines()[0]
    (advised,) = re.findall(r"known about others: .*?(\{.*?\}), of which 80", done.stdout)
    some = STUDY.format(start=advised.replace("…", '"figure3"', 1).replace("…", "0.1"), duration=4)
    (tmp_path / "some.toml").write_text(some)
    assert "top: valid" in command(tmp_path, "check", "some.toml").stdout
    assert re.search("integrators? until t = 2", done.stderr) and "lost" not in done.stderr
    lost = command(tmp_path, *asked, "--budget", "0.001s", code=2).stderr.splitlines()
    assert lost[0] == "no store to keep runs in (keep): they are lost if 0.001 s are not enough"
    assert "recommended" in (tmp_path / "a.svg").read_text()
    assert "Wrote a.toml" in done.stdout
    assert "With 2 samples it prints the largest energy errors, and no drifts" in done.stdout
    assert "top-recommended: valid" in command(tmp_path, "check", "a.toml").stdout
    found = json.loads(command(tmp_path, *asked, "--json", "--keep", "s.zarr").stdout)
    assert found["best"]["integrator"] in ("rk4", "rk2_heun") and found["until"] == 2.0
    assert found["bounds"][0]["error"] == "energy_error"
    # The study has the samples of the first one, for which its steps become a little less.
    (table,) = tomllib.loads((tmp_path / "a.toml").read_text())["experiment"]
    (size,), best = table["integrators"][0]["step_size"], found["best"]["size"]
    assert table["samples"] == 2 and 0.95 * best < size <= best
    assert (found["searched"], found["held_back"], found["together"]) == (1, 0, 1)


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


@pytest.mark.slow
def test_doubt_is_said_in_words(found):
    """Each of them where there is a field for it, and nowhere else."""
    say = sweep.tables.recommendation_in_sentences
    best, other = found.best, dataclasses.replace(found.best, integrator="another")
    alike = dataclasses.replace(found, others=(dataclasses.replace(other, is_apart=False),))
    assert "another may be as cheap" in say(alike)[0] and "times cheaper" not in say(alike)[0]
    short = dataclasses.replace(best, steps=16.0)
    many = dataclasses.replace(found, best=short, others=4 * alike.others)
    assert "; 4 others, such as another, another, another may be as cheap" in say(many)[0]
    assert say(many)[0].endswith("a run has only 16 steps: a longer time tells more.")
    dearer = dataclasses.replace(other, seconds=3.14159 * best.seconds)
    ranked = dataclasses.replace(found, others=(dearer,))
    assert ", 3.1 times cheaper than another" in say(ranked)[0]
    assert "3.1" in sweep.tables.recommendation_as_table(ranked).rows[1]
    above = say(dataclasses.replace(found, above=2))
    assert "does not always keep" in above[0] and above[1].startswith("Not verified: 2 of 40")
    early = say(dataclasses.replace(found, held_back=0, above=0, in_time=False))
    assert early[1].startswith("Not verified") and early[1].endswith("the budget was used up.")
    small = dataclasses.replace(best, errors=dict.fromkeys(best.errors, 1e-14), at_largest=True)
    both = say(dataclasses.replace(found, best=small))[2]
    # The global error is bound already.
    assert both.startswith(f"No larger step is possible with {found.samples} samples; with fewer")
    energy = dataclasses.replace(found, best=small, bounds=found.bounds[:1])
    assert say(energy)[2].endswith("bound the global error as well.")


@pytest.mark.slow
def test_a_bound_that_none_keeps_says_the_least_that_is_reached(two, top, study, recommend):
    """It is reached by what is named."""
    with pytest.raises(InputError, match=r"no integrator keeps .* the least is .* at ") as caught:
        recommend(study(start='"figure3"', duration=2.0), energy_error=1e-19)
    assert "of CPU time a run" in str(caught.value) and "\n" not in str(caught.value)
    said = re.search(r"the least is ([^\s,]+).*, by (\S+) at step size (\S+),", str(caught.value))
    least, size = float(said[1]), float(said[3])
    assert 0.0 < least < 1e-13
    change, _ = energy_changes(said[2], size, top.start("figure3")[None], until=2.0)
    assert change <= 8 * least


@pytest.mark.slow
def test_what_a_reference_can_tell_is_told(study, recommend):
    """With a time or a bound that the message names it is not refused again."""
    single = study('"figure3"', duration=50.0)
    with pytest.raises(InputError, match="the reference itself is uncertain by") as caught:
        recommend(single, global_error=1e-12, say=begin)
    assert "\n" not in str(caught.value)
    said = re.search(r"a time until (\S+) or a bound of at least (\S+)$", str(caught.value))
    for asked in (
        {"until": float(said[1]), "global_error": 1e-12},
        {"global_error": float(said[2])},
    ):
        with pytest.raises(ReferencesDo):
            recommend(single, **asked, say=begin)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, "no error to keep below a bound"),
        ({"energy_error": -1.0}, "energy_error = -1.0; expected a number > 0"),
        ({"energy_error": math.nan}, "energy_error = nan; expected a number"),
        ({"energy_error": 1.0, "budget": 0.0}, "budget = 0.0; expected a number > 0"),
        ({"energy_error": 1.0, "until": 0.0}, "until = 0.0; expected a number > 0"),
        ({"energy_error": 1.0, "experiment": "onyl"}, "Did you mean 'only'?"),
        ({"energy_error": 1.0, "budget": 1e-9}, "a store to `keep` the runs in, from which"),
        (
            {"energy_error": 1.0, "budget": 1e-9, "keep": "s.zarr"},
            "continues from the runs in s.zarr",
        ),
        ({"energy_error": 1.0, "workers": 0}, "workers"),
    ],
)
def test_bad_input_is_refused_in_a_line(study, recommend, asked, words):
    with pytest.raises(InputError) as caught:
        recommend(study(), **asked)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_system_without_momentum_has_no_error_of_it(study, recommend):
    dipoles = study('"lee"', 1.0, free_rigid_body="magnetic_dipoles")
    with pytest.raises(InputError, match="magnetic_dipoles has no momentum map"):
        recommend(dipoles, momentum_error=1e-3)


def test_an_experiment_that_scans_is_refused(study, recommend):
    pendula = study('"lee"', 1.0, "scan = { gravity = [1.0, 2.0] }\n",
                    free_rigid_body="spherical_pendulum_chain")  # fmt: skip
    with pytest.raises(InputError, match="'only' scans gravity"):
        recommend(pendula, energy_error=1e-3)

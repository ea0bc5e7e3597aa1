"""Additions to a store that decide its verdicts, their price and their limits."""

import json
import re
import shutil

import numpy as np
import pytest
import zarr
from study_runs import write

import sweep
import systems
from integrators.errors import InputError
from sweep.campaign.decide import CHAOS, Question

STUDY = """\
format = 1
name = "open"

[[experiment]]
name = "pendulum"
system = "spherical_pendulum_chain"
integrators = ["variational", "variational+kahan_li6", "rk4", "rk2_heun"]
step_size = [0.02, 0.01, 0.005]
initial_condition = { around = "lee", random = 4, spread = 0.1, seed = 7 }
duration = 20.0
samples = 100
record = ["energy"]
exclude = [{ integrator = "variational", step_size = 0.02 }]
reference = { integrator = "dop853", until = 2.0 }

[[experiment]]
name = "thinning"
system = "free_rigid_body"
time_unit = 2.0
integrators = { name = "rkmk", tableau = { a = [[], [0.5]], b = [0.0, 1.0], order = 2 }, label = "own" }
step_size = [0.1, 0.05]
initial_condition = "figure3"
duration = 100.0
samples = { per_decade = 20 }
record = ["energy"]

[[experiment]]
name = "few-samples"
system = "free_rigid_body"
integrators = "rk4"
step_size = 0.1
initial_condition = "figure3"
duration = 4.0
samples = 4
record = ["energy"]
"""  # noqa: E501


@pytest.fixture(scope="module")
def begun(cluster, tmp_path_factory):
    place = tmp_path_factory.mktemp("decide")
    assert sweep.run(write(STUDY, place), place / "open.zarr", cluster).complete
    return place / "open.zarr"


@pytest.fixture
def store(begun, tmp_path):
    return shutil.copytree(begun, tmp_path / "open.zarr")


@pytest.fixture(scope="module")
def decided(begun, cluster, tmp_path_factory):
    """The store after its orders are decided, and what that says."""
    path = shutil.copytree(begun, tmp_path_factory.mktemp("decided") / "open.zarr")
    return path, sweep.decide(path, only="order", client=cluster)


def rows_of(found):
    return {(row.experiment, row.integrator, row.subject): row for row in found.rows}


def text_in(store):
    """The text of the study that a store was asked for."""
    (text,) = zarr.open_group(store, mode="r").attrs["studies"]
    return text


def test_a_dry_run_names_what_is_open_with_its_price_and_writes_nothing(begun, fingerprint):
    before = fingerprint(begun)
    found = sweep.decide(begun, dry_run=True)
    assert fingerprint(begun) == before
    assert found.outcome is None and found.runs == 0 and found.left == found.opened > 0
    orders = sweep.order_table(sweep.open_study(begun)["pendulum"])
    rows = rows_of(found)
    for row in orders:
        assert (("pendulum", row.integrator, "order") in rows) == (row.verdict == "undecided")
    assert all(row.why for row in rows.values())
    assert all(0 < row.seconds < 10 for row in rows.values() if row.added)
    priced = {(row.experiment, row.added): row.seconds for row in found.rows if row.added}
    assert found.cpu_seconds <= sum(priced.values()) * len(rows)
    header, *_, last = str(found).splitlines()
    assert header.split()[0] == "experiment" and "would be added" in header
    assert last.endswith("Nothing was run.")


def test_a_run_is_priced_by_what_it_costs_at_all_and_each_of_its_steps(store):
    runs = zarr.open_group(store)["pendulum"]
    runs["cpu_time"][:] = 1.0 + 1e-5 * runs["steps"][:]
    rows = rows_of(sweep.decide(store, only="order", dry_run=True))
    row = rows["pendulum", "variational", "order"]
    sizes = [float(size) for size in re.findall(r"\d[.\de-]*", " ".join(row.added))]
    price = 4 * sum(1.0 + 1e-5 * 20.0 / size for size in sizes)
    assert sizes and row.seconds == pytest.approx(price, 1e-2)


def test_open_verdicts_are_decided(decided):
    _, found = decided
    assert found.outcome.complete and found.verdicts > len(found.rows) == found.decided + found.left
    rows = rows_of(found)
    row = rows["pendulum", "variational", "order"]
    assert row.before == "undecided" and row.after.endswith(", confirmed")
    assert not row.open and not row.why and row.added and row.seconds > 0
    assert not any(row.open for key, row in rows.items() if key[2] == "order")


def test_the_store_stays_what_it_was_plus_rows(begun, decided):
    path, found = decided
    added = 0
    for name, before in sweep.open_study(begun).items():
        after = sweep.open_study(path)[name].to_dataset()
        before = before.to_dataset()
        known = after.isel(run=slice(before.sizes["run"]))
        np.testing.assert_array_equal(known["run_id"], before["run_id"])
        early = known["time"].values <= before["time"].values[-1] * (1 + 1e-12)
        np.testing.assert_array_equal(known["time"].values[early], before["time"].values)
        np.testing.assert_array_equal(known["energy"].values[:, early], before["energy"].values)
        added += after.sizes["run"] - before.sizes["run"]
    assert added == found.runs > 0
    assert sweep.verify(path) == []


def test_what_is_added_are_the_step_sizes_that_the_table_names(begun, decided):
    (asked,) = (
        row
        for row in sweep.order_table(sweep.open_study(begun)["pendulum"])
        if row.integrator == "variational"
    )
    path, _ = decided
    after = sweep.open_study(path)["pendulum"].to_dataset()
    sizes = after["step_size"].values[after["integrator"].values == "variational"]
    assert asked.further_sizes and set(asked.further_sizes) <= set(sizes)


def test_additions_are_recorded_with_their_reasons(decided):
    path, found = decided
    first, *texts = text_in(path).split("# Added to decide ")
    assert first.rstrip() == STUDY.rstrip()
    for row in found.rows:
        for words in row.added:
            said = f"# {words} for the {row.subject} of {row.integrator!r}: "
            assert any(text.startswith(f"{row.experiment}\n") and said in text for text in texts)


def test_what_is_decided_stays_so(decided, cluster):
    path, found = decided
    again = sweep.decide(path, only="order", client=cluster)
    assert (again.runs, again.left) == (0, found.left)


@pytest.mark.slow
def test_a_budget_that_is_too_small_is_said(store, cluster):
    found = sweep.decide(store, 1e-6, client=cluster)
    assert (found.runs, found.decided, found.stopped) == (0, 0, "the budget is spent")
    assert any("1e-06 s of the budget are left" in row.why for row in found.rows)
    assert text_in(store) == STUDY


@pytest.mark.slow
def test_runs_become_ten_times_as_long_at_most(store, cluster):
    found = sweep.decide(store, only="drift", client=cluster)
    for name, asked in (("pendulum", 20.0), ("thinning", 200.0), ("few-samples", 4.0)):
        time = sweep.open_study(store)[name]["time"].values
        assert asked <= time[-1] * (1 + 1e-12) and time[-1] <= 10 * asked * (1 + 1e-12)
    assert time[-1] > 4.0, "of four samples no drift can be seen"
    assert found.opened >= found.decided > 0


@pytest.mark.slow
def test_an_interrupted_decide_goes_on(store, cluster):
    found = sweep.decide(store, only="order", max_time=1e-3, client=cluster)
    assert not found.outcome.complete and found.stopped == found.outcome.stopped
    again = sweep.decide(store, only="order", client=cluster)
    assert again.outcome.complete and not any(row.open for row in again.rows)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"budget": 0.0}, "budget"),
        ({"budget": float("nan")}, "budget"),
        ({"only": "work"}, "unknown kind of verdict 'work'"),
        ({"experiments": "pendulm"}, "no experiment 'pendulm' with runs; there are pendulum"),
        ({"experiments": "thinning", "only": "order"}, "global_error"),
    ],
)
def test_mistakes_are_said_before_any_work(begun, asked, message):
    with pytest.raises(InputError, match=message):
        sweep.decide(begun, **asked)


def test_no_store_is_said(tmp_path):
    with pytest.raises(InputError, match="there is no store"):
        sweep.decide(tmp_path / "none.zarr")


def test_json_has_all_fields(begun, command):
    done = command(begun.parent, "decide", begun.name, "--dry-run", "--json")
    found = json.loads(done.stdout)
    assert found["left"] == len(found["rows"]) > 0 and found["runs"] == 0
    assert {"experiment", "subject", "before", "why", "seconds"} <= set(found["rows"][0])


@pytest.mark.slow
def test_a_run_ends_with_decisions(tmp_path, command):
    (tmp_path / "open.toml").write_text(LOGARITHMIC)
    done = command(tmp_path, "run", "open.toml", "--no-summary", "--decide", "--budget", "1m")
    assert " decided now: by " in done.stdout
    assert done.stdout.rstrip().endswith(f"runs in {tmp_path / 'logs.zarr'}")


@pytest.mark.slow
def test_the_same_file_run_again_keeps_what_was_added(decided, tmp_path, command):
    """An edited one asks for what it says."""
    file, store = write(STUDY, tmp_path), shutil.copytree(decided[0], tmp_path / "open.zarr")
    runs = sum(node["run"].size for node in sweep.open_study(store).children.values())
    said = command(tmp_path, "run", "s.toml", "open.zarr", "--no-summary").stdout
    assert f"0 new runs, {runs} kept\nNothing to compute" in said
    assert all(part["in_study"].values.all() for part in sweep.open_study(store).children.values())
    write(STUDY.replace("random = 4", "random = 5"), tmp_path)
    pendulum, *_ = sweep.plan(file, store).rows
    assert (pendulum["runs"], pendulum["committed"]) == (11, 44)


def test_an_ensemble_of_few_starts_grows(tmp_path, cluster):
    """One without any is followed for longer."""
    text = STUDY.partition('\n[[experiment]]\nname = "thinning"')[0].replace("20.0", "4.0")
    store = tmp_path / "starts.zarr"
    assert sweep.run(write(text.replace("samples = 100", "samples = 8"), tmp_path), store, cluster)
    found = sweep.decide(store, only="drift", dry_run=True)
    assert {row.added for row in found.rows} <= {("random starts up to 8",)}


OPEN = """\
format = 1
name = "open"

[defaults]
integrators = "rk4"
initial_condition = { random = 2, seed = 1 }
record = ["energy"]
samples = 4

[[experiment]]
name = "fails"
system = "nbody_sphere"
step_size = 2.0
duration = 40.0
samples = 10

[[experiment]]
name = "few"
system = "free_rigid_body"
step_size = 0.1
duration = 4.0

[[experiment]]
name = "one"
system = "free_rigid_body"
step_size = 0.1
duration = 4.0
samples = 8
reference = { integrator = "dop853" }

[[experiment]]
name = "still"
system = "precession"
integrators = ["rk4", "exact"]
initial_condition = { w = [[0.0, 0.0, 1.0]] }
step_size = [0.1, 0.05, 0.025]
duration = 2.0
reference = { integrator = "dop853" }
"""


@pytest.fixture(scope="module")
def mixed(cluster, tmp_path_factory):
    """A store of which some verdicts cannot be decided."""
    path = tmp_path_factory.mktemp("mixed") / "open.zarr"
    assert sweep.run(write(OPEN, path.parent), path, cluster).complete
    return path


def test_only_what_can_decide_is_proposed_and_the_rest_has_its_reason(mixed):
    rows = rows_of(sweep.decide(mixed, dry_run=True))
    fails, few = (rows[name, "rk4", "drift of energy"] for name in ("fails", "few"))
    assert not fails.added and fails.why.startswith("no drift measured: no run is complete; its ")
    assert few.added == ("all runs until t = 8",)
    assert few.why == "no drift measured: 4 sample intervals, 8 or more are needed"
    still = rows["still", "rk4", "order"]
    assert not still.added and still.why.endswith("; no step size is known that would decide it")


@pytest.mark.slow
def test_as_many_verdicts_are_open_as_the_dry_run_says(mixed, cluster, tmp_path):
    """Though an experiment with further step sizes is a study of convergence."""
    store = shutil.copytree(mixed, tmp_path / "open.zarr")
    proposed, found = sweep.decide(store, dry_run=True), sweep.decide(store, client=cluster)
    assert (found.verdicts, found.opened) == (proposed.verdicts, proposed.opened)
    assert rows_of(found).keys() == rows_of(proposed).keys()
    assert found.runs > 0 and found.continued == 2
    said = sweep.tables.decisions_in_words(found)
    assert f" decided now: by {found.runs} more runs and continuing 2 runs, in " in said
    assert said.endswith(f" {found.left} are left: nothing more is added.")


CHAOTIC = """
format = 1
name = "chaotic"

[[experiment]]
name = "only"
system = "spherical_pendulum_chain"
integrators = "rk4"
step_size = [0.4, 0.1]
initial_condition = "lee"
duration = 4.0
samples = 2
record = ["megno"]
"""


def test_chaos_is_a_question_of_each_step_size(tmp_path, cluster):
    path = tmp_path / "chaotic.zarr"
    assert sweep.run(write(CHAOTIC, tmp_path), path, cluster).complete
    assert len({Question("only", CHAOS, row).key for row in sweep.chaos_table(path)}) == 2


LOGARITHMIC = """
format = 1
name = "logs"

[[experiment]]
name = "only"
system = "spherical_pendulum_chain"
integrators = "rk4"
step_size = [0.1, 0.05]
initial_condition = "lee"
duration = 10.0
samples = { first = 0.5, per_decade = 4 }
record = ["energy"]
reference = { integrator = "dop853", tolerance = 1e-12 }
"""


@pytest.fixture(scope="module")
def logarithmic(cluster, tmp_path_factory):
    """A store of a study of convergence, whose sample times thin out."""
    path = tmp_path_factory.mktemp("logarithmic") / "logs.zarr"
    assert sweep.run(write(LOGARITHMIC, path.parent), path, cluster).complete
    return path


PLUGIN = """
from dataclasses import dataclass
from systems.plugin import NBodySphere

@dataclass(frozen=True)
class Own(NBodySphere):
    name = "own"

SYSTEMS = (Own,)
"""


@pytest.mark.slow
def test_how_long_runs_may_become_where_a_system_of_a_plugin_declares_it(tmp_path, cluster):
    (tmp_path / "own.py").write_text(PLUGIN)
    few = STUDY.rpartition("[[experiment]]")[2].replace("free_rigid_body", "own")
    few = few.replace("4.0", '"declared"').replace('"figure3"', "{ random = 1, seed = 1 }")
    few = few.replace("step_size = 0.1", 'step_size = "declared"')
    text = f'format = 1\nname = "open"\nplugins = ["own.py"]\n[[experiment]]{few}'
    assert sweep.run(write(text, tmp_path), tmp_path / "open.zarr", cluster).complete
    found = sweep.decide(tmp_path / "open.zarr", only="drift", dry_run=True)
    duration = systems.get("nbody_sphere").convergence.duration
    assert {row.added for row in found.rows} == {(f"all runs until t = {2 * duration:g}",)}


@pytest.mark.slow
def test_a_study_of_convergence_asks_for_orders_alone(logarithmic):
    every, drifts = (sweep.decide(logarithmic, only=kind, dry_run=True) for kind in ((), "drift"))
    assert (every.verdicts, drifts.verdicts) == (1, 1)
    assert {row.subject for row in every.rows} == {"order"}
    assert {row.subject for row in drifts.rows} <= {"drift of energy"}


@pytest.mark.slow
def test_an_extended_store_keeps_its_logarithmic_samples(logarithmic, cluster, tmp_path):
    """Step sizes are added to runs whose sample times are of two pieces."""
    store = shutil.copytree(logarithmic, tmp_path / "logs.zarr")
    assert sweep.extend(store, 25.0, 3, client=cluster).complete
    times = sweep.open_study(store)["only"]["time"].values
    found = sweep.decide(store, only="order", client=cluster)
    (row,) = found.rows
    assert row.before == "undecided" and row.after.endswith(", confirmed")
    np.testing.assert_array_equal(sweep.open_study(store)["only"]["time"].values, times)


ALL = """\
format = 1
name = "every"

[defaults]
step_size = [0.1, 0.05]
initial_condition = { random = 2, seed = 1 }
duration = 2.0
samples = 4
reference = { integrator = "dop853" }

[[experiment]]
name = "all"
system = "free_rigid_body"
integrators = [{ name = "all", order = "< 2" }, { name = "rk4", label = "mine" }]

[[experiment]]
name = "excluded"
system = "free_rigid_body"
integrators = "rk4"
exclude = [{ step_size = "< 0.05" }, { step_size = "> 0.1" }]

[[experiment]]
name = "zipped"
system = "spherical_pendulum_chain"
scan = { gravity = [1.0, 9.81] }
zip = [["gravity", "step_size"]]
integrators = "rk4"
"""


@pytest.mark.slow
def test_single_integrators_of_all_get_step_sizes_where_rules_allow(tmp_path, cluster):
    store = tmp_path / "every.zarr"
    assert sweep.run(write(ALL, tmp_path), store, cluster).complete
    found = sweep.decide(store, client=cluster)
    rows = rows_of(found)
    assert not rows["all", "lie_euler", "order"].open and not rows["all", "mine", "order"].open
    assert "rules of the study exclude step size" in rows["excluded", "rk4", "order"].why
    assert "advance with a scanned parameter" in rows["zipped", "rk4", "order"].why
    text = text_in(store)
    again = sweep.decide(store, client=cluster)
    assert again.runs == 0 and again.left == found.left == 3 and text_in(store) == text

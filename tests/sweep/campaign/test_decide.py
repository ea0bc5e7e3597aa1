"""Additions to a store that decide its verdicts, their price and their limits."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import sweep
from integrators.errors import InputError
from sweep.analysis.reasons import Remedy
from sweep.campaign.decide import additions, questions
from sweep.store import studies
from sweep.store.store import Store

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
    path = tmp_path_factory.mktemp("decide") / "open.zarr"
    assert sweep.run(studies.parse_study(STUDY), path, cluster).complete
    return path


@pytest.fixture
def store(begun, tmp_path):
    return shutil.copytree(begun, tmp_path / "open.zarr")


@pytest.fixture(scope="module")
def decided(begun, cluster, tmp_path_factory):
    """The store after `decide`, and what that says."""
    path = shutil.copytree(begun, tmp_path_factory.mktemp("decided") / "open.zarr")
    return path, sweep.decide(path, client=cluster)


def rows_of(found):
    return {(row.experiment, row.integrator, row.subject): row for row in found.rows}


def test_a_dry_run_names_what_is_open_with_its_price_and_writes_nothing(store):
    before = {file: file.stat().st_mtime_ns for file in store.rglob("*")}
    found = sweep.decide(store, dry_run=True)
    assert {file: file.stat().st_mtime_ns for file in store.rglob("*")} == before
    assert found.outcome is None and (found.looks, found.runs) == (0, 0)
    rows = rows_of(found)
    verdicts = [
        (name, row.integrator, "order" if row in orders else f"drift of {row.quantity}")
        for name, data in ((name, of.to_dataset()) for name, of in sweep.open_study(store).items())
        for orders in [sweep.order_table(data) if "global_error" in data else []]
        for row in [*orders, *sweep.drift_table(data, step_sizes="smallest")]
        if row.verdict == "undecided"
    ]
    assert sorted(rows) == sorted(verdicts)
    assert all(row.open and row.why for row in rows.values())
    proposed = [row for row in rows.values() if row.added]
    assert len(proposed) == len(rows)
    assert all(0 < row.seconds < 10 for row in proposed)


def test_open_verdicts_are_decided(decided):
    _, found = decided
    assert found.outcome.complete and found.verdicts > len(found.rows) == found.decided + found.left
    rows = rows_of(found)
    for label in ("variational", "variational+kahan_li6", "rk4", "rk2_heun"):
        row = rows["pendulum", label, "order"]
        assert (row.before, row.after, row.open, row.why) == ("undecided", "confirmed", False, "")
    assert found.decided >= len(rows) - 1


def test_what_a_store_keeps_is_said_where_nothing_may_be_longer(begun):
    found = sweep.decide(begun, longer=False, experiments="few-samples", dry_run=True)
    (row,) = found.rows
    assert row.open and "a new store with more samples" in row.why and not row.added


def test_an_order_counts_as_decided_by_an_interval_for_all_looks(decided):
    path, found = decided
    pendulum = sweep.open_study(path)["pendulum"].to_dataset()
    assert found.wider == pytest.approx(questions.wider_after(found.looks)) and found.looks
    for row in sweep.order_table(pendulum):
        assert abs(row.order - row.declared) + found.wider * (row.high - row.low) / 2 <= 0.1


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


def test_additions_are_recorded_with_their_reasons(decided):
    path, found = decided
    first, *texts = Store.at(path).attributes["studies"]
    assert first == STUDY
    looks = additions.looks_at_integrators(texts, studies.parse_study(STUDY).library)
    assert max(looks.values()) == found.looks
    for row in found.rows:
        for words in row.added:
            said = f"# {row.experiment}, {row.subject} of {row.integrator!r}: {words}, since "
            assert any(said in text for text in texts), said


def test_what_is_decided_stays_so(decided, cluster):
    path, found = decided
    again = sweep.decide(path, client=cluster)
    assert (again.runs, again.cpu_seconds, again.looks) == (0, 0.0, found.looks)
    assert again.left == found.left


def test_a_budget_that_is_too_small_is_said(store, cluster):
    found = sweep.decide(store, 1e-6, client=cluster)
    assert (found.runs, found.decided, found.stopped) == (0, 0, "the budget is spent")
    assert any("1e-06 s of the budget are left" in row.why for row in found.rows)
    assert len(Store.at(store).attributes["studies"]) == 1


def test_the_duration_is_kept_where_it_is_to_be(store, cluster):
    found = sweep.decide(
        store, longer=False, experiments="pendulum", only="drift", closer=True, client=cluster
    )
    assert {row.experiment for row in found.rows} == {"pendulum"}
    assert {row.subject for row in found.rows} == {"drift of energy"}
    pendulum = sweep.open_study(store)["pendulum"].to_dataset()
    assert pendulum["time"].values[-1] == 20.0 and pendulum.sizes["run"] > 44
    sizes = pendulum["step_size"].values[44:]
    assert set(sizes) == {0.005}  # drifts are looked at there


def test_runs_become_ten_times_as_long_at_most(decided):
    for name, asked in (("pendulum", 20.0), ("thinning", 200.0), ("few-samples", 4.0)):
        time = sweep.open_study(decided[0])[name]["time"].values
        assert asked <= time[-1] * (1 + 1e-12) and time[-1] <= 10 * asked * (1 + 1e-12)


def test_an_interrupted_decide_goes_on(store, cluster):
    found = sweep.decide(store, max_time=1e-3, client=cluster)
    assert not found.outcome.complete and found.stopped == found.outcome.stopped
    again = sweep.decide(store, client=cluster)
    assert again.outcome.complete
    assert rows_of(again)["pendulum", "rk4", "order"].after == "confirmed"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"budget": 0.0}, "budget"),
        ({"budget": float("nan")}, "budget"),
        ({"only": "wrk"}, "unknown kind of verdict 'wrk'"),
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


def test_a_run_ends_with_decisions(tmp_path, command):
    (tmp_path / "open.toml").write_text(STUDY.partition('\n[[experiment]]\nname = "thin')[0])
    done = command(tmp_path, "run", "open.toml", "--no-summary", "--decide", "--budget", "1m")
    assert " are decided now: by " in done.stdout
    assert done.stdout.rstrip().endswith(f"runs in {tmp_path / 'open.zarr'}")


# --- parts -------------------------------------------------------------------------------------


def question(row, looks=0, **changes):
    return questions.Question("any", "order", dataclasses.replace(row, **changes), looks)


def test_an_interval_that_is_narrow_for_one_look_alone_leaves_it_open(decided):
    row = sweep.order_table(sweep.open_study(decided[0])["pendulum"])[0]
    narrow = {"order": 2.0, "low": 1.91, "high": 2.09, "verdict": "confirmed", "why": ()}
    assert not question(row, 0, **narrow).open
    looked = question(row, 1, **narrow)
    assert (
        looked.open and looked.why == "2.00 ± 0.09 is confirmed at 95 %, but not after 1 look more"
    )
    assert [one.what for one in looked.remedies] == ["step sizes"]
    assert not question(row, 1, **narrow | {"low": 1.93, "high": 2.07}).open


def test_a_study_of_convergence_asks_for_orders_alone():
    pendulum, thinning, few = studies.parse_study(STUDY).experiments
    every = ("order", "drift", "chaos")
    assert questions.kinds_asked_for(pendulum) == every  # beyond its reference
    assert questions.kinds_asked_for(thinning) == questions.kinds_asked_for(few) == every
    whole = STUDY.replace("until = 2.0", "until = 20.0")
    assert questions.kinds_asked_for(studies.parse_study(whole).experiments[0]) == (
        "order",
        "chaos",
    )


def test_looks_are_wrong_in_5_percent_together_however_many():
    lost = [2 * ndtr(-questions.wider_after(k) * ndtri(0.975)) for k in range(1, 200)]
    assert lost[0] == pytest.approx(0.025) and lost[1] == pytest.approx(0.05 / 6)
    assert 0.049 < sum(lost) < 0.05 and questions.wider_after(0) == 1.0


def test_rules_on_integrators_that_are_not_added_are_left_out():
    rules = [
        {"integrator": "rk4", "step_size": 0.1},
        {"integrator": "cf4", "step_size": 0.1},
        {"integrator": "!= rk4", "gravity": 2.0},
        {"integrator": "!= cf4", "gravity": 2.0},
        {"step_size": "> 1"},
    ]
    assert additions._rules_on_integrators(rules, {"rk4": ()}) == [
        {"integrator": "rk4", "step_size": 0.1},
        {"integrator": "!= rk4", "gravity": 2.0},
        {"gravity": 2.0},
        {"step_size": "> 1"},
    ]


def test_new_step_sizes_halve_the_widest_gaps():
    known = np.array([0.01, 0.05, 0.16])
    found = additions._sizes_between(known, 0.01, 0.16, 2)
    assert found == pytest.approx([0.05 * 3.2**0.5, 0.01 * 5**0.5])
    assert additions._sizes_between(known, 0.005, 0.02, 1) == pytest.approx([0.01 * 2**-0.5])


def test_a_remedy_beyond_the_store_says_what_would_do():
    every = {"reference", "reference end", "samples", "samples a decade", "likeness", "earlier end"}
    every |= {"state", "integrator", "global error"}
    assert set(additions.BEYOND_STORE) == every
    assert Remedy("samples", 8, 4).what in additions.BEYOND_STORE


def test_the_same_file_run_again_keeps_what_was_added(tmp_path, cluster):
    file, store = tmp_path / "open.toml", tmp_path / "open.zarr"
    file.write_text(STUDY)
    assert sweep.run(file, store, cluster).complete
    added = sweep.decide(store, only="drift", experiments="pendulum", closer=True, client=cluster)
    assert added.runs
    study, _ = sweep.store.resolve_study_and_store(file, store)
    assert len(study.texts) == len(Store.at(store).attributes["studies"]) > 1
    assert sweep.run(file, store, cluster).complete
    assert all(part["in_study"].values.all() for part in sweep.open_study(store).children.values())
    file.write_text(STUDY.replace("samples = 4", "samples = 2"))  # an edited one is what it says
    study, _ = sweep.store.resolve_study_and_store(file, store)
    assert len(study.texts) == 1


STARTS = """\
format = 1
name = "starts"

[[experiment]]
name = "vortices"
system = "point_vortices"
integrators = "spherical_midpoint"
step_size = 0.1
initial_condition = [{ name = "latitude_ring", colatitude = [0.8, 1.2] }, "mclachlan"]
duration = 20.0
samples = 20
record = ["energy", "megno"]
"""


def test_starts_are_drawn_about_states_of_families(tmp_path, cluster):
    store = tmp_path / "starts.zarr"
    assert sweep.run(studies.parse_study(STARTS), store, cluster).complete
    conditions = studies.stored_study(store).experiments[0].initial_conditions
    about = additions._states_to_draw_about(conditions)
    assert about == [
        ("latitude_ring[colatitude=0.8]", {"name": "latitude_ring", "colatitude": 0.8}),
        ("latitude_ring[colatitude=1.2]", {"name": "latitude_ring", "colatitude": 1.2}),
        ("mclachlan", "mclachlan"),
    ]
    (row,) = sweep.drift_table(sweep.open_study(store)["vortices"])
    written = additions._experiments_as_written(Store.at(store))["vortices"]
    *_, first, second, third = additions._starts_with_members(written, 4)
    assert first["around"] == about[0][1] and third["around"] == "mclachlan"
    text = STARTS.replace(
        '"mclachlan"]', f'"mclachlan", {{ around = {{ name = "latitude_ring", colatitude = 0.8 }}, '
        f'random = 4, spread = {additions.SPREAD}, seed = {additions.SEED} }}]'
    )  # fmt: skip
    assert row.starts == 3
    assert studies.parse_study(text).experiments[0].initial_conditions[-1].size == 4
    longer = sweep.decide(store, only="chaos", client=cluster)
    assert longer.verdicts == 1 and all(row.subject == "chaos" for row in longer.rows)


@dataclasses.dataclass
class Alike:
    starts: int
    likeness: float


def test_starts_that_are_alike_are_not_added_in_vain():
    additions._check_more_starts_count(Alike(8, 0.01), 64)
    additions._check_more_starts_count(Alike(1, 0.0), 16)
    with pytest.raises(InputError, match="18000 of them would count as 1, and 17 count as 1"):
        additions._check_more_starts_count(Alike(17, 0.999), 18000)


def test_new_step_sizes_are_below_those_at_which_runs_fail():
    row = dataclasses.make_dataclass("Row", ["floor_until", "pre_asymptotic_from"])(np.nan, np.nan)
    more, known = Remedy("more step sizes", 2, 1), np.array([0.05, 0.1, 0.2])
    usual = additions._wanted_sizes(row, more, known, np.inf)
    assert len(usual) == 3 and usual.max() > 0.1
    below = additions._wanted_sizes(row, more, known, 0.1)
    assert len(below) == 3 and below.max() < 0.1


def test_cpu_times_are_measured_again(tmp_path, cluster):
    """Of batches that are too short all runs become longer, then they are repeated."""
    text = STUDY.partition('\n[[experiment]]\nname = "thinning"')[0]
    text = text.replace("duration = 20.0", "duration = 100.0")  # a tenth of what any machine needs
    (tmp_path / "timed.toml").write_text(text)
    store = sweep.run(tmp_path / "timed.toml", tmp_path / "timed.zarr", cluster).store
    before = sweep.decide(store, only="work", experiments="pendulum", dry_run=True)
    assert {row.subject for row in before.rows} == {"CPU time"}
    assert all("they were measured 1 times, in batches of" in row.why for row in before.rows)
    done = sweep.decide(store, only="work", experiments="pendulum", client=cluster)
    pendulum = sweep.open_study(store)["pendulum"].to_dataset()
    assert pendulum["repeat"].values.max() == questions.REPEATS - 1
    assert pendulum["time"].values[-1] > 100.0 and done.looks >= 2


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


def test_an_extended_store_keeps_its_logarithmic_samples(tmp_path, cluster):
    """Step sizes are added to runs whose sample times are of two pieces."""
    path, parsed = tmp_path / "logs.zarr", studies.parse_study(LOGARITHMIC)
    assert sweep.run(parsed, path, cluster).complete
    assert sweep.extend(path, 25.0, 3, client=cluster).complete
    times = sweep.open_study(path)["only"]["time"].values
    found = sweep.decide(path, only="order", client=cluster)
    assert [(row.before, row.after) for row in found.rows] == [("undecided", "confirmed")]
    np.testing.assert_array_equal(sweep.open_study(path)["only"]["time"].values, times)

"""What a study costs, by a clock that is given: no time is measured here."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest
from study_text import one_experiment

import sweep
from sweep.campaign import batches, coordinator, cost_model, pilot, planning
from sweep.campaign.worker import compute
from sweep.campaign.worker.recorder import Integrated, Recorder
from sweep.store import create, diff, storage, studies
from sweep.store.commit import fold
from sweep.store.lease.sessions import Session, code_hash
from sweep.store.store import Store

FIXED = {
    "integrators": '["variational", "rk4"]',
    "step_size": "[0.1, 0.05, 0.001]",
    "initial_condition": "{ random = 20, seed = 1 }",
    "duration": "1000.0",
    "samples": "100",
    "record": '["energy"]',
}
REFERENCE = '{ integrator = "dop853", tolerance = 1e-9, until = 500.0 }'
pytestmark = pytest.mark.usefixtures("whole_pilot")
CALL, STEP, EVALUATION = 1e-4, 1e-6, 2e-3


class Clock:
    """A clock that goes on by what things cost, times what chance, or a disturbance, says."""

    def __init__(self, factor=lambda: 1.0):
        self.now, self.factor, self.calls = 0.0, factor, 0

    def __call__(self):
        return self.now

    def spend(self, seconds):
        self.calls += 1
        self.now += seconds * self.factor()


def fixed_cost(step_size, counts):
    """Of a batch: smaller steps need fewer iterations."""
    return CALL + STEP * (1.0 + 5.0 * step_size) * float(np.sum(counts))


def adaptive_cost(span, tolerance):
    return CALL + 1e-5 * span * tolerance ** (-1 / 5)


def reference_cost(span):
    return EVALUATION * span


@pytest.fixture
def told(monkeypatch):
    """Let all that a pilot integrates take the time that the functions above say."""

    def tell(clock):
        def integrate_fixed(self, initial, step_size, counts, *more):
            clock.spend(fixed_cost(step_size, counts))
            return (SimpleNamespace(report=np.zeros((len(initial), 6))),)

        def integrate_adaptive(self, initial, times, tolerance, *more):
            clock.spend(adaptive_cost(times[-1], tolerance))
            steps = np.array([10 * times[-1] * tolerance ** (-1 / 5)])
            return Integrated(SimpleNamespace(report=np.zeros((1, 6))), {"steps": steps}, {})

        def reference_trajectory(system, state, times, tolerance):
            clock.spend(reference_cost(times[-1]))

        monkeypatch.setattr(Recorder, "integrate_fixed", integrate_fixed)
        monkeypatch.setattr(Recorder, "integrate_adaptive", integrate_adaptive)
        monkeypatch.setattr(pilot, "compute_reference_trajectory", reference_trajectory)
        monkeypatch.setattr(pilot, "measure_recording_seconds", lambda *of, **clock: 0.0)
        return clock

    return tell


def entry_of(store, **changes):
    (entry,) = diff.diff_store_against_study(
        Store.at(store), studies.parse_study(one_experiment(**FIXED | changes))
    )
    return entry


def true_seconds(entry, unit):
    """What all batches of an experiment take, and its references."""
    table, found = entry.table, batches.Batches.of(entry, unit)
    references = diff.references_of_run_table(table)
    total = 0.0
    for run in found.first:
        if table.adaptive[run]:
            total += adaptive_cost(entry.experiment.duration, table.tolerance[run])
        else:
            steps = table.steps_per_sample[run] * entry.experiment.time_axis.intervals
            total += fixed_cost(table.step_size[run], steps)
    if references is not None:
        total += len(references.ids) * reference_cost(entry.experiment.reference.until)
    return total


# --- one measurement ---------------------------------------------------------------------------


def measured(clock, most=10**6, seconds=2e-3):
    """The amount that was enough, the least and the median, and the cost of a unit by the line."""

    def work(amount):
        return lambda: clock.spend(fixed_cost(0.0, amount))

    amounts, times = cost_model.time_growing_work(work, 1, most, seconds, clock)
    return amounts[1], *times[1], cost_model.Line.through(amounts, times).unit


def test_more_is_measured_until_the_least_is_long_enough():
    amount, least, usual, unit = measured(Clock())
    assert least >= 2e-3 and 2000 <= amount < 10_000
    assert least == pytest.approx(usual) == pytest.approx(fixed_cost(0.0, amount))
    assert unit == pytest.approx(STEP)
    amount, least, _, unit = measured(Clock(), most=100)  # there is no more
    assert amount == 100 and least < 2e-3 and unit == pytest.approx(STEP)


def test_one_step_that_takes_long_is_measured_twice():
    """The smallest amount that may be believed: a second one takes as much longer."""
    clock = Clock()
    amounts, _ = cost_model.time_growing_work(
        lambda n: lambda: clock.spend(0.1 * n), 1, 10**6, 2e-3, clock
    )
    assert amounts == (1, 2) and clock.calls == 2 * cost_model.REPEATS


def test_what_a_call_takes_besides_does_not_count_as_steps():
    """Of an overloaded machine: 1.5 ms, which seemed to be those of the steps."""
    chance, clock = np.random.default_rng(1), Clock()
    units = []
    for _ in range(100):

        def work(amount):
            return lambda: clock.spend((1.5 + 0.5 * chance.random()) * 1e-3 + STEP * amount)

        units.append(
            cost_model.Line.through(
                *cost_model.time_growing_work(work, 1, 10**6, 1.5e-3, clock)
            ).unit
        )
    assert np.all(np.abs(np.array(units) / STEP - 1.0) < 0.3), "up to 600 times off before"


def test_what_ends_early_is_not_repeated_with_more():
    clock = Clock()
    amounts, times = cost_model.time_growing_work(
        lambda _: lambda: clock.spend(1e-5) or True, 8, 10**6, 1.0, clock
    )
    assert amounts == (8, 10**6) and times[1][0] == pytest.approx(1e-5)
    assert clock.calls == cost_model.REPEATS


@pytest.mark.parametrize("nth", range(1, 16))
@pytest.mark.parametrize("seconds", [2e-3, 0.3])
def test_what_disturbs_all_repeats_of_a_brief_call_is_noticed(nth, seconds):
    """As on a machine with far more work than cores: 16 steps seemed to take milliseconds."""
    clock = Clock()
    hit = range(nth, nth + cost_model.REPEATS)

    def work(amount):
        def timed():
            clock.spend(fixed_cost(0.0, amount))
            clock.now += seconds if clock.calls in hit else 0.0

        return timed

    amounts, times = cost_model.time_growing_work(work, 1, 10**6, 2e-3, clock)
    unit = cost_model.Line.through(amounts, times).unit
    assert unit[0] == pytest.approx(STEP, rel=1.0), "300 times off before"
    assert amounts[1] >= 1000


@pytest.mark.parametrize("nth", range(1, 19))
def test_one_slow_measurement_decides_nothing(told, tmp_path, nth):
    """As if another process had the core for a third of a second, at any moment."""
    clock = told(Clock())
    entry = entry_of(tmp_path / "none.zarr", reference=REFERENCE)
    calm = planning.plan_experiment(entry, clock=clock)
    disturbed = told(Clock())
    disturbed.factor = lambda: 3e5 if disturbed.calls == nth else 1.0
    plan = planning.plan_experiment(entry, clock=disturbed)
    assert disturbed.calls >= nth
    assert plan.layout == calm.layout
    assert plan.cpu_time.usual == pytest.approx(calm.cpu_time.usual, rel=0.02)


# --- the whole ---------------------------------------------------------------------------------

STUDIES = {
    "fixed steps": {},
    "references": {"reference": REFERENCE},
    "one run": {"initial_condition": '"lee"', "integrators": '"rk4"', "step_size": "0.01"},
    "tolerances": {
        "integrators": '[{ name = "rk45", tolerance = [1e-3, 1e-5, 1e-9] }]',
        "step_size": None,
    },
    "samples that thin out": {"samples": "{ first = 0.1, per_decade = 5 }"},
}


@pytest.mark.parametrize("name", STUDIES)
def test_the_interval_holds_the_time_that_is_used(told, tmp_path, name):
    """In at least 90 of 100 plans on a machine that is up to half slower for a while."""
    chance, held = np.random.default_rng(1), 0
    entry = entry_of(tmp_path / "none.zarr", **STUDIES[name])
    for _ in range(100):
        clock = told(Clock(lambda: 1.0 + 0.5 * chance.random() ** 2))
        plan = planning.plan_experiment(entry, clock=clock)
        low, high = plan.cpu_time.interval
        usual = 1.0 + 0.5 / 3  # of the runs, which are disturbed alike
        held += low <= usual * true_seconds(entry, plan.work.unit) <= high
        assert high < 4 * low
    assert held >= 90


def test_without_disturbance_it_is_what_all_cost(told, tmp_path):
    entry = entry_of(tmp_path / "none.zarr", reference=REFERENCE, step_size="0.05")
    plan = planning.plan_experiment(entry, clock=told(Clock()))
    true = true_seconds(entry, plan.work.unit)
    assert plan.cpu_time.least == pytest.approx(true, rel=1e-6)
    assert plan.cpu_time.usual == pytest.approx(true, rel=1e-6)
    assert plan.references.usual == pytest.approx(20 * reference_cost(500.0))
    assert plan.lacking_references == 20
    assert plan.units.seconds.sum() == pytest.approx(plan.runs.usual + plan.recording_seconds)


def test_plans_together_are_narrower_than_their_sum(told, tmp_path):
    entry = entry_of(tmp_path / "none.zarr", step_size="[0.1, 0.05]")
    plan = planning.plan_experiment(entry, clock=told(Clock()))
    low, high = plan.cpu_time.interval
    least, most = planning.total_cpu_time([plan] * 9).interval
    assert plan.cpu_time.spread > 0.01 * plan.cpu_time.usual
    assert 9 * low < least < most < 9 * high


def test_many_kinds_are_measured_more_briefly(tmp_path):
    work = batches.Workload.of(entry_of(tmp_path / "none.zarr"))
    assert pilot.least_pilot_seconds([work]) == pilot.MOST_SECONDS
    assert pilot.least_pilot_seconds([work] * 1000) == pilot.LEAST_SECONDS


def test_steps_back_are_counted_beside(told, tmp_path, monkeypatch):
    """The plan's interval is of what `cpu_time` says; tasks take longer by what is measured."""
    clock = told(Clock())
    monkeypatch.setattr(Recorder, "measure_structure", lambda *of: clock.spend(0.25) or {})
    records = '"energy"', '"energy", "reversal_error"', '"energy", "symplectic_defect"'
    plain, back, defect = (
        planning.plan_experiment(entry_of(tmp_path / "none.zarr", record=f"[{names}]"), clock=clock)
        for names in records
    )
    assert back.runs.usual == pytest.approx(plain.runs.usual)
    assert defect.runs.usual == pytest.approx(plain.runs.usual)
    assert plain.recording_seconds == 0.0
    runs = plain.entry.table.size
    assert back.recording_seconds == pytest.approx(plain.runs.usual + runs * 0.125)  # two at a time
    assert defect.recording_seconds == pytest.approx(runs * 0.125)
    assert back.files == plain.files + 2  # a shard, and metadata


def test_a_batch_is_what_runs_are_computed_in(tmp_path, monkeypatch):
    """Also where units cut starts that would go together."""
    parsed = studies.parse_study(
        one_experiment(
            integrators='["rk4", { name = "rk45", tolerance = 1e-3 }]',
            initial_condition="{ random = 11, seed = 1 }",
        )
    )
    store, finish, seen = tmp_path / "test.zarr", Recorder.finish, []

    def counted(self, runs):
        seen.append(len(runs.initial))
        return finish(self, runs)

    monkeypatch.setattr(Recorder, "finish", counted)
    (entry,) = entries = diff.diff_store_against_study(Store.at(store), parsed)
    plan = planning.plan_experiment(entry)
    create.create_or_grow_store(Store.at(store), parsed, entries)
    _, runs = planning.make_tasks(Store.at(store), [plan], 1)
    seen.clear()
    fold.begin_session(Store.at(store), "batches")
    for task in runs:
        compute.compute_task(task.build(), Session("batches", "", code_hash()))
    found = batches.Batches.of(entry, plan.work.unit)
    assert sorted(seen) == sorted(found.sizes.tolist())
    assert found.sizes.sum() == entry.table.size


def test_rows_of_shards_are_computed_one_after_the_other(tmp_path):
    """That with the most work first, whatever single tasks take: the others have no records."""
    text = one_experiment(
        step_size=[0.1, 0.05, 0.025], initial_condition="{ random = 400, seed = 1 }"
    )
    parsed, store = studies.parse_study(text), Store.at(tmp_path / "test.zarr")
    (entry,) = entries = diff.diff_store_against_study(store, parsed)
    plan = planning.plan_experiment(entry)
    create.create_or_grow_store(store, parsed, entries)
    layout = dataclasses.replace(plan.layout, shard_rows=256)
    chance = np.random.default_rng(1)
    count = -(-entry.table.size // 8)
    seconds = 8 * 60.0 * chance.random(count)
    units = planning.Units(8, np.arange(count), np.full(count, 8), seconds)
    plan = dataclasses.replace(plan, layout=layout, units=units)
    _, runs = planning.make_tasks(store, [plan], 4)
    rows = [int(task.rows[0]) // 256 for task in runs]
    order = list(dict.fromkeys(rows))
    assert len(order) == -(-entry.table.size // 256) and rows == sorted(rows, key=order.index)
    cost = {row: sum(t.cost for r, t in zip(rows, runs, strict=True) if r == row) for row in order}
    assert list(cost.values()) == sorted(cost.values(), reverse=True)
    assert len(runs) > 2 * len(order)


@pytest.mark.parametrize("shard_rows", [16, 4096])
def test_repeats_of_a_method_are_not_computed_one_after_the_other(tmp_path, shard_rows):
    """Else what slows the machine for a while slows one method in all of its repeats."""
    text = one_experiment(
        integrators='["variational", "rk4", "rk2_heun"]', step_size=[0.1, 0.05], repeat=5,
        initial_condition="{ random = 8, seed = 1 }",
    )  # fmt: skip
    parsed, store = studies.parse_study(text), Store.at(tmp_path / "test.zarr")
    (entry,) = entries = diff.diff_store_against_study(store, parsed)
    plan = planning.plan_experiment(entry)
    create.create_or_grow_store(store, parsed, entries)
    methods, repeats = 6, 5
    cost = np.tile([300.0, 50.0, 40.0, 30.0, 20.0, 10.0], repeats)
    units = planning.Units(8, np.arange(methods * repeats), np.full(methods * repeats, 8), cost)
    layout = dataclasses.replace(plan.layout, shard_rows=shard_rows)
    plan = dataclasses.replace(plan, layout=layout, units=units)
    _, runs = planning.make_tasks(store, [plan], 2)
    assert len(runs) > repeats
    turns = [task.first_repeat for task in runs]
    assert turns == sorted(turns) and set(turns) == set(range(repeats))
    longest = [task.cost for task in runs if task.first_repeat == 0]
    assert longest[0] == max(longest)


# --- what is there -----------------------------------------------------------------------------

SMALL = {
    "duration": "2.0",
    "samples": "10",
    "reference": '{ integrator = "dop853", tolerance = 1e-9 }',
    "initial_condition": "{ random = 18, seed = 1 }",
}


class Plans(coordinator.Watcher):
    """Keeps the plans of a run, and the number of its tasks."""

    def planned(self, plans, tasks, workers):
        self.plans, self.tasks, self.workers = plans, tasks, workers


def used(store):
    """CPU time of all runs and references in a store, read with plain zarr."""
    root = storage.open_root_group(store)
    groups = root["only"], root["_geosweep/references/only"]
    return [float(np.nansum(group["cpu_time"][:])) for group in groups]


@pytest.fixture(scope="module")
def ran(cluster, tmp_path_factory):
    """A store of a study with references, and the `Plans` of its run."""
    path, watcher = tmp_path_factory.mktemp("planned") / "test.zarr", Plans()
    parsed = studies.parse_study(one_experiment(**SMALL))
    assert sweep.run(parsed, path, cluster, watcher=watcher).complete
    return path, watcher


def test_references_say_what_they_took(ran):
    store, _ = ran
    seconds = storage.open_root_group(store)["_geosweep/references/only/cpu_time"][:]
    assert seconds.shape == (18,) and np.all(seconds > 0)


def test_status_says_what_was_planned_and_what_was_used(ran, command):
    store, watcher = ran
    least, most = planning.total_cpu_time(watcher.plans).interval
    found = json.loads(command(store.parent, "status", "test.zarr", "--json").stdout)
    expected = {
        "runs": 72,
        "runs_done": 72,
        "references": 18,
        "cpu_seconds": pytest.approx(least),
        "cpu_seconds_most": pytest.approx(most),
        "cpu_seconds_used": pytest.approx(sum(used(store))),
    }
    (row,) = found["experiments"]
    assert found["last_plan"] == row["last_plan"] == expected
    assert row["cpu_seconds"] == pytest.approx(sum(used(store)))
    printed = command(store.parent, "status", "test.zarr").stdout
    assert "of CPU time for 72 runs and 18 references; used since: " in printed
    assert "with 72 of the runs done" in printed


def test_the_tasks_are_those_that_were_counted(ran):
    _, watcher = ran
    assert planning.count_tasks(watcher.plans, watcher.workers) == watcher.tasks
    (plan,) = watcher.plans
    assert (
        planning.count_tasks([plan], 1) - len(planning._group_units_into_tasks([plan], 1)[0]) == 2
    )


def test_a_longer_study_costs_what_is_left(told, ran, tmp_path):
    """Runs and references go on from where they stand; those of other starts begin."""
    store, _ = ran
    cost = {}
    for name, where in (("whole", tmp_path / "none.zarr"), ("rest", store)):
        parsed = studies.parse_study(one_experiment(**SMALL | {"duration": "8.0", "samples": "40"}))
        (entry,) = diff.diff_store_against_study(Store.at(where), parsed)
        cost[name] = planning.plan_experiment(entry, clock=told(Clock()))
    whole, rest = cost["whole"], cost["rest"]
    assert rest.steps == pytest.approx(0.75 * whole.steps)
    assert rest.references.usual == pytest.approx(0.75 * whole.references.usual)
    kept = studies.parse_study(
        one_experiment(**SMALL | {"initial_condition": "{ random = 20, seed = 1 }"})
    )
    (entry,) = diff.diff_store_against_study(Store.at(store), kept)
    plan = planning.plan_experiment(entry, clock=told(Clock()))
    assert plan.lacking_references == 2 and plan.units.runs.sum() == 8
    assert np.all(plan.units.seconds > 0)
    assert planning.count_tasks([plan], 1) == 2  # the rows of references go on, in one chunk


def test_nothing_left_costs_nothing(told, ran):
    store, _ = ran
    (entry,) = diff.diff_store_against_study(
        Store.at(store), studies.parse_study(one_experiment(**SMALL))
    )
    clock = told(Clock())
    plan = planning.plan_experiment(entry, clock=clock)
    assert plan.cpu_time.interval == (0.0, 0.0) and plan.steps == plan.lacking_references == 0
    assert clock.calls == 0


def test_the_last_plan_is_of_what_was_added(cluster, tmp_path, command):
    store = tmp_path / "test.zarr"
    assert sweep.run(studies.parse_study(one_experiment(**SMALL)), store, cluster).complete
    before = sum(used(store))
    command(tmp_path, "extend", "test.zarr", "--duration", 4)
    found = json.loads(command(tmp_path, "status", "test.zarr", "--json").stdout)
    assert found["last_plan"]["cpu_seconds_used"] == pytest.approx(sum(used(store)) - before)
    assert found["experiments"][0]["cpu_seconds"] == pytest.approx(sum(used(store)))


def test_references_of_an_earlier_version_are_not_timed(cluster, tmp_path, command):
    """Their store grows, and is sound."""
    store = tmp_path / "test.zarr"
    assert sweep.run(studies.parse_study(one_experiment(**SMALL)), store, cluster).complete
    root = storage.open_root_group(store, mode="a")
    del root["_geosweep/references/only/cpu_time"]
    (store / "_geosweep" / "prediction.json").unlink()
    storage.consolidate_zarr_metadata(Store.at(store))
    runs = float(root["only/cpu_time"][:].sum())
    found = json.loads(command(tmp_path, "status", "test.zarr", "--json").stdout)
    assert found["last_plan"] is None and found["experiments"][0]["last_plan"] is None
    assert found["experiments"][0]["cpu_seconds"] == pytest.approx(runs)
    more = SMALL | {"initial_condition": "{ random = 20, seed = 1 }"}
    assert sweep.run(studies.parse_study(one_experiment(**more)), store, cluster).complete
    seconds = storage.open_root_group(store)["_geosweep/references/only/cpu_time"][:]
    assert np.isnan(seconds[:18]).all() and np.all(seconds[18:] > 0)
    assert "is sound" in command(tmp_path, "verify", "test.zarr").stdout

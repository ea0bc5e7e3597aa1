"""Runs go on to a longer duration as if they had never stopped."""

import shutil

import numpy as np
import pytest
from study_text import one_experiment

import sweep

KEYS = {
    "integrators": """[
    "variational", "variational+suzuki4", { name = "rk4", formulation = "q_qdot" },
    { name = "rk45", tolerance = 1e-4 }, { name = "rkmk54", tolerance = 1e-4 },
    { name = "dop853", tolerance = 1e-6 },
]""",
    "step_size": "0.1",
    "initial_condition": '{ around = "lee", random = 3, spread = 1e-2, seed = 1 }',
    "samples": "4",
    "duration": "0.8",
    "record": '["energy", "momentum", "unit_length", "state", "step_size", "rejected_steps"]',
    "reference": '{ integrator = "dop853", tolerance = 1e-6 }',
}


def text(**changes):
    return one_experiment(**KEYS | changes)


@pytest.fixture(scope="module")
def at_once(run_text, tmp_path_factory):
    path = tmp_path_factory.mktemp("extended") / "whole.zarr"
    assert run_text(text(duration="2.0", samples="10"), path).complete
    return path


@pytest.fixture(scope="module")
def short(run_text, tmp_path_factory):
    path = tmp_path_factory.mktemp("short") / "test.zarr"
    written = text().replace("[[experiment]]", "[[experiment]]   # the only one")
    assert run_text(written, path).complete
    return path


@pytest.fixture
def store(short, tmp_path):
    return shutil.copytree(short, tmp_path / "test.zarr")


def test_runs_in_three_pieces_are_the_runs_at_once(
    store, tmp_path, grow, at_once, command, assert_same_runs, arrays, fingerprint
):
    """By a longer study, then by the command; again there is nothing to do."""
    before = arrays(store, "only")
    assert grow(text(duration="1.2", samples="6"), store).computed == 18
    ran = command(tmp_path, "extend", "test.zarr", "--no-summary", "--duration", 2.0)
    assert "Complete: 18 runs" in ran.stdout
    assert_same_runs(at_once, store, "only")
    after = arrays(store, "only")
    assert after["time"].shape == (11,) and before["state"].shape[1] == 5
    assert after["state"][:, :5].tobytes() == before["state"].tobytes()
    assert (after["sample_count"] == 11).all() and np.isfinite(after["global_error"]).all()
    ends = [arrays(path, "_geosweep/ends.only")["checkpoint"] for path in (store, at_once)]
    np.testing.assert_array_equal(*ends)
    mark = fingerprint(store)
    assert (
        "Nothing to compute"
        in command(tmp_path, "extend", "test.zarr", "--no-summary", "--duration", 2).stdout
    )
    for wrong, words in (
        (("--duration", 1.0), "a duration of 1 does not extend one of 2"),
        (("--duration", "inf"), "duration = inf; expected a number > 0"),
        (("--duration", 2e300), "comes to 1e+301 samples of each run; at most 10,000,000"),
        (
            ("--duration", 2.5),
            "does not fit the sample interval: the nearest that do are 2.4 and 2.6",
        ),
        (("--duration", 4.0, "--samples", 3), "expected a number that divides 10"),
        (("--duration", 4.0, "-e", "onl"), "Did you mean 'only'?"),
    ):
        refused = command(tmp_path, "extend", "test.zarr", "--no-summary", *wrong, code=2)
        assert words in refused.stderr
    (tmp_path / "short.toml").write_text(text())
    refused = command(tmp_path, "run", "short.toml", "test.zarr", code=2)
    assert "was computed for 2, and 0.8 is less" in refused.stderr
    assert fingerprint(store) == mark


def test_samples_may_become_coarser(store, cluster, at_once, arrays):
    assert sweep.extend(store, duration=2.0, samples=2, client=cluster).complete
    coarse, fine = arrays(store, "only"), arrays(at_once, "only")
    kept = [0, 1, 2, 3, 4, 7, 10]
    np.testing.assert_array_equal(coarse["time"], fine["time"][kept])
    free = fine["integrator"] != "dop853"  # whose steps land on the samples
    for name in ("state", "energy", "current_step_size", "rejected_so_far"):
        np.testing.assert_array_equal(coarse[name][free], fine[name][free][:, kept], err_msg=name)
    for name in ("steps", "evaluations", "iterations_mean", "status"):
        own = free if name != "evaluations" else ~fine["adaptive"]
        np.testing.assert_array_equal(coarse[name][own], fine[name][own], err_msg=name)
    with pytest.raises(ValueError, match="6 samples from 2 to 3.2 do not fit"):
        sweep.extend(store, duration=3.2, samples=6, client=cluster)  # finer than it was


@pytest.mark.slow
def test_an_axis_that_was_extended_twice_goes_on(run_text, tmp_path, command, arrays):
    """By equal intervals first, then by longer ones, which no study can say."""
    written = text(integrators='"variational"', reference=None)
    store, at_once = tmp_path / "test.zarr", tmp_path / "whole.zarr"
    assert run_text(written, store).complete
    for duration, more in ((1.6, ()), (3.2, ("--samples", 4)), (4.8, ())):
        command(tmp_path, "extend", "test.zarr", "--no-summary", "--duration", duration, *more)
    assert "Nothing to compute" in command(tmp_path, "run", "test.zarr", "--no-summary").stdout
    assert (
        "3 new runs"
        in command(tmp_path, "extend", "test.zarr", "--no-summary", "--integrator", "rk4").stdout
    )
    whole = text(integrators='"variational"', reference=None, duration="4.8", samples="24")
    assert run_text(whole, at_once).complete
    coarse, fine = arrays(store, "only"), arrays(at_once, "only")
    kept = np.searchsorted(fine["time"], coarse["time"] * (1 - 1e-12))
    np.testing.assert_array_equal(coarse["time"], fine["time"][kept])
    np.testing.assert_array_equal(coarse["state"][:3], fine["state"][:, kept])


def test_runs_that_failed_stay_and_equal_steps_are_refused(
    run_text, cluster, tmp_path, arrays, fingerprint
):
    store = tmp_path / "test.zarr"
    keys = {
        "system": '"nbody_sphere"',
        "parameters": "{ count = 2 }",
        "integrators": '"rk45"',
        "step_size": None,
        "tolerance": "1e-6",
        "reference": None,
        "initial_condition": """[
    { q = [[0, 0, 1], [0.6, 0, 0.8]], omega = [[0, 0, 0], [0, 0, 0]], label = "falls" },
    { q = [[0, 0, 1], [0.6, 0, 0.8]], omega = [[1, 0, 0], [0, 1, 0]], label = "misses" },
]""",
        "record": '["energy"]',
        "duration": "2.0",
    }
    outcome = run_text(text(**keys), store)
    assert outcome.complete and outcome.failed == 1
    before = arrays(store, "only")
    outcome = sweep.extend(store, duration=3.0, client=cluster)
    assert outcome.complete and outcome.failed == 1
    after = arrays(store, "only")
    failed = before["status"] > 0
    for name in ("sample_count", "stop_time", "steps", "cpu_time"):
        assert after[name][failed] == before[name][failed]
    assert after["sample_count"].tolist() == [before["sample_count"][0], 7]
    counted = tmp_path / "counted.zarr"
    one = '{ name = "rk4", steps_of = "rk45", tolerance = 1e-3 }'
    run_text(text(integrators=one, step_size=None), counted)
    mark = fingerprint(counted)
    with pytest.raises(ValueError, match="cannot be extended: the steps of 'rk4"):
        sweep.extend(counted, duration=1.6, client=cluster)
    longer = text(integrators=one, step_size=None, duration="1.6", samples="8")
    with pytest.raises(ValueError, match="cannot be extended: the steps of 'rk4"):
        run_text(longer, counted)
    assert fingerprint(counted) == mark


@pytest.mark.slow
def test_thinning_samples_go_on_to_thin_out(run_text, tmp_path, command, arrays, assert_same_runs):
    """By whole decades a study can ask for the same; an end in between stays a sample."""
    methods = '["variational", { name = "rkmk54", tolerance = 1e-4 }]'
    keys = {"samples": "{ per_decade = 4 }", "reference": None, "integrators": methods}
    store = tmp_path / "test.zarr"
    assert run_text(text(duration="10.0", **keys), store).complete
    before = arrays(store, "only")
    command(tmp_path, "extend", "test.zarr", "--no-summary", "--duration", 100.0)
    whole = tmp_path / "whole.zarr"
    longer = text(duration="100.0", **keys)
    assert run_text(longer, whole).complete
    assert_same_runs(whole, store, "only")
    shown = command(tmp_path, "show", "study", "test.zarr").stdout
    assert shown.startswith('# only was extended to 100 (samples: {"per_decade": 4')
    (tmp_path / "longer.toml").write_text(longer)
    assert (
        "Nothing to compute"
        in command(tmp_path, "run", "longer.toml", "test.zarr", "--no-summary").stdout
    )
    command(tmp_path, "extend", "test.zarr", "--no-summary", "--duration", 250.0)
    command(tmp_path, "extend", "test.zarr", "--no-summary", "--duration", 900.0)
    after = arrays(store, "only")
    times = after["time"]
    expected = [100.0, 177.8, 250.0, 562.3, 900.0]  # 316.2 < 250 * 10**(1/8)
    np.testing.assert_allclose(times[times >= 100.0], expected, rtol=1e-3)
    for name in ("state", "energy", "time", "rejected_so_far"):
        one, two = before[name], after[name]
        kept = one.shape[min(1, one.ndim - 1)]
        assert (two[:, :kept] if one.ndim > 1 else two[:kept]).tobytes() == one.tobytes()
    shown = command(tmp_path, "show", "study", "test.zarr").stdout
    assert shown.startswith('# only was extended to 900 (samples: {"first": ')
    assert "Nothing to compute" in command(tmp_path, "run", "test.zarr", "--no-summary").stdout
    (tmp_path / "shown.toml").write_text(shown)
    again = command(tmp_path, "run", "shown.toml", "test.zarr", "--no-summary").stdout
    assert "Nothing to compute" in again
    assert command(tmp_path, "show", "study", "test.zarr").stdout == shown  # and no note twice


ADDED = {
    "a tolerance": (("--tolerance", 1e-5, "--integrator", "cf43"), 3, "tolerance = [1e-05]"),
    "a start": (("--initial-condition", "lee"), 6, '"lee"]'),
    "two at once": (("--step-size", 0.05, "--duration", 1.2, "--members", 3), 27, "0.05]"),
    "nothing new": (("--step-size", 0.1, "--integrator", "variational"), 0, None),
}


FIRST = ["two at once", "nothing new"]
OTHERS = [pytest.param(what, marks=pytest.mark.slow) for what in ADDED if what not in FIRST]


@pytest.mark.parametrize("what", FIRST + OTHERS)
def test_the_study_of_a_store_gets_more(what, store, short, tmp_path, command):
    """A table is added that names what is new, the text kept, and only that is computed."""
    options, new, words = ADDED[what]
    said = command(tmp_path, "extend", "test.zarr", "--no-summary", *options, "-e", "only").stdout
    assert f"{new if what != 'two at once' else 9} new runs, 18 kept" in said
    assert "Complete" in said
    shown = command(tmp_path, "show", "study", "test.zarr").stdout
    assert "[[experiment]]   # the only one" in shown
    (saved,) = sweep.open_study(store).attrs["studies"]
    (first,) = sweep.open_study(short).attrs["studies"]
    assert saved.startswith(first) and saved.rstrip() in shown
    more = saved.removeprefix(first)
    assert more.count("[[experiment]]") == (new > 0) and (words is None or words in more)
    assert "Nothing to compute" in command(tmp_path, "run", "test.zarr", "--no-summary").stdout
    if "--duration" in options:
        saved = saved.replace("duration = 0.8", "duration = 1.2").replace(
            "samples = 4", "samples = 6"
        )
    (tmp_path / "saved.toml").write_text(saved)
    said = command(tmp_path, "run", "saved.toml", "test.zarr", "--no-summary").stdout
    assert "Nothing to compute" in said and "no longer" not in said
    assert sweep.open_study(store).attrs["studies"] == [saved]


@pytest.mark.slow
def test_additions_go_on_from_each_other(store, tmp_path, command, arrays):
    """The largest grid gets more; the first file, run again, asks for its own runs alone."""
    command(tmp_path, "extend", "test.zarr", "--no-summary", "--integrator", "rk2_heun")
    said = command(tmp_path, "extend", "test.zarr", "--no-summary", "--step-size", 0.05).stdout
    assert "12 new runs, 21 kept" in said
    (text,) = texts = sweep.open_study(store).attrs["studies"]
    first, _, last = parts = text.split("# Added by an extension.")
    assert len(parts) == 3 and '"rk2_heun"' in last and "step_size = [0.1, 0.05]" in last
    again = ("extend", "test.zarr", "--no-summary", "--step-size", 0.05, "--integrator", "rk2_heun")
    assert "0 new runs, 33 kept" in command(tmp_path, *again).stdout
    assert sweep.open_study(store).attrs["studies"] == texts
    before = arrays(store, "only")
    assert before["in_study"].all() and len(before["run_id"]) == 33
    (tmp_path / "first.toml").write_text(first)
    said = command(tmp_path, "run", "first.toml", "test.zarr", "--no-summary").stdout
    assert "18 kept, 15 no longer in the study" in said
    after = arrays(store, "only")
    assert after["run_id"].tolist() == before["run_id"].tolist()
    assert after["in_study"].tolist() == [True] * 18 + [False] * 15
    assert after["state"].tobytes() == before["state"].tobytes()


def test_defaults_stay_defaults(tmp_path, run_text, command):
    """An experiment with fixed steps does not take the tolerance that another one needs."""
    head, _, table = text(
        integrators='"rk4"', step_size="{ start = 0.1, stop = 0.05, count = 2 }", reference=None
    ).partition("[[experiment]]")
    written = (
        head
        + "[defaults]\ntolerance = 1e-6\nstep_size = 0.2\n[[experiment]]"
        + table
        + "[[experiment]]"
        + table.replace('"only"', '"other"').replace('"rk4"', '"rk45"').replace("step_size =", "#")
    )
    assert run_text(written, tmp_path / "test.zarr").complete
    more = ("--step-size", 0.05, "--step-size", 0.025, "--tolerance", 1e-7, "--members", 4)
    command(tmp_path, "extend", "test.zarr", "--no-summary", *more)
    tree = sweep.open_study(tmp_path / "test.zarr")
    (kept,) = tree.attrs["studies"]
    assert kept.startswith(written) and kept.count("[[experiment]]") == 4
    only, other = (tree[name].to_dataset() for name in ("only", "other"))
    assert only["in_study"].all() and other["in_study"].all()
    assert sorted(only["step_size"].values) == sorted([0.1, 0.05, 0.025] * 4)
    assert sorted(other["tolerance"].values) == [1e-7] * 4 + [1e-6] * 4


def test_what_cannot_be_added(store, tmp_path, command, fingerprint):
    mark = fingerprint(tmp_path)
    for options, words in (
        ((), "nothing to extend: give a longer duration, integrators, step sizes"),
        (("--samples", 3), "samples are of a longer duration: give that too"),
        (("--members", 2), "has 3 members, and 2 are fewer"),
        (("--integrator", "rk5"), "unknown integrator 'rk5'"),
        (("--step-size", 0.3), "the step size 0.3 "),
        (("--tolerance", 1e-7), "adaptive integrator that takes the experiment's tolerances"),
        (("--initial-condition", "le"), "Did you mean 'lee'?"),
        (("--members", 9, "-e", "onl"), "Did you mean 'only'?"),
    ):
        assert (
            words
            in command(tmp_path, "extend", "test.zarr", "--no-summary", *options, code=2).stderr
        )
    assert fingerprint(tmp_path) == mark

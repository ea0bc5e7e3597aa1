"""A study with zip, repeat, thinning samples, a file and a lattice, from its text to its store."""

import numpy as np
import pytest
import zarr

import integrators
import sweep
import systems
from integrators.stepping.batch import run_batch
from sweep.analysis import drift_table

STUDY = """\
format = 1
name = "parts"

[[experiment]]
name = "chains"
system = "spherical_pendulum_chain"
scan = {{ gravity = [1.0, 2.0, 3.0], length = [1.0, 2.0, 2.0] }}
zip = [["gravity", "length", "step_size"]]
integrators = ["variational", "rk4"]
step_size = [0.1, 0.05, {third}]
repeat = {repeat}
initial_condition = [
    "lee",
    {{ file = "data/states.npy" }},
    {{ lattice = 6, body = 1, around = "lee" }},
]
duration = 50.0
samples = {{ per_decade = 30 }}
record = ["energy", "unit_length", "state"]
"""
TIMED = ("cpu_time", "wall_time")
CHAIN = systems.get("spherical_pendulum_chain")
MEMBERS = CHAIN.ensemble(5, seed=3)


def written(folder, members, **changes):
    (folder / "data").mkdir(exist_ok=True)
    np.save(folder / "data" / "states.npy", MEMBERS[:members])
    (folder / "parts.toml").write_text(STUDY.format(**{"third": 0.05, "repeat": 2} | changes))


def opened(folder):
    return sweep.open_study(folder / "parts.zarr")["chains"].to_dataset()


@pytest.fixture(scope="module")
def parts(tmp_path_factory, command):
    """The directory of the study, its store, and what the command printed."""
    folder = tmp_path_factory.mktemp("parts")
    written(folder, 3)
    return folder, command(folder, "run", "parts.toml", "--no-summary").stdout


def test_what_is_printed(parts, command):
    folder, printed = parts
    assert "Study parts: 120 new runs, 0 kept" in printed
    assert "Complete: 120 runs" in printed
    checked = command(folder, "check", "parts.toml").stdout
    assert "120" in checked and "repeats" in checked.splitlines()[0]
    again = command(folder, "plan", "parts.toml").stdout
    assert "0 runs to compute" in again
    status = command(folder, "status", "parts.zarr").stdout
    assert "120" in status


def test_coordinates(parts):
    dataset = opened(parts[0])
    assert dataset.sizes["run"] == 120 and (dataset["status"] == 0).all()
    axes = zip(
        *(dataset[k].values.tolist() for k in ("gravity", "length", "step_size")), strict=True
    )
    assert set(axes) == {(1.0, 1.0, 0.1), (2.0, 2.0, 0.05), (3.0, 2.0, 0.05)}
    labels = ["lee", *(f"states[{i}]" for i in range(3)), *(f"lattice[{i}]" for i in range(6))]
    assert dataset["initial_condition"].values[:10].tolist() == labels
    assert dataset["ensemble"].values[:10].tolist() == [""] + ["states"] * 3 + ["lattice"] * 6
    assert sorted(dataset["repeat"].values.tolist()) == [0] * 60 + [1] * 60
    for name in ("gravity", "length", "repeat"):
        assert dataset[name].dims == ("run",) and dataset[name].attrs["units"]
    times = dataset["time"].values
    assert times[0] == 0.0 and times[1] == 0.1 and times[-1] == 50.0
    np.testing.assert_allclose(10 * times, np.rint(10 * times), rtol=1e-12)
    assert np.all(np.diff(times) > 0) and np.diff(times)[-1] > 3.0
    assert (dataset["steps"] == np.rint(50.0 / dataset["step_size"])).all()


def test_states_and_statistics_are_those_of_the_method(parts):
    dataset = opened(parts[0])
    chosen = dataset.query(run="initial_condition == 'states[1]' and repeat == 1")
    assert chosen.sizes["run"] == 6
    for run in range(6):
        row = chosen.isel(run=run).load()
        system = systems.get(CHAIN.name, gravity=float(row.gravity), length=float(row.length))
        problem = integrators.get(str(row.integrator.values)).bind(system)
        h = float(row.step_size)
        every = run_batch(problem, MEMBERS[1:2], h, 1, round(50.0 / h), statistics=True)
        ends = np.rint(row["time"].values / h).astype(int)
        np.testing.assert_array_equal(row["state"].values, every.states[0, ends])
        of_steps = every.statistics[0, :, 0, 0]
        means = np.add.reduceat(of_steps, ends[:-1]) / np.diff(ends)
        np.testing.assert_allclose(
            row["energy_error_mean"].values[1:], means, rtol=1e-9, atol=1e-15
        )


def test_repeats_differ_in_their_time_alone(parts):
    dataset = opened(parts[0]).load()
    dense = sweep.grid(dataset.query(run="gravity == 1.0"))
    assert dense["energy"].dims[-2:] == ("repeat", "time") and dense.sizes["repeat"] == 2
    for name, array in dense.data_vars.items():
        if name in TIMED:
            assert (array.isel(repeat=0) != array.isel(repeat=1)).any()
        else:
            np.testing.assert_array_equal(array.isel(repeat=0), array.isel(repeat=1))
    assert len(set(dataset["run_id"].values)) == 120
    assert {row.starts for row in drift_table(dataset, ("energy",))} == {10}


def test_pictures_over_time(parts, command):
    folder = parts[0]
    command(folder, "plot", "energy", "parts.zarr", "-o", "energy.png")
    assert (folder / "energy.png").stat().st_size > 5000
    printed = command(folder, "drift", "parts.zarr", "-q", "energy").stdout
    assert "over 50 s" in printed and "undecided" not in printed
    assert "means over 10 starts" in printed  # and not 20


@pytest.mark.slow
def test_it_grows_and_goes_on(tmp_path, command, arrays, assert_same_runs):
    """Members of the file, repeats, a zipped value; then the store loses runs, and its file."""
    written(tmp_path, 2)
    command(tmp_path, "run", "parts.toml", "--no-summary")
    before = arrays(tmp_path / "parts.zarr", "chains")
    known = len(before["run_id"])
    assert known == 3 * 2 * 9 * 2
    written(tmp_path, 4, repeat=3, third=0.025)
    grown = command(tmp_path, "run", "parts.toml", "--no-summary").stdout
    kept = 2 * 2 * 9 * 2
    assert f"Study parts: {3 * 2 * 11 * 3 - kept} new runs, {kept} kept, 36 no longer" in grown
    after = arrays(tmp_path / "parts.zarr", "chains")
    for name in ("run_id", "state", "energy", "cpu_time", "repeat", "step_size"):
        assert after[name][:known].tolist() == before[name].tolist(), name
    rows = after["in_study"]
    assert rows.sum() == 198 and sorted(set(after["repeat"][rows].tolist())) == [0, 1, 2]

    store = tmp_path / "parts.zarr"
    marker = zarr.open_group(store, path="chains", mode="r+", use_consolidated=False)[
        "sample_count"
    ]
    marker[10:40] = 0  # as a killed worker leaves it
    again = command(tmp_path, "run", "parts.toml", "--no-summary").stdout
    lost = rows[10:40].sum()
    assert f"0 new runs, 198 kept ({lost} of them not computed yet), 36 no longer" in again
    assert f"{lost} runs to compute" in again
    assert "Complete: 198 runs" in again

    fresh = tmp_path / "fresh.zarr"
    command(tmp_path, "run", "parts.toml", fresh, "--no-summary")
    ids = arrays(fresh, "chains")["run_id"].tolist()
    assert_same_runs(store, fresh, "chains", runs=ids)

    (tmp_path / "data" / "states.npy").unlink()
    status = command(tmp_path, "status", "parts.zarr").stdout
    assert "198" in status
    refused = command(tmp_path, "run", "parts.toml", code=2)
    assert "there is no file" in refused.stderr and "states.npy" in refused.stderr


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("per_decade = 30", "per_decade = 20", "was begun with samples = {'per_decade': 30"),
        ("[0.1, 0.05,", "[0.2, 0.05,", "'grid': 0.2}"),
        ("{ per_decade = 30 }", "100", "the study now says 100"),
    ],
)
def test_a_changed_time_axis_is_refused(parts, command, fingerprint, old, new, message):
    folder, _ = parts
    text = (folder / "parts.toml").read_text()
    assert old in text
    (folder / "changed.toml").write_text(text.replace(old, new))
    before = fingerprint(folder / "parts.zarr")
    refused = command(folder, "run", "changed.toml", code=2).stderr
    assert message in refused
    assert fingerprint(folder / "parts.zarr") == before


def test_mistakes_leave_no_store(tmp_path, command):
    written(tmp_path, 3, third="0.05, 0.025")
    refused = command(tmp_path, "run", "parts.toml", code=2).stderr
    assert "parts.toml:8: experiment[0].zip: axes that advance together" in refused
    assert "gravity has 3, length has 3, step_size has 4" in refused
    assert not (tmp_path / "parts.zarr").exists()

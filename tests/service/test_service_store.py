"""What a run leaves in its store, beside the same computed directly."""

import json
import math
import shutil

import numpy as np
import pytest
import xarray as xr
import zarr
from study_text import one_experiment, run_tables

import integrators
import sweep
import systems
from integrators.forms import forms
from integrators.stepping.batch import run_batch
from integrators.stepping.formulations import to_lagrangian_states

STUDY = """\
format = 1
name = "everything"
description = "What a store can hold"

[[experiment]]
name = "pendulum"
system = "spherical_pendulum_chain"
scan = { gravity = [1.0, 9.81] }
integrators = [
    "variational", "rk4", { name = "rk4", formulation = "q_qdot", label = "rk4 on q, qdot" },
]
step_size = [0.1, 0.05]
initial_condition = ["lee", { around = "lee", random = 9, spread = 0.1, seed = 1 }]
duration = 1.0
samples = 5
record = ["energy", "momentum", "unit_length", "tangency", "state"]
reference = { integrator = "dop853", tolerance = 1e-12, until = 0.4 }

[[experiment]]
name = "ragged"
system = "spherical_pendulum_chain"
scan = { count = [1, 3, 2] }
integrators = ["variational", "rk4"]
step_size = 0.05
initial_condition = { random = 2, seed = 3 }
duration = 1.0
samples = 5
record = ["energy", "state"]
reference = { integrator = "dop853", tolerance = 1e-12 }

[[experiment]]
name = "bodies"
system = "nbody_sphere"
scan = { mass = [
    { label = "equal", value = [1, 1, 1] }, { label = "one heavy", value = [9, 1, 1] },
] }
integrators = ["variational"]
step_size = 0.01
initial_condition = "lee"
duration = 0.1
samples = 2
record = ["momentum", "state"]
statistics = "none"
"""
NAMES = ("pendulum", "ragged", "bodies")


@pytest.fixture(scope="module")
def store(run_text, tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "everything.zarr"
    outcome = run_text(STUDY, path)
    assert outcome.complete and outcome.failed == 0
    assert [tally.runs for tally in outcome.tallies] == [120, 12, 2]
    return path


@pytest.fixture(scope="module")
def tables():
    return run_tables(STUDY)


@pytest.fixture(scope="module")
def datasets(store):
    """The experiments by name, in memory."""
    return {name: node.to_dataset().load() for name, node in sweep.open_study(store).items()}


@pytest.fixture(scope="module")
def every_run(datasets, tables):
    """The system, the integrator, the initial state and the row of each run, by experiment."""
    return {
        name: [
            (
                table.systems[table.system_index[i]],
                table.experiment.integrators[table.integrator_index[i]].integrator(),
                table.initial_state(i),
                datasets[name].isel(run=i),
            )
            for i in range(table.size)
        ]
        for name, table in tables.items()
    }


def integrated(table, system, method, state, row, samples=None):
    experiment = table.experiment
    return integrators.integrate(
        system, method, state, step_size=float(row.step_size),
        duration=experiment.duration, samples=samples or experiment.samples,
    )  # fmt: skip


# --- as it lies on the disk ------------------------------------------------------------------


def test_every_array_has_units_a_name_and_a_nan_fill(store):
    found = list(all_arrays(zarr.open_group(store, mode="r")))
    assert len(found) > 60
    for array in found:
        assert array.attrs["units"] and array.attrs["long_name"], array.path
        assert array.metadata.dimension_names[0], array.path
        if array.dtype.kind == "f":
            assert math.isnan(array.fill_value), array.path


def all_arrays(group):
    for _, array in group.arrays():
        yield array
    for _, child in group.groups():
        yield from all_arrays(child)


def test_plain_xarray_opens_it(store):
    tree = xr.open_datatree(store, engine="zarr")
    assert {"_geosweep", *NAMES} == set(tree.children)
    assert not any(tree[name].children for name in NAMES)
    pendulum = tree["pendulum"].to_dataset()
    assert dict(pendulum.sizes) == {"run": 120, "time": 6, "row": 4, "component": 3}
    for dim in pendulum.sizes:
        assert dim in pendulum.coords


def test_open_study_shows_experiments_alone_and_loads_what_is_small(store):
    tree = sweep.open_study(store)
    assert set(tree.children) == set(NAMES)
    assert tree.attrs["studies"] == [STUDY] and tree.attrs["format_version"] == 3
    pendulum = tree["pendulum"].to_dataset()
    is_loaded = {
        name: "values with dtype" not in repr(pendulum[name]) for name in pendulum.variables
    }
    assert is_loaded["status"] and is_loaded["step_size"] and not is_loaded["energy"]


def test_strings_are_coordinates_alone(datasets):
    for dataset in datasets.values():
        assert all(array.dtype.kind in "fi" for array in dataset.data_vars.values())
        labels = {"run_id", "integrator", "initial_condition", "ensemble"}
        assert labels <= set(dataset.coords)
        assert np.isnan(dataset.where(dataset.step_size > 100)["cpu_time"]).all()


def test_every_chunk_is_written_also_where_it_is_nan_throughout(store):
    residual = zarr.open_array(store, path="pendulum/stop_residual", mode="r")
    assert np.isnan(residual[:]).all()
    for name in NAMES:
        group = zarr.open_group(store, path=name, mode="r")
        for key, array in group.arrays():
            chunks = math.prod(array.cdata_shape)
            files = list((store / name / key).glob("c.*"))
            assert len(files) == chunks, key


@pytest.mark.parametrize("name", ["energy", "sample_count", "run_id", "initial_state"])
def test_a_flipped_bit_is_not_read_as_data(store, tmp_path, name):
    copy = shutil.copytree(store / "pendulum", tmp_path / "copy")
    chunk = min((copy / name).glob("c.*"))
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 1
    chunk.write_bytes(data)
    with pytest.raises(ValueError, match="(?i)checksum"):
        zarr.open_array(copy, path=name, mode="r")[:]


def test_attributes_say_what_was_run(datasets, tables):
    pendulum = datasets["pendulum"].attrs
    experiment = tables["pendulum"].experiment
    assert json.loads(pendulum["experiment"]) == json.loads(json.dumps(experiment.expanded()))
    methods = json.loads(pendulum["integrators"])
    assert methods["rk4 on q, qdot"]["name"] == "rk4"
    assert methods["rk4 on q, qdot"]["options"] == {"formulation": "q_qdot"}
    assert [methods[label]["order"] for label in methods] == [2, 4, 4]
    assert json.loads(pendulum["system"])["name"] == "spherical_pendulum_chain"


# --- coordinates -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_coordinates_are_those_of_the_run_table(datasets, tables, name):
    dataset, table = datasets[name], tables[name]
    columns = ("run_id", "integrator", "step_size", "initial_condition", "ensemble")
    for column in (*columns, *table.scan):
        assert dataset[column].values.tolist() == table.column(column).tolist(), column
    assert dataset.time.values.tobytes() == table.experiment.times.tobytes()
    assert dataset.run.values.tolist() == list(range(table.size))
    assert dataset.in_study.all() and not dataset.adaptive.any()
    assert np.isnan(dataset.tolerance).all()
    for i, start in enumerate(map(table.initial_state, range(table.size))):
        stored = dataset.initial_state.values[i]
        assert stored[: len(start)].tobytes() == start.tobytes()
        assert np.isnan(stored[len(start) :]).all()


def test_scanned_axes(datasets):
    assert set(datasets["pendulum"].gravity.values) == {1.0, 9.81}
    assert datasets["pendulum"].gravity.attrs["units"] == "m s-2"
    assert set(datasets["ragged"]["count"].values) == {1, 2, 3}
    assert list(datasets["bodies"].mass.values) == ["equal", "one heavy"]
    assert list(datasets["pendulum"].row.values) == ["q0", "q1", "omega0", "omega1"]
    assert list(datasets["pendulum"].component.values) == ["x", "y", "z"]
    assert datasets["ragged"].sizes["row"] == 6


def test_five_lines_of_xarray(store):
    pendulum = sweep.open_study(store)["pendulum"].to_dataset()
    some = pendulum.query(run="integrator == 'variational' and step_size < 0.06 and gravity == 1")
    assert some.sizes["run"] == 10
    dense = sweep.grid(pendulum)
    cell = dense.energy.sel(
        integrator="variational", step_size=0.05, gravity=1.0, initial_condition="lee", time=1.0
    )
    assert cell.item() == some.energy.sel(time=1.0)[0].item()


# --- values ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_states_are_those_of_integrate_to_the_last_bit(every_run, tables, name):
    for system, method, start, row in every_run[name]:
        run = integrated(tables[name], system, method, start, row)
        stored = row.state.values
        assert stored[:, : system.rows].tobytes() == run.states.tobytes()
        assert np.isnan(stored[:, system.rows :]).all()
        assert (row.status, row.sample_count) == (0, len(run.times))
        assert row.stop_step == -1 and np.isnan(row.stop_residual)
        for counter in ("steps", "iterations_max", "iterations_mean"):
            assert row[counter] == run.counters[counter], counter
        assert row.evaluations == row.steps * method.evaluations
        assert row.cpu_time > 0 and row.wall_time > 0


@pytest.mark.parametrize("name", NAMES)
def test_quantities_are_those_of_the_states_to_the_last_bit(every_run, tables, name):
    table = tables[name]
    for system, method, start, row in every_run[name]:
        problem = method.bind(system)
        steps = int(row.steps) // table.experiment.samples
        batch = run_batch(
            problem, start[None], float(row.step_size), steps, table.experiment.samples
        )
        for quantity in system.quantities:
            if quantity.name in table.experiment.record:
                compare(quantity, problem, batch.states[0], row)


def compare(quantity, problem, states, row):
    if quantity.kind == "constraint":
        values = evaluated(quantity, problem, states)
        assert row[f"{quantity.name}_error"].values.tobytes() == values.tobytes()
        return
    values = evaluated(quantity, problem, to_lagrangian_states(problem, states))
    names = [f"{quantity.name}_{axis}" for axis in quantity.components] or [quantity.name]
    for name, expected in zip(names, values, strict=True):
        assert row[name].values.tobytes() == expected.tobytes(), name
    change = values - values[:, :1]
    size = np.sqrt(np.sum(change**2, axis=0)) if quantity.components else change[0]
    assert row[f"{quantity.name}_error"].values.tobytes() == size.tobytes()
    assert size.any() or quantity.kind == "momentum_map"


def evaluated(quantity, problem, states):
    """The components of a quantity, from its compiled function, one state after the other."""
    values = []
    for state in states:
        out = np.zeros((1, 3))
        work = np.zeros(quantity.function.work(problem.rows) + 1)
        quantity.function.scalar(0.0, np.ascontiguousarray(state), problem.parameters, out, work)
        values.append(out[0, list(quantity.columns)])
    return np.ascontiguousarray(np.transpose(values))


def in_q_omega(dataset):
    """Without the runs in (q, q̇), whose velocities along q are not in the stored states."""
    return dataset.query(run="integrator != 'rk4 on q, qdot'")


def test_energy_and_momentum_of_the_pendulum_by_hand(datasets):
    """T + V with V = −Σ m_i g z_i, z_i the sum of the links above; about the vertical e3."""
    dataset = in_q_omega(datasets["pendulum"])
    q, omega = np.split(dataset.state.values, 2, axis=2)
    velocity = np.cumsum(np.cross(omega, q), axis=2)
    position = np.cumsum(q, axis=2)
    gravity = dataset.gravity.values[:, None]
    energy = 0.5 * np.sum(velocity**2, axis=(2, 3)) - gravity * position[..., 2].sum(axis=2)
    momentum = np.cross(position, velocity)[..., 2].sum(axis=2)
    np.testing.assert_allclose(dataset.energy, energy, rtol=0, atol=1e-13)
    np.testing.assert_allclose(dataset.momentum, momentum, rtol=0, atol=1e-13)
    length = np.abs(np.sum(q * q, axis=3) - 1).max(axis=2)
    np.testing.assert_allclose(dataset.unit_length_error, length, rtol=0, atol=5e-16)
    slope = np.abs(np.sum(q * omega, axis=3)).max(axis=2)
    rounding = 2 * np.finfo(float).eps * np.abs(omega).max()
    np.testing.assert_allclose(dataset.tangency_error, slope, rtol=0, atol=rounding)


def test_statistics_are_over_every_step_of_the_interval_that_ends_there(every_run, tables):
    table = tables["pendulum"]
    for system, method, start, row in every_run["pendulum"]:
        if row.integrator == "rk4 on q, qdot":
            continue
        every = int(row.steps)
        states = integrated(table, system, method, start, row, samples=every).states
        energy = evaluated(system.quantities[0], method.bind(system), forms.velocities(states))[0]
        error = (energy - energy[0])[1:].reshape(table.experiment.samples, -1)
        length = np.abs(np.sum(states[:, :2] ** 2, axis=2) - 1).mean(axis=1)[1:]
        expected = {
            "energy_error_mean": error.mean(axis=1),
            "energy_error_min": error.min(axis=1),
            "energy_error_max": error.max(axis=1),
            "energy_error_abs_mean": np.abs(error).mean(axis=1),
            "energy_error_abs_max": np.abs(error).max(axis=1),
            "unit_length_error_mean": length.reshape(error.shape).mean(axis=1),
        }
        for name, values in expected.items():
            stored = row[name].values
            assert np.isnan(stored[0])
            np.testing.assert_allclose(stored[1:], values, rtol=1e-9, atol=2e-14, err_msg=name)


def test_statistics_only_where_they_are_asked_for(datasets):
    bodies = datasets["bodies"]
    assert not [
        name for name in bodies if name.endswith(("_mean", "_max", "_min")) and "_error" in name
    ]
    assert "energy" not in bodies
    assert {"momentum_x", "momentum_y", "momentum_z", "momentum_error"} <= set(bodies)


@pytest.mark.parametrize("name", ["pendulum", "ragged"])
def test_errors_are_those_against_the_reference(every_run, tables, name):
    table, dop853, known = tables[name], integrators.get("dop853"), {}
    upto = 3 if name == "pendulum" else 6
    for i, (system, _, start, row) in enumerate(every_run[name]):
        key = table.system_index[i], table.start_index[i]
        if key not in known:
            fine, coarse = (
                integrators.integrate(
                    system, dop853, start, tolerance=tolerance,
                    duration=table.experiment.times[upto - 1], samples=upto - 1,
                ).states
                for tolerance in (1e-12, 1e-11)
            )  # fmt: skip
            known[key] = fine, np.linalg.norm((fine - coarse).reshape(len(fine), -1), axis=1)
        fine, own = known[key]
        q, omega = np.split(row.state.values[:upto, : system.rows] - fine, 2, axis=1)
        position, velocity = (np.sqrt(np.sum(d**2, axis=(1, 2))) for d in (q, omega))
        expected = {
            "position_error": position,
            "velocity_error": velocity,
            "global_error": np.hypot(position, velocity),
            "reference_error": own,
        }
        for key, values in expected.items():
            stored = row[key].values
            np.testing.assert_allclose(stored[:upto], values, rtol=1e-12, err_msg=key)
            assert np.isnan(stored[upto:]).all()
        assert row.reference_error[1] < 1e-9 < row.global_error[1]


def test_a_reference_serves_all_runs_from_its_start(store):
    references = zarr.open_group(store, path="_geosweep/references", mode="r")
    assert references["pendulum/run_id"].shape == (20,)  # 10 starts, two values of gravity
    assert references["ragged/run_id"].shape == (6,)
    assert (references["pendulum/sample_count"][:] == 3).all()


def test_a_store_is_not_what_anything_else_is(tmp_path):
    zarr.open_group(tmp_path / "other.zarr", mode="w")
    for place, message in (("other.zarr", "not one that"), ("none.zarr", "is not a store")):
        with pytest.raises(integrators.InputError, match=message):
            sweep.open_study(tmp_path / place)


# --- lanes and workers -----------------------------------------------------------------------


def test_lanes_give_the_bits_of_one_start_at_a_time(run_text, tmp_path):
    """Eleven starts, in batches of at most eight; then some of them, each by itself."""
    system = systems.get("spherical_pendulum_chain")
    starts = [given(state) for state in system.ensemble(11, seed=5, around="lee", spread=0.3)]
    shared = {"integrators": '["variational+suzuki4", "rk4"]', "record": '["energy", "state"]'}
    together = one_experiment(initial_condition=f"[{', '.join(starts)}]", **shared)
    alone = "\n".join(
        one_experiment(name=f'"start{i}"', initial_condition=start, **shared).partition("[[")[2]
        for i, start in enumerate(starts)
        if i in (0, 8)
    )
    alone = 'format = 1\nname = "test"\n' + alone.replace("experiment]]", "[[experiment]]")
    run_text(together, tmp_path / "lanes.zarr")
    run_text(alone, tmp_path / "scalar.zarr")
    lanes = sweep.open_study(tmp_path / "lanes.zarr")["only"].to_dataset().load()
    scalar = sweep.open_study(tmp_path / "scalar.zarr")
    assert len(scalar.children) == 2
    for node in scalar.children.values():
        one = node.to_dataset().load().set_xindex("run_id")
        same = lanes.set_xindex("run_id").sel(run_id=one.run_id.values)
        for name in set(one.data_vars) - {"cpu_time", "wall_time"}:
            assert one[name].values.tobytes() == same[name].values.tobytes(), name


def given(state):
    q, omega = np.split(state, 2)
    label = f"{q[0, 0]:.17g}"
    return f'{{ q = {q.tolist()}, omega = {omega.tolist()}, label = "{label}" }}'


@pytest.mark.slow
def test_one_worker_gives_the_bits_of_two(store, program, tmp_path, assert_same_runs):
    head, _, rest = STUDY.partition('[[experiment]]\nname = "ragged"')
    head = head.partition("[[experiment]]")[0]
    (tmp_path / "everything.toml").write_text(f'{head}[[experiment]]\nname = "ragged"{rest}')
    arguments = ("run", "everything.toml", "--workers", 1, "--no-summary")
    assert "1 worker\n" in program(tmp_path, *arguments).stdout
    for name in NAMES[1:]:
        assert_same_runs(store, tmp_path / "everything.zarr", name)

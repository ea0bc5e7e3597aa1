"""The run table: its order, its identifiers, what is left out and what is refused."""

import contextlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from study_text import FULL, one_experiment

import integrators
import systems
from sweep import errors
from sweep.store import studies
from sweep.study import run_table as expanding
from sweep.study.run_id import run_id
from sweep.study.run_table import expand_experiment


def table_of(**changes):
    return expand_experiment(
        studies.parse_study(one_experiment(**changes), "s.toml").experiments[0]
    )


def rows_of(table):
    columns = (table.integrator, table.step_size, table.initial_condition)
    return [(str(a), float(b), str(c)) for a, b, c in zip(*columns, strict=True)]


def test_rows_are_ordered_with_the_initial_condition_fastest():
    table = table_of(scan="{ gravity = [1.0, 2.0], length = { start = 1, stop = 3, count = 3 } }")
    assert table.size == 2 * 2 * 6 * 3 == table.experiment.size
    keys = (table.start_index, table.system_index, -table.step_size, table.integrator_index)
    np.testing.assert_array_equal(np.lexsort(keys), np.arange(table.size))
    assert [system.parameters["gravity"] for system in table.systems] == [1, 1, 1, 2, 2, 2]
    for name in ("gravity", "length"):
        values = [table.systems[i].parameters[name] for i in table.system_index]
        np.testing.assert_array_equal(table.scan[name], np.reshape(values, (table.size, -1))[:, 0])


def test_columns():
    table = table_of(initial_condition='["lee", { random = 2, seed = 1 }]')
    assert table.initial_condition[:3].tolist() == ["lee", "random[0]", "random[1]"]
    assert table.ensemble[:3].tolist() == ["", "random", "random"]
    assert table.steps_per_sample.dtype == np.int64
    assert table.steps_per_sample.tolist() == [1] * 3 + [2] * 3 + [1] * 3 + [2] * 3
    assert table.run_id.dtype == "<U16" and table.scan == {}
    start = systems.get("spherical_pendulum_chain").start("lee")
    np.testing.assert_array_equal(table.initial_state(0), start)
    assert table.initial_state(11).shape == (4, 3)


def test_scanned_vectors_bear_their_labels():
    points = '[{ label = "even", value = [1, 1] }, { label = "odd", value = [1, 2] }]'
    table = table_of(scan=f"{{ mass = {points} }}", exclude='[{ mass = "odd", step_size = 0.1 }]')
    assert set(table.scan["mass"]) == {"even", "odd"}
    assert set(table.scan["mass"][table.step_size == 0.1]) == {"even"}
    odd = table.systems[table.system_index[table.scan["mass"] == "odd"][0]]
    assert odd.parameters["mass"] == (1.0, 2.0)


def test_systems_of_different_size_have_their_own_starts():
    table = table_of(
        scan="{ count = { start = 1, stop = 3, count = 3 } }",
        initial_condition="{ random = 2, seed = 3 }",
    )
    assert [states.shape for states in table.starts] == [(2, 2, 3), (2, 4, 3), (2, 6, 3)]


def test_run_id_is_put_together_from_its_parts():
    table = expand_experiment(studies.parse_study(FULL).experiments[0])
    for run in (0, 70, table.size - 1):
        entry = table.experiment.integrators[table.integrator_index[run]]
        system = table.systems[table.system_index[run]]
        expected = run_id(
            system, entry.name, entry.options, table.step_size[run], table.initial_state(run)
        )
        assert table.run_id[run] == expected
        assert entry.integrator().options == entry.options


EARLIER = {  # ids of runs in stores that there are
    ("spherical_pendulum_chain", "rkmk4"): "668656cdc5caf6ea",
    ("spherical_pendulum_chain", "variational"): "5f2f6fa74ff77627",
    ("nbody_sphere", "rkmk4"): "4ec20027aa2691e0",
    ("nbody_sphere", "variational"): "395f5818db2bab80",
    ("spring_pendula", "rkmk4"): "946b64e2c18f7992",
    ("spring_pendula", "variational"): "b405d021b1fd5064",
    ("elastic_rod", "rkmk4"): "b832752a1fc1aaf9",
    ("elastic_rod", "variational"): "74eef8cb47f86969",
    ("magnetic_dipoles", "rkmk4"): "98235f57b4e0316c",
    ("magnetic_dipoles", "variational"): "d0b78fe03b516baf",
    ("lennard_jones_sphere", "rkmk4"): "89bd258d3c7939cf",
    ("lennard_jones_sphere", "variational"): "f35715ac25503ef2",
    ("forced_pendulum_chain", "rkmk4"): "ad516a477d680069",
    ("forced_pendulum_chain", "variational"): "7954c0431f4e3019",
    ("free_rigid_body", "rkmk4"): "f440d2974c26eba7",
    ("irreversible_rigid_body", "rkmk4"): "db03240ea482bda4",
    ("forced_rigid_body", "rkmk4"): "865908bca80520f6",
    ("precession", "rkmk4"): "35307b08d06d4a04",
    ("point_vortices", "rkmk4"): "75d46eb52b6954bb",
    ("heisenberg_chain", "rkmk4"): "4f6740166af38d2a",
    ("nambu_lagrange", "nambu_midpoint"): "f2bf30296d407f56",
    ("heavy_top", "rkmk4"): "a7192935ec75e00f",
    ("heavy_top", "symplectic_lie_group"): "db34564756e2c5e6",
    ("quadrotor_payload", "rkmk4"): "9f63697de251d6f8",
}


@pytest.mark.parametrize(("system_name", "integrator_name"), EARLIER)
def test_runs_of_earlier_versions_keep_their_ids(system_name, integrator_name):
    """What is new in a system or a method changes none, as long as it is not made use of."""
    system, integrator = systems.get(system_name), integrators.get(integrator_name)
    state = system.start(system.starts[0])
    found = run_id(system, integrator_name, integrator.identity, 0.01, state)
    assert found == EARLIER[system_name, integrator_name]


def test_run_id_changes_with_what_a_run_is_and_nothing_else():
    first = table_of()
    same = {
        "name": '"other"',
        "duration": "2.0",
        "samples": "20",
        "integrators": '[{ name = "variational", label = "v", solver_tolerance = 0.0 }, "rk4"]',
        "parameters": "{ gravity = 1, count = 2 }",
        "step_size": "{ start = 0.1, stop = 0.05, count = 2 }",
    }
    for key, value in same.items():
        changes = {"duration": "2.0", "samples": "20"} if key == "samples" else {key: value}
        assert table_of(**changes).run_id.tolist() == first.run_id.tolist()
    different = {
        "integrators": '[{ name = "variational", solver_tolerance = 1e-9 }]',
        "parameters": "{ gravity = 1.0000000000000002 }",
        "step_size": "[0.10000000000000002]",
        "initial_condition": "{ random = 2, seed = 2 }",
        "system": '"nbody_sphere"',
    }
    for key, value in different.items():
        changes = {"initial_condition": "{ random = 2, seed = 1 }", key: value}
        assert not set(table_of(**changes).run_id[:2]) & set(first.run_id)


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 2**40), st.booleans())
@settings(max_examples=20)
def test_a_growing_ensemble_keeps_its_members(members, more, seed, around):
    near = ', around = "lee", spread = 0.1' if around else ""
    few, many = (
        table_of(initial_condition=f"{{ random = {count}, seed = {seed}{near} }}")
        for count in (members, members + more)
    )
    np.testing.assert_array_equal(many.starts[0][:members], few.starts[0])
    kept = many.start_index < members
    np.testing.assert_array_equal(many.run_id[kept], few.run_id)
    np.testing.assert_array_equal(many.initial_condition[kept], few.initial_condition)


@given(
    st.floats(0.01, 100.0),
    st.integers(1, 200),
    st.floats(1e-4, 1.0),
    st.floats(1e-4, 1.0),
    st.integers(2, 12),
    st.sampled_from(["log", "linear"]),
)
def test_generated_steps_divide_the_interval_and_differ(duration, samples, start, stop, count, how):
    interval = duration / samples
    ends = f"start = {start * interval!r}, stop = {stop * interval!r}"
    table = table_of(
        duration=repr(duration),
        samples=repr(samples),
        step_size=f'{{ {ends}, count = {count}, spacing = "{how}" }}',
        integrators='["rk4"]',
        initial_condition='"lee"',
    )
    np.testing.assert_allclose(table.steps_per_sample * table.step_size, interval, rtol=1e-9)
    assert len(set(table.steps_per_sample.tolist())) == table.size <= count


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        ('integrator = "rk4"', lambda i, h, c: i != "rk4"),
        ('integrator = "!= rk4"', lambda i, h, c: i == "rk4"),
        ('integrator = "rk4", step_size = ">= 0.1"', lambda i, h, c: i != "rk4" or h < 0.1),
        ("step_size = 0.1", lambda i, h, c: h != 0.1),
        ('step_size = "> 0.05"', lambda i, h, c: h < 0.1),
        ('step_size = "<= 0.05"', lambda i, h, c: h > 0.05),
        ('step_size = "< 0.1"', lambda i, h, c: h >= 0.1),
        ('step_size = "!= 0.1"', lambda i, h, c: h == 0.1),
        ('step_size = ">= 0.10000000001"', lambda i, h, c: h < 0.1),
        ('initial_condition = "lee"', lambda i, h, c: c != "lee"),
        ('ensemble = "random"', lambda i, h, c: c == "lee"),
        ('initial_condition = "random[1]"', lambda i, h, c: c != "random[1]"),
    ],
)
def test_rules_leave_runs_out(rule, left):
    everything = rows_of(table_of())
    expected = [row for row in everything if left(*row)]
    assert 0 < len(expected) < len(everything)
    assert rows_of(table_of(exclude=f"[{{ {rule} }}]")) == expected


def test_rules_are_joined_by_or():
    table = table_of(exclude='[{ integrator = "rk4" }, { step_size = 0.1 }]')
    assert set(rows_of(table)) == {r for r in rows_of(table_of()) if r[:2] == ("variational", 0.05)}


TWICE = '[{ random = 2, seed = 1 }, { random = 1, seed = 1, label = "b" }]'


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"integrators": '["rk4", { name = "rk4", label = "again", formulation = "q_omega" }]'},
            "s.toml:6: experiment[0].integrators[1] ('again'): gives a run of step size 0.1 that "
            "s.toml:6: experiment[0].integrators[0] ('rk4') gives too",
        ),
        (
            {"initial_condition": TWICE},
            "s.toml:8: experiment[0].initial_condition[1] ('b[0]'): gives a run",
        ),
        (
            {"scan": '{ mass = [{ label = "a", value = 1 }, { label = "b", value = [1, 1] }] }'},
            "s.toml:11: experiment[0].scan.mass (b): gives a run",
        ),
        (
            {"exclude": '[{ step_size = "> 0" }]'},
            "s.toml:3: experiment[0]: 'exclude' leaves no run",
        ),
    ],
)
def test_duplicate_and_absent_runs_are_refused(changes, message):
    with pytest.raises(errors.StudyError) as caught:
        table_of(**changes)
    assert str(caught.value).startswith(message)


def test_two_entries_of_one_integrator_may_share_out_the_steps():
    entries = '[{ name = "rk4", step_size = 0.1 }, { name = "rk4", label = "b", step_size = 0.05 }]'
    assert table_of(integrators=entries).size == 6


def fitting(names, system):
    """Those of the integrators that `system` has a form for."""
    for name in names:
        with contextlib.suppress(integrators.InputError):
            integrators.get(name).check(system)
            yield name


def test_every_fixed_step_integrator_expands_on_every_system_that_it_fits():
    fixed = [name for name in integrators.names() if not integrators.get(name).adaptive]
    for name in systems.names():
        system = systems.get(name)
        methods = list(fitting(fixed, system))
        table = table_of(
            system=f'"{name}"',
            integrators=str(methods),
            initial_condition=f'["{system.starts[0]}", {{ random = 2, seed = 1 }}]',
        )
        assert table.integrator_index.max() + 1 == len(methods) >= 3
        assert len(set(table.run_id)) == table.size


def test_of_a_million_runs_methods_and_starts_are_hashed_and_not_each_run(monkeypatch):
    """Hashing each run with all its settings would take minutes."""
    hashed = Counter()

    def counted(name):
        function = getattr(expanding, name)

        def call(*arguments):
            hashed[name] += 1
            return function(*arguments)

        return call

    for name in ("method_as_json", "initial_state_digest", "run_digests"):
        monkeypatch.setattr(expanding, name, counted(name))
    table = table_of(
        integrators=str(["variational", "variational+suzuki4", "rk4", "rk2_heun", "rk2_midpoint"]),
        step_size='{ start = 0.1, stop = 0.001, count = 10, spacing = "log" }',
        initial_condition="{ random = 20000, seed = 1 }",
    )
    assert len(table.run_id) == table.size == 1_000_000
    methods = 5 * 10
    assert hashed == {
        "method_as_json": 2 * methods,  # to see that no two are the same, and for the ids
        "initial_state_digest": 20_000,
        "run_digests": methods,
    }

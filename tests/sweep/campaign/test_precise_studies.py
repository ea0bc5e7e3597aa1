"""Runs in double-double through the service."""

import numpy as np
import pytest
from study_runs import write
from study_text import one_experiment, problems

import integrators
import sweep
import systems

NAME, SYSTEM = "variational+kahan_li8", "spherical_pendulum_chain"
PRECISE = f'{{ name = "{NAME}", arithmetic = "double-double" }}'
LABEL = f"{NAME} (double-double)"
KEYS = {
    "integrators": f'["{NAME}", {PRECISE}]',
    "initial_condition": '["lee", { around = "lee", random = 2, spread = 0.1, seed = 1 }]',
    "step_size": "[0.02, 0.01]",
    "samples": "4",
    "duration": "0.8",
    "record": """["energy", "momentum", "unit_length", "tangency", "state", "reversal_error",
    "symplectic_defect"]""",
    "reference": '{ integrator = "dop853", until = 0.4 }',
}


slow = pytest.mark.slow  # they need kernels in double-double


@pytest.fixture(scope="module")
def store(cluster, tmp_path_factory):
    place = tmp_path_factory.mktemp("precise")
    assert sweep.run(write(one_experiment(**KEYS), place), place / "whole.zarr", cluster).complete
    return place / "whole.zarr"


@pytest.fixture(scope="module")
def runs(store):
    data = sweep.open_study(store)["only"].to_dataset().load()
    return {label: data.query(run=f"integrator == '{label}'") for label in (NAME, LABEL)}


@slow
def test_errors_are_those_of_double_double(runs):
    double, precise = runs[NAME], runs[LABEL]
    later = {"time": slice(1, None)}
    for name in ("unit_length_error", "tangency_error", "reversal_error"):
        assert float(abs(precise[name]).max()) < 1e-29
        assert float(abs(double[name]).max()) > 1e-17
    np.testing.assert_allclose(precise.momentum_error, 0.0, atol=1e-29)
    coarse, fine = (
        precise.query(run=f"step_size == {h}").energy_error.isel(later) for h in (0.02, 0.01)
    )
    assert float(abs(fine).max()) < 1e-16
    orders = np.log2(np.abs(coarse.values / fine.values))
    assert 7.0 < np.median(orders) < 9.0
    np.testing.assert_allclose(double.state, precise.state, atol=1e-13)
    known = np.isfinite(double.global_error)
    assert known.sum() == known.sizes["run"] * 3
    np.testing.assert_array_equal(np.isfinite(precise.global_error), known)


@slow
def test_states_are_those_that_python_computes(runs):
    """From starts with all digits, named ones, and others that are brought to the manifold."""
    system, integrator = systems.get(SYSTEM), integrators.get(NAME, arithmetic="double-double")
    for run in range(3):
        row = runs[LABEL].isel(run=run)
        state = system.refined(row.initial_state.values)
        if str(row.initial_condition.values) == "lee":
            state = system.start("lee", arithmetic="double-double")
        found = integrators.integrate(
            system, integrator, state, duration=0.8, samples=4, step_size=float(row.step_size)
        )
        np.testing.assert_array_equal(found.states, row.state)


@slow
def test_extended_runs_are_the_runs_at_once(cluster, tmp_path, store, assert_same_runs, arrays):
    short = tmp_path / "whole.zarr"
    file = write(one_experiment(**KEYS | {"duration": "0.6", "samples": "3"}), tmp_path)
    assert sweep.run(file, short, cluster).complete
    assert sweep.run(write(one_experiment(**KEYS), tmp_path), short, cluster).complete
    assert_same_runs(store, short, "only")
    ends = [arrays(path, "_geosweep/ends.only")["checkpoint"] for path in (short, store)]
    np.testing.assert_array_equal(*ends)


# --- the study -----------------------------------------------------------------------------------


def test_arithmetic_is_part_of_what_a_run_is(tmp_path):
    def runs_of(**changes):
        _, (table,) = sweep.check(write(one_experiment(**KEYS | changes), tmp_path))
        return table

    table, plain = runs_of(), runs_of(integrators=f'["{NAME}"]')
    said = runs_of(integrators=f'[{{ name = "{NAME}", arithmetic = "double" }}]')
    assert set(plain.run_id) < set(table.run_id) and len(set(table.run_id)) == 2 * plain.size
    assert said.run_id.tolist() == plain.run_id.tolist()
    assert table.to_dataframe().integrator.unique().tolist() == [NAME, LABEL]
    left = runs_of(exclude=f'[{{ integrator = "{LABEL}", step_size = 0.01 }}]')
    assert left.size == table.size - 3


@pytest.mark.parametrize(
    ("integrator", "words"),
    [
        (PRECISE.replace("double-double", "double-dubble"), "Did you mean 'double-double'?"),
        (PRECISE.replace('"double-double"', "2"), "unknown arithmetic 2. Valid: double, "),
        (
            '{ name = "dop853", arithmetic = "double-double" }',
            "'dop853' computes in double precision only",
        ),
        (
            '{ name = "rkmk5", steps_of = "rkmk54", arithmetic = "double-double" }',
            "in double-double give it a step size in the place of steps_of",
        ),
    ],
)
def test_arithmetic_that_cannot_be_is_refused(integrator, words):
    (found,) = problems(one_experiment(**KEYS | {"integrators": f'["{NAME}", {integrator}]'}))
    assert "experiment[0].integrators[1].arithmetic: " in found and words in found


@slow
def test_structure_is_that_of_the_method_and_of_the_way_back(runs):
    """The defect is that of the same map in doubles; reversal is measured to 31 digits."""
    row = runs[LABEL].isel(run=0)
    precise, doubles = (
        integrators.get(NAME, arithmetic=name) for name in ("double-double", "double")
    )
    system, h = systems.get(SYSTEM), float(row.step_size)
    start = system.start("lee", arithmetic="double-double")
    one, other = (
        integrators.symplectic_defect(system, method, start[..., 0], step_size=h)
        for method in (precise, doubles)
    )
    assert one == other and one.defect < 10 * one.resolution < 1e-12
    assert (float(row.symplectic_defect), float(row.symplectic_resolution)) == (
        one.defect,
        one.resolution,
    )
    back = integrators.reversal_error(system, precise, start, step_size=h, steps=40)
    also = integrators.reversal_error(system, precise, start[None], step_size=h, steps=40)
    assert 0 < back < 1e-28 and also.tolist() == [back]
    assert float(row.reversal_error) == pytest.approx(back, rel=1.0)

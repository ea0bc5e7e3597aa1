"""A system of rotations through the service: formulations as an axis, starts that are spelled."""

import numpy as np
import pytest
from study_text import one_experiment, problems

import sweep
import systems
from sweep.analysis import drift_table

STUDY = """\
format = 1
name = "tops"

[[experiment]]
name = "formulations"
system = "heavy_top"
scan = { formulation = ["lie_poisson", "cotangent", "quadratic"] }
integrators = ["rk4"]
step_size = 0.001
initial_condition = ["celledoni", { around = "celledoni", random = 2, spread = 1e-2, seed = 1 }]
duration = 0.1
samples = 2
record = ["energy", "gravity_in_body", "state"]
reference = { integrator = "dop853" }

[[experiment]]
name = "spelled"
system = "heavy_top"
integrators = ["symplectic_lie_group"]
step_size = [0.01, 0.005]
initial_condition = [
    { Q = [[1, 0, 0], [0, 1, 0], [0, 0, 1]], pi = [0.0, 70.3125, -1.0817296875] },
    { Q = [[0, 2.0, 0], [-1.9, 0, 0], [0, 0, 2.0]], pi = [[1.0, 2.0, 3.0]], normalize = true },
]
duration = 1.0
samples = 10
record = ["momentum", "orthogonality", "symplectic_defect", "reversal_error"]
"""
EYE = "[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]"


@pytest.fixture(scope="module")
def path(run_text, tmp_path_factory):
    path = tmp_path_factory.mktemp("tops") / "tops.zarr"
    assert run_text(STUDY, path).complete
    return path


@pytest.mark.slow
def test_errors_are_those_that_each_formulation_has(path):
    table = sweep.open_study(path)["formulations"].to_dataset().load()
    assert table.sizes["row"] == 6 and list(table.row.values[:2]) == ["0", "1"]
    assert table.angular_momentum_error.long_name == (
        "Euclidean norm of the error of Pi; Euclidean norm of the error of pi"
    )
    names = {
        "lie_poisson": ("angular_momentum_error", "gravity_error"),
        "cotangent": ("attitude_error", "angular_momentum_error"),
        "quadratic": ("attitude_error", "q_error", "angular_momentum_error", "p_error"),
    }
    for formulation, own in names.items():
        runs = table.isel(run=np.flatnonzero(table.formulation == formulation))
        total = sum(runs[name] ** 2 for name in own)
        np.testing.assert_allclose(runs.global_error, np.sqrt(total), rtol=1e-14)
        assert runs.global_error[:, 1:].max() < 1e-3  # found 6.2e-4, of |π| = 70
        others = {"attitude_error", "gravity_error", "q_error", "p_error"} - set(own)
        assert all(np.isnan(runs[name]).all() for name in others)
    assert table.attitude_error.units == "1" and table.gravity_error.units == "m s-2"
    assert table.gravity_error.kind == "state_error"


@pytest.mark.slow
def test_formulations_agree_about_what_they_share(path):
    table = sweep.open_study(path)["formulations"].to_dataset().load()
    for axis in "xyz":
        gravity = table[f"gravity_in_body_{axis}"].values.reshape(3, 3, -1)
        np.testing.assert_allclose(gravity[1:, 0], gravity[:-1, 0], atol=1e-3)
    # Errors against a reference do not drift.
    assert {row.quantity for row in drift_table(table)} == {"energy"}


@pytest.mark.slow
def test_spelled_starts_and_measured_structure(path):
    table = sweep.open_study(path)["spelled"].to_dataset().load()
    assert list(table.row.values) == ["Q_x", "Q_y", "Q_z", "pi"]
    top = systems.get("heavy_top")
    np.testing.assert_array_equal(table.initial_state[0], top.start("celledoni"))
    np.testing.assert_allclose(
        table.initial_state[1], [[0, 1, 0], [-1, 0, 0], [0, 0, 1], [1, 2, 3]], atol=1e-15
    )
    assert table.symplectic_defect.max() <= 1e-14 and table.reversal_error.max() <= 1e-12
    assert not table.momentum_error.any() and table.orthogonality_error.max() <= 2e-15


@pytest.mark.slow
def test_it_goes_on_where_it_ended(path, run_text):
    grown = STUDY.replace("[0.01, 0.005]", "[0.01, 0.005, 0.002]")
    before = sweep.open_study(path)["spelled"].to_dataset().load()
    assert run_text(grown, path).complete
    after = sweep.open_study(path)["spelled"].to_dataset().load()
    assert before.sizes["run"] == 4 and after.sizes["run"] == 6
    kept = np.flatnonzero(np.isin(after.run_id.values, before.run_id.values))
    np.testing.assert_array_equal(after.momentum.values[kept], before.momentum.values)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (f"{{ Q = {EYE.replace('1.0, 0.0]', '1.1, 0.0]')}, pi = [0, 1, 0] }}",
         ".Q: Q is no rotation: ‖QᵀQ − 1‖ = 0.21; expected at most 1e-09. Give more digits, or"),
        (f"{{ Q = {EYE.replace('[[1.0', '[[-1.0')}, pi = [0, 1, 0] }}",
         ".Q: Q has the determinant −1: it is a reflection; expected a rotation"),
        ("{ Q = [[1, 0, 0], [0, 1, 0]], pi = [0, 1, 0] }",
         ".Q: expected the 3 rows of a rotation matrix, got 2 vectors"),
        (f"{{ Q = {EYE}, pi = [0, 1] }}", ".pi: expected a vector of 3 numbers, got an array"),
        (f"{{ Q = {EYE}, pi = [[0, 1, 0], [0, 0, 0]] }}", ".pi: expected one vector, got 2"),
        (f"{{ Q = {EYE} }}", ": the key 'pi' is missing"),
        ("{ q = [[1, 0, 0]], omega = [[0, 1, 0]] }", ".q: …by Q and pi, not by q and omega"),
        ("{ Q0 = 1 }", ": expected a start's name, …the state itself: { Q, pi, … }"),
        ("{ lattice = 4, body = 1 }", ".body: body = 1; heavy_top has 1 bodies"),
    ],
)  # fmt: skip
def test_starts_that_are_refused(written, message):
    found = problems(
        one_experiment(system='"heavy_top"', integrators='"rk4"', initial_condition=written)
    )[0]
    assert all(part in found for part in message.split("…")), found

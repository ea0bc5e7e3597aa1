"""References that meet a singularity: they end, say when and why, and nothing waits for them."""

import numpy as np
import pytest

import sweep
from integrators.stepping.adaptive import MOST_STEPS

# At rest on a sphere: they meet at t = 0.923435878.
STUDY = """
format = 1
name = "collision"
[[experiment]]
name = "headon"
system = "nbody_sphere"
parameters = {{ count = 2, mass = [1.0, 1.0] }}
integrators = ["variational", "rk4"]
step_size = [0.05, 0.02]
initial_condition = [
  {{ label = "head on", q = [[0.6, 0, 0.8], [-0.6, 0, 0.8]], omega = [[0, 0, 0], [0, 0, 0]] }},
]
duration = 1.5
samples = 15
max_steps = {max_steps}
reference = {{ integrator = "dop853", tolerance = {tolerance} }}
"""


@pytest.fixture
def ended(tmp_path, cluster):
    """Run the study, and what its one reference says of its end."""

    def run(tolerance, max_steps=1000):
        file = tmp_path / "collision.toml"
        file.write_text(STUDY.format(tolerance=tolerance, max_steps=max_steps))
        assert sweep.run(file, tmp_path / "a.zarr", cluster).complete
        (early,) = sweep.early_references(tmp_path / "a.zarr")
        errors = sweep.open_study(tmp_path / "a.zarr")["headon"].to_dataset()["global_error"]
        there = np.isfinite(errors.isel(run=0)).values
        assert early.end.held == pytest.approx(0.9)
        assert len(early.runs) == 4 and there[:10].all() and not there[10:].any()
        return early.end

    return run


@pytest.mark.parametrize(
    "max_steps", [1000, pytest.param(MOST_STEPS, marks=pytest.mark.slow)], ids=str
)
def test_a_reference_ends_at_a_collision(ended, max_steps):
    end = ended(2.3e-14, max_steps)
    assert end.reason == "step_too_small"
    assert end.stop_time == pytest.approx(0.923435878, abs=1e-5)
    assert "at t = 0.92343" in str(end) and "until = 0.9" in str(end)
    assert end.bounded and "Give a larger max_steps, or until = 0.9" in str(end)
    assert "round-off" not in str(end)


@pytest.mark.parametrize(
    "tolerance", [1e-5, *(pytest.param(own, marks=pytest.mark.slow) for own in (1e-6, 1e-8))]
)
def test_a_reference_that_jumped_over_a_collision_is_not_trusted(ended, tolerance):
    """The first sample after it tells by the energy, which is off by 0.01 to 0.2."""
    end = ended(tolerance, MOST_STEPS)
    assert end.reason == "not_conserved"
    assert end.stop_time == pytest.approx(1.0)
    assert "at t = 1 it breaks what the system conserves by more than 10,000 tolerances" in str(end)


def test_an_adaptive_run_that_jumped_over_a_collision_is_measured_until_then(tmp_path, cluster):
    text = STUDY.format(tolerance=2.3e-14, max_steps=1000)
    text = text.replace('"variational", "rk4"', '{ name = "dop853", tolerance = 1e-6 }')
    text = text.replace("step_size = [0.05, 0.02]", 'record = ["energy"]')
    file = tmp_path / "collision.toml"
    file.write_text(text)
    assert sweep.run(file, tmp_path / "a.zarr", cluster).complete
    (run,) = sweep.failures(tmp_path / "a.zarr")
    assert (run["status"], run["stop_time"]) == ("not_conserved", pytest.approx(1.0))
    energy = sweep.open_study(tmp_path / "a.zarr")["headon"].to_dataset()["energy"].isel(run=0)
    assert np.isfinite(energy.values).tolist() == [True] * 10 + [False] * 6


RAISED = """
format = 1
name = "raised"
[defaults]
initial_condition = "lee"
duration = 2.0
samples = 4
record = ["energy"]
max_steps = {max_steps}
[[experiment]]
name = "measured"
system = "spherical_pendulum_chain"
integrators = ["rk4"]
step_size = 0.1
reference = {{ integrator = "dop853", tolerance = 1e-13 }}
[[experiment]]
name = "adaptive"
system = "spherical_pendulum_chain"
integrators = ["rk45", {{ name = "rk4", steps_of = "rk45" }}]
tolerance = [1e-2, 1e-8]
"""


@pytest.mark.slow
def test_a_larger_bound_computes_again_what_the_smaller_one_ended(tmp_path, called):
    """A reference, the runs that are measured against it, and adaptive runs; no others."""

    def run(max_steps, store):
        (tmp_path / "raised.toml").write_text(RAISED.format(max_steps=max_steps))
        printed = called(tmp_path, "run", "raised.toml", store, "--no-summary").stdout
        tree = sweep.open_study(tmp_path / store)
        return printed, [tree[name].to_dataset().load() for name in ("measured", "adaptive")]

    _, (measured, before) = run(20, "a.zarr")
    (early,) = sweep.early_references(tmp_path / "a.zarr")
    assert early.end.bounded and np.isnan(measured["global_error"][:, -1]).all()
    assert before["status"].values.tolist() == [0, 4, 0, 4]
    printed, _ = run(19, "a.zarr")
    assert "0 new runs, 5 kept" in printed
    printed, (measured, adaptive) = run(4000, "a.zarr")
    assert "3 runs to compute" in printed and not sweep.early_references(tmp_path / "a.zarr")
    _, expected = run(4000, "b.zarr")
    for found, other in zip((measured, adaptive), expected, strict=True):
        assert (found["status"] == 0).all()
        for name in set(found.data_vars) - {"cpu_time", "wall_time", "environment"}:
            np.testing.assert_array_equal(found[name], other[name], err_msg=name)
    kept = before["cpu_time"].values == adaptive["cpu_time"].values
    assert kept.tolist() == [True, False, True, False]

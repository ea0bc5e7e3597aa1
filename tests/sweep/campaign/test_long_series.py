"""A run with more samples than are recorded together: a long series, of which none is lost."""

import numpy as np
from study_text import one_experiment
from written_stores import run

import sweep

STEPS, FEW = 200_000, 8
KEYS = {
    "integrators": '"variational"',
    "step_size": "0.01",
    "initial_condition": '"lee"',
    "duration": f"{STEPS * 0.01}",
    "record": '["energy", "unit_length"]',
}


def test_a_sample_of_every_step_is_that_of_a_run_with_few(tmp_path, cluster):
    runs = []
    for samples in (STEPS, FEW):
        store = tmp_path / f"{samples}.zarr"
        run(one_experiment(**KEYS | {"samples": str(samples)}), store, cluster)
        runs.append(sweep.open_study(store)["only"].to_dataset().isel(run=0))
    every, few = runs
    for name in ("time", "energy", "energy_error", "unit_length_error"):
        np.testing.assert_array_equal(every[name][:: STEPS // FEW], few[name])
    mean, error = every["energy_error_mean"][1:], every["energy_error"][1:]
    np.testing.assert_allclose(mean, error, rtol=0.0, atol=1e-14)  # of one step each
    rows, _ = every["energy"].encoding["chunks"]
    assert rows == 1  # of a study of one run: no others are stored blank

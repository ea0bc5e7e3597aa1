"""A disk that fills up ends a run in order, and once there is space again it goes on."""

import pytest
from interrupting import FULL, Process
from study_text import one_experiment

import sweep

TEXT = one_experiment(integrators='"rk4"', record='["energy"]', statistics='"none"')
RUN = """
try:
    print(sweep.run("study.toml", "a.zarr", client(), checkpoint_every=1e-9).stopped)
except sweep.errors.Interrupted as ended:
    print(ended)
"""


@pytest.fixture(scope="module")
def whole(run_text, tmp_path_factory):
    path = tmp_path_factory.mktemp("troubles") / "whole.zarr"
    assert run_text(TEXT, path).complete
    return path


@pytest.mark.parametrize(
    ("below", "at"),
    [
        pytest.param("", 0, id="lease", marks=pytest.mark.slow),
        pytest.param("", 90, id="creation", marks=pytest.mark.slow),
        pytest.param("a.zarr", 3, id="session", marks=pytest.mark.slow),
        pytest.param("a.zarr", 12, id="records", marks=pytest.mark.slow),
        pytest.param("a.zarr", 45, id="folding"),
    ],
)
def test_a_disk_that_fills_up_ends_a_run_in_order(
    below, at, whole, tmp_path, run_text, arrays, assert_same_runs
):
    (tmp_path / "study.toml").write_text(TEXT)
    printed, errors = Process(RUN, tmp_path, at, FULL, below).communicate()
    assert "the disk at" in printed and "is full" in printed, printed + errors
    store, before = tmp_path / "a.zarr", None
    assert store.exists() == bool(below)
    assert not list(tmp_path.glob("*.lock"))
    if below:
        before = arrays(store, "only")
    assert run_text(TEXT, store).complete
    assert_same_runs(whole, store, "only")
    if below:
        done = before["sample_count"] == 11
        after = arrays(store, "only")["cpu_time"]
        assert after[done].tobytes() == before["cpu_time"][done].tobytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.zarr", "study.toml"]
    assert sweep.verify(store) == []

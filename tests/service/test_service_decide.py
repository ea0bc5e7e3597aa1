"""`sweep decide` killed in a round goes on from what is committed."""

import re

import pytest
from waiting import in_turns

import sweep

STUDY = """\
format = 1
name = "long"

[[experiment]]
name = "pendulum"
system = "spherical_pendulum_chain"
integrators = ["variational", "rk2_heun", "rk2_midpoint"]
step_size = [0.0008, 0.0004]
initial_condition = { around = "lee", random = 128, spread = 0.1, seed = 7 }
duration = 4.0
samples = 4
record = ["energy"]
reference = { integrator = "dop853", tolerance = 1e-10 }
"""


@pytest.mark.slow
def test_a_decide_that_is_killed_goes_on(tmp_path, start, committed, command, arrays):
    (tmp_path / "long.toml").write_text(STUDY)
    command(tmp_path, "run", "long.toml", "--no-summary")
    store, before = tmp_path / "long.zarr", arrays(tmp_path / "long.zarr", "pendulum")
    count = len(before["status"])
    deciding = start("sweep", "decide", "long.zarr", cwd=tmp_path)
    in_turns(
        [deciding], lambda: committed(store, "pendulum") > count or deciding.poll() is not None
    )
    assert deciding.poll() is None, deciding.communicate()
    deciding.kill()
    assert sweep.open_study(store).attrs["studies"][0].count("[[experiment]]") > 1
    done = command(tmp_path, "decide", "long.zarr")
    # The round may have been committed but for runs that are computed before verdicts are.
    assert re.search("None of 3 verdicts is open| (was|were) open, and ", done.stdout)
    after = arrays(store, "pendulum")
    for name in ("energy", "cpu_time", "status"):
        assert after[name][:count].tobytes() == before[name].tobytes(), name
    (progress,) = sweep.status(store)
    assert progress.done == progress.runs > count and not progress.left
    assert sweep.verify(store) == []

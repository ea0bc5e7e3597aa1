"""What the service promises, and where it is tested.

These tests know only what a user has: the command, what ``import sweep`` offers, processes and
their signals, and files. They hold whatever the inside of `sweep` is.

- Nothing that is committed is lost, and nothing is computed twice, whatever is killed and when:
  `test_service_interruptions` (at any file operation), `test_service_resume` (processes),
  `test_service_cluster` (workers of a cluster), `test_service_segments` (amid a long run),
  `test_service_decide`.
- The same bits, in batches, lanes, segments and tasks of any size, on any number of workers and
  after any interruption: `test_service_store`, `test_service_segments`, `test_service_extend`,
  `test_service_interruptions`; they are the bits of `integrators.integrate`:
  `test_service_store`, `test_service_failures`, `test_service_parts`.
- One process at a time has the lease of a store; of any number of newcomers one takes over from a
  dead holder, and a living one is named: `test_service_leases`, `test_service_resume`.
- A writer that was fenced off, or a worker that wakes late, changes nothing:
  `test_service_interruptions`, `test_service_cluster`, `test_service_leases`.
- Damage of any file is found by verify and mended by repair, and what is damaged beyond that is
  computed again by run, and nothing else: `test_service_damage`.
- Records, rows and files appear whole, and are on the disk before they appear:
  `test_service_interruptions`, `test_service_damage`.
- What is interrupted while it folds results into arrays folds them again, to the same store; and a
  new store appears at once: `test_service_interruptions`.
- A full disk ends a run in order, and it goes on from there: `test_service_troubles`.
- An edited study adds what is missing and keeps what is there; a longer duration goes on from the
  end: `test_service_growth`, `test_service_extend`, `test_service_parts`.
- Stores that were made apart become one, with the same rows: `test_service_merge`,
  `test_service_interruptions`.
- What a store cannot take is refused before anything is changed, and input that is refused leaves
  no file: `test_service_growth`, `test_service_extend`, `test_service_cluster`,
  `test_service_parts`, `test_service_rigid`.
- Ids of runs, and the order of rows, stay what they are: `test_service_identity`,
  `test_service_growth`.
- Plugins run only where they are approved, and as they were: `test_service_plugins`,
  `test_service_installed`.
- A run that fails is a result, beside others that it does not touch: `test_service_failures`.
- Ctrl-C, SIGTERM and a time limit end a run in order, and it says how to go on:
  `test_service_resume`.
- It runs wherever Python does: `test_service_python`, `test_service_notebook`.
- A store has all that was recorded, as plain Zarr and xarray read it: `test_service_store`,
  `test_service_forces`, `test_service_rigid`.
"""

import types

import pytest
from waiting import in_turns

import sweep

RUNS = 136  # of `long_study`


@pytest.fixture(scope="session")
def grow(run_text):
    """Run a study into a store, and tell what has become of its runs: ``grow(text, store)``.

    How many of the study's experiments are new, kept and no longer in the study, as `counts`, and
    how many were `computed`: a run that was not has the times that it had, to the last bit.
    """

    def go(text, store, run=run_text):
        before = _times(store) if store.exists() and any(store.iterdir()) else {}
        outcome = run(text, store)
        assert outcome.complete
        names, after = {tally.experiment for tally in outcome.tallies}, _times(store)
        known = {key for key in after if key in before}
        asked = {key for key, (in_study, _) in after.items() if in_study}
        gone = {key for key in known - asked if key[0] in names}
        assert known == set(before)
        return types.SimpleNamespace(
            counts=(len(asked - known), len(asked & known), len(gone)),
            computed=sum(time != before.get(key, ("", ""))[1] for key, (_, time) in after.items()),
            outcome=outcome,
        )

    return go


@pytest.fixture
def suspended(long_study, start, committed):
    """Begin a run of `long_study`, and suspend all its processes once some runs are committed.

    It stores what it has as often as it can, so that it has long to go then: ``suspended(…)``.
    """

    def begin(*options):
        options = ("--no-summary", "--checkpoint-every", "1e-9", *options)
        run = start("sweep", "run", "long.toml", *options, cwd=long_study)
        store = long_study / "long.zarr"
        in_turns([run], lambda: committed(store, "pendulum") or run.poll() is not None)
        assert run.poll() is None, run.communicate()
        assert 0 < committed(store, "pendulum") < RUNS
        return run

    return begin


def _times(store):
    """Of each run whether it is in the study, and the bits of its time."""
    found = {}
    for name, node in sweep.open_study(store).children.items():
        own = (node[key].values for key in ("run_id", "in_study", "cpu_time"))
        for run_id, in_study, time in zip(*own, strict=True):
            found[name, str(run_id)] = bool(in_study), time.tobytes()
    return found

"""Records and checkpoints of a task, without a store."""

from types import SimpleNamespace

import numpy as np

from sweep.campaign.worker.recording import Recording


def test_checkpoints_of_earlier_attempts_go_in_the_order_of_commits():
    """Also where the rows that were found last are committed first."""
    removed = []
    recording = Recording.__new__(Recording)
    recording.rows = np.arange(4)
    recording._committed = np.array([False, False, True, True])
    recording._chains = {}
    recording._resumed = [
        (rows, [SimpleNamespace(remove=lambda name=name: removed.append(name))])
        for name, rows in (("first", np.array([0, 1])), ("second", np.array([2, 3])))
    ]
    recording._remove_checkpoints()
    assert removed == ["second"]
    recording._committed[:] = True
    recording._remove_checkpoints()
    assert removed == ["second", "first"] and not recording._resumed

"""What the last plan of a store expected its runs to cost: a small file in the store.

It is of what was pending when the plan was made, by a run, an extension or a retry; an earlier
plan's runs that were done by then count in no later one.
"""

import contextlib
import json
from dataclasses import asdict, dataclass

from sweep.store.backends.trees import write_whole

FILE = "prediction.json"


@dataclass(frozen=True)
class Prediction:
    """CPU time that a plan expects, of one experiment or of all.

    Parameters
    ----------
    runs, references : int
        Pending then.
    least, most : float
        Seconds of their integration, expected.
    before : float
        Seconds that all that was committed then had used.
    """

    runs: int
    references: int
    least: float
    most: float
    before: float


def note(store, total, experiments):
    """Write the predictions of a plan.

    Parameters
    ----------
    store : sweep.store.store.Store
    total : Prediction
        Of all experiments, which is narrower than the sum of theirs.
    experiments : dict of str to Prediction
    """
    found = {name: asdict(own) for name, own in experiments.items()}
    text = json.dumps({"total": asdict(total), "experiments": found})
    write_whole(store.internal(FILE), text)


def predictions_of(store):
    """The last plan of a store: in all, and by experiment; None, and nothing, without one."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        found = json.loads(store.internal(FILE).read_text())
        experiments = {name: Prediction(**own) for name, own in found["experiments"].items()}
        return Prediction(**found["total"]), experiments
    return None, {}

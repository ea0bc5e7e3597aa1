"""The way of one small run through `sweep`: modules that it enters, and how often it changes.

    python tests/benchmarks/trace.py [--pairs]

Every call of a function of `sweep` in the coordinator's main thread is noted by `sys.setprofile`
while a study of eight runs is computed on a local cluster, a second time, so that all is imported.
A change of module is a call into another module than that of the call before. Wanted: at most 30
modules and 400 changes.
"""

import argparse
import collections
import inspect
import sys
import tempfile
from pathlib import Path

import sweep

STUDY = """
format = 1
name = "traced"
[[experiment]]
name = "pendulum"
system = "spherical_pendulum_chain"
integrators = ["variational", "rk4"]
step_size = [0.02, 0.01]
duration = 1.0
samples = 10
initial_condition = { random = 2, seed = 1 }
"""
MODULES, CHANGES = 30, 400


def main():
    """Run the study, and print what it went through."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", action="store_true", help="print what changes follow which")
    given = parser.parse_args()
    calls = []  # module and function

    def note(frame, event, argument):
        name = frame.f_globals.get("__name__", "")
        is_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED
        if event == "call" and is_function and name.partition(".")[0] == "sweep":
            calls.append((name.removeprefix("sweep."), frame.f_code.co_qualname))

    with tempfile.TemporaryDirectory() as folder:
        study, store = Path(folder, "traced.toml"), Path(folder, "traced.zarr")
        study.write_text(STUDY)
        sweep.run(study, Path(folder, "before.zarr"))
        sys.setprofile(note)
        try:
            outcome = sweep.run(study, store)
        finally:
            sys.setprofile(None)
    assert outcome.complete, outcome
    pairs = zip(calls, calls[1:], strict=False)
    changes = [(before, now) for before, now in pairs if before[0] != now[0]]
    entered = collections.Counter(now[0] for _, now in changes)
    count = collections.Counter(name for name, _ in calls)
    for name, number in count.most_common():
        print(f"{number:8,} calls {entered[name]:6,} changes into {name}")
    if given.pairs:
        for pair, number in collections.Counter(changes).most_common():
            print(f"{number:8,}", " -> ".join(map(".".join, pair)))
    print(f"{len(count)} modules, {len(changes):,} changes of module, {len(calls):,} calls")
    if len(count) > MODULES or len(changes) > CHANGES:
        raise SystemExit(3)


if __name__ == "__main__":
    main()

"""The way of one small run through `sweep`: modules that it enters, and how often it changes.

    python tests/benchmarks/trace.py [--calls]

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
    parser.add_argument("--calls", action="store_true", help="print the modules of all calls")
    given = parser.parse_args()
    modules = []

    def note(frame, event, argument):
        name = frame.f_globals.get("__name__", "")
        is_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED
        if event == "call" and is_function and name.partition(".")[0] == "sweep":
            modules.append(name)

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
    changes = sum(before != now for before, now in zip(modules, modules[1:], strict=False))
    count = collections.Counter(modules)
    for name, calls in count.most_common():
        print(f"{calls:8,} {name}")
    print(f"{len(count)} modules, {changes:,} changes of module, {len(modules):,} calls")
    if given.calls:
        print(*modules, sep="\n")
    if len(count) > MODULES or changes > CHANGES:
        raise SystemExit(3)


if __name__ == "__main__":
    main()

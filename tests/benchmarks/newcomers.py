"""How many verdicts of a newcomer's studies are undecided, without `sweep decide` and with it.

    python tests/benchmarks/newcomers.py [--budget 300] [--study NAME] [--only KIND] [--folder DIR]

The studies in ``newcomers/`` were written from the guide alone, by people who had not seen what is
counted here: systems, methods, step sizes and horizons of all kinds, some of which ask too much.
Each is run, and counted are its orders, and those that are undecided: at once, of experiments of
which `sweep check` says nothing, and of all after `sweep decide` with a budget of CPU time; and
drifts without an answer, of experiments that are no studies of convergence. With ``--folder``
stores are kept there, and those that are complete are not run again. Exit code 3: of the orders
more than a tenth are undecided at once, or more than 3 % in the end, or a drift has no answer.
"""

import argparse
import contextlib
import json
import sys
import tempfile
from pathlib import Path

import sweep
from integrators.errors import InputError
from sweep.study.warnings import warnings_before_runs

STUDIES = Path(__file__).resolve().parent / "newcomers"
AT_ONCE, IN_THE_END = 0.10, 0.03  # of the orders, at most


def experiments_with_warnings(study):
    """Names of the experiments of which `sweep check` says something."""
    warnings = warnings_before_runs(sweep.check(study)[1])
    return {name for line in warnings for name in line.partition(": ")[0].split(", ")}


def rows_of_store(path):
    """The orders and the drifts of a store, each with its experiment."""
    orders, drifts = [], []
    for name, node in sweep.open_study(path).children.items():
        fixed = node.to_dataset()[["integrator", "step_size"]].to_dataframe()
        several = (fixed.groupby("integrator")["step_size"].nunique() > 1).any()
        found = []
        with contextlib.suppress(InputError):  # it does not record what this is about
            found = sweep.order_table(node) if several else []
        orders += [(name, row) for row in found]
        with contextlib.suppress(InputError):
            rows = [] if found else sweep.drift_table(node, step_sizes="smallest")
            drifts += [(name, row) for row in rows]
    return orders, drifts


def undecided(rows):
    """Those of some rows that are undecided."""
    return [(name, row) for name, row in rows if row.verdict in ("", "undecided")]


def counted(study, folder, budget, only):
    """Numbers of orders and drifts of a study, and of those that are undecided."""
    path, warned = folder / f"{study.stem}.zarr", experiments_with_warnings(study)
    sweep.run(study, path)
    orders, _ = rows_of_store(path)
    clear = [(name, row) for name, row in orders if name not in warned]
    found = None
    with contextlib.suppress(InputError):  # none of these kinds is recorded
        found = sweep.decide(path, budget, only=only)
    after, drifts = rows_of_store(path)
    return {
        "study": study.stem,
        "orders": len(orders),
        "without a warning": len(clear),
        "undecided at once": len(undecided(orders)),
        "of these without a warning": len(undecided(clear)),
        "undecided in the end": len(undecided(after)),
        "drifts": len(drifts),
        "without an answer": len(undecided(drifts)),
        "cpu_seconds": found.cpu_seconds if found else 0.0,
        "left": [
            f"{row.experiment}: {row.subject} of {row.integrator} {row.parameters}: {row.why}"
            for row in (found.rows if found else ())
            if row.open
        ],
    }


def main():
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--budget", type=float, default=300.0, help="seconds of CPU time each")
    parser.add_argument("--study", help="studies whose name begins so")
    parser.add_argument("--only", action="append", default=[], help="kinds to be decided")
    parser.add_argument("--folder", type=Path, help="where stores are kept")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for study in sorted(STUDIES.glob(f"{chosen.study or ''}*.toml")):
            one = counted(study, folder, chosen.budget, tuple(chosen.only))
            found.append(one)
            if not chosen.json:
                shown = ", ".join(f"{v:.3g} {k}" for k, v in one.items() if type(v) in (int, float))
                print(f"{one['study']}: {shown}", *one["left"], sep="\n    ", flush=True)
    total = {
        key: sum(one[key] for one in found) for key, value in found[0].items() if type(value) is int
    }
    shares = {
        "undecided at once": total["of these without a warning"] / total["without a warning"],
        "undecided in the end": total["undecided in the end"] / total["orders"],
    }
    if chosen.json:
        print(json.dumps({"studies": found, "total": total, "shares": shares}, default=float))
    else:
        print("total: " + ", ".join(f"{value} {key}" for key, value in total.items()))
        print(", ".join(f"{share:.1%} of orders {name}" for name, share in shares.items()))
    fine = shares["undecided at once"] <= AT_ONCE and shares["undecided in the end"] <= IN_THE_END
    return 0 if fine and not total["without an answer"] else 3


if __name__ == "__main__":
    sys.exit(main())

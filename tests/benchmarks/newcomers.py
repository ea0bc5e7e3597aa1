"""How many verdicts of a newcomer's studies are undecided, without `sweep decide` and with it.

    python tests/benchmarks/newcomers.py [--budget 300] [--only NAME] [--folder DIR] [--json]

The studies in ``newcomers/`` were written from the guide alone, by somebody who had not seen what
is counted here: systems, methods, step sizes and horizons of all kinds, some of which ask too
much. Each is run, and its verdicts on orders, on drifts at the smallest step size and on chaos are
counted: those that it asks for, which are those that `sweep decide` looks at, and all that tables
print, also the drifts of a study of convergence. They are counted as they are, after `sweep
decide` with a budget of CPU time, and after one that is asked for all of these kinds (``--only
order --only drift --only chaos``). With ``--folder`` stores are kept there, and those that are
complete are not run again. Half an hour on two cores. Exit code 3: of the verdicts more than a
quarter are undecided without `sweep decide`, or more than one in twenty with it.
"""

import argparse
import contextlib
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import sweep
from integrators.errors import InputError
from sweep.text import format_table

STUDIES = Path(__file__).resolve().parent / "newcomers"
BEFORE, AFTER = 1 / 4, 1 / 20  # of the verdicts
KINDS = ("order", "drift", "chaos")
STAGES = ("without decide", "with decide", "of all kinds")


def verdicts_of_store(path):
    """Every verdict of a store, with its kind and its reason.

    A study is asked for all that it records: for orders where it has errors and several step
    sizes, and for the drift of every quantity.

    Returns
    -------
    list of dict
    """
    found = []
    for name, node in sweep.open_study(path).children.items():
        for kind, table in (
            ("order", sweep.order_table),
            ("drift", lambda node: sweep.drift_table(node, step_sizes="smallest")),
            ("chaos", sweep.chaos_table),
        ):
            if kind == "order" and not _has_several_step_sizes(node):
                continue
            with contextlib.suppress(InputError):  # it does not record what this is about
                found += [_as_verdict(name, kind, row) for row in table(node) if _is_judged(row)]
    return found


def _has_several_step_sizes(node):
    """Whether an integrator has more than one step size: else no order is asked for."""
    fixed = node.to_dataset()[["integrator", "step_size"]].to_dataframe()
    return bool((fixed.groupby("integrator")["step_size"].nunique() > 1).any())


def _is_judged(row):
    """Whether there is a verdict: exponents alone have none."""
    return bool(row.verdict) or not row.starts


def _as_verdict(experiment, kind, row):
    if kind == "chaos":
        undecided, why = row.undecided > 0 or not row.starts, row.in_words
    else:
        undecided, why = row.verdict == "undecided", "; ".join(map(str, row.why))
    return {
        "experiment": experiment,
        "kind": kind,
        "integrator": row.integrator,
        "quantity": getattr(row, "quantity", ""),
        "parameters": row.parameters,
        "step_size": getattr(row, "step_size", None),
        "verdict": row.verdict,
        "undecided": undecided,
        "why": why,
    }


def counted(study, folder, budget):
    """The verdicts of a study, as they are, and after `sweep decide` once and twice."""
    path = folder / f"{study.stem}.zarr"
    outcome = sweep.run(study, path)
    asked, printed, left = {}, {}, []
    for stage, given in zip(STAGES, (None, {}, {"only": KINDS}), strict=True):
        found = sweep.decide(path, budget, dry_run=True)
        if given is not None:
            found = sweep.decide(path, budget, **given)
            left = [
                f"{row.experiment}: {row.subject} of {row.integrator}: {row.why}"
                for row in found.rows
                if row.open
            ]
        asked[stage] = found.left, found.verdicts
        printed[stage] = verdicts_of_store(path)
    return {
        "study": study.stem,
        "runs": sum(tally.runs for tally in outcome.tallies),
        "asked": asked,
        "printed": printed,
        "left": left,
    }


def main():
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--budget", type=float, default=300.0, help="seconds of CPU time each")
    parser.add_argument("--only", help="studies whose name begins so")
    parser.add_argument("--folder", type=Path, help="where stores are kept")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    studies = sorted(STUDIES.glob(f"{chosen.only or ''}*.toml"))
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = []
        for study in studies:
            found.append(counted(study, folder, chosen.budget))
            if not chosen.json:
                print_counts(found[-1])
    shares = shares_undecided(found)
    if chosen.json:
        print(json.dumps({"studies": found, "undecided": shares}, default=float))
    else:
        print_total(found, shares)
    before, after, all_kinds = (shares[stage] for stage in STAGES)
    fine = max(before) <= BEFORE and after[0] <= AFTER and all_kinds[1] <= AFTER
    return 0 if fine else 3


def shares_undecided(found):
    """What part of the verdicts asked for, and of all printed, is undecided at each stage."""
    shares = {}
    for stage in STAGES:
        open_ones, every = (sum(one["asked"][stage][i] for one in found) for i in (0, 1))
        printed = [each["undecided"] for one in found for each in one["printed"][stage]]
        shares[stage] = open_ones / every, sum(printed) / len(printed)
    return shares


def print_counts(one):
    """A line of one study, and what is left open in it."""
    asked = "; ".join("{} of {} ".format(*one["asked"][stage]) + stage for stage in STAGES[:2])
    printed = [sum(each["undecided"] for each in one["printed"][stage]) for stage in STAGES]
    print(
        f"{one['study']}: undecided {asked}; of {len(one['printed'][STAGES[0]])} printed "
        f"{', '.join(map(str, printed))}",
        flush=True,
    )
    for line in one["left"]:
        print(f"    {line}", flush=True)


def print_total(found, shares):
    """How often each verdict is given, of all studies, and the shares that are undecided."""
    for kind in KINDS:
        counts = [
            Counter(
                each["verdict"] for one in found for each in one["printed"][stage]
                if each["kind"] == kind
            )
            for stage in STAGES
        ]  # fmt: skip
        names = dict.fromkeys(name for of in counts for name in of)
        if not names:
            continue
        rows = [[name, *(str(of[name]) for of in counts)] for name in names]
        print(f"\n{format_table([kind, *STAGES], rows)}")
    for stage, (asked, printed) in shares.items():
        print(f"\nundecided {stage}: {asked:.1%} of those asked for, {printed:.1%} of all printed")


if __name__ == "__main__":
    sys.exit(main())

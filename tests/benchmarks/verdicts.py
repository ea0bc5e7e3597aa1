"""How often verdicts on drifts and orders are right, and how often their intervals hold the truth.

    python tests/benchmarks/verdicts.py [--trials 200] [--part NAME] [--processes N] [--json]

``verdicts``: ensembles of runs of a million steps under a chaos-like oscillation, as interval
means; truths bounded, √t and linear, by the correlation time of the oscillation, by what a drift
or walk reaches at the end (1/100 of the oscillation's rms and less), by starts and by intervals;
the last rows show where it stops working. ``alike``: 17 starts that share what is beside the truth,
by their correlation. ``comparisons``: how often an integrator is said to drift less than another
one that drifts as much, more, or walks. ``coverage``: single short series of nine kinds, from 8
intervals to 300. ``orders``: 200 pairs of an integrator and a system, whose step
sizes, horizon and starts are random; the truth is what a run of ten times finer step sizes
certifies. ``drifts``: the same of drifts, of three seeds, whose truth is a run ten times as long:
what is linear and cannot have doubled there is false, unless it fails before. Some minutes on two
cores each. Exit code 3: a figure does not hold.
"""

import argparse
import json
import math
import multiprocessing
import os
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "helpers"))
from random_settings import INTERVALS, PAIRS, random_drift_study, random_order_study
from short_series import KINDS, coverage
from wandering import TRUTHS, Oscillation, drift_of_means, ensemble, line

import sweep
from integrators.method import EXACT
from sweep.analysis.convergence.order_verdicts import CONFIRMED, REFUTED
from sweep.analysis.drift.drift_comparisons import compare_drifts
from sweep.analysis.drift.estimators import (
    AT_ROUND_OFF,
    LINEAR,
    UNSTEADY,
    VERDICTS,
)
from sweep.text import format_table

FIGURE = 0.987  # of linear drifts of one sign: that they are seen
COVERED = 0.94
WRONG = 0.003
SHARED = 0.1  # of starts that share their walk, which are taken for independent
FALSE = 0.01  # of drifts in random settings that are said to be linear
ORDERS_HELD = 0.93
SETTINGS = (  # share at the end, starts, what the oscillation is like; the first rows have figures
    (0.01, 64, {}),
    (0.01, 64, {"intervals": 100}),
    (0.01, 64, {"intervals": 1000}),
    (0.01, 64, {"memory": 100.0, "period": 20.0}),
    (0.01, 64, {"memory": 3000.0}),
    (0.01, 64, {"memory": 3000.0, "period": 200.0}),
    (0.01, 8, {}),
    (0.01, 8, {"memory": 3000.0}),
    (0.1, 8, {}),
    (0.01, 64, {"tails": 2.0}),
    (0.01, 1, {"memory": 3000.0}),
    (0.1, 1, {}),
    (0.003, 64, {}),
    (0.001, 64, {}),
    (0.01, 64, {"period": 1000.0}),
    (0.01, 64, {"rectified": 0.3}),
    (0.01, 64, {"memory": 3e4, "period": 1e9}),
)
WITH_FIGURES = 9


def verdict_counts(task):
    """How often each verdict is given in a setting; a dict."""
    setting, truth, trials = task
    share, starts, kind = setting
    oscillation = Oscillation(**kind)
    found = Counter()
    for trial in range(trials):
        rng = np.random.default_rng((trial, list(TRUTHS).index(truth)))
        means = ensemble(rng, truth, starts, share, oscillation)
        found[drift_of_means(means).verdict] += 1
    return dict(found)


def verdicts(pool, trials):
    """Rows of setting, truth and share of each verdict."""
    tasks = [(setting, truth, trials) for setting in SETTINGS for truth in TRUTHS]
    rows = []
    for (setting, truth, _), found in zip(tasks, pool.imap(verdict_counts, tasks), strict=True):
        share, starts, kind = setting
        figure = SETTINGS.index(setting) < WITH_FIGURES
        seen = (found.get(LINEAR, 0) + found.get(UNSTEADY, 0)) / trials
        false = found.get(LINEAR, 0) / trials
        # By more than the scatter of so many trials: three standard errors.
        lost = seen < FIGURE - 3 * math.sqrt(FIGURE * (1 - FIGURE) / trials)
        if truth != "linear":
            lost = false > WRONG + 3 * math.sqrt(WRONG / trials)
        rows.append(
            {
                "at the end": share,
                "starts": starts,
                "oscillation": ", ".join(f"{k} {v:g}" for k, v in kind.items()) or "–",
                "truth": truth,
                **{verdict: found.get(verdict, 0) / trials for verdict in VERDICTS},
                "seen": seen,
                "holds": not (figure and lost),
            }
        )
    return rows


def alike(task):
    """Verdicts on ensembles whose starts share their oscillation, or their walk."""
    share, truth, trials = task
    oscillation = Oscillation(memory=3000.0, tails=0.0)
    found = Counter()
    for trial in range(trials):
        rng = np.random.default_rng((trial, 17))
        both = oscillation.means(rng, 18)
        if truth == "√t":
            both += 0.05 * TRUTHS[truth](rng, 18, oscillation.intervals)
        means = math.sqrt(share) * both[:1] + math.sqrt(1 - share) * both[1:]
        means += 0.05 * line(oscillation.intervals) if truth == "linear" else 0.0
        found[drift_of_means(means).verdict] += 1
    false = found[LINEAR] if truth != "linear" else 0
    allowed = SHARED if truth == "√t" and share else WRONG
    return {
        "correlation": share,
        "truth": truth,
        **{verdict: found[verdict] / trials for verdict in VERDICTS},
        "holds": false / trials <= allowed + 3 * math.sqrt(allowed / trials),
    }


def covered(task):
    """Coverage of one kind of series at one length."""
    kind, intervals, trials = task
    interval, bound, width = coverage(kind, intervals, trials)
    return {
        "series": kind.__name__,
        "intervals": intervals,
        "interval holds": interval,
        "|drift| ≤ x holds": bound,
        "half width": width,
        "holds": bound >= COVERED - 3 * math.sqrt(COVERED * (1 - COVERED) / trials),
    }


@dataclass(frozen=True)
class Judged:
    """What `compare_drifts` asks of an integrator's drift, without a table."""

    integrator: str
    verdict: str
    wide_low: float
    wide_high: float
    duration: float = 1.0
    step_size: float = 1.0
    tolerance: float = math.nan
    cpu_time: float = math.nan
    signed: bool = True
    quantity: str = "energy"
    parameters: dict = field(default_factory=dict)


def judged(name, means):
    """A row of one integrator from its interval means."""
    found = drift_of_means(means)
    return Judged(name, found.verdict, found.wide_low, found.wide_high)


def comparisons(task):
    """How often one integrator is said to drift less than another, and how often that holds.

    Both oscillate, partly in common to all starts; the other drifts by what is a tenth of the
    oscillation at the end, and by 30 % more or less in each of several starts, or walks so far.
    """
    truth, ratio, starts, likeness, trials = task
    oscillation = Oscillation(memory=1000.0)
    said = false = 0
    for trial in range(trials):
        rng = np.random.default_rng((trial, starts, int(ratio)))
        common = oscillation.means(rng, 2)
        own = oscillation.means(rng, 2 * starts).reshape(2, starts, -1)
        means = math.sqrt(likeness) * common[:, None] + math.sqrt(1 - likeness) * own
        vary = 1 + (0.3 * rng.normal(size=(2, starts, 1)) if starts > 1 else 0.0)
        if truth == "linear":
            each = 0.1 * vary * line(oscillation.intervals)
            means += each * np.array([1 / ratio, 1.0])[:, None, None]
        else:
            means[1] += 0.1 * TRUTHS[truth](rng, starts, oscillation.intervals)
        rows = [judged(name, of) for name, of in zip("ab", means, strict=True)]
        for found in compare_drifts(rows, [("all",)] * 2)[0]:
            said, false = said + 1, false + (truth != "linear" or found.times > ratio)
    return {
        "other": truth,
        "ratio": ratio if truth == "linear" else math.nan,
        "starts": starts,
        "correlation": likeness,
        "said": said / trials,
        "false": false / trials,
        "holds": false / trials <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials),
    }


def orders(pairs, seed=2):
    """Counts of orders that are measured in random settings, whose truth finer steps certify."""
    return _counts_of_random_study(random_order_study, pairs, seed, order_counts)


def drifts(pairs, seeds=(5, 6, 7)):
    """Counts of drifts that are seen in random settings, whose truth longer runs show."""
    return [
        {"seed": seed, **row}
        for seed in seeds
        for row in _counts_of_random_study(random_drift_study, pairs, seed, drift_counts)
    ]


def _counts_of_random_study(text_of, pairs, seed, count):
    with tempfile.TemporaryDirectory() as folder:
        study, store = Path(folder) / "random.toml", Path(folder) / "random.zarr"
        study.write_text(text_of(np.random.default_rng(seed), -(-pairs // PAIRS)))
        sweep.run(study, store)
        return [count(sweep.open_study(store))]


def order_counts(tree):
    """How many pairs there are, have an interval, and hold what their finer twin certifies."""
    found = Counter()
    for name in (str(name) for name in tree.children if str(name).startswith("s")):
        twins = sweep.order_table(tree[f"c{name[1:]}"])
        for row, finer in zip(sweep.order_table(tree[name]), twins, strict=True):
            known = finer.verdict == CONFIRMED and finer.declared != EXACT
            found["pairs"] += 1
            found[row.verdict] += 1
            found["known"] += known
            found["with an interval"] += known and math.isfinite(row.order)
            found["holds the truth"] += known and row.low <= row.declared <= row.high
            found["another order"] += known and row.verdict == REFUTED
    measured = found["with an interval"]
    error = math.sqrt(ORDERS_HELD * (1 - ORDERS_HELD) / measured)
    held = found["holds the truth"] / measured >= ORDERS_HELD - 3 * error
    return dict(found) | {"holds": held and not found["another order"]}


def drift_counts(tree):
    """How often each verdict is given, and how many drifts runs ten times as long do not show."""
    found = Counter()
    for node in tree.children.values():
        whole = node.to_dataset()
        first = whole.isel(time=slice(INTERVALS + 1))
        for row, longer in zip(sweep.drift_table(first), sweep.drift_table(whole), strict=True):
            found["rows"] += 1
            found[row.verdict or "too few samples"] += 1
            found["above round-off"] += row.verdict not in ("", AT_ROUND_OFF)
            known = longer.duration > 2 * row.duration  # not of runs that fail before
            rate = abs(longer.drift) if longer.verdict in (LINEAR, UNSTEADY) else longer.bound
            doubled = rate * longer.duration > 2 * abs(row.drift) * row.duration
            found["false"] += known and row.verdict == LINEAR and not doubled
    columns = ("rows", "above round-off", *VERDICTS, "too few samples", "false")
    holds = found["false"] <= FALSE * found["rows"]
    return {name: found[name] for name in columns} | {"holds": holds}


def main():
    """Print the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument(
        "--part",
        choices=("verdicts", "alike", "comparisons", "coverage", "orders", "drifts"),
    )
    parser.add_argument("--processes", type=int, help="all cores unless given")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    close = [
        (share, truth, chosen.trials)
        for share in (0.0, 0.5, 0.9, 0.999, 1.0)
        for truth in ("bounded", "√t", "linear")
    ]
    short = [(k, n, 5 * chosen.trials) for k in KINDS for n in (8, 16, 30, 100, 300)]
    pairs = [
        (truth, ratio, starts, likeness, chosen.trials)
        for truth, ratio in (("linear", 1.0), ("linear", 3.0), ("linear", 30.0), ("√t", 1.0))
        for starts, likeness in ((1, 0.0), (8, 0.0), (8, 0.9), (64, 0.0))
    ]
    with multiprocessing.Pool(chosen.processes) as pool:
        parts = {
            "alike": lambda: pool.map(alike, close, chunksize=1),
            "comparisons": lambda: pool.map(comparisons, pairs, chunksize=1),
            "coverage": lambda: pool.map(covered, short, chunksize=1),
            "verdicts": lambda: verdicts(pool, chosen.trials),
            "orders": lambda: orders(chosen.trials),
            "drifts": lambda: drifts(chosen.trials),
        }
        parts = {name: make() for name, make in parts.items() if chosen.part in (None, name)}
    if chosen.json:
        print(json.dumps(parts, ensure_ascii=False, default=float))
    for name, rows in parts.items() if not chosen.json else ():
        cells = [[shown(value) for value in row.values()] for row in rows]
        print(f"{name}\n{format_table(list(rows[0]), cells)}\n")
    return 0 if all(row["holds"] for rows in parts.values() for row in rows) else 3


def shown(value):
    """A cell of a table."""
    if isinstance(value, bool | np.bool_):
        return "" if value else "NO"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())

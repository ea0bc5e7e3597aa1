"""The sentence above each answer: short, and nothing that its rows do not say."""

import dataclasses
import math
import re

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from run_tables import run_table, with_series

from sweep import tables
from sweep.analysis import chaos, drift_table, least_work, order_table, work_table
from sweep.analysis.convergence.certificates import CONFIRMED, REFUTED
from sweep.analysis.drift import verdicts
from sweep.analysis.drift.comparisons import DriftComparison
from sweep.analysis.drift.drifts import Spread
from sweep.analysis.reasons import MEANS, REMEDIES, Reason, Remedy
from sweep.analysis.summary import (
    MOST,
    VERBS,
    summarize_chaos,
    summarize_drifts,
    summarize_orders,
    summarize_work,
)

TIMES = np.linspace(0.0, 64.0, 65)
MORE = Reason("complete starts", 4, 8, (Remedy("starts", 8, 4),))
LONGER = Reason("memory", 0.5, 0.1, (Remedy("duration", 5.0, 1.0),))
WIDE = Reason("width", 0.3, 0.1, (Remedy("step sizes", 9, 5),), {"slopes": "4.00"})
STUCK = Reason("largest error", 0.0, 0.0)
WHY = {"": (), "more": (MORE,), "longer": (LONGER,), "stuck": (STUCK,)}
ORDERS = (CONFIRMED, REFUTED, "undecided")
DRIFTS = (*verdicts.VERDICTS, "of another kind")
WORDS = {verdict: VERBS.get(verdict, (f"is judged “{verdict}”", f"are judged “{verdict}”"))
         for verdict in (*ORDERS, *DRIFTS)}  # fmt: skip
(ORDER,) = order_table(run_table({"rk4": 4}))
(DRIFT,) = drift_table(
    with_series(run_table({"rk4": 4}, (0.1,), times=TIMES), "energy_error", np.cos(TIMES)), "energy"
)


def orders(found, name="m{}"):
    """Rows with these verdicts and reasons, of integrators m0, m1, …"""
    return [
        dataclasses.replace(
            ORDER, integrator=name.format(i), verdict=verdict, why=WHY.get(why, ()), order=3.0
        )
        for i, (verdict, why) in enumerate(found)
    ]


def drifts(found, name="m{}", compared=()):
    return [
        dataclasses.replace(
            DRIFT, integrator=name.format(i), verdict=verdict, why=WHY.get(why, ()),
            compared=compared,
        )
        for i, (verdict, why) in enumerate(found)
    ]  # fmt: skip


def claims(text):
    """Of how many integrators, and of which, each clause speaks, and what it says of them."""
    for clause in text.removesuffix(".").split("; "):
        clause = clause.partition(": ")[2] if clause.startswith("Energy over") else clause
        every = re.match(r"(?:[Aa]ll )?(\d+) (?:of \d+ )?(?:integrators? )?", clause)
        both = re.match("[Bb]oth integrators ", clause)
        only = re.match("[Tt]he only integrator ", clause)
        names = re.match(r"m\d+(?:, m\d+)*(?: and m\d+)? ", clause)
        if names:
            of = re.findall(r"m\d+", names[0])
            yield len(of), of, clause[names.end() :]
        else:
            start = every or both or only
            count = int(every[1]) if every else 2 if both else 1
            yield count, [], clause[start.end() :]


def verdict_said(words):
    """The verdict whose words a clause begins with."""
    if re.match(r"has order \d", words):
        return REFUTED
    fits = [v for v, both in WORDS.items() for one in both if words.startswith(one)]
    return max(fits, key=lambda v: max(len(one) for one in WORDS[v] if words.startswith(one)))


def check(text, rows):
    assert len(text) <= MOST and text.endswith(".")
    if re.search(r"of \d+ integrators \d+ ", text):  # counts alone: the shortest form
        assert sum(map(int, re.findall(r"(?:^|[ :,]) ?(\d+) (?!integrators)", text))) >= 1
        return
    said = list(claims(text))
    assert sum(count for count, *_ in said) == len(rows)
    verdict = {row.integrator: row.verdict for row in rows}
    for count, names, words in said:
        of = verdict_said(words)
        assert count == sum(row.verdict == of for row in rows)
        assert all(verdict[name] == of for name in names)
        assert words.startswith(WORDS[of][count > 1]) or words.startswith("has order")
        undecided = [row for row in rows if row.verdict == of == "undecided"]
        if undecided and "(" in words:
            known = [row for row in undecided if any(why.remedies for why in row.why)]
            assert ("nothing is known that would decide" in words) == (not known)
            assert ("of them)" in words) == (0 < len(known) < len(undecided))


def rows_of(verdicts):
    reasons = st.sampled_from(list(WHY))
    return st.lists(st.tuples(st.sampled_from(verdicts), reasons), min_size=1, max_size=30)


@settings(max_examples=300, deadline=None)
@given(rows_of(ORDERS))
def test_counts_of_orders_add_up_and_names_have_the_verdict(found):
    (text,) = summarize_orders(rows := orders(found))
    check(text, rows)


@settings(max_examples=300, deadline=None)
@given(rows_of(DRIFTS[:4]) | rows_of(DRIFTS))
def test_counts_of_drifts_add_up_and_names_have_the_verdict(found):
    (text,) = summarize_drifts(rows := drifts(found))
    assert text.startswith("Energy over 64 s: ")
    check(text, rows)


@settings(max_examples=100, deadline=None)
@given(rows_of(DRIFTS), st.integers(1, 150))
def test_long_names_are_counted(found, length):
    for text in (
        *summarize_orders(orders(found, "a" * length + "{}")),
        *summarize_drifts(drifts(found, "a" * length + "{}")),
    ):
        assert len(text) <= MOST and text.endswith(".")


@pytest.mark.parametrize(
    ("found", "text"),
    [
        ([(CONFIRMED, "")], "m0 has its declared order, 4."),
        ([(CONFIRMED, "")] * 2, "m0 and m1 have their declared order."),
        ([(CONFIRMED, "")] * 9, "All 9 integrators have their declared order."),
        ([(REFUTED, "")], "m0 has order 3.00 and not order 4."),
        (
            [(CONFIRMED, "")] * 7 + [("undecided", "more"), (REFUTED, "")],
            "7 of 9 integrators have their declared order; m8 has order 3.00 and not order 4; "
            "m7 is undecided (8 starts or more would decide).",
        ),
        (
            [("undecided", "more"), ("undecided", "longer"), ("undecided", "stuck")],
            "m0, m1 and m2 are undecided (more starts and longer runs would decide 2 of them).",
        ),
        ([("undecided", "stuck")], "m0 is undecided (nothing is known that would decide)."),
    ],
)
def test_orders_as_a_person_would_say_them(found, text):
    assert summarize_orders(orders(found)) == [text]


def test_what_may_decide_is_not_said_to_do_so():
    rows = [dataclasses.replace(ORDER, verdict="undecided", why=(WIDE,))]
    (text,) = summarize_orders(rows)
    assert text == "rk4 is undecided (9 step sizes in the same range may decide)."
    assert set(MEANS) == set(REMEDIES)


def test_without_runs_nothing_but_that_is_said():
    rows = [dataclasses.replace(ORDER, verdict="undecided", why=(Reason("complete runs", 0, 1),))]
    assert summarize_orders(rows) == ["rk4 is undecided (no run is complete)."]


def test_cases_are_those_of_several_step_sizes_or_values():
    rows = orders([(CONFIRMED, "")] * 3, "rk4")
    assert summarize_orders(rows) == ["All 3 cases (rk4) have their declared order."]
    rows = [*rows, *orders([("undecided", "more")], "cf4")]
    assert summarize_orders(rows) == [
        "3 of 4 cases (2 integrators) have their declared order; 1 is undecided (8 starts or more "
        "would decide)."
    ]


def test_drifts_have_bounds_and_the_largest_comparison():
    rows = drifts([(verdicts.LINEAR, ""), (verdicts.NONE, "")])
    rows[0] = dataclasses.replace(rows[0], compared=())
    few, many = (DriftComparison("m0", 0.1, math.nan, t, True, math.nan) for t in (12.0, 120.0))
    rows[1] = dataclasses.replace(rows[1], compared=(few, many), low=-2e-3, high=1e-3)
    assert summarize_drifts(rows) == [
        "Energy over 64 s: m0 drifts linearly; m1 shows no drift above 0.002 J/s (95 %); m1 drifts "
        "≥ 12× less than m0 at equal step size (95 %)."
    ]
    rows[1] = dataclasses.replace(rows[1], duration=32.0, low=math.nan, high=math.nan, compared=())
    assert summarize_drifts(rows) == ["Energy: m0 drifts linearly; m1 shows no drift."]


def test_chaos_is_counted_in_runs():
    row = chaos.ChaosEstimate(
        integrator="rk4", parameters={}, step_size=0.1, tolerance=math.nan, starts=4, left_out=0,
        stopped=0, duration=100.0, exponents=(Spread(0.2, 0.1, 0.3),),
        megno=Spread(20.0, 6.0, 30.0), chaotic=4, regular=0, undecided=0,
        hidden=math.nan, longer=math.nan, halved=True,
        units="s-1", time_units="s",
    )  # fmt: skip
    of = dataclasses.replace
    assert summarize_chaos([row]) == ["All 4 runs are chaotic, with exponents of 0.1 – 0.3 s-1."]
    mixed = of(row, chaotic=1, regular=2, undecided=1, hidden=0.02, longer=400.0)
    assert summarize_chaos([row, mixed]) == [
        "5 of 8 runs are chaotic; 2 show no chaos (exponents below 0.02 s-1 could hide); 1 is "
        "undecided (runs of 4e+02 s would tell, if the exponents last)."
    ]
    assert summarize_chaos([of(mixed, chaotic=0, regular=0, halved=False)]) == [
        "The only run is undecided (4 sample intervals or more are needed)."
    ]
    assert summarize_chaos([of(mixed, chaotic=0, regular=0, stopped=1)]) == [
        "The only run is undecided (runs fail before it can be told)."
    ]
    nothing = of(row, chaotic=0)
    assert summarize_chaos([nothing]) == [
        "Nothing is told of order and chaos: MEGNO is not recorded."
    ]
    assert summarize_chaos([of(nothing, starts=0)])[0].endswith(": no run is complete.")


def worked(orders, factors, starts=("a", "b", "c"), **settings):
    """A table whose integrators take so many evaluations a step."""
    table = run_table(orders, starts=starts, **settings)
    stages = np.array([factors[label] for label in table["integrator"].values])
    return table.assign(evaluations=("run", stages * table["steps"].values))


def test_the_cheapest_is_told_where_another_family_was_measured_too():
    """Errors are 2 h² and 2 h⁴ after 1/h steps: that of 1e-3 takes one 45, of 2e-4 the other 40."""
    table = worked({"variational": 2, "rk4": 4}, {"variational": 1, "rk4": 4})
    assert summarize_work(work_table(table)) == [
        "For global errors of 1e-03 rk4 needs the fewest evaluations, at least 1.1 times fewer "
        "than variational; of the families only runge kutta is seen to reach 1e-07."
    ]
    table = worked({"rk4": 4, "rk2_heun": 2}, {"rk4": 4, "rk2_heun": 2})
    assert summarize_work(work_table(table)) == [
        "For global errors of 1e-03 rk4 needs the fewest evaluations, at least 2.2 times fewer "
        "than rk2_heun."
    ]


def test_several_scanned_values_are_counted():
    scan = {"gravity": (1.0, 9.81)}
    table = worked({"variational": 2, "rk4": 4}, {"variational": 1, "rk4": 4}, scan=scan)
    assert summarize_work(work_table(table)) == [
        "Who needs the fewest evaluations for small errors, of 2 combinations of scanned values: "
        "rk4 at 2."
    ]


def timed_table(seconds):
    """Each integrator takes so long at its finest step size, in three repeats 5 % apart."""
    table = run_table(dict.fromkeys(seconds, 4), times=TIMES[:3])
    first = np.array([seconds[label] for label in table["integrator"].values])
    first = first * 0.01 / table["step_size"].values
    copies = [
        table.assign(cpu_time=("run", factor * first, {"units": "s"})).assign_coords(
            repeat=("run", np.full(table.sizes["run"], i))
        )
        for i, factor in enumerate((1.0, 1.05, 1.2))
    ]
    return xr.concat(copies, "run", data_vars="minimal", coords="minimal", compat="override")


def test_times_that_overlap_share_a_place():
    """A minute of the machine is no reason to rank: 3 % apart, where repeats are 5 %."""
    rows = work_table(timed_table({"rk4": 0.5, "cf4": 0.515, "variational": 0.8}))
    (text,) = summarize_work(rows, "cpu_time")
    assert "rk4 and cf4 take equally little CPU time within 8 %, 1.5 times less than" in text
    found = least_work(rows, "cpu_time")
    least = {row.integrator for row in found if row.least_of_all}
    assert least == {"rk4", "cf4"}
    apart = work_table(timed_table({"rk4": 0.5, "cf4": 0.6}))
    (text,) = summarize_work(apart, "cpu_time")
    assert " rk4 takes the least CPU time, 1.1 times less than cf4" in text


def test_of_one_family_what_overlaps_is_best_together():
    rows = work_table(timed_table({"rk4": 0.5, "rk4+projected": 0.515, "rk4+slow": 0.8}))
    best = {row.integrator for row in rows if "cpu_time" in row.best}
    assert best == {"rk4", "rk4+projected"}
    assert {row.equals for row in least_work(rows, "cpu_time")} == {("rk4+projected",)}
    text = tables.tables_as_text(tables.work_as_tables(rows, "cpu_time"))
    assert "rk4 or rk4+projected" in text and "not told apart within what repeats differ by" in text


def test_where_nothing_can_be_compared_the_sentence_says_so():
    table = worked({"rk4": 4}, {"rk4": 4})
    none = "It is not told which integrator needs the fewest evaluations: no error is reached by "
    assert summarize_work(work_table(table)) == [f"{none}more than one."]
    table = worked({"rk4": 4, "cf4": 4, "rk2_heun": 2}, {"rk4": 4, "cf4": 5, "rk2_heun": 2})
    sizes = {"rk4": 0.1, "cf4": 0.1, "rk2_heun": 0.05}
    wanted = [sizes[label] for label in table["integrator"].values]
    table = table.isel(run=np.flatnonzero(table["step_size"].values == wanted))
    assert summarize_work(work_table(table)) == [
        f"{none}several that were measured above and below it."
    ]
    assert summarize_work(work_table(table), "cpu_time") == [
        "It is not told which integrator takes the least CPU time: the reason stands below."
    ]

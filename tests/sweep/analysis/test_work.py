import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from run_tables import run_table, with_series

import integrators
import sweep
from integrators.errors import InputError
from sweep import plots, tables
from sweep.analysis import least_work, summarize_work, work_table

ORDERS = {"variational": 2, "variational+suzuki4": 4, "rk4": 4}
STAGES = {"variational": 1, "variational+suzuki4": 5, "rk4": 4, "rk45": 6}
TIMES = np.linspace(0.0, 1.0, 11)


def counted(table):
    """The table with evaluations and CPU time, 0.1 s for each evaluation."""
    stages = np.array([STAGES[label] for label in table.integrator.values])
    evaluations = stages * table.steps.values
    return table.assign(
        evaluations=("run", evaluations),
        rejected_steps=("run", 0 * evaluations),
        cpu_time=("run", 0.1 * evaluations, {"units": "s"}),
    )


@pytest.fixture
def table():
    table = run_table(ORDERS, starts=("a", "b", "c"), times=TIMES)
    table = with_series(table, "energy_error", -0.1 * table.global_error.values)
    return counted(table)


def cell(rows, integrator, step_size, error="global_error"):
    (row,) = (
        row
        for row in rows
        if (row.integrator, row.error) == (integrator, error) and row.step_size == step_size
    )
    return row


def test_errors_are_medians_over_the_starts_beside_their_work(table):
    row = cell(work_table(table), "rk4", 0.05)
    assert (row.value, row.low, row.high) == pytest.approx((2 * 0.05**4, 0.05**4, 3 * 0.05**4))
    assert (row.steps, row.evaluations, row.cpu_time) == pytest.approx((20, 80, 8.0))
    assert (row.at, row.time, row.starts, row.left_out) == ("end", 1.0, 3, 0)
    energy = cell(work_table(table), "rk4", 0.05, "energy_error")
    assert (energy.value, energy.at, energy.units) == (pytest.approx(0.2 * 0.05**4), "sup", "J")


def test_the_largest_error_of_a_run_is_that_of_every_step(table):
    size = table.global_error.values
    table = with_series(table, "energy_error", 0 * size, abs_max=np.where(size > 0, 7.0, np.nan))
    assert {row.value for row in work_table(table, "energy_error")} == {7.0}


def test_rejected_steps_are_work_and_repeats_count_once(table):
    table["rejected_steps"][:] = 5
    odd = np.arange(table.sizes["run"]) % 2
    again = table.assign(cpu_time=table.cpu_time * np.where(odd, 2.0, 0.5))
    repeats = [
        one.assign_coords(repeat=("run", np.full(one.sizes["run"], i)))
        for i, one in enumerate((table, again))
    ]
    repeated = xr.concat(repeats, "run", data_vars="minimal", coords="minimal", compat="override")
    row = cell(work_table(repeated), "rk4", 0.05)
    assert (row.steps, row.starts) == (25, 3)
    least = np.minimum(table.cpu_time.values, again.cpu_time.values)
    chosen = (table.integrator.values == "rk4") & (table.step_size.values == 0.05)
    assert row.cpu_time == pytest.approx(np.median(least[chosen]))


def test_errors_are_taken_where_the_reference_resolves_all_integrators(table):
    """After t = 0.5 the reference is wrong by as much as the most accurate integrator."""
    own = np.where(TIMES > 0.5, 1e-3, 1e-16)
    table["reference_error"][:] = np.broadcast_to(own, table.reference_error.shape)
    rows = [row for row in work_table(table) if row.error == "global_error"]
    assert {row.time for row in rows} == {0.5}
    assert cell(rows, "variational", 0.1).value == pytest.approx(2 * 0.1**2 * 0.5)


def test_best_of_a_family_is_its_front(table):
    rows = [row for row in work_table(table) if row.error == "global_error"]
    for family in ("variational", "runge_kutta"):
        mine = [row for row in rows if row.family == family]
        for row in mine:
            beaten = any(
                other.value <= row.value and other.evaluations <= row.evaluations
                for other in mine
                if other is not row
            )
            assert ("evaluations" in row.best) == (not beaten)
    assert {"steps", "evaluations", "cpu_time"} == set(cell(rows, "rk4", 0.1).best)


def test_of_errors_at_round_off_only_the_cheapest_is_best(table):
    noise = 1e-16 * np.random.default_rng(1).uniform(1, 9, table.global_error.shape)
    table = with_series(table.drop_vars("energy_error"), "unit_length_error", noise)
    table["unit_length_error"].attrs["kind"] = "constraint"
    rows = [row for row in work_table(table, "unit_length_error") if row.family == "variational"]
    best = [(row.integrator, row.step_size) for row in rows if "evaluations" in row.best]
    assert best == [("variational", 0.1)]
    assert not any(row.resolved for row in rows)
    assert least_work(rows) == []


def test_a_step_size_at_which_runs_failed_is_never_best(table):
    place = (table.integrator.values == "rk4") & (table.step_size.values == 0.1)
    table["status"][np.flatnonzero(place)[0]] = 3
    row = cell(work_table(table), "rk4", 0.1)
    assert (row.failed, row.left_out, row.starts, row.best) == (1, 1, 2, ())
    text = tables.tables_as_text(tables.work_as_tables(work_table(table)))
    assert "no longer in the study: 1 runs." in text


def test_least_work_is_interpolated_and_never_extrapolated(table):
    rows = work_table(table)
    found = {
        (one.level, one.family): one for one in least_work(rows) if one.error == "global_error"
    }
    # The error is 2 h² after 1/h evaluations.
    variational = found[1e-3, "variational"]
    assert variational.integrator == "variational" and variational.interpolated
    assert variational.work == pytest.approx(np.sqrt(2 / 1e-3), rel=1e-6)
    assert variational.least_of_all == (variational.work < found[1e-3, "runge_kutta"].work)
    # rk4 was measured from an error of 2e-4 on: of larger ones it is known to need no more.
    coarse = found[1e-2, "runge_kutta"]
    assert (coarse.work, coarse.interpolated) == (40, False)
    assert min(level for level, _ in found) == 1e-7  # 2e-8 is the smallest error


def test_every_method_knows_its_family():
    families = {method.name: integrators.get(method.name, **method.example).family
                for method in integrators.ALL_INTEGRATORS}  # fmt: skip
    assert families["rkmk54"] == families["lie_euler"] == integrators.get("rkmk54+fixed").family
    assert families["rk45"] == families["dop853"] == "runge_kutta"
    assert families["splitting"] == "splitting"
    assert set(families.values()) == {
        "variational", "midpoint", "splitting", "exact", "rkmk", "commutator_free",
        "symplectic_lie_group", "runge_kutta", "hopf_lift", "multistep", "taylor",
    }  # fmt: skip


def test_the_store_says_the_family_or_the_base_method_is_it(table):
    described = {
        "variational": {"name": "variational", "family": "mine"},
        "rk4": {"name": "rk4+projected"},
        "variational+suzuki4": {"name": "ralston+x"},
    }
    table.attrs["integrators"] = json.dumps(described)
    assert {row.integrator: row.family for row in work_table(table)} == {
        "variational": "mine", "rk4": "rk4", "variational+suzuki4": "ralston"
    }  # fmt: skip


def test_without_a_reference_invariants_remain(table):
    table = table.drop_vars(["global_error", "reference_error"])
    assert {row.error for row in work_table(table)} == {"energy_error"}
    with pytest.raises(InputError, match="reference"):
        work_table(table, "global_error")
    with pytest.raises(InputError, match="record energy"):
        work_table(table.drop_vars("energy_error"))
    with pytest.raises(InputError, match="'end' or 'sup'"):
        work_table(table, at="begin")
    with pytest.raises(InputError, match="Valid: steps|Did you mean 'steps'"):
        least_work(work_table(table), "step")


def test_a_reference_that_failed_is_said(table):
    for name in ("global_error", "reference_error"):
        table[name][:, 1:] = np.nan
    rows = work_table(table, "global_error", "end")
    text = tables.tables_as_text(tables.work_as_tables(rows))
    assert all(row.reference_failed for row in rows)
    assert "No least evaluations: the reference failed" in text


def test_tables_mark_the_best_and_fit(table):
    first, least = tables.work_as_tables(work_table(table, "global_error"), "cpu_time")
    assert first.headers[-2:] == ["global", "range"]
    assert "as little CPU time" in first.title and "global at t = 1" in first.title
    assert [row[5] for row in first.rows][:2] == ["2.0e-04 ", "8.0e-04 "]
    assert sum("*" in row[5] for row in first.rows) > 5
    assert least.headers == ["error ≤", "variational", "with", "runge_kutta", "with"]
    assert least.rows[0][0] == "1e-02" and least.rows[0][3].startswith("≤")


def test_rows_make_a_pandas_table(table):
    frame = pd.DataFrame(sweep.work_table(table))
    assert len(frame) == len(ORDERS) * 5 * 2
    assert frame.query("error == 'global_error' and family == 'runge_kutta'").value.min() > 0
    assert len(pd.DataFrame(sweep.order_table(table))) == len(ORDERS)


def test_scanned_values_have_fronts_and_panels_of_their_own():
    scan = {"gravity": (1.0, 9.81)}
    table = counted(run_table(ORDERS, scan=scan, times=TIMES))
    rows = work_table(table)
    assert {row.parameters["gravity"] for row in rows if row.best} == {1.0, 9.81}
    assert len(plots.work_precision(table).axes) == 2
    assert len(plots.KINDS["work"].draw(table).axes) == 2
    assert len(tables.work_as_tables(rows)) == 3


def test_the_picture_enlarges_the_best_and_says_what_it_shows(table):
    figure = plots.KINDS["work"].draw(table)
    labels = ["evaluations until t = 1 s", "CPU time until t = 1 s [s]"]
    assert [ax.get_xlabel() for ax in figure.axes] == 2 * labels
    assert figure.axes[0].get_ylabel() == "global error\nat t = 1 s"
    assert figure.axes[2].get_ylabel() == "largest energy error [J]\nuntil t = 1 s"
    assert "marks: median over the starts; bars: range" in figure.caption
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(ORDERS)
    figure = plots.work_precision(table, against="steps")
    marks = [line for line in figure.axes[0].lines if line.get_linestyle() == "None"]
    full = {line.get_color(): line.get_markersize() for line in figure.axes[0].lines
            if line.get_label() in ORDERS}  # fmt: skip
    large = [line for line in marks if line.get_markersize() == full[line.get_color()]]
    rows = work_table(table, "global_error")
    assert sum(len(line.get_xdata()) for line in large) == sum("steps" in r.best for r in rows)
    with pytest.raises(InputError, match="other than 0"):
        plots.work_precision(table.assign(evaluations=0 * table.evaluations))


# --- the sentence above the table --------------------------------------------------------------


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
        "than variational."
    ]
    table = worked({"rk4": 4, "rk2_heun": 2}, {"rk4": 4, "rk2_heun": 2})
    assert summarize_work(work_table(table)) == [
        "For global errors of 1e-03 rk4 needs the fewest evaluations, at least 2.2 times fewer "
        "than rk2_heun."
    ]


def test_a_percent_of_interpolated_work_is_no_winner():
    table = worked({"rk4": 4, "cf4": 4, "rk2_heun": 2}, {"rk4": 4.04, "cf4": 4, "rk2_heun": 2})
    (text,) = summarize_work(work_table(table))
    assert "cf4 and rk4 need equally few evaluations" in text
    table = worked({"rk4": 4, "cf4": 4}, {"rk4": 4.3, "cf4": 4})
    (text,) = summarize_work(work_table(table))
    assert " cf4 needs the fewest evaluations, 7 % fewer than rk4" in text


def test_several_scanned_values_are_counted():
    scan = {"gravity": (1.0, 9.81)}
    table = worked({"variational": 2, "rk4": 4}, {"variational": 1, "rk4": 4}, scan=scan)
    assert summarize_work(work_table(table)) == [
        "Which integrator needs the fewest evaluations for small errors, in 2 combinations of "
        "scanned values: rk4 in 2."
    ]


def timed_table(seconds):
    """Each integrator takes so long at its finest step size, in three repeats 5 % apart."""
    table = run_table(dict.fromkeys(seconds, 4), times=(0.0, 1.0, 2.0))
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
    assert "rk4 and cf4 take equally little CPU time, 1.5 times less than" in text
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
    none = "It is not known which integrator needs the fewest evaluations: no error lies "
    none += "between measured errors of several integrators."
    assert summarize_work(work_table(table)) == [none]
    table = worked({"rk4": 4, "cf4": 4, "rk2_heun": 2}, {"rk4": 4, "cf4": 5, "rk2_heun": 2})
    sizes = {"rk4": 0.1, "cf4": 0.1, "rk2_heun": 0.05}
    wanted = [sizes[label] for label in table["integrator"].values]
    table = table.isel(run=np.flatnonzero(table["step_size"].values == wanted))
    assert summarize_work(work_table(table)) == [none]
    (text,) = summarize_work(work_table(table), "cpu_time")
    assert text.startswith("It is not known which integrator takes the least CPU time: ")

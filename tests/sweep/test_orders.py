import json

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from run_tables import run_table

from integrators.errors import InputError
from sweep.analysis import order_table
from sweep.analysis.slopes import FLOOR, PRE_ASYMPTOTIC, USED, fit_order

# At least three step sizes, each smaller than the one before by its own ratio.
RATIOS = st.lists(st.floats(1.05, 4.0), min_size=2, max_size=8)


def step_sizes(ratios):
    return 0.5 / np.cumprod([1.0, *ratios])


def only(rows):
    (row,) = rows
    return row


@given(RATIOS, st.floats(0.6, 10.0), st.floats(1e-6, 1e6))
def test_an_exact_power_law_gives_its_exponent(ratios, order, constant):
    h = step_sizes(ratios)
    fit = fit_order(h, constant * h**order)
    assert fit.order == pytest.approx(order, abs=1e-9)
    assert fit.low <= fit.order <= fit.high
    assert fit.high - fit.low < 1e-9
    assert set(fit.use) == {USED}


@given(
    st.lists(st.floats(0.9, 1.1), min_size=5, max_size=5),
    st.floats(1e-3, 1e3),
    st.permutations(range(5)),
)
def test_neither_the_errors_unit_nor_the_rows_order_matters(noise, scale, shuffled):
    h = step_sizes([2.0, 1.5, 1.25, 2.0])
    error = h**3 * noise
    fit = fit_order(h, error)
    for other in (fit_order(h, scale * error), fit_order(h[shuffled], error[shuffled])):
        assert other.order == pytest.approx(fit.order, abs=1e-9)
        assert other.low == pytest.approx(fit.low, abs=1e-8)
    assert fit_order(h[shuffled], error[shuffled]).use == tuple(fit.use[i] for i in shuffled)


@given(st.floats(0.1, 10.0))
def test_the_unit_of_the_step_size_does_not_matter(scale):
    h = step_sizes([2.0, 1.5, 1.25])
    error = h**4 * np.array([1.0, 1.02, 0.99, 1.0])
    fits = fit_order(h, error), fit_order(scale * h, error)
    assert fits[0].order == pytest.approx(fits[1].order, abs=1e-9)


def test_a_round_off_floor_is_left_out():
    h = 0.1 / 2.0 ** np.arange(8)
    # Round-off that grows with the number of steps, as it does in practice.
    fit = fit_order(h, h**6 + 1e-14 / np.sqrt(h))
    assert fit.order == pytest.approx(6, abs=0.05)
    assert fit.use[:3] == (USED,) * 3
    assert fit.use[-3:] == (FLOOR,) * 3


@pytest.mark.parametrize("seed", range(20))
def test_a_floor_of_noise_is_left_out(seed):
    h = 0.1 / 1.5 ** np.arange(12)
    noise = np.exp(0.5 * np.random.default_rng(seed).normal(size=12))
    fit = fit_order(h, h**4 + 1e-9 * noise)
    assert fit.order == pytest.approx(4, abs=0.1)
    assert fit.use[-4:] == (FLOOR,) * 4


def test_a_loose_solver_is_a_floor_too():
    h = 0.1 / 2.0 ** np.arange(8)
    fit = fit_order(h, 100 * h**2 + 1e-3)
    assert fit.order == pytest.approx(2, abs=0.05) or np.isnan(fit.order)
    assert fit.use[-1] == FLOOR


def test_coarse_step_sizes_before_the_asymptotic_range_are_left_out():
    h = 0.4 / 2.0 ** np.arange(7)
    fit = fit_order(h, h**2 / (1 + (h / 0.1) ** 4))
    assert fit.use[0] == PRE_ASYMPTOTIC
    assert fit.order == pytest.approx(2, abs=0.05)


def test_the_asymptotic_order_is_that_of_the_fine_step_sizes():
    h = 0.4 / 2.0 ** np.arange(10)
    # Order 4 for large steps, and 1 in the limit.
    assert fit_order(h, h**4 + 1e-5 * h).order == pytest.approx(1, abs=0.1)


def test_a_start_missing_at_one_step_size_does_not_bend_the_curve():
    h = step_sizes([2.0, 2.0, 2.0])
    error = h[:, None] ** 2 * np.array([1.0, 1e4, 3.0])
    error[1, 1] = np.nan
    fit = fit_order(h, error)
    assert fit.order == pytest.approx(2, abs=1e-9)


def test_starts_that_disagree_widen_the_interval():
    h = step_sizes([2.0, 2.0, 2.0])
    fit = fit_order(h, h[:, None] ** np.array([1.5, 2.0, 2.5]))
    assert fit.order == pytest.approx(2, abs=1e-9)
    assert fit.high - fit.low > 0.5


@pytest.mark.parametrize("at", ["end", "sup"])
def test_known_orders_are_confirmed(at):
    orders = {"variational": 2, "variational+suzuki4": 4, "rk4": 4}
    rows = order_table(run_table(orders, starts=("lee", "lee[0]", "lee[1]")), at=at)
    assert [row.integrator for row in rows] == list(orders)
    for row in rows:
        assert row.order == pytest.approx(orders[row.integrator], abs=1e-9)
        assert (row.verdict, row.reason) == ("confirmed", "")
        assert (row.used, row.starts, row.time, row.at) == (5, 3, 1.0, at)
        assert (row.step_low, row.step_high) == (0.01, 0.1)
        assert row.worst_residual < 1e-9


def test_a_wrong_declaration_is_refuted():
    table = run_table({"a": 2, "b": 4})
    table.attrs["integrators"] = json.dumps({"a": {"order": 4}, "b": {"order": 2}})
    for row in order_table(table):
        assert row.verdict == "refuted"
        assert f"not h^{row.declared}" in row.reason


def test_a_slope_that_still_approaches_the_declared_order_is_undecided():
    table = run_table({"a": 2})
    h = table.step_size.values
    table["global_error"] *= (1 + 20 * h**1)[:, None]
    row = only(order_table(table.isel(run=h > 0.015)))
    assert row.order > 2.1
    assert row.verdict == "undecided"
    assert "approaching" in row.reason or "interval" in row.reason


def test_a_step_size_within_a_hundred_reference_errors_does_not_count():
    table = run_table({"a": 4}, times=(0.0, 1.0))
    # The distance to ten times the tolerance is several times the reference's own error.
    table["reference_error"][:] = 1e-9
    row = only(order_table(table))
    smallest = {point.step_size: point.use for point in row.points}
    assert smallest[0.01] == FLOOR
    assert (row.used, row.verdict) == (4, "confirmed")
    assert 1e-8 < row.floor < 1e-7


def test_eighth_order_between_large_steps_and_round_off():
    h = (0.05, 0.04, 0.025, 0.02, 0.0125, 0.01)
    table = run_table({"kahan_li8": 8}, step_sizes=h, times=(0.0, 1.0))
    table["global_error"][:, 1] = [1.4e-7, 2.4e-8, 5.7e-10, 9.6e-11, 2.3e-12, 6e-13]
    table["reference_error"][:] = 7e-13
    row = only(order_table(table))
    assert row.order == pytest.approx(8, abs=0.1)
    assert (row.verdict, row.used, row.floor_count) == ("confirmed", 4, 2)


def test_errors_are_compared_while_the_reference_holds():
    times = np.linspace(0, 10, 101)
    table = run_table({"a": 2}, times=times)
    table["reference_error"][:, times > 6] = 1.0
    row = only(order_table(table))
    assert row.time == 6.0
    assert (row.verdict, row.reason) == ("confirmed", "the reference holds until t = 6")


def test_a_reference_that_ends_early_ends_the_comparison():
    times = np.linspace(0, 10, 11)
    table = run_table({"a": 2}, times=times)
    for name in ("global_error", "reference_error"):
        table[name][:, times > 4] = np.nan
    row = only(order_table(table))
    assert (row.time, row.verdict, row.left_out) == (4.0, "confirmed", 0)


def test_the_supremum_sees_what_the_end_does_not():
    table = run_table({"a": 2}, times=(0.0, 0.5, 1.0))
    table["global_error"][:, 2] = table["global_error"][:, 1] * 1e-3
    end, sup = (only(order_table(table, at=at)) for at in ("end", "sup"))
    assert sup.points[0].error == pytest.approx(1e3 * end.points[0].error)
    assert sup.order == pytest.approx(2, abs=1e-9)


def test_runs_that_do_not_count_are_left_out_and_counted():
    table = run_table({"a": 2}, starts=("lee", "lee[0]", "lee[1]", "lee[2]"))
    table["status"][0] = 3
    table["sample_count"][5] = 0
    table["in_study"][10] = False
    table["global_error"][15, :] = np.nan
    table["global_error"][[0, 5, 10]] = 1e9
    row = only(order_table(table))
    assert row.order == pytest.approx(2, abs=1e-9)
    assert row.left_out == 4


def test_too_few_step_sizes_say_what_to_add():
    row = only(order_table(run_table({"a": 2}, step_sizes=(0.1, 0.05))))
    assert (row.verdict, row.used) == ("undecided", 2)
    assert np.isnan(row.order)
    assert "2 step sizes count, 3 are needed" in row.reason


def test_nothing_but_round_off_says_so():
    table = run_table({"a": 2})
    table["global_error"][:, 1:] = 1e-12
    assert "does not fall" in only(order_table(table)).reason


def test_a_failed_reference_says_so():
    table = run_table({"a": 2})
    table["reference_error"][:] = np.nan
    assert "the reference failed" in only(order_table(table)).reason


def test_no_finished_run_is_undecided():
    table = run_table({"a": 2})
    table["status"][:] = -1
    row = only(order_table(table))
    assert (row.verdict, row.left_out, row.points) == ("undecided", 5, ())


def test_each_scanned_value_has_its_own_row():
    table = run_table({"a": 2}, scan={"gravity": (1.0, 9.81), "body": ("top", "disc")})
    rows = order_table(table)
    assert [row.parameters for row in rows] == [
        {"gravity": 1.0, "body": "top"},
        {"gravity": 1.0, "body": "disc"},
        {"gravity": 9.81, "body": "top"},
        {"gravity": 9.81, "body": "disc"},
    ]


def test_energy_errors_need_no_reference():
    table = run_table({"a": 2}).drop_vars("reference_error")
    table = table.rename(global_error="energy_error")
    table["energy_error"] = -table["energy_error"]
    assert only(order_table(table, error="energy_error", at="sup")).verdict == "confirmed"


def test_adaptive_runs_are_passed_over():
    table = run_table({"rk45": 5, "rk4": 4})
    adaptive = table.integrator.values == "rk45"
    table = table.assign_coords(adaptive=("run", adaptive))
    assert [row.integrator for row in order_table(table)] == ["rk4"]
    with pytest.raises(InputError, match="no run has a fixed step size"):
        order_table(table.isel(run=adaptive))


def test_a_node_of_a_tree_will_do():
    tree = xr.DataTree.from_dict({"/order": run_table({"a": 2})})
    assert only(order_table(tree["order"])).verdict == "confirmed"


def test_bad_input_names_what_there_is():
    table = run_table({"a": 2})
    with pytest.raises(InputError, match="Did you mean 'global_error'"):
        order_table(table, error="globl_error")
    with pytest.raises(InputError, match="'end' or 'sup'"):
        order_table(table, at="mean")
    with pytest.raises(InputError, match="reference = "):
        order_table(table.drop_vars("global_error"))
    with pytest.raises(InputError, match="no runs are selected"):
        order_table(table.isel(run=[]))
    with pytest.raises(InputError, match="no run table"):
        order_table(xr.Dataset())

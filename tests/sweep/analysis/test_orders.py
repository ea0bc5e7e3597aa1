import json

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from run_tables import run_table

from integrators.errors import InputError
from sweep import tables
from sweep.analysis import order_table
from sweep.analysis.convergence.slopes import (
    FLOOR,
    LEAST,
    PRE_ASYMPTOTIC,
    USED,
    fit_convergence_order,
)

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
    fit = fit_convergence_order(h, constant * h**order)
    assert fit.order == pytest.approx(order, abs=1e-9)
    assert fit.low <= fit.order <= fit.high
    assert fit.high - fit.low < 2.1 * LEAST
    assert set(fit.use) == {USED}


@given(
    st.lists(st.floats(0.9, 1.1), min_size=5, max_size=5),
    st.floats(1e-3, 1e3),
    st.permutations(range(5)),
)
def test_neither_the_errors_unit_nor_the_rows_order_matters(noise, scale, shuffled):
    h = step_sizes([2.0, 1.5, 1.25, 2.0])
    error = h**3 * noise
    fit = fit_convergence_order(h, error)
    for other in (
        fit_convergence_order(h, scale * error),
        fit_convergence_order(h[shuffled], error[shuffled]),
    ):
        assert other.order == pytest.approx(fit.order, abs=1e-9)
        assert other.low == pytest.approx(fit.low, abs=1e-8)
    assert fit_convergence_order(h[shuffled], error[shuffled]).use == tuple(
        fit.use[i] for i in shuffled
    )


@given(st.floats(0.1, 10.0))
def test_the_unit_of_the_step_size_does_not_matter(scale):
    h = step_sizes([2.0, 1.5, 1.25])
    error = h**4 * np.array([1.0, 1.02, 0.99, 1.0])
    fits = fit_convergence_order(h, error), fit_convergence_order(scale * h, error)
    assert fits[0].order == pytest.approx(fits[1].order, abs=1e-9)


def test_a_round_off_floor_is_left_out():
    h = 0.1 / 2.0 ** np.arange(8)
    # Round-off that grows with the number of steps, as it does in practice.
    fit = fit_convergence_order(h, h**6 + 1e-14 / np.sqrt(h))
    assert fit.order == pytest.approx(6, abs=0.05)
    assert fit.use[:3] == (USED,) * 3
    assert fit.use[-3:] == (FLOOR,) * 3


@pytest.mark.parametrize("seed", range(20))
def test_a_floor_of_noise_is_left_out(seed):
    h = 0.1 / 1.5 ** np.arange(12)
    noise = np.exp(0.5 * np.random.default_rng(seed).normal(size=12))
    fit = fit_convergence_order(h, h**4 + 1e-9 * noise)
    assert fit.order == pytest.approx(4, abs=0.1)
    assert fit.use[-4:] == (FLOOR,) * 4


def test_a_loose_solver_is_a_floor_too():
    h = 0.1 / 2.0 ** np.arange(8)
    fit = fit_convergence_order(h, 100 * h**2 + 1e-3)
    assert fit.order == pytest.approx(2, abs=0.05) or np.isnan(fit.order)
    assert fit.use[-1] == FLOOR


def test_coarse_step_sizes_before_the_asymptotic_range_are_left_out():
    h = 0.4 / 2.0 ** np.arange(7)
    fit = fit_convergence_order(h, h**2 / (1 + (h / 0.1) ** 4))
    assert fit.use[0] == PRE_ASYMPTOTIC
    assert fit.order == pytest.approx(2, abs=0.05)


def test_the_asymptotic_order_is_that_of_the_fine_step_sizes():
    h = 0.4 / 2.0 ** np.arange(10)
    # Order 4 for large steps, and 1 in the limit.
    assert fit_convergence_order(h, h**4 + 1e-5 * h).order == pytest.approx(1, abs=0.1)


def test_a_start_missing_at_one_step_size_does_not_bend_the_curve():
    h = step_sizes([2.0, 2.0, 2.0])
    error = h[:, None] ** 2 * np.array([1.0, 1e4, 3.0])
    error[1, 1] = np.nan
    fit = fit_convergence_order(h, error)
    assert fit.order == pytest.approx(2, abs=1e-9)


def test_starts_that_disagree_widen_the_interval():
    h = step_sizes([2.0, 2.0, 2.0])
    fit = fit_convergence_order(h, h[:, None] ** np.array([1.5, 2.0, 2.5]))
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


def error_series(rng, orders, starts, count, bend, floor=1e-13):
    """Step sizes, and errors A |C + D h^q + E h^2q| h^p of vectors, over a floor of noise."""
    order, power = orders
    h = np.geomspace(1.0, max(1e-3, 10 ** (-9 / order)), count)
    leading, later, last = rng.normal(size=(3, starts, 3))
    leading /= np.linalg.norm(leading, axis=1, keepdims=True)
    small = h[:, None, None] ** power
    shape = np.linalg.norm(leading + bend * later * small + bend * last * small**2, axis=2)
    error = 0.01 * np.exp(rng.normal(size=starts)) * shape * h[:, None] ** order
    return h, np.hypot(error, np.linalg.norm(floor * rng.normal(size=(count, starts, 3)), axis=2))


@pytest.mark.parametrize("orders", [(1, 1), (2, 2), (4, 1), (6, 2), (8, 2)])
@pytest.mark.parametrize("bend", [0.3, 2.0])
def test_the_interval_of_an_ensemble_covers_the_order(orders, bend):
    rng = np.random.default_rng(3)
    fits = []
    for _ in range(40):
        h, error = error_series(rng, orders, 16, 12, bend)
        fits.append(fit_convergence_order(h, error, 1e-13, symmetric=orders[1] == 2))
    order = orders[0]
    assert np.mean([fit.low <= order <= fit.high for fit in fits]) >= 0.95
    narrow = [order - 0.1 <= fit.low and fit.high <= order + 0.1 for fit in fits]
    # Where next terms are twice the leading one, a start's shape is far from the others'.
    assert np.mean(narrow) >= (0.95 if bend < 1 else 0.85)


def test_starts_near_a_singularity_do_not_bend_the_order():
    rng = np.random.default_rng(6)
    h = 0.2 / 1.4 ** np.arange(8)
    error = np.exp(rng.normal(size=32)) * h[:, None] ** 2 * (1 + h[:, None] ** 2)
    strange = np.arange(32) % 4 == 0  # whose errors jump about, and are up to 1000 times larger
    error[:, strange] *= np.exp(rng.uniform(0, 7, size=(8, 8)))
    fit = fit_convergence_order(h, error, symmetric=True)
    assert fit.low <= 2 <= fit.high and fit.high - fit.low < 0.05
    mean = np.log(error).mean(axis=1)
    assert np.abs(np.diff(mean) / np.diff(np.log(h)) - 2).max() > 0.3  # of a mean they do


def test_an_interval_holds_what_the_next_terms_may_still_change():
    # Local slopes of an rk4 beside a Heisenberg chain, which a plain next term takes to 3.95.
    slopes = np.array([4.13, 4.10, 4.07, 4.04, 4.03, 4.02, 4.01])
    h = 0.2 / 1.4 ** np.arange(8)
    curve = np.concatenate([[0.0], np.cumsum(-slopes * np.log(1.4))])
    fit = fit_convergence_order(h, np.exp(curve), symmetric=False)
    assert fit.low <= 4 <= fit.high and fit.bend > 0


def test_starts_narrow_the_interval():
    rng = np.random.default_rng(4)
    h, width = 0.2 / 1.4 ** np.arange(8), {}
    for starts in (2, 8, 32):
        errors = [h[:, None] ** 4 * np.exp(0.1 * rng.normal(size=(8, starts))) for _ in range(20)]
        fits = [fit_convergence_order(h, error, 1e-13) for error in errors]
        width[starts] = np.median([fit.high - fit.low for fit in fits])
    assert width[32] < 0.5 * width[2]


def test_what_the_reference_is_wrong_by_is_in_the_interval():
    h = step_sizes([1.5, 1.5, 1.5, 1.5])
    fits = [fit_convergence_order(h, h**2, share * h[-1] ** 2) for share in (0.0, 1e-3, 9e-3)]
    assert fits[0].budget == 0.0
    widths = [fit.high - fit.low for fit in fits]
    assert widths[0] < widths[1] < widths[2]
    # As far as an error that is wrong by so much at the finest step size could tilt the slope.
    error = h**2
    error[-1] *= 1 + 9e-3
    assert fits[2].low <= fit_convergence_order(h, error).order <= fits[2].high


def test_the_ranges_that_are_left_out_are_said():
    h = tuple(0.5 / 1.5 ** np.arange(14))
    table = run_table({"a": 4}, step_sizes=h, times=(0.0, 1.0))
    error = table["global_error"].values[:, 1] / (1 + (table.step_size.values / 0.2) ** 6)
    table["global_error"][:, 1] = error
    table["reference_error"][:] = 5e-9
    row = only(order_table(table))
    assert row.order == pytest.approx(4, abs=0.05)
    assert row.floor_until < row.step_low < row.step_high < row.pre_asymptotic_from
    assert row.floor_until == h[-row.floor_count]
    assert row.pre_asymptotic_from == h[row.pre_asymptotic - 1]


def test_an_exact_integrator_is_confirmed_beside_others_that_are_not():
    table = run_table({"exact": 2, "a": 2}, step_sizes=(0.1, 0.05, 0.02))
    table["global_error"][table.integrator.values == "exact"] = 1e-15
    exact, other = order_table(table)
    assert (exact.verdict, other.verdict) == ("confirmed", "confirmed")
    assert "exact to round-off, even in 10 steps" in exact.reason
    assert np.isnan(exact.order)
    alone = only(order_table(table.isel(run=table.integrator.values == "exact")))
    assert alone.verdict == "undecided"  # perhaps nothing moves
    assert "no error shows that the state moves" in alone.reason
    falling = table.copy(deep=True)
    own = falling.integrator.values == "exact"
    falling["global_error"][own] = 1e-12 * falling["global_error"][~own].values
    hidden, _ = order_table(falling)
    assert hidden.verdict == "undecided" and "at the floor" in hidden.reason
    table.attrs["integrators"] = json.dumps({"exact": {"order": 12}, "a": {"order": 2}})
    assert order_table(table)[0].verdict == "undecided"  # in ten steps an order of 12 is lost
    table.attrs["integrators"] = json.dumps({"exact": {"order": "exact"}, "a": {"order": "exact"}})
    exact, other = order_table(table)
    assert (exact.verdict, other.verdict) == ("confirmed", "refuted")
    assert other.declared == "exact" and "the error falls as h^2.00" in other.reason


def test_a_slope_between_orders_is_not_refuted():
    table = run_table({"a": 3.5})
    table.attrs["integrators"] = json.dumps({"a": {"order": 2}})
    row = only(order_table(table))
    assert row.verdict == "undecided"
    assert "3.50 is not near a whole order" in row.reason


def with_states(table, rng):
    """The table without a reference, and with states in its place."""
    starts = np.unique(table.initial_condition.values, return_inverse=True)[1]
    exact, direction = rng.normal(size=(2, starts.max() + 1, 2, 3))
    error = table["global_error"].values[:, :, None, None]
    state = exact[starts][:, None] + error * direction[starts][:, None]
    return table.drop_vars(["global_error", "reference_error"]).assign(
        state=(("run", "time", "row", "component"), state)
    )


@pytest.mark.parametrize("at", ["end", "sup"])
def test_orders_without_a_reference_come_from_differences(at):
    table = run_table({"a": 2, "b": 4}, starts=("lee", "lee[0]", "lee[1]"))
    rows = order_table(with_states(table, np.random.default_rng(0)), at=at)
    for row, order in zip(rows, (2, 4), strict=True):
        assert row.order == pytest.approx(order, abs=1e-4)
        assert (row.verdict, row.error, len(row.points)) == ("confirmed", "self", 4)


def test_differences_end_at_round_off():
    table = with_states(run_table({"a": 10}, step_sizes=(0.1, 0.05, 0.02, 0.01, 0.005)),
                        np.random.default_rng(1))  # fmt: skip
    row = only(order_table(table))
    assert row.floor_count >= 2
    assert "difference" in row.reason or "round-off" in row.reason


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
    method = {"name": "kahan_li8", "order": 8, "symmetric": True}
    table.attrs["integrators"] = json.dumps({"kahan_li8": method})
    table["global_error"][:, 1] = [1.4e-7, 2.4e-8, 5.7e-10, 9.6e-11, 2.3e-12, 6e-13]
    table["reference_error"][:] = 7e-13
    row = only(order_table(table))
    assert row.order == pytest.approx(8, abs=0.1)
    assert (row.used, row.floor_count, row.floor_until) == (4, 2, 0.0125)
    assert row.low < 8 < row.high
    # Four step sizes of one start leave more than 0.1.
    assert row.verdict == "undecided" and "6 step sizes in the same range may tell" in row.reason
    (reason,) = row.why
    assert (reason.tested, reason.threshold) == ("width", 0.1)
    assert reason.value == pytest.approx((row.high - row.low) / 2)
    assert [(one.what, one.number, one.now) for one in reason.remedies] == [
        ("step sizes", 6, 4),
    ]


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


def test_step_sizes_without_a_complete_run_are_counted():
    table = run_table({"a": 2})
    table["status"][table.step_size.values == 0.1] = 2
    row = only(order_table(table))
    assert (row.used, row.absent, row.left_out) == (4, 1, 1)


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
    row = only(order_table(table))
    assert "the reference failed" in row.reason
    assert (row.starts, row.left_out, row.absent, row.unmeasured) == (0, 5, 0, 5)
    assert "5 without an error" in str(tables.orders_as_table([row]))


def test_a_reference_that_failed_at_once_makes_nothing_exact():
    table = run_table({"a": 2}, scan={"gravity": (1.0, 9.81)})
    lost = (table["gravity"] == 9.81).values
    for name in ("global_error", "reference_error"):
        table[name].values[lost, 1:] = np.nan
    fine, failed = order_table(table)
    assert fine.verdict == "confirmed"
    assert failed.verdict == "undecided"
    assert "the reference failed" in failed.reason


def test_a_start_whose_reference_failed_is_left_out():
    table = run_table({"a": 2}, starts=("lee", "lee[0]"))
    own = table["reference_error"].values
    own[(table["initial_condition"] == "lee[0]").values, 1:] = np.nan
    row = only(order_table(table))
    assert (row.verdict, row.starts, row.left_out) == ("confirmed", 1, 5)


def test_one_step_size_has_no_difference():
    table = with_states(run_table({"a": 2}, step_sizes=(0.1,)), np.random.default_rng(0))
    row = only(order_table(table, "self"))
    assert "1 run is complete, and no two at neighbouring step sizes" in row.reason


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


def test_few_step_sizes_above_the_floor_are_to_be_denser():
    """Smaller ones are at the floor; of twice as many the next terms are fitted."""
    ladders = [np.geomspace(0.4, 0.1, count) for count in (4, 8)]
    rows = []
    for h in ladders:
        table = run_table({"a": 6}, step_sizes=tuple(h), times=(0.0, 1.0))
        bent = h**6 * (1 + 3 * h**2 - 4 * h**4)
        table["global_error"][:, 1] = 1e-4 * bent
        table["reference_error"][:] = 5e-3 * 1e-4 * bent[-1]
        rows.append(only(order_table(table)))
    few, many = rows
    assert few.verdict == "undecided"
    (remedy,) = few.why[0].remedies
    assert (remedy.what, remedy.number, remedy.now) == ("step sizes", 8, 4)
    assert many.high - many.low < few.high - few.low


def test_runs_that_fail_are_compared_until_the_first_of_them_does():
    table = run_table({"a": 2}, times=np.linspace(0.0, 1.0, 11))
    table["sample_count"][:] = 7
    table["status"][:] = 2
    for name in ("global_error", "reference_error"):
        table[name][:, 7:] = np.nan
    (row,) = order_table(table)
    assert (row.verdict, row.left_out) == ("confirmed", 0) and row.time == pytest.approx(0.6)
    assert row.reason == "its errors are compared until t = 0.6, after which 5 of 5 runs fail"
    table["status"][:3] = 0  # of five, three are complete: those count
    table["sample_count"][:3] = 11
    (row,) = order_table(table)
    assert row.left_out == 2 and "fail" not in row.reason

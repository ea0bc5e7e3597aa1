import numpy as np
import pytest
from run_tables import run_table, with_series

import sweep
from integrators.errors import InputError
from sweep import plots

MASSES = tuple(np.arange(1.0, 14.0))
STARTS = ("lee", "lee[0]", "lee[1]")


def scanned(values=MASSES, axis="mass", **more):
    table = run_table({"rk4": 4, "rk2": 2}, starts=STARTS, scan={axis: values}, **more)
    evaluations = 4.0 * table["steps"].values
    return table.assign(evaluations=("run", evaluations))


def curves(figure):
    found = plots.numbers(figure)
    return {key: of.set_index("x") for key, of in found.groupby(["panel", "series"], sort=False)}


def test_orders_of_more_values_than_panels_are_drawn_against_the_axis():
    table = scanned()
    figure = plots.convergence(table)
    (ax,) = figure.axes
    assert ax.get_xlabel() == "mass" and ax.get_ylabel() == "measured order"
    rows = {(r.integrator, r.parameters["mass"]): r for r in sweep.order_table(table)}
    for (_, integrator), curve in curves(figure).items():
        assert list(curve.index) == list(MASSES)
        for mass, point in curve.iterrows():
            row = rows[integrator, mass]
            assert (point["y"], point["low"], point["high"]) == (row.order, row.low, row.high)


def test_costs_are_those_of_an_error_that_all_integrators_reach():
    table = scanned()
    (ax,) = plots.KINDS["work"].draw(table).axes
    assert ax.get_ylabel().startswith("evaluations for a global error of ")
    found = curves(plots.KINDS["work"].draw(table))
    assert {series for _, series in found} == {"rk4", "rk2"}
    assert all(list(curve.index) == list(MASSES) for curve in found.values())
    assert (found["", "rk4"]["y"] < found["", "rk2"]["y"]).all()


def test_drifts_are_drawn_against_the_axis_that_is_named():
    times = np.linspace(0.0, 10.0, 41)
    table = scanned((1.0, 2.0), times=times)
    rate = table["mass"].values * np.where(table["integrator"].values == "rk4", 1e-6, -1e-6)
    error = rate[:, None] * times + 1e-9 * np.random.default_rng(1).normal(size=(len(rate), 41))
    found = curves(plots.drift_over_time(with_series(table, "energy_error", error), x="mass"))
    assert found["", "rk4"]["y"].tolist() == pytest.approx([1e-6, 2e-6], rel=0.01)
    assert found["", "rk2"]["y"].tolist() == pytest.approx([-1e-6, -2e-6], rel=0.01)


def test_any_result_against_any_axis_is_the_median_of_the_runs_with_their_range():
    table = scanned((1.0, 2.0))
    figure = plots.picture("scan", table, x="step_size", y="global_error@end", col="mass")
    found = curves(figure)
    assert {panel for panel, _ in found} == {"mass=1", "mass=2"}
    for (panel, integrator), curve in found.items():
        of = table.query(run=f"{panel.replace('=', '==')} and integrator == '{integrator}'")
        ends = of["global_error"].isel(time=-1)
        for h, point in curve.iterrows():
            own = ends.where(of["step_size"] == h, drop=True)
            assert point["y"] == float(own.median())
            assert (point["low"], point["high"]) == (float(own.min()), float(own.max()))
    assert any("median and range over the initial conditions" in line for line in figure.caption)
    figure = plots.picture("scan", table, x="step_size", y="global_error@max")
    assert figure.axes[0].get_ylabel() == "largest global error"


def test_labels_stand_side_by_side_and_one_step_size_is_drawn_where_it_is_no_axis():
    figure = plots.picture("scan", scanned(("light", "heavy"), "body"), y="evaluations")
    (ax,) = figure.axes
    assert [label.get_text() for label in ax.get_xticklabels()] == ["light", "heavy"]
    assert all(curve["y"].nunique() == 1 for curve in curves(figure).values())  # of h = 0.01
    assert any("h = 0.01" in line for line in figure.caption)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"x": "mas"}, "Did you mean 'mass'"),
        ({"y": "global_eror@end"}, "Did you mean 'global_error'"),
        ({"hue": "global_error"}, "unknown axis 'global_error'. Valid: .*mass"),
        ({"col": "run"}, "unknown axis 'run'"),
        ({"y": "run_id"}, "no number"),
        ({"col": "mass"}, "13 combinations"),
    ],
)
def test_unknown_axes_and_results_are_told_with_the_valid_ones(options, said):
    with pytest.raises(InputError, match=said):
        plots.picture("scan", scanned(), **({"x": "step_size"} | options))


def test_without_a_scan_an_axis_is_asked_for():
    with pytest.raises(InputError, match="no parameter is scanned"):
        plots.picture("scan", run_table({"rk4": 4}))


def test_what_is_pooled_is_said():
    figure = plots.picture("scan", scanned((1.0, 2.0)), x="mass", hue="step_size")
    assert any("over the integrators and initial conditions" in line for line in figure.caption)
    figure = plots.picture("scan", scanned((1.0, 2.0)), x="initial_condition")
    assert figure.starts == "3 starts"


def test_a_cost_that_may_be_less_is_drawn_open():
    table = scanned((1.0, 2.0))  # all errors of rk4 are below 1e-3, which those of rk2 enclose
    figure = plots.KINDS["work"].draw(table, x="mass")
    assert figure.axes[0].get_ylabel() == "evaluations for a global error of 0.001"
    marks = plots.numbers(figure).groupby("series")["mark"].unique()
    assert marks["rk4"].tolist() == ["open"] and marks["rk2"].tolist() == ["filled"]
    assert "open: at most, as no larger error was measured" in figure.caption


def test_an_axis_without_values_or_given_twice_is_refused():
    with pytest.raises(InputError, match="unknown axis 'tolerance'"):
        plots.picture("scan", scanned(), x="tolerance")
    with pytest.raises(InputError, match="given twice"):
        plots.picture("scan", scanned(), x="mass", hue="mass")


def test_orders_are_drawn_against_a_scanned_axis_alone():
    with pytest.raises(InputError, match="no parameter is scanned, against which"):
        plots.convergence(run_table({"rk4": 4}), x="step_size")

"""Counterparts of Figures 5 to 7 of Celledoni et al.: chains of spherical pendula."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from sweep.analysis.convergence.orders import OrderEstimate, order_table
from sweep.papers.axes import label_time_axis
from sweep.plots.drawn_runs import first_run_to_draw
from sweep.plots.order_plots import (
    curve_label_with_order,
    draw_error_curve,
    draw_order_guides,
    error_axis_label,
)
from sweep.plots.style import (
    CurveStyle,
    axis_label_with_units,
    new_figure,
    set_plain_step_ticks,
    style_log_error_axis,
    style_plain_axis,
)

ORDERS: dict[Any, str] = {1: "black", 2: "#CC79A7", 3: "#009E73", 4: "#0072B2", 5: "#D55E00"}
MARKERS = "osD^v"
COLOUR = "#0072B2"

# --- figure 5 ------------------------------------------------------------------------------------


def draw_chain_convergence(spatial: xr.Dataset, planar: xr.Dataset) -> Figure:
    """Figure 5: errors of the Lie group methods at the final time against the step size."""
    figure = new_figure(10.0, 4.6)
    axes = figure.subplots(1, 2, sharey=True)
    for ax, dataset, title in (
        (axes[0], spatial, "spatial start"),
        (axes[1], planar, "planar start, as in the paper"),
    ):
        rows = sorted(order_table(dataset), key=lambda row: list(ORDERS).index(row.declared))
        styles = _curve_styles_by_order(rows)
        for row in rows:
            draw_error_curve(ax, row, styles[row.integrator], curve_label_with_order(row))
        ax.set(xscale="log", xlabel=axis_label_with_units(dataset["step_size"], "step size h"))
        style_log_error_axis(ax)
        set_plain_step_ticks(ax)
        style_plain_axis(ax, title)
    rows = order_table(spatial)
    axes[0].set_ylabel(error_axis_label(spatial, rows))
    draw_order_guides(axes[0], rows)
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside right center", alignment="left",
        title="order measured\non the spatial start", handlelength=2.4,
    )  # fmt: skip
    return figure


def _curve_styles_by_order(rows: Iterable[OrderEstimate]) -> dict[str, CurveStyle]:
    """A colour for each declared order, a marker for each of its methods."""
    styles: dict[str, CurveStyle] = {}
    seen: dict[Any, int] = {}
    for row in rows:
        place = seen[row.declared] = seen.get(row.declared, -1) + 1
        styles[row.integrator] = {
            "color": ORDERS[row.declared],
            "marker": MARKERS[place],
            "ms": 7.4 - 1.0 * place,  # curves beneath remain visible
            "lw": 0.9,
            "mec": "white",
            "mew": 0.5,
            "zorder": 2 + 0.1 * place,
        }
    return styles


# --- figures 6 and 7 -----------------------------------------------------------------------------

CLASSICAL = {
    "rk4": {"label": "rk4", "color": "#D55E00"},
    "rk45": {"label": "ode45, its default tolerances", "color": "#E69F00"},
}


def _departure_from_unit_length(q: np.ndarray, omega: np.ndarray) -> np.ndarray:
    return 1 - np.sum(q * q, axis=-1)


def _departure_from_tangency(q: np.ndarray, omega: np.ndarray) -> np.ndarray:
    return np.sum(q * omega, axis=-1)


def _draw_departures_from_constraint(
    dataset: xr.Dataset,
    error: str,
    name: str,
    departure: Callable[[np.ndarray, np.ndarray], np.ndarray],
    apart: float,
) -> Figure:
    """Draw deviations from a constraint: of classical methods on a logarithmic axis, others below.

    Parameters
    ----------
    dataset : xarray.Dataset
    error : str
        The variable that has the units.
    name : str
        The deviation, as a formula.
    departure : callable
        Computes the deviation from q and ω of both links.
    apart : float
        Distance between the lines of the methods in the lower panel, which have the same scale.
    """
    departures = {}  # over time, from the spatial start, shape (times, links)
    for label in dict.fromkeys(dataset["integrator"].values.tolist()):
        run = first_run_to_draw(dataset, label, initial_condition="celledoni_spatial")
        departures[label] = departure(*np.split(run["state"].values[0], 2, axis=1))
    methods = [label for label in departures if label not in CLASSICAL]
    figure = new_figure(9.0, 6.2)
    axes = figure.subplots(2, 2, sharex=True, sharey="row", height_ratios=(2, 3))
    for link, (upper, lower) in enumerate(axes.T):
        for label, style in CLASSICAL.items():
            upper.plot(dataset["time"][1:], abs(departures[label])[1:, link], lw=1.1, **style)
        for place, label in enumerate(methods):
            lower.axhline(-place, color="0.85", lw=0.6, zorder=0)
            values = departures[label][:, link] / apart - place
            lower.plot(dataset["time"], values, color=COLOUR, lw=0.6)
        style_log_error_axis(upper)
        style_plain_axis(upper, f"link {link + 1}")
        label_time_axis(lower, dataset)
    lower.set_yticks(range(0, -len(methods), -1), methods)
    lower.set_ylim(0.3 - len(methods), 0.7)
    axes[0, 0].set_ylabel(axis_label_with_units(dataset[error], f"|{name}|"))
    below = axis_label_with_units(dataset[error], name)
    axes[1, 0].set_ylabel(f"{below}, lines {apart:g} apart")
    axes[0, 0].legend()
    return figure


draw_chain_unit_length = partial(
    _draw_departures_from_constraint, error="unit_length_error", name="1 − q·q",
    departure=_departure_from_unit_length, apart=1e-15,
)  # fmt: skip
draw_chain_tangency = partial(
    _draw_departures_from_constraint, error="tangency_error", name="q·ω",
    departure=_departure_from_tangency, apart=5e-15,
)  # fmt: skip

"""Counterparts of the figures of Celledoni et al. on chains of spherical pendula: 5 to 11.

Each function takes the run tables of the packaged studies ``celledoni-…``, by study and
experiment, and returns a figure that belongs to no window.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import xarray as xr
from matplotlib import rc_context
from matplotlib.figure import Figure

from sweep.analysis.convergence.orders import OrderEstimate, order_table
from sweep.papers.measuring import Datasets
from sweep.plots.orders import (
    curve_label_with_order,
    draw_error_curve,
    draw_order_guides,
    error_axis_label,
)
from sweep.plots.selection import first_run_to_draw
from sweep.plots.style import (
    STYLE,
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
STARTS = {"spatial": "spatial start", "planar": "planar start, as in the paper"}

# --- figure 5 ------------------------------------------------------------------------------------
Departure = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of q and ω of a link


def draw_chain_convergence(datasets: Datasets) -> Figure:
    """Figure 5: errors of the Lie group methods at the end against the step size."""
    study = datasets["celledoni-orders"]
    with rc_context(STYLE):
        figure = new_figure(10.0, 4.6)
        axes = figure.subplots(1, 2, sharey=True)
        for ax, (name, title) in zip(axes, STARTS.items(), strict=True):
            places = {order: place for place, order in enumerate(ORDERS)}
            rows = sorted(order_table(study[name]), key=lambda row: places[row.declared])
            styles = _curve_styles_by_order(rows)
            for row in rows:
                draw_error_curve(ax, row, styles[row.integrator], curve_label_with_order(row))
            ax.set(
                xscale="log", xlabel=axis_label_with_units(study[name]["step_size"], "step size h")
            )
            style_log_error_axis(ax)
            set_plain_step_ticks(ax)
            style_plain_axis(ax, title)
        spatial = order_table(study["spatial"])
        axes[0].set_ylabel(error_axis_label(study["spatial"], spatial))
        draw_order_guides(axes[0], spatial)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside right center", frameon=False, alignment="left",
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
            "ms": 7.4 - 1.0 * place,  # of curves that coincide the lower one still shows
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


def draw_chain_unit_length(datasets: Datasets) -> Figure:
    """Figure 6: 1 − q·q of both links, of Lie group methods and of classical ones."""
    return _draw_departures_from_constraint(
        datasets, "unit_length_error", "1 − q·q", lambda q, _: 1 - _dot_product(q, q), 1e-15
    )


def draw_chain_tangency(datasets: Datasets) -> Figure:
    """Figure 7: q·ω of both links, of Lie group methods and of classical ones."""
    return _draw_departures_from_constraint(datasets, "tangency_error", "q·ω", _dot_product, 5e-15)


def _dot_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.sum(a * b, axis=-1)


def _draw_departures_from_constraint(
    datasets: Datasets, error: str, name: str, departure: Departure, apart: float
) -> Figure:
    """Departures of classical methods on a logarithmic axis, and below them of the others.

    Parameters
    ----------
    datasets : dict of str to dict of str to xarray.Dataset
    error : str
        The variable with the units.
    name : str
        The departure, as a formula.
    departure : callable
        The departure by q and ω of a link.
    apart : float
        Distance between the lines of the methods below, which have the same scale.
    """
    dataset = datasets["celledoni-manifold"]["double-pendulum"]
    methods = [
        x for x in dict.fromkeys(dataset["integrator"].values.tolist()) if x not in CLASSICAL
    ]
    with rc_context(STYLE):
        figure = new_figure(9.0, 6.2)
        axes = figure.subplots(2, 2, sharex=True, sharey="row", height_ratios=(2, 3))
        for link, (upper, lower) in enumerate(axes.T):
            for label, style in CLASSICAL.items():
                values = abs(_departure_of_link_along_time(dataset, label, departure, link))
                upper.plot(dataset["time"][1:], values[1:], lw=1.1, **style)
            for place, label in enumerate(methods):
                values = _departure_of_link_along_time(dataset, label, departure, link)
                lower.axhline(-place, color="0.85", lw=0.6, zorder=0)
                lower.plot(dataset["time"], values / apart - place, color=COLOUR, lw=0.6)
            style_log_error_axis(upper)
            style_plain_axis(upper, f"link {link + 1}")
            lower.spines[["top", "right"]].set_visible(False)
            lower.set_xlabel(axis_label_with_units(dataset["time"], "time t"))
        lower.set_yticks(range(0, -len(methods), -1), methods)
        lower.set(xlim=(0.0, dataset["time"][-1]), ylim=(0.3 - len(methods), 0.7))
        axes[0, 0].set_ylabel(axis_label_with_units(dataset[error], f"|{name}|"))
        axes[1, 0].set_ylabel(
            f"{axis_label_with_units(dataset[error], name)}, lines {apart:g} apart"
        )
        axes[0, 0].legend(frameon=False)
    return figure


def _departure_of_link_along_time(
    dataset: xr.Dataset, label: str, departure: Departure, link: int
) -> np.ndarray:
    """A departure of one link, of the run from the spatial start."""
    run = first_run_to_draw(dataset, label, initial_condition="celledoni_spatial")
    q, omega = np.split(run["state"].values[0], 2, axis=1)
    return departure(q[:, link], omega[:, link])

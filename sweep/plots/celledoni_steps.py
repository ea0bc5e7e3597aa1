"""Counterparts of Figures 8 to 11 of Celledoni et al.: variable against constant steps.

Each takes the results of the packaged studies ``celledoni-…``, a dictionary of study and
experiment, and returns a Figure that belongs to no window.
"""

import numpy as np
from matplotlib import rc_context
from scipy.interpolate import CubicSpline

from sweep.plots.choice import one_run
from sweep.plots.looks import STYLE, error_axis, label_of, new_figure, plain_axis

VARIABLE = {"label": "RKMK5(4), variable", "color": "#D55E00", "marker": "o", "ms": 4}
CONSTANT = {"label": "RKMK5, as many constant", "color": "#0072B2", "marker": "s", "ms": 4}
ODE45 = {"label": "ode45", "color": "#009E73"}
COMPONENTS = (("x", "#0072B2"), ("y", "#D55E00"), ("z", "#009E73"))
LINKS = (("link 1", "#0072B2"), ("link 2", "#D55E00"))
SQUARE = {"ls": "none", "marker": "s", "mfc": "none", "ms": 4.5, "mew": 0.7, "markevery": 3}
CROSS = {"ls": "none", "marker": "x", "ms": 3.0, "mew": 0.8, "markevery": 3}
PEAK = (2.1, 3.0)  # the last part of the motion, in which ω_y has its peak


def _line(look):
    return {key: value for key, value in look.items() if key not in ("marker", "ms")}


def _motion(datasets, label, experiment="double-pendulum"):
    """Times, and the states of a run of the double pendulum, shape (times, 4, 3)."""
    run = one_run(datasets["celledoni-steps"][experiment], label)
    return run["time"].values, run["state"].values[0]


# --- figures 8 and 10 ----------------------------------------------------------------------------


def unit_links(datasets):
    """Figure 8: errors at t = 3 for N links of 1 m, and the step sizes of 20."""
    return _adaptation(datasets["celledoni-steps"], "unit-links", "links of 1 m")


def shared_length(datasets):
    """Figure 10: errors at t = 3 for N links of 5/N m, and the step sizes of 20."""
    return _adaptation(datasets["celledoni-steps"], "shared-length", "links of 5/N m")


def _adaptation(study, name, title):
    dataset = study[name]
    with rc_context(STYLE):
        figure = new_figure(9.0, 3.8)
        left, right = figure.subplots(1, 2)
        for label, look in (("rkmk5", CONSTANT), ("rkmk54", VARIABLE)):
            own = np.flatnonzero(dataset["integrator"].values == label)
            own = own[np.argsort(dataset["count"].values[own])]
            error = dataset["global_error"].values[own, -1]
            left.plot(dataset["count"].values[own], error, lw=1.0, **look)
        left.set(xlabel="number of links N", xticks=np.unique(dataset["count"].values))
        left.set_ylabel("global error at t = 3 s")
        error_axis(left)
        plain_axis(left, title)
        left.legend(frameon=False)
        _step_sizes(right, study[f"{name}-step-sizes"], one_run(dataset, "rkmk5", count=20))
        plain_axis(right, "step sizes of 20 links")
    return figure


def _step_sizes(ax, dataset, constant):
    """Step sizes along time: those of the adaptive methods, and the constant one."""
    for label, look in (("rk45", ODE45), ("rkmk54", VARIABLE)):
        run = one_run(dataset, label)
        ax.plot(run["time"], run["current_step_size"].values[0], lw=0.9, **_line(look))
    ax.axhline(constant["step_size"].values[0], lw=1.4, **_line(CONSTANT))
    ax.set(xlabel=label_of(dataset["time"], "time t"), xlim=(0.0, dataset["time"].values[-1]))
    ax.set(ylabel=label_of(dataset["step_size"], "step size h"))
    ax.set_ylim(0.0, 1.3 * np.nanmax(dataset["current_step_size"].values))  # room for the legend
    ax.legend(frameon=False, loc="upper center", ncols=2)


# --- figures 9 and 11 ----------------------------------------------------------------------------


def components(datasets):
    """Figure 9: q and ω of both links along time."""
    times, states = _motion(datasets, "rkmk5", "motion")
    coarse, constant = _motion(datasets, "rkmk5")
    _, variable = _motion(datasets, "rkmk54")
    with rc_context(STYLE):
        figure = new_figure(9.5, 5.8)
        axes = figure.subplots(2, 2, sharex=True, sharey="row")
        for row, k in np.ndindex(4, 3):
            ax, (name, colour) = axes[row // 2, row % 2], COMPONENTS[k]
            ax.plot(times, states[:, row, k], color=colour, lw=0.9, label=name)
            if states[:, row, k].any():
                ax.plot(coarse, constant[:, row, k], color=colour, **SQUARE)
                ax.plot(coarse, variable[:, row, k], color=colour, **CROSS)
        for ax, title in zip(axes[0], ("link 1", "link 2"), strict=True):
            plain_axis(ax, title)
        for ax in axes[1]:
            plain_axis(ax)
            ax.set(xlabel="time t [s]", xlim=(times[0], times[-1]))
        axes[0, 0].set_ylabel("q")
        axes[1, 0].set_ylabel("ω [rad s-1]")
        _legend(figure, axes[0, 0])
    return figure


def _legend(figure, ax):
    """Below all panels: components by colour, methods by mark."""
    lines = [ax.plot([], [], color=colour, label=name)[0] for name, colour in COMPONENTS]
    grey = {"color": "0.35"}
    lines += ax.plot([], [], label="a fine step", lw=0.9, **grey)
    lines += ax.plot([], [], label=CONSTANT["label"], **grey, **SQUARE)
    lines += ax.plot([], [], label=VARIABLE["label"], **grey, **CROSS)
    figure.legend(handles=lines, loc="outside lower center", ncols=6, frameon=False)


def peak(datasets):
    """Figure 11: step sizes, ω_y, its errors, and how fast it varies."""
    times, states = _motion(datasets, "rkmk5", "motion")
    path = CubicSpline(times, states[:, 2:, 1])
    with rc_context(STYLE):
        figure = new_figure(9.5, 6.4)
        (steps, omega), (errors, speed) = figure.subplots(2, 2)
        study = datasets["celledoni-steps"]
        constant = one_run(study["double-pendulum"], "rkmk5")
        _step_sizes(steps, study["motion"], constant)
        for link, (name, colour) in enumerate(LINKS):
            omega.plot(times, path(times)[:, link], color=colour, label=name, lw=1.1)
            speed.plot(times, path(times, 1)[:, link], color=colour, label=name, lw=1.1)
        for label, look in (("rkmk5", CONSTANT), ("rkmk54", VARIABLE)):
            coarse, found = _motion(datasets, label)
            last = (coarse >= PEAK[0]) & (coarse <= PEAK[1])
            off = np.abs(found[:, 2:, 1] - path(coarse))[last].max(axis=1)
            errors.plot(coarse[last], off, lw=1.0, **look)
        error_axis(errors)
        for ax, title, text in (
            (steps, "(a) step sizes", None),
            (omega, "(b) ω_y", "ω_y [rad s-1]"),
            (errors, "(c) error of ω_y, the larger of the two", "|error| [rad s-1]"),
            (speed, "(d) rate of change of ω_y", "dω_y/dt [rad s-2]"),
        ):
            plain_axis(ax, title)
            ax.set(xlabel="time t [s]", xlim=PEAK if ax is errors else (0.0, 3.0))
            if text:
                ax.set_ylabel(text)
            ax.legend(frameon=False)
    return figure

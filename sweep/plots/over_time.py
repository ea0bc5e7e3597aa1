"""Pictures of a run table along time: energy and unit length.

Each function takes one experiment, or a selection of its runs, and returns a Figure that belongs
to no window. An integrator looks the same in all of them.
"""

import numpy as np
from matplotlib import rc_context

from integrators.errors import InputError
from sweep.analysis.selection import (
    describe,
    energy_of,
    groups,
    scanned_axes,
    take,
    variable,
    without_repeats,
)
from sweep.plots.choice import runs_to_show
from sweep.plots.looks import (
    STYLE,
    error_axis,
    label_of,
    legend,
    looks_of,
    panelled_figure,
)

MOST_POINTS = 250  # along time: more cannot be told apart in print
MARKS = 8  # of a curve


def energy_over_time(dataset, step_size=None):
    """Size of the energy error over time: median over the starts, and their range.

    Of a forced system it is the error of the energy balance.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
        One experiment, or a selection of its runs.
    step_size : float, optional
        Each integrator is shown at its step size nearest to this one; by default the smallest
        of those that most integrators share.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        When there is no energy error, or the selection would fill more than six panels.
    """
    dataset = without_repeats(dataset)
    energy = energy_of(dataset)
    every_step = f"{energy}_error_abs_max" in dataset
    name = f"{energy}_error_abs_max" if every_step else f"{energy}_error"
    size = "|E − E₀|" if energy == "energy" else f"|{energy.replace('_', ' ')} error|"
    text = f"max {size} over steps" if every_step else size
    label = label_of(variable(dataset, name), text)
    return _over_time(dataset, name, label, step_size)


def unit_length_over_time(dataset, step_size=None):
    """Departure from unit length over time: median over the starts, and their range.

    Parameters and result are those of `energy_over_time`.
    """
    dataset = without_repeats(dataset)
    every_step = "unit_length_error_mean" in dataset
    name = "unit_length_error_mean" if every_step else "unit_length_error"
    text = "mean |q·q − 1| over steps" if every_step else "|q·q − 1|"
    label = label_of(variable(dataset, name), text)
    return _over_time(dataset, name, label, step_size)


def _over_time(dataset, name, label, step_size):
    if dataset.sizes["time"] < 3:
        raise InputError("a picture over time needs at least 2 sample intervals.", key="samples")
    looks = looks_of(dataset)
    runs, steps = runs_to_show(dataset, step_size)
    needed = [key for key in (name, "status", "sample_count") if key in dataset]
    shown = dataset[needed].isel(run=runs)
    panels = {}
    for key, members in groups(shown, [*scanned_axes(shown), "integrator"]):
        integrator = key.pop("integrator")
        panels.setdefault(describe(key), {})[integrator] = take(shown, members).load()
    if not any(_positive(cell[name]) for cells in panels.values() for cell in cells.values()):
        raise InputError(f"no run has a {name!r} other than 0 to show.")
    of_panel = {panel: {steps[panel, name] for name in cells} for panel, cells in panels.items()}
    common = set.union(*of_panel.values())
    titles = [
        ", ".join([panel, *said]) if len(said) == 1 < len(common) else panel
        for panel, said in of_panel.items()
    ]
    with rc_context(STYLE):
        figure, axes = panelled_figure(titles, _said(panels, common))
        for ax, (panel, cells) in zip(axes, panels.items(), strict=True):
            for integrator, cell in cells.items():
                own = f", {steps[panel, integrator]}" if len(of_panel[panel]) > 1 else ""
                text = integrator + own
                phase = list(looks).index(integrator) / len(looks)
                _time_curve(ax, cell, name, text, looks[integrator], phase)
            ax.set(xlabel=label_of(dataset["time"], "time t"))
            error_axis(ax)
            _time_axis(ax, dataset["time"].values)
        axes[0].set_ylabel(label)
        legend(figure, axes)
    return figure


def _positive(errors):
    return bool((np.abs(errors.values[:, 1:]) > 0).any())


def _said(panels, steps):
    """What a picture shows, in words: the step size if it is one, and of how many starts."""
    starts = max(cell.sizes["run"] for cells in panels.values() for cell in cells.values())
    words = [*steps] if len(steps) == 1 else []
    return ", ".join(words + ([f"median and range over {starts} starts"] if starts > 1 else []))


def _time_axis(ax, times):
    """From the start to the end; logarithmic where the samples thin out with time.

    Not where they are of a few lengths only, as after an extension by longer intervals.
    """
    widths = np.diff(times)
    lengths = len(np.unique(np.round(widths / widths[0], 6)))
    if lengths > 4 and widths.max() > 3 * widths[0]:
        ax.set_xscale("log")
    else:
        ax.set_xlim(times[0], times[-1])


def _time_curve(ax, cell, name, label, look, phase):
    values = np.abs(cell[name].transpose("run", "time").values)
    times = cell["time"].values
    there = np.isfinite(values).any(axis=0)
    if not there.any():
        return
    times, values = _thinned(times[there], values[:, there])
    stopped = int((cell["status"].values > 0).sum()) if "status" in cell else 0
    if stopped:
        label += f" ({stopped} of {len(values)} stopped)"
    # Marks differ in phase, so that they stay apart where curves coincide.
    apart = max(1, len(times) // MARKS)
    look = look | {"ms": 0.7 * look["ms"], "markevery": (int(phase * apart), apart)}
    ax.plot(times, np.nanmedian(values, axis=0), label=label, **look)
    if len(values) > 1:
        low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
        ax.fill_between(times, low, high, color=look["color"], alpha=0.12, lw=0)


def _thinned(times, values):
    """At most `MOST_POINTS` times; each keeps the largest value of those that it stands for."""
    if len(times) <= MOST_POINTS:
        return times, values
    starts = np.arange(MOST_POINTS) * len(times) // MOST_POINTS
    ends = np.append(starts[1:], len(times)) - 1
    return times[ends], np.fmax.reduceat(values, starts, axis=1)

"""A recommended integrator and its runners-up: errors against CPU time."""

from matplotlib import rc_context
from matplotlib.ticker import LogLocator, NullFormatter

from sweep.plots.style import (
    COLOURS,
    DASHES,
    GREY,
    MARKERS,
    STYLE,
    add_legend,
    new_panelled_figure,
    note_numbers,
    style_log_error_axis,
    units_with_superscripts,
)

MOST_CURVES = 10
SPAN = 1e6  # of the bound, above and below: errors beyond say no more
OPEN = "open: does not count, until an earlier time"


def recommendation_picture(found):
    """Errors of what is recommended, and of the runners-up, against the CPU time of a run.

    A filled mark is a trial until the end. An open one ended earlier: its error is that until then,
    its CPU time that of a run to the end at the same rate.

    Parameters
    ----------
    found : sweep.campaign.recommend.recommendation.Recommendation

    Returns
    -------
    matplotlib.figure.Figure
    """
    names = [own.integrator for own in (found.best, *found.others)][:MOST_CURVES]
    until = f"until t = {found.until:g} {units_with_superscripts(found.time_units)}".rstrip()
    with rc_context(STYLE):
        figure, (ax,) = new_panelled_figure([""], f"{found.system}, {until}")
        for number, name in enumerate(names):
            points = [own for own in found.points if own.integrator == name]
            points = [own for own in points if 1 / SPAN < own.ratio < SPAN]
            _draw_curve(ax, found, name, sorted(points, key=lambda own: own.seconds), number)
        ax.axhline(_scale(found), color=GREY, lw=1.0, ls="--")
        ax.annotate(
            "bound", (0.99, _scale(found)), xycoords=("axes fraction", "data"), ha="right",
            va="bottom", color="0.3",
        )  # fmt: skip
        best = next(
            own
            for own in found.points
            if own.integrator == found.best.integrator and own.size == found.best.size
        )
        ax.plot(
            best.seconds, best.ratio * _scale(found), marker="o", ms=14, mfc="none", mec="0.3",
            ls="none", label="recommended",
        )  # fmt: skip
        ax.set(xscale="log", xlabel="CPU time of a run [s]", ylabel=_error_label(found))
        style_log_error_axis(ax)
        low, high = ax.get_xlim()
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())
        drawn = [own for own in found.points if own.integrator in names]
        add_legend(figure, [ax], OPEN if any(own.until < found.until for own in drawn) else None)
    return figure


def _draw_curve(ax, found, name, points, number):
    """One integrator: a pale line, and a mark for each trial."""
    look = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
    look |= {"ls": DASHES[number // len(COLOURS) % len(DASHES)], "ms": 5.0, "lw": 1.0}
    scale = _scale(found)
    ax.plot([], [], label=name, **look)
    ax.plot(
        [own.seconds for own in points],
        [own.ratio * scale for own in points],
        **(look | {"marker": "", "alpha": 0.45}),
    )
    for own in points:
        face = look["color"] if own.until == found.until else "white"
        ax.plot(own.seconds, own.ratio * scale, **(look | {"ls": "none", "mfc": face}))
    note_numbers(
        ax,
        name,
        ["filled" if own.until == found.until else "open" for own in points],
        [own.seconds for own in points],
        [own.ratio * scale for own in points],
    )


def _scale(found):
    """What a ratio of 1 is: the bound; of several, which have no common units, 1."""
    return found.bounds[0].most if len(found.bounds) == 1 else 1.0


def _error_label(found):
    if len(found.bounds) > 1:
        return "largest error, part of its bound"
    (bound,) = found.bounds
    units = units_with_superscripts(bound.units)
    return f"largest {bound.in_words} [{units}]" if units else f"largest {bound.in_words}"

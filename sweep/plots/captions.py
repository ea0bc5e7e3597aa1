"""What a picture is of: the experiment, its system and setting, in plain words."""

import json
from dataclasses import dataclass

from sweep.analysis.runs.selection import distinct_values_and_codes
from sweep.plots.page_setup import current_page
from sweep.plots.style import (
    LINE,
    Drawing,
    axis_label_with_units,
    units_with_superscripts,
    write_above_figure,
)
from sweep.text import format_number
from systems import ALL_SYSTEMS

MOST_VALUES = 4  # of a vector that are written out


@dataclass(frozen=True)
class Shown:
    """What a picture shows of the runs that it was given.

    Parameters
    ----------
    counts : tuple of int
        Initial conditions that its curves, or their points, are drawn from.
    of : int
        Initial conditions of the runs.
    times : tuple of float
        Where errors of one time are drawn, those times.
    referred : bool
        Whether these are errors against a reference.
    """

    counts: tuple
    of: int
    times: tuple = ()
    referred: bool = False

    @classmethod
    def of_run_table(cls, dataset, counts, **settings):
        """Of a run table, with what `counts` says of it."""
        return cls(
            tuple(counts),
            len(distinct_values_and_codes(dataset["initial_condition"].values)[0]),
            **settings,
        )

    @property
    def starts_in_words(self):
        """How many starts are drawn, in words: ``8 starts``, ``5 – 7 of 8 starts``."""
        low, high = min(self.counts), max(self.counts)
        if self.of == 1:
            return "one start"
        drawn = f"{low:,}" if low == high else f"{low:,} – {high:,}"
        return f"{drawn} starts" if low == self.of else f"{drawn} of {self.of:,} starts"

    def error_times_in_words(self, time):
        """The times of errors in words, empty where that is the end of the runs.

        Parameters
        ----------
        time : xarray.DataArray
            Of the runs.
        """
        times = sorted({float(one) for one in self.times})
        if not times or times == [float(time.values[-1])]:
            return ""
        when = f"t = {times_in_words(times)}"
        text = "errors against the reference at {}, until which it holds"
        if not self.referred:
            text = "errors at {}, until which they are above round-off"
        return text.format(axis_label_with_units(time, when, "{} {}"))


def times_in_words(times):
    """One time, or from when to when: ``2``, ``1.5 – 2``."""
    low, high = min(times), max(times)
    return f"{low:g}" if low == high else f"{low:g} – {high:g}"


def add_figure_heading(figure, dataset, error=None):
    """The figure, with the experiment and its setting said above it.

    Parameters
    ----------
    figure : sweep.plots.style.Drawing, or a plain matplotlib.figure.Figure
    dataset : xarray.Dataset
        What it shows.
    error : str, optional
        The variable whose norm is said.

    Returns
    -------
    matplotlib.figure.Figure
    """
    lines = [
        dataset.attrs.get("title", ""),
        setting_caption(dataset, getattr(figure, "shown", None)),
    ]
    lines += [error_norm_caption(dataset, error)] if error in dataset else []
    lines = list(filter(None, lines))
    if isinstance(figure, Drawing):
        plain = [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]
        figure.caption = [*plain, *figure.caption]
    if not current_page().heading:
        return figure
    said = figure.get_suptitle()
    figure.suptitle("")
    for line in filter(None, [*lines, *said.split("\n")]):
        write_above_figure(figure, line)
    more = figure.get_suptitle().count("\n") - said.count("\n")
    figure.set_figheight(figure.get_figheight() + LINE * (more + (not said)))
    return figure


def setting_caption(dataset, shown):
    """Parameters, duration and starts of a picture: ``mass = 1 kg, …; T = 50 s; 8 starts``.

    Parameters
    ----------
    dataset : xarray.Dataset
        The runs that it was given.
    shown : Shown or None
        What it shows of them, where that is known.

    Returns
    -------
    str
        With the times of errors that are not those of the end.
    """
    words = [
        ", ".join(
            _with_no_break_spaces(f"{k} = {v}")
            for k, v in fixed_parameter_captions(dataset).items()
        )
    ]
    words.append(shown.error_times_in_words(dataset["time"]) if shown and shown.times else "")
    if dataset.sizes.get("time", 0):
        end = f"T = {dataset['time'].values[-1]:g}"
        words.append(_with_no_break_spaces(axis_label_with_units(dataset["time"], end, "{} {}")))
    words.append(_with_no_break_spaces(shown.starts_in_words) if shown else "")
    return "; ".join(filter(None, words))


def _with_no_break_spaces(text):
    """Text that no line breaks."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def error_norm_caption(dataset, error):
    """What an error is the norm of: ``global error: Euclidean norm of …``."""
    name = error.replace("_", " ")
    meaning = dataset[error].attrs.get("long_name", name)
    return "" if meaning == name else f"{name}: {meaning}"


def fixed_parameter_captions(dataset):
    """The parameters of the system that are not scanned, as text with units, by their names.

    Without those that came later and are at their defaults, which is as if there were none.
    """
    stored = json.loads(dataset.attrs.get("system", "{}"))
    known = next((system for system in ALL_SYSTEMS if system.name == stored.get("name")), None)
    units = known.parameter_units if known else {}
    unused = json.loads(json.dumps(known.later_defaults())) if known else {}
    return {
        name: _parameter_value_text(value, units_with_superscripts(units.get(name, "1")))
        for name, value in stored.get("parameters", {}).items()
        if name not in dataset.coords and value is not None and value != unused.get(name)
    }


def _parameter_value_text(value, units=""):
    """A parameter as text: ``1 kg``, ``(1, 2) kg``, ``1 kg each``."""
    if not isinstance(value, list) or not value:
        return f"{format_number(value, 6)} {units}".strip()
    if any(isinstance(item, list) for item in value) or len(set(value)) > MOST_VALUES:
        return f"({len(value)} values)"
    if len(set(value)) == 1:
        return _parameter_value_text(value[0], units) + (" each" if len(value) > 1 else "")
    if len(value) > MOST_VALUES:
        return f"({len(value)} values)"
    return f"({', '.join(format_number(item, 6) for item in value)}) {units}".strip()

"""Headings of pictures: the experiment, its system and its setting."""

import json
from typing import Any

import xarray as xr
from matplotlib.figure import Figure

from sweep.plots import style
from sweep.text import format_number
from systems import ALL_SYSTEMS

MOST_VALUES = 4  # maximum number of components of a vector that are written out


def add_figure_heading(figure: Figure, dataset: xr.Dataset, error: str | None = None) -> Figure:
    """Write the experiment and its setting above a figure.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        If it is a `Drawing`, the lines are added to its caption too.
    dataset : xarray.Dataset
        The runs that the figure shows.
    error : str, optional
        A variable; the heading says how its norm is defined.

    Returns
    -------
    matplotlib.figure.Figure
        The same figure.
    """
    shown = (figure.starts, figure.error_times) if isinstance(figure, style.Drawing) else ()
    norm = error_norm_caption(dataset, error) if error and error in dataset else ""
    lines = [dataset.attrs.get("title", ""), setting_caption(dataset, *shown), norm]
    lines = list(filter(None, lines))
    if isinstance(figure, style.Drawing):
        plain = [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]
        figure.caption = [*plain, *figure.caption]
    if style.current_page().heading:
        style.write_heading(figure, "\n".join([*lines, figure.get_suptitle()]).strip())
    return figure


def setting_caption(dataset: xr.Dataset, starts: str = "", error_times: str = "") -> str:
    """Parameters, duration and starts of a picture: ``mass = 1 kg, …; T = 50 s; 8 starts``.

    Parameters
    ----------
    dataset : xarray.Dataset
        The runs that the picture is drawn from.
    starts, error_times : str, optional
        See `Drawing`.

    Returns
    -------
    str
    """
    words = [
        ", ".join(
            _with_no_break_spaces(f"{k} = {v}")
            for k, v in fixed_parameter_captions(dataset).items()
        )
    ]
    words.append(error_times)
    if dataset.sizes.get("time", 0):
        end = f"{'runs go on until t' if error_times else 'T'} = {dataset['time'].values[-1]:g}"
        words.append(
            _with_no_break_spaces(style.axis_label_with_units(dataset["time"], end, "{} {}"))
        )
    words.append(_with_no_break_spaces(starts))
    return "; ".join(filter(None, words))


def _with_no_break_spaces(text: str) -> str:
    """Replace spaces by no-break spaces, so that the text is not broken into lines."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def error_norm_caption(dataset: xr.Dataset, error: str) -> str:
    """The norm of an error, such as ``global error: Euclidean norm of …``; empty if unknown."""
    name = error.replace("_", " ")
    meaning = dataset[error].attrs.get("long_name", name)
    return "" if meaning == name else f"{name}: {meaning}"


def fixed_parameter_captions(dataset: xr.Dataset) -> dict[str, str]:
    """Text with units for each parameter of the system that is not scanned, by name.

    Parameters that later versions added to the system are left out if they have their defaults,
    with which the system is as it was before.
    """
    stored = json.loads(dataset.attrs.get("system", "{}"))
    known = next((system for system in ALL_SYSTEMS if system.name == stored.get("name")), None)
    units = known.parameter_units if known else {}
    unused: dict[str, Any] = json.loads(json.dumps(known.later_defaults())) if known else {}
    return {
        name: _parameter_value_text(value, style.units_with_superscripts(units.get(name, "1")))
        for name, value in stored.get("parameters", {}).items()
        if name not in dataset.coords and value is not None and value != unused.get(name)
    }


def _parameter_value_text(value: Any, units: str = "") -> str:
    """A parameter as text: ``1 kg``, ``(1, 2) kg``, ``1 kg each``."""
    if not isinstance(value, list) or not value:
        return f"{format_number(value, 6)} {units}".strip()
    plain = not any(isinstance(item, list) for item in value)
    if plain and len(set(value)) == 1:
        return _parameter_value_text(value[0], units) + (" each" if len(value) > 1 else "")
    if not plain or len(value) > MOST_VALUES:
        return f"({len(value)} values)"
    return f"({', '.join(format_number(item, 6) for item in value)}) {units}".strip()

"""What a picture is of: the experiment, its system and setting, in plain words."""

import json

from sweep.analysis.selection import codes
from sweep.plots.looks import LINE, label_of, plain_units, say
from sweep.text import number
from systems import ALL_SYSTEMS

MOST_VALUES = 4  # of a vector that are written out


def headed(figure, dataset, error=None):
    """The figure, with the experiment and its setting said above it.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    dataset : xarray.Dataset
        What it shows.
    error : str, optional
        The variable whose norm is said.

    Returns
    -------
    matplotlib.figure.Figure
    """
    lines = [dataset.attrs.get("title", ""), setting(dataset)]
    lines += [norm(dataset, error)] if error in dataset else []
    said = figure.get_suptitle()
    figure.suptitle("")
    for line in filter(None, [*lines, *said.split("\n")]):
        say(figure, line)
    more = figure.get_suptitle().count("\n") - said.count("\n")
    figure.set_figheight(figure.get_figheight() + LINE * (more + (not said)))
    return figure


def setting(dataset):
    """Parameters, duration and number of starts: ``mass = 1 kg, …; T = 50 s; 8 starts``."""
    words = [", ".join(_together(f"{k} = {v}") for k, v in parameters(dataset).items())]
    if dataset.sizes.get("time", 0):
        end = f"T = {dataset['time'].values[-1]:g}"
        words.append(_together(label_of(dataset["time"], end, "{} {}")))
    starts = len(codes(dataset["initial_condition"].values)[0])
    words.append(_together(f"{starts:,} starts" if starts > 1 else "one start"))
    return "; ".join(filter(None, words))


def _together(text):
    """Text that no line breaks."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def norm(dataset, error):
    """What an error is the norm of: ``global error: Euclidean norm of …``."""
    name = error.replace("_", " ")
    meaning = dataset[error].attrs.get("long_name", name)
    return "" if meaning == name else f"{name}: {meaning}"


def parameters(dataset):
    """The parameters of the system that are not scanned, as text with units, by their names."""
    system = json.loads(dataset.attrs.get("system", "{}"))
    units = next((s.parameter_units for s in ALL_SYSTEMS if s.name == system.get("name")), {})
    values = system.get("parameters", {}).items()
    return {
        name: _value(value, plain_units(units.get(name, "1")))
        for name, value in values
        if name not in dataset.coords and value is not None
    }


def _value(value, units=""):
    """A parameter as text: ``1 kg``, ``(1, 2) kg``, ``1 kg each``."""
    if not isinstance(value, list) or not value:
        return f"{number(value, 6)} {units}".strip()
    if any(isinstance(item, list) for item in value) or len(set(value)) > MOST_VALUES:
        return f"({len(value)} values)"
    if len(set(value)) == 1:
        return _value(value[0], units) + (" each" if len(value) > 1 else "")
    if len(value) > MOST_VALUES:
        return f"({len(value)} values)"
    return f"({', '.join(number(item, 6) for item in value)}) {units}".strip()

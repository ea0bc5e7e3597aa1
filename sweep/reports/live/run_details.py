"""A single run on the page: its settings, its results, a series, and a script to recompute it."""

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from integrators.errors import check_known
from sweep.analysis.runs.selection import integrator_descriptions, scanned_axes
from sweep.analysis.runs.summaries import names_of_time_series
from sweep.plots.style import COLOURS, axis_label_with_units, units_with_superscripts
from sweep.reports.live.json_figures import Axis, Curve, Figure, Panel, cell_as_texts
from sweep.text import format_number

if TYPE_CHECKING:
    import xarray as xr

Fact = tuple[str, str]  # a name and a value, as texts

STOPS = ("stop_step", "stop_time", "stop_residual")
MOST_SAMPLES = 2000  # samples of a series that are drawn
PLUGINS = "# with the plugins of the study: sweep show plugins {store}\n"
SCRIPT = """\
{plugins}import numpy as np

import integrators
import sweep
import systems

run = sweep.open_study({store!r})[{experiment!r}].to_dataset().isel(run={row})
state = run["initial_state"].values
system = systems.get({system!r}{parameters})
method = integrators.get({method!r}{options})
result = integrators.integrate(
    system, method, state[~np.isnan(state).all(axis=1)],
    duration={duration!r}, samples={samples!r}, {step},
)
"""


def describe_run(
    dataset: "xr.Dataset", place: int, quantity: str, store: str, experiment: str
) -> dict[str, Any]:
    """Describe a run for the page.

    Parameters
    ----------
    dataset : xarray.Dataset
        The run table of the experiment.
    place : int
        Position of the run in the table.
    quantity : str
        The series to show; empty for the first error or, without errors, the first series.
    store, experiment : str
        Names of the store and the experiment, for the script.

    Returns
    -------
    dict
        Plain values, for JSON.
    """
    run = dataset.isel(run=place)
    series = names_of_time_series(dataset)
    if quantity:
        check_known("series", quantity, series)
    errors = [name for name in series if name.endswith("_error")]
    quantity = quantity or next(iter([*errors, *series]), "")
    return {
        "row": int(run["run"]),
        "title": f"{run['integrator'].item()}, {run['initial_condition'].item()}",
        "cell": cell_as_texts({name: run[name].item() for name in _axis_names(dataset)}),
        "start": run["initial_condition"].item(),
        "facts": [*_setting_facts(run, dataset), *_result_facts(run)],
        "series": series,
        "quantity": quantity,
        "figure": _figure_of_run(run, quantity).for_json(),
        "script": _script_that_recomputes(run, store, experiment),
    }


def _axis_names(dataset: "xr.Dataset") -> list[str]:
    """Names of the coordinates in which runs may differ, without those of their starts."""
    return ["integrator", "step_size", "tolerance", *scanned_axes(dataset)]


def _setting_facts(run: "xr.Dataset", dataset: "xr.Dataset") -> list[Fact]:
    system = json.loads(run.attrs["system"])
    parameters = system["parameters"] | _scanned_parameters(run)
    facts = [("System", system["name"])]
    facts += [(key, format_number(value)) for key, value in parameters.items()]
    axes = [name for name in _axis_names(dataset) if name not in parameters]
    return [*facts, *_facts_of_variables(run, [*axes, "initial_condition"])]


def _result_facts(run: "xr.Dataset") -> list[Fact]:
    status, code = run["status"].attrs, run["status"].item()
    names = dict(zip(status["flag_values"], status["flag_meanings"].split(), strict=True))
    hidden = ("status", "environment", "sample_count", *(() if code > 0 else STOPS))
    shown = [str(k) for k, v in run.data_vars.items() if v.ndim == 0 and k not in hidden]
    return [("Status", names[code]), *_facts_of_variables(run, shown)]


def _facts_of_variables(run: "xr.Dataset", names: Iterable[str]) -> list[Fact]:
    """Scalar variables of a run as texts with units; NaN is left out."""
    facts = []
    for name in names:
        value = run[name].item()
        if isinstance(value, float) and np.isnan(value):
            continue
        units = units_with_superscripts(run[name].attrs.get("units", "1"))
        text = f"{format_number(value, 6)} {units}".strip()
        words = name.replace("_", " ").replace("cpu", "CPU")
        facts.append((f"{words[:1].upper()}{words[1:]}", text))
    return facts


def _figure_of_run(run: "xr.Dataset", quantity: str) -> Figure:
    if not quantity:
        return Figure("curves", [])
    finite = np.flatnonzero(np.isfinite(run[quantity].values))
    drawn = run.isel(time=finite[:: max(1, run.sizes["time"] // MOST_SAMPLES)])
    times, values, is_error = drawn["time"].values, drawn[quantity].values, "_error" in quantity
    style, name = {"color": COLOURS[0]}, quantity.replace("_", " ")
    curve = Curve(quantity, style, times, np.abs(values) if is_error else values)
    x = Axis(axis_label_with_units(run["time"], "time t"))
    y = Axis(axis_label_with_units(run[quantity], f"|{name}|" if is_error else name), log=is_error)
    return Figure("curves", [Panel("", x, y, [curve])])


def _script_that_recomputes(run: "xr.Dataset", store: str, experiment: str) -> str:
    """A Python script that recomputes the states of a run."""
    fixed = json.loads(run.attrs["fixed"])
    label, size, tolerance = (run[k].item() for k in ("integrator", "step_size", "tolerance"))
    described = integrator_descriptions(run).get(label, {})
    widths = np.diff(run["time"].values)
    even = np.allclose(widths, widths[0])
    return SCRIPT.format(
        plugins=PLUGINS.format(store=store) if fixed["plugins"] else "",
        store=store,
        experiment=experiment,
        row=int(run["run"]),
        system=fixed["system"],
        parameters=_keyword_arguments(fixed["parameters"] | _scanned_parameters(run)),
        method=described.get("name", label),
        options=_keyword_arguments(described.get("options", {})),
        duration=float(run["time"][-1]),
        samples=len(widths) if even else 1,
        step=f"tolerance={tolerance!r}" if np.isnan(size) else f"step_size={size!r}",
    )


def _scanned_parameters(run: "xr.Dataset") -> dict[str, Any]:
    """The values of a run's scanned parameters; labels are replaced by what they stand for."""
    parameters = {}
    for axis in json.loads(run.attrs["experiment"])["scan"]:
        value = run[axis["name"]].item()
        labelled = axis["labels"] is not None
        parameters[axis["name"]] = (
            axis["values"][axis["labels"].index(value)] if labelled else value
        )
    return parameters


def _keyword_arguments(values: Mapping[str, Any]) -> str:
    """Values as further keyword arguments of a call."""
    return "".join(f", {key}={value!r}" for key, value in values.items())

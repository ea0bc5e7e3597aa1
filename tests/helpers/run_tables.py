"""Run tables like those of a store, whose answers are known."""

import itertools
import json

import numpy as np
import xarray as xr

import integrators
from integrators.errors import InputError

STEP_SIZES = (0.1, 0.05, 0.025, 0.02, 0.01)


def run_table(orders, step_sizes=STEP_SIZES, starts=("lee",), times=(0.0, 0.5, 1.0), scan=None):
    """A run table whose `global_error` is ``c h^order t``, with another c for each start.

    Parameters
    ----------
    orders : dict
        The order of each integrator, by label.
    scan : dict, optional
        Values of scanned axes, by name.
    """
    scan = scan or {}
    names = ["integrator", "step_size", *scan, "initial_condition"]
    rows = list(itertools.product(orders, step_sizes, *scan.values(), starts))
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    times = np.asarray(times, dtype=float)
    amplitude = np.array([1 + starts.index(start) for start in columns["initial_condition"]])
    order = np.array([orders[label] for label in columns["integrator"]])
    h = np.array(columns["step_size"])
    error = (amplitude * h**order)[:, None] * times
    runs = len(rows)
    steps = np.rint(times[-1] / h).astype(int)
    labels = ("integrator", "initial_condition")
    return xr.Dataset(
        {
            "global_error": (("run", "time"), error, {"units": "1", "long_name": "global error"}),
            "reference_error": (("run", "time"), np.full_like(error, 1e-16), {"units": "1"}),
            "sample_count": ("run", np.full(runs, len(times))),
            "status": ("run", np.zeros(runs, dtype=np.int8)),
            "steps": ("run", steps),
        },
        coords={
            **{
                name: ("run", np.array(values, dtype=object if name in labels else None))
                for name, values in columns.items()
            },
            "run": np.arange(runs),
            "run_id": ("run", np.array([f"{i:016x}" for i in range(runs)], dtype=object)),
            "tolerance": ("run", np.full(runs, np.nan)),
            "adaptive": ("run", np.zeros(runs, dtype=bool)),
            "ensemble": ("run", np.full(runs, "", dtype=object)),
            "in_study": ("run", np.ones(runs, dtype=bool)),
            "time": ("time", times, {"units": "s"}),
        },
        attrs={
            "integrators": json.dumps(
                {
                    label: {"name": label, "order": order, "family": _family(label)}
                    for label, order in orders.items()
                }
            )
        },
    )


def _family(label):
    """The family of a method that the program knows; None of others."""
    try:
        return integrators.named(label)[0].family
    except InputError:
        return None


def with_series(table, name, values, **statistics):
    """The table with another variable over ``(run, time)``, and statistics behind its name.

    `values` and statistics have the shape ``(time,)`` or ``(run, time)``.
    """
    shape = (table.sizes["run"], table.sizes["time"])
    arrays = {name: values} | {f"{name}_{of}": array for of, array in statistics.items()}
    return table.assign(
        {
            key: (("run", "time"), np.broadcast_to(array, shape).copy(), {"units": "J"})
            for key, array in arrays.items()
        }
    )

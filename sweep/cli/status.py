"""`sweep status`: how far a store is."""

import math

import click

from sweep.cli.common import echo_json, json_option, opened, store_argument


@click.command("status")
@store_argument
@click.option("--failed", is_flag=True, help="List the runs that failed.")
@json_option
def command(store, failed, as_json):
    """Print how many runs of STORE are computed, pending and failed.

    \b
    Example:
      sweep status quickstart.zarr
    """
    from sweep.tables import format_table

    datasets = opened(store, everything=True)
    rows = [_counts(name, dataset) for name, dataset in datasets.items()]
    failures = [row for name, dataset in datasets.items() for row in _failures(name, dataset)]
    if as_json:
        echo_json({"experiments": rows, **({"failures": failures} if failed else {})})
        return
    click.echo(format_table(list(rows[0]), [[_cell(v) for v in row.values()] for row in rows]))
    if failed and failures:
        cells = [[_cell(value) for value in row.values()] for row in failures]
        click.echo("\n" + format_table(list(failures[0]), cells))
    elif failed:
        click.echo("\nNo run failed.")


def _counts(name, dataset):
    from sweep.storage import whole

    wanted = dataset["in_study"].values.astype(bool)
    status = dataset["status"].values
    done = whole(dataset["sample_count"].values, status, dataset.sizes["time"])
    return {
        "experiment": name,
        "runs": int(wanted.sum()),
        "done": int((wanted & done).sum()),
        "pending": int((wanted & ~done).sum()),
        "failed": int((wanted & done & (status > 0)).sum()),
        "left study": int((~wanted).sum()),
        "cpu_seconds": float(dataset["cpu_time"].sum()),
    }


def _failures(name, dataset):
    """A row for each run that failed, with why and where."""
    attributes = dataset["status"].attrs
    meaning = dict(zip(attributes["flag_values"], attributes["flag_meanings"].split(), strict=True))
    bad = dataset.isel(run=((dataset["status"] > 0) & (dataset["sample_count"] > 0)).values)
    for run in range(bad.sizes["run"]):
        row = bad.isel(run=run)
        yield {
            "experiment": name,
            "run": int(row["run"]),
            "integrator": str(row["integrator"].values),
            "step_size": float(row["step_size"]),
            "tolerance": float(row["tolerance"]),
            "initial_condition": str(row["initial_condition"].values),
            "status": meaning[int(row["status"])],
            "stop_step": int(row["stop_step"]),
            "stop_time": float(row["stop_time"]) if "stop_time" in row else math.nan,
            "stop_residual": float(row["stop_residual"]),
        }


def _cell(value):
    from sweep.tables import number

    return f"{value:,}" if isinstance(value, int) else number(value, 4)

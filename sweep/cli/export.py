"""`sweep export`: the results in a file of another format."""

import dataclasses
from typing import Any

import click

import sweep
from sweep.cli.common import (
    echo_json,
    experiment_option,
    json_option,
    open_experiments_for_command,
    store_argument,
    where_option,
)
from sweep.store.store import Store


@click.command("export")
@store_argument
@click.argument("output", type=click.Path())
@experiment_option
@where_option
@click.option(
    "--format",
    type=click.Choice(["netcdf", "csv", "parquet"]),
    help="By default the one that the ending of OUTPUT says: .nc, .csv or .parquet.",
)
@click.option("--series", is_flag=True, help="In tables, a row for each run and sample time.")
@click.option(
    "--column",
    "-c",
    "columns",
    multiple=True,
    metavar="NAME",
    help="In tables, only this column; repeatable.",
)
@click.option("--force", is_flag=True, help="Replace OUTPUT.")
@json_option
def command(
    store: str,
    output: str,
    experiment: tuple[str, ...],
    where: str | None,
    series: bool,
    columns: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Write the results of STORE to OUTPUT, as NetCDF, CSV or Parquet.

    NetCDF holds everything, a group for each experiment. CSV and Parquet are one table with a
    column `experiment` and a row for each run: coordinates, status, the end of each series and the
    largest value of each error, or the columns of --column, as in sweep query. With --series there
    is a row for each sample. Units are in NetCDF's attributes, in the metadata of Parquet's
    columns, and for NAME.csv in NAME.columns.csv.

    \b
    Example:
      sweep export quickstart.zarr quickstart.nc
      sweep export quickstart.zarr rk4.csv --where 'integrator == "rk4"'
      sweep export quickstart.zarr series.parquet -e pendulum --series
    """
    import xarray as xr

    tree = xr.DataTree.from_dict(open_experiments_for_command(store, experiment, where))
    tree.attrs = Store.at(store).attributes
    written = sweep.export(tree, output, series=series, columns=columns or None, **options)
    if as_json:
        echo_json(dataclasses.asdict(written) | {"paths": list(map(str, written.paths))})
        return
    rows = f", {written.rows:,} rows" if series else ""
    names = ", ".join(map(str, written.paths))
    click.echo(f"Wrote {names}: {written.runs:,} runs of {', '.join(written.experiments)}{rows}")
    if written.unfinished:
        parts = ", ".join(f"{count:,} {status}" for status, count in written.unfinished.items())
        click.echo(f"Not complete: {parts}; `status` says which")

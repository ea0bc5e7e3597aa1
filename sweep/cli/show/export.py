"""`sweep export`: write results to a file of another format."""

import dataclasses
from typing import Annotated, Literal, TypedDict, Unpack

import click

import sweep
from sweep.cli.options import ClickSettings, command
from sweep.cli.output import echo_json
from sweep.cli.selected_runs import open_experiments
from sweep.store.store import Store


class Written(TypedDict):
    """Arguments of `sweep.export`."""

    format: Literal["netcdf", "csv", "parquet"] | None
    series: bool
    force: bool


@command
def export(
    store: str,
    output: Annotated[str, ClickSettings(type=click.Path())],
    experiment: tuple[str, ...],
    where: str | None,
    columns: tuple[str, ...],
    as_json: bool,
    **how: Unpack[Written],
) -> None:
    """Write the results of STORE to OUTPUT, as NetCDF, CSV or Parquet.

    NetCDF gets all results, with a group for each experiment. CSV and Parquet get one table with a
    column `experiment` and a row for each run: coordinates, status, the last value of each series
    and the maximum of each error; or the columns that --column names, as in sweep query. With
    --series, the table has a row for each sample. Units are in the attributes of NetCDF variables,
    in the metadata of Parquet columns, or, for NAME.csv, in NAME.columns.csv.

    \b
    Example:
      sweep export quickstart.zarr quickstart.nc
      sweep export quickstart.zarr rk4.csv --where 'integrator == "rk4"'
      sweep export quickstart.zarr series.parquet -e pendulum --series

    Options:
      -c, --column NAME  Write only this column of the table; repeatable.
      --format [netcdf|csv|parquet]  Format of OUTPUT; by default that of its ending, .nc, .csv or
          .parquet.
      --series  Write a row for each run and sample time.
      --force  Replace an existing OUTPUT.
    """
    import xarray as xr

    tree = xr.DataTree.from_dict(open_experiments(store, experiment, where))
    tree.attrs = Store.at(store).attributes
    written = sweep.export(tree, output, columns=columns or None, **how)
    if as_json:
        echo_json(dataclasses.asdict(written) | {"paths": list(map(str, written.paths))})
        return
    rows = f", {written.rows:,} rows" if how["series"] else ""
    names = ", ".join(map(str, written.paths))
    click.echo(f"Wrote {names}: {written.runs:,} runs of {', '.join(written.experiments)}{rows}")
    if written.unfinished:
        parts = ", ".join(f"{count:,} {status}" for status, count in written.unfinished.items())
        click.echo(f"Not complete: {parts}; see the column `status`")

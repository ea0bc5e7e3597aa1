"""`sweep export`: the results in a file of another format."""

import dataclasses
from typing import Annotated, Literal, TypedDict, Unpack

import click

import sweep
from sweep.cli.options import Click, command
from sweep.cli.output import echo_json
from sweep.cli.selection import open_experiments
from sweep.store.store import Store


class Written(TypedDict):
    """How the results are written."""

    format: Literal["netcdf", "csv", "parquet"] | None
    series: bool
    force: bool


@command
def export(
    store: str,
    output: Annotated[str, Click(type=click.Path())],
    experiment: tuple[str, ...],
    where: str | None,
    columns: tuple[str, ...],
    as_json: bool,
    **how: Unpack[Written],
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

    Options:
      -c, --column NAME  In tables, only this column; repeatable.
      --format [netcdf|csv|parquet]  By default the one that the ending of OUTPUT says: .nc, .csv or
          .parquet.
      --series  In tables, a row for each run and sample time.
      --force  Replace OUTPUT.
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
        click.echo(f"Not complete: {parts}; `status` says which")

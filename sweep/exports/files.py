"""Write experiments to files of other programs: NetCDF, CSV and Parquet."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from integrators.errors import InputError, check_known, nearest
from sweep.analysis.runs.selection import run_table
from sweep.store.backends.places import ObjectPlace, require_local_path
from sweep.store.open import open_study
from sweep.store.store import Store

NETCDF, CSV, PARQUET = "netcdf", "csv", "parquet"
FORMATS = (NETCDF, CSV, PARQUET)
ENDINGS = {".nc": NETCDF, ".nc4": NETCDF, ".csv": CSV, ".parquet": PARQUET, ".pq": PARQUET}
PARTIAL = ".partial"
Exportable = xr.DataTree | xr.Dataset | Mapping[str, xr.Dataset] | str | Path | ObjectPlace | Store


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes
    ----------
    paths : tuple of Path
        The file; of CSV also the one with the units of its columns.
    experiments : tuple of str
    runs, rows : int
        Runs, and rows of a table: one a run, or with series one a sample.
    unfinished : dict of str to int
        How many runs of each status but ``complete`` there are among them.
    """

    paths: tuple[Path, ...]
    experiments: tuple[str, ...]
    runs: int
    rows: int
    unfinished: dict[str, int]


def export(
    data: Exportable,
    path: str | Path,
    format: str | None = None,
    *,
    series: bool = False,
    columns: Sequence[str] | None = None,
    force: bool = False,
) -> Exported:
    """Write experiments, or a selection of their runs, to a file.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, dict of str to xarray.Dataset, or path
        A store or its path, the tree of `sweep.open_study`, what `sweep.query` chose of it, or one
        experiment.
    path : str or Path
    format : {"netcdf", "csv", "parquet"}, optional
        By default by the ending of `path`: .nc, .csv or .parquet.
    series : bool, optional
        Of tables: a row for each run and sample, with all series and `state`, not one for each run.
    columns : sequence of str, optional
        Of tables with a row for each run: what it gives, as of `sweep.results`.
    force : bool, optional
        Replace a file that is there.

    Returns
    -------
    Exported

    Raises
    ------
    InputError
        When the file exists or cannot be written, no ending or format fits, or a column is unknown.

    Notes
    -----
    NetCDF holds everything, a group for each experiment; ``xarray.open_datatree`` reads it. Tables
    have the coordinates of the runs and, of a tree, the column ``experiment``. Their units and long
    names are metadata of Parquet's columns, and stand beside ``runs.csv`` in
    ``runs.columns.csv``. A file is there whole, or not at all. Runs are read in batches.

    Examples
    --------
    >>> export(sweep.open_study("quickstart.zarr"), "quickstart.nc")   # doctest: +SKIP
    >>> export(tree["pendulum"], "pendulum.parquet", series=True)      # doctest: +SKIP
    """
    path = require_local_path(path)
    kind = _checked_export_format(path, format, series, columns)
    experiments, attributes = _experiments_to_export(data)
    _check_export_file(path, force)
    paths = (path, csv_units_file(path)) if kind == CSV else (path,)
    if kind == NETCDF:
        from sweep.exports.netcdf import write_netcdf

        rows = _export_whole_or_nothing(
            paths, lambda paths: write_netcdf(paths[0], experiments, attributes)
        )
    else:
        from sweep.exports.tables import Source, write_csv_or_parquet

        source = Source.of_experiments(experiments, series, columns)
        rows = _export_whole_or_nothing(
            paths, lambda paths: write_csv_or_parquet(paths, source, kind, attributes)
        )
    return Exported(
        paths=paths,
        experiments=tuple(name for name in experiments if name),
        runs=sum(dataset.sizes["run"] for dataset in experiments.values()),
        rows=rows,
        unfinished=_count_unfinished_exported_runs(experiments.values()),
    )


def _checked_export_format(
    path: Path, format: str | None, series: bool, columns: Sequence[str] | None
) -> str:
    kind = _export_format_of_path(path, format)
    if kind == NETCDF and (series or columns):
        raise InputError("NetCDF holds everything: series and columns are of CSV and Parquet")
    if series and columns:
        raise InputError("columns choose what a run gives: not together with series", key="column")
    return kind


def csv_units_file(path: Path) -> Path:
    """Where the units of a CSV file's columns stand: ``runs.columns.csv`` beside ``runs.csv``."""
    return path.with_name(f"{path.stem}.columns.csv")


def _export_format_of_path(path: Path, format: str | None) -> str:
    if format is not None:
        check_known("format", format, FORMATS, key="format")
        return format
    if path.suffix.lower() not in ENDINGS:
        raise InputError(
            f"{path.name!r} does not say its format: expected an ending of {', '.join(ENDINGS)}, "
            f"or a format.{nearest(path.suffix, ENDINGS) if path.suffix else ''}",
            key="format",
        )
    return ENDINGS[path.suffix.lower()]


def _experiments_to_export(data: Exportable) -> tuple[dict[str | None, xr.Dataset], dict[Any, Any]]:
    """The run tables by experiment, under None if there is one without a name; root attributes."""
    if isinstance(data, (str, Path, ObjectPlace, Store)):
        data = open_study(data)
    if isinstance(data, xr.DataTree):
        if data.children:
            tables: dict[str | None, xr.Dataset] = {
                name: run_table(node) for name, node in data.children.items()
            }
            return tables, data.attrs
        return {data.name: run_table(data)}, data.root.attrs
    if isinstance(data, xr.Dataset):
        return {None: run_table(data)}, {}
    return {name: run_table(dataset) for name, dataset in data.items()}, {}


def _check_export_file(path: Path, force: bool) -> None:
    if path.is_dir():
        raise InputError(f"{path} is a directory; expected a file to write", key="output")
    if not path.absolute().parent.is_dir():
        raise InputError(f"there is no directory {path.parent}: make it first", key="output")
    if path.exists() and not force:
        raise InputError(
            f"{path} exists: give another name, or replace it by --force (force=True)",
            key="output",
        )


def _export_whole_or_nothing(paths: Sequence[Path], write: Callable[[list[Path]], int]) -> int:
    """Call ``write(partial paths)`` and give what it wrote its names, or leave nothing."""
    partial = [path.with_name(path.name + PARTIAL) for path in paths]
    try:
        result = write(partial)
        for written, path in reversed(list(zip(partial, paths, strict=True))):
            os.replace(written, path)
    except (PermissionError, FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"{paths[0]} cannot be written: {error.strerror}", key="output") from None
    finally:
        for written in partial:
            written.unlink(missing_ok=True)
    return result


def _count_unfinished_exported_runs(datasets: Iterable[xr.Dataset]) -> dict[str, int]:
    found: dict[str, int] = {}
    for dataset in datasets:
        for status, count in _count_unfinished_by_status(dataset).items():
            found[status] = found.get(status, 0) + count
    return found


def _count_unfinished_by_status(dataset: xr.Dataset) -> dict[str, int]:
    """How many runs of each status but ``complete``; complete ones without all samples are not."""
    if "status" not in dataset:
        return {}
    attributes = dataset["status"].attrs
    meanings = attributes.get("flag_meanings", "").split()
    names = dict(zip(attributes.get("flag_values", ()), meanings, strict=False))
    values, counts = np.unique(dataset["status"].values, return_counts=True)
    return {
        names.get(value, str(value)): count
        for value, count in zip(values.tolist(), counts.tolist(), strict=True)
        if value != 0
    }

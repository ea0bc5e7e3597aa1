"""Write experiments to files for other programs: NetCDF, CSV and Parquet."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from integrators.errors import InputError, check_known, suggest_nearest
from sweep import exports
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
    """The files that an export has written, and their contents.

    Attributes
    ----------
    paths : tuple of Path
        The file; for CSV also the file with the units of its columns.
    experiments : tuple of str
        Names of the experiments.
    runs, rows : int
        Number of runs, and of rows: one for each run or, with series, for each sample.
    unfinished : dict of str to int
        Number of runs of each status other than ``complete``.
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
    data : xarray.DataTree, xarray.Dataset, dict of str to xarray.Dataset, Store, str or Path
        A store or its path, the tree of `sweep.open_study`, a selection of `sweep.query`, or one
        experiment.
    path : str or Path
    format : {"netcdf", "csv", "parquet"}, optional
        By default by the ending of `path`: .nc, .csv or .parquet.
    series : bool, optional
        Write a row for each run and sample, with all series and ``state``, instead of a row for
        each run; only for CSV and Parquet.
    columns : sequence of str, optional
        Columns of a table with a row for each run, as in `sweep.results`; only for CSV and Parquet.
    force : bool, optional
        Replace an existing file.

    Returns
    -------
    Exported

    Raises
    ------
    InputError
        If the file exists or cannot be written, or its format or a column is unknown.

    Notes
    -----
    A NetCDF file holds all variables, in a group for each experiment; ``xarray.open_datatree``
    reads it. Tables have the coordinates of the runs and, for a tree, the column ``experiment``.
    Parquet stores units and long names as metadata of the columns; for ``runs.csv`` they are in the
    file ``runs.columns.csv``. Files are written completely or not at all. Runs are read in batches.

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

    def write(paths: Sequence[Path]) -> int:
        rows: int
        if kind == NETCDF:
            rows = exports.write_netcdf(paths[0], experiments, attributes)
        else:
            rows = exports.write_csv_or_parquet(
                paths, experiments, kind, attributes, series, columns
            )
        return rows

    rows = _write_whole_or_nothing(paths, write)
    return Exported(
        paths=paths,
        experiments=tuple(name for name in experiments if name),
        runs=sum(dataset.sizes["run"] for dataset in experiments.values()),
        rows=rows,
        unfinished=_count_unfinished(experiments.values()),
    )


def _checked_export_format(
    path: Path, format: str | None, series: bool, columns: Sequence[str] | None
) -> str:
    kind = ENDINGS.get(path.suffix.lower(), "") if format is None else format
    if format is not None:
        check_known("format", format, FORMATS, key="format")
    elif not kind:
        raise InputError(
            f"{path.name!r} does not say its format: expected an ending of {', '.join(ENDINGS)}, "
            f"or a format.{suggest_nearest(path.suffix, ENDINGS) if path.suffix else ''}",
            key="format",
        )
    if kind == NETCDF and (series or columns):
        raise InputError("NetCDF holds everything: series and columns are for CSV and Parquet")
    if series and columns:
        raise InputError("columns are for a row per run, not together with series", key="column")
    return kind


def csv_units_file(path: Path) -> Path:
    """The file with the units of columns beside a CSV file: ``runs.columns.csv``."""
    return path.with_name(f"{path.stem}.columns.csv")


def _experiments_to_export(data: Exportable) -> tuple[dict[str | None, xr.Dataset], dict[Any, Any]]:
    """Run tables by experiment (None for one without a name), and the attributes of the root."""
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
            f"{path} exists: give another name, or replace it by `force=True`",
            key="output",
        )


def _write_whole_or_nothing(paths: Sequence[Path], write: Callable[[Sequence[Path]], int]) -> int:
    """Write files under temporary names and rename them; after a failure none is left."""
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


def _count_unfinished(tables: Iterable[xr.Dataset]) -> dict[str, int]:
    """Number of runs of each status other than ``complete``."""
    found: Counter[str] = Counter()
    for status in (table["status"] for table in tables if "status" in table):
        flags = status.attrs.get("flag_values", ()), status.attrs.get("flag_meanings", "").split()
        names = dict(zip(*flags, strict=True))
        for value, count in zip(*np.unique(status.values, return_counts=True), strict=True):
            if value != 0:
                found[names.get(value, str(value))] += int(count)
    return dict(found)

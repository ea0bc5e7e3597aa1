"""CSV and Parquet files with a row for each run, or for each run and sample."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import xarray as xr
from numpy.typing import NDArray

from sweep.analysis.rows import grouped
from sweep.analysis.runs.selection import RUN_COORDINATES
from sweep.analysis.runs.summaries import (
    default_result_columns,
    names_of_time_series,
    parse_result_column,
    result_column_attributes,
    results,
)
from sweep.text import escape_control_characters

BATCH = 2**16  # runs in memory at once
SAMPLES = 2**19  # samples in memory at once, for a row per sample
EXPERIMENT = "experiment"
FIRST = ("integrator", "step_size", "tolerance")
TYPES = {"b": pa.bool_(), "i": pa.int64(), "u": pa.int64(), "f": pa.float64()}

Experiments = Mapping[str | None, xr.Dataset]  # run tables by name; None for one without a name
Batch = dict[str, NDArray[Any]]  # columns by name


def write_csv_or_parquet(
    paths: Sequence[Path],
    experiments: Experiments,
    kind: str,
    attributes: Mapping[str, Any],
    series: bool,
    columns: Sequence[str] | None,
) -> int:
    """Write the run tables of experiments as one table.

    Parameters
    ----------
    paths : list of Path
        The file, and for CSV the file with the units of its columns.
    experiments : dict of (str or None) to xarray.Dataset
        Run tables by name; None for one without a name.
    kind : {"csv", "parquet"}
    attributes : dict
        Attributes of the study, for the metadata of Parquet.
    series : bool
        Whether to write a row for each sample, not for each run.
    columns : sequence of str or None
        Columns of a table with a row for each run, as in `sweep.results`.

    Returns
    -------
    int
        Number of rows.

    Raises
    ------
    InputError
        For an unknown column.
    """
    names = {key: _result_names(runs, series, columns) for key, runs in experiments.items()}
    text = json.dumps(attributes, ensure_ascii=False, default=str)
    schema = pa.schema(_fields(experiments, series, names), metadata={"geosweep": text})
    if kind == "csv":  # may be printed in a terminal
        schema = pa.schema([f.with_name(escape_control_characters(f.name)) for f in schema])
        _write_csv_units_file(paths[1], schema)
        writer = pyarrow.csv.CSVWriter(paths[0], schema)
    else:
        writer = pyarrow.parquet.ParquetWriter(paths[0], schema, compression="zstd")
    total = 0
    with writer:
        for name, runs in experiments.items():
            for values in (_batches_by_sample if series else _batches_by_run)(runs, names[name]):
                rows = len(next(iter(values.values())))
                values |= {} if name is None else {EXPERIMENT: np.full(rows, name, dtype=object)}
                if kind == "csv":
                    values = {
                        escape_control_characters(key): _visible_text(column)
                        for key, column in values.items()
                    }
                arrays = [_arrow_column(values.get(f.name), f.type, rows) for f in schema]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
                total += rows
    return total


# --- columns ---------------------------------------------------------------------------------


def _result_names(runs: xr.Dataset, series: bool, columns: Sequence[str] | None) -> list[str]:
    """Names of the columns besides the coordinates of runs."""
    if series:
        of_rows = [str(name) for name, array in runs.data_vars.items() if _has_rows(array)]
        return [*names_of_time_series(runs), *of_rows]
    chosen = default_result_columns(runs) if columns is None else list(dict.fromkeys(columns))
    for text in chosen:
        parse_result_column(runs, text)
    return chosen


def _has_rows(array: xr.DataArray) -> bool:
    """Whether a variable is over time and the rows of the state."""
    return {"time", "row"} <= set(array.dims)


class Column(NamedTuple):
    """A column of an experiment: its name, Arrow type, units and long name."""

    experiment: str | None
    name: str
    dtype: Any
    units: str
    long_name: str


def _fields(
    experiments: Experiments, series: bool, names: Mapping[str | None, Sequence[str]]
) -> list[Any]:
    """The Arrow fields of the columns of all experiments, with units and long names."""
    columns = [
        Column(experiment, name, dtype, units, attributes.get("long_name", ""))
        for experiment, runs in experiments.items()
        for name, dtype, attributes in _described_columns(runs, series, names[experiment])
        for units in ["" if dtype == pa.string() else attributes.get("units", "1")]
    ]
    blank = {"units": "", "long_name": ""}
    fields = [] if None in experiments else [pa.field(EXPERIMENT, pa.string(), metadata=blank)]
    for name, same in grouped(columns, lambda column: column.name).items():
        types = {column.dtype for column in same}
        mixed = pa.string() if pa.string() in types else pa.float64()
        metadata = {key: _text_of_experiments(same, key) for key in blank}
        fields.append(pa.field(name, types.pop() if len(types) == 1 else mixed, metadata=metadata))
    return fields


def _text_of_experiments(columns: Sequence[Column], key: str) -> str:
    """The units or long name of a column, with the experiments' names where they differ."""
    texts = grouped(columns, lambda column: str(getattr(column, key)))
    if len(texts) == 1:
        return next(iter(texts))
    named = {text: ", ".join(str(one.experiment) for one in of) for text, of in texts.items()}
    return "; ".join(f"{text} ({names})" for text, names in named.items())


def _described_columns(
    runs: xr.Dataset, series: bool, names: Sequence[str]
) -> Iterator[tuple[str, Any, Mapping[Any, Any]]]:
    """Yield name, Arrow type and attributes of each column of an experiment, in order."""
    for name in _coordinates_in_order(runs):
        yield name, _arrow_type(runs[name]), runs[name].attrs
    if series:
        yield "time", pa.float64(), runs["time"].attrs
        for name in names:
            for column in _row_columns(runs, name) if _has_rows(runs[name]) else [name]:
                yield column, pa.float64(), runs[name].attrs
        return
    for text in names:
        if text not in runs.coords:
            one = parse_result_column(runs, text)
            dtype = pa.float64() if one.of else _arrow_type(runs[text])
            yield text, dtype, result_column_attributes(runs, one)


def _arrow_type(array: xr.DataArray) -> Any:
    return pa.string() if array.name == "status" else TYPES.get(array.dtype.kind, pa.string())


def _coordinates_in_order(runs: xr.Dataset) -> list[str]:
    """Names of the coordinates of runs, first those that a study sets."""
    names = [str(name) for name, array in runs.coords.items() if array.dims == ("run",)]
    scanned = [name for name in names if name not in RUN_COORDINATES]
    order = dict.fromkeys([*FIRST, *scanned, "initial_condition", *names])
    return [name for name in order if name in names and name != "run"]  # "run": row in the store


def _row_columns(runs: xr.Dataset, name: str) -> list[str]:
    rows, components = runs["row"].values.tolist(), runs["component"].values.tolist()
    return [f"{name}_{row}_{component}" for row in rows for component in components]


# --- values ----------------------------------------------------------------------------------


def _batches_by_run(runs: xr.Dataset, names: Sequence[str]) -> Iterator[Batch]:
    for start in range(0, runs.sizes["run"], BATCH):
        batch = runs.isel(run=slice(start, start + BATCH))
        table = results(batch, names)
        given = (name for name in names if name in table.data_vars)
        yield {name: _values(table[name]) for name in (*_coordinates_in_order(runs), *given)}


def _batches_by_sample(runs: xr.Dataset, names: Sequence[str]) -> Iterator[Batch]:
    """Yield a row for each sample of each run; pending runs have none."""
    times = runs["time"].values
    step = max(1, SAMPLES // len(times))
    for start in range(0, runs.sizes["run"], step):
        batch = runs.isel(run=slice(start, start + step))
        counts = batch["sample_count"].values if "sample_count" in batch else len(times)
        there = np.arange(len(times)) < np.reshape(counts, (-1, 1))
        there = np.broadcast_to(there, (batch.sizes["run"], len(times)))
        run, sample = np.nonzero(there)
        columns = {name: _values(batch[name])[run] for name in _coordinates_in_order(batch)}
        columns["time"] = times[sample]
        for name in names:
            array = batch[name].transpose("run", "time", ...).values[there]
            if _has_rows(batch[name]):
                parts = array.reshape(len(array), -1).T
                columns |= dict(zip(_row_columns(batch, name), parts, strict=True))
            else:
                columns[name] = array
        yield columns


def _values(array: xr.DataArray) -> NDArray[Any]:
    """The values of a variable; for ``status``, their names."""
    if array.name != "status" or "flag_meanings" not in array.attrs:
        return array.values
    names = dict(zip(array.attrs["flag_values"], array.attrs["flag_meanings"].split(), strict=True))
    distinct, place = np.unique(array.values, return_inverse=True)
    return np.array([names[value] for value in distinct.tolist()], dtype=object)[place]


def _visible_text(column: NDArray[Any]) -> NDArray[Any]:
    """A column in which control characters of labels are replaced by escapes."""
    if column.dtype.kind not in "OU":
        return column
    distinct, place = np.unique(column, return_inverse=True)
    visible = [escape_control_characters(label) for label in distinct.tolist()]
    return np.array(visible, dtype=object)[place]


def _arrow_column(values: NDArray[Any] | None, dtype: Any, rows: int) -> Any:
    """An Arrow array; null where values are NaN, or throughout if the column is missing."""
    if values is None:
        return pa.nulls(rows, dtype)
    if dtype == pa.string() and values.dtype.kind != "O":
        values = values.astype(str).astype(object)
    return pa.array(values, type=dtype, from_pandas=True)


def _write_csv_units_file(path: Path, schema: Any) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["column", "units", "long_name"])
        for field in schema:
            texts = (field.metadata[key].decode() for key in (b"units", b"long_name"))
            writer.writerow([field.name, *map(escape_control_characters, texts)])

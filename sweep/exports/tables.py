"""CSV and Parquet files with a row for each run, or for each run and sample."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import xarray as xr

from sweep.analysis.runs.selection import RUN_COORDINATES
from sweep.analysis.runs.summaries import (
    default_result_columns,
    names_of_time_series,
    parse_result_column,
    result_column_attributes,
    results,
)
from sweep.text import escape_control_characters

BATCH = 2**16  # rows in memory at once, one for each run
SAMPLES = 2**19  # rows in memory at once, one for each sample
EXPERIMENT = "experiment"
FIRST = ("integrator", "step_size", "tolerance")


@dataclass(frozen=True)
class Field:
    """A column of the file.

    Attributes
    ----------
    kind : {"str", "bool", "int", "float"}
    units, long_names : dict of (str or None) to str
        By experiment; None for one without a name.
    """

    kind: str
    units: dict[str | None, str]
    long_names: dict[str | None, str]


Piece = tuple[int, dict[str, np.ndarray]]  # rows, and columns by name


@dataclass(frozen=True)
class Source:
    """Run tables to write as one table, and its columns.

    Parameters
    ----------
    experiments : dict of (str or None) to xarray.Dataset
        By name; None for one without a name.
    series : bool
        Whether there is a row for each sample.
    columns : dict of (str or None) to list of str
        Columns of each experiment: as of `summaries.results`, or names of series.
    fields : dict of str to Field
        By the name of the column, in order.
    """

    experiments: Mapping[str | None, xr.Dataset]
    series: bool
    columns: dict[str | None, list[str]]
    fields: dict[str, Field]

    @classmethod
    def of_experiments(
        cls,
        experiments: Mapping[str | None, xr.Dataset],
        series: bool,
        columns: Sequence[str] | None,
    ) -> "Source":
        """A source with the columns of all experiments; `InputError` for an unknown column."""
        asked = {
            name: _columns_of_sample_export(dataset)
            if series
            else _chosen_run_columns(dataset, columns)
            for name, dataset in experiments.items()
        }
        fields = {} if None in experiments else {EXPERIMENT: Field("str", {}, {})}
        for name, dataset in experiments.items():
            for key, kind, attributes in _describe_export_columns(dataset, series, asked[name]):
                old = fields.get(key, Field(kind, {}, {}))
                units = old.units | {name: "" if kind == "str" else attributes.get("units", "1")}
                texts = old.long_names | {name: attributes.get("long_name", "")}
                fields[key] = Field(_common_column_kind(old.kind, kind), units, texts)
        return cls(experiments, series, asked, fields)

    def column_batches(self) -> Iterator[Piece]:
        """Yield the table in pieces: the number of rows, and arrays by column."""
        for name, dataset in self.experiments.items():
            pieces = _export_pieces_by_sample if self.series else _export_pieces_by_run
            for rows, values in pieces(dataset, self.columns[name]):
                if name is not None:
                    values[EXPERIMENT] = np.full(rows, name, dtype=object)
                yield rows, values


def _chosen_run_columns(dataset: xr.Dataset, columns: Sequence[str] | None) -> list[str]:
    chosen = default_result_columns(dataset) if columns is None else list(dict.fromkeys(columns))
    for text in chosen:
        parse_result_column(dataset, text)
    return chosen


def _columns_of_sample_export(dataset: xr.Dataset) -> list[str]:
    of_rows = [str(name) for name, array in dataset.data_vars.items() if _has_rows(array)]
    return [*names_of_time_series(dataset), *of_rows]


def _has_rows(array: xr.DataArray) -> bool:
    """Whether a variable over time has a vector for each row of the state."""
    return {"time", "row"} <= set(array.dims)


def _common_column_kind(one: str, other: str) -> str:
    kinds = {one, other}
    if len(kinds) == 1:
        return one
    return "str" if "str" in kinds else "float"


def _column_kind(array: xr.DataArray) -> str:
    if array.name == "status" or array.dtype.kind in "OTU":
        return "str"
    return {"b": "bool", "i": "int", "u": "int"}.get(array.dtype.kind, "float")


def _describe_export_columns(
    dataset: xr.Dataset, series: bool, columns: Sequence[str]
) -> Iterator[tuple[str, str, Mapping[Any, Any]]]:
    """Name, kind and attributes of each column of an experiment, in order."""
    for name in _run_coordinates_in_order(dataset):
        yield name, _column_kind(dataset[name]), dataset[name].attrs
    if series:
        yield "time", "float", dataset["time"].attrs
        for name in columns:
            for key in _row_column_names(dataset, name) if _has_rows(dataset[name]) else [name]:
                yield key, "float", dataset[name].attrs
        return
    for text in columns:
        if text not in dataset.coords:
            one = parse_result_column(dataset, text)
            kind = "float" if one.of else _column_kind(dataset[text])
            yield text, kind, result_column_attributes(dataset, one)


def _run_coordinates_in_order(dataset: xr.Dataset) -> list[str]:
    """Names of the coordinates of runs, those first that a study sets."""
    names = [str(name) for name, array in dataset.coords.items() if array.dims == ("run",)]
    scanned = [name for name in names if name not in RUN_COORDINATES]
    order = dict.fromkeys([*FIRST, *scanned, "initial_condition", *names])
    return [name for name in order if name in names and name != "run"]  # its position in the store


def _row_column_names(dataset: xr.Dataset, name: str) -> list[str]:
    rows, components = dataset["row"].values.tolist(), dataset["component"].values.tolist()
    return [f"{name}_{row}_{component}" for row in rows for component in components]


def _export_pieces_by_run(dataset: xr.Dataset, columns: Sequence[str]) -> Iterator[Piece]:
    for start in range(0, dataset.sizes["run"], BATCH):
        piece = dataset.isel(run=slice(start, start + BATCH))
        table = results(piece, columns)
        names = [
            *_run_coordinates_in_order(dataset),
            *(name for name in columns if name in table.data_vars),
        ]
        yield piece.sizes["run"], {name: _exported_values(table[name]) for name in names}


def _export_pieces_by_sample(dataset: xr.Dataset, columns: Sequence[str]) -> Iterator[Piece]:
    """Yield a row for each sample of each run; pending runs have none."""
    times = dataset["time"].values
    step = max(1, SAMPLES // len(times))
    for start in range(0, dataset.sizes["run"], step):
        piece = dataset.isel(run=slice(start, start + step))
        runs = piece.sizes["run"]
        counts = piece["sample_count"].values if "sample_count" in piece else len(times)
        there = np.arange(len(times)) < np.reshape(counts, (-1, 1))
        there = np.broadcast_to(there, (runs, len(times)))
        run, sample = np.nonzero(there)
        values = {
            name: _exported_values(piece[name])[run] for name in _run_coordinates_in_order(piece)
        }
        values["time"] = times[sample]
        for name in columns:
            array = piece[name].transpose("run", "time", ...).values[there]
            if _has_rows(piece[name]):
                parts = array.reshape(len(array), -1).T
                values |= dict(zip(_row_column_names(dataset, name), parts, strict=True))
            else:
                values[name] = array
        yield len(run), values


def _exported_values(array: xr.DataArray) -> np.ndarray:
    """The values of a variable; of ``status`` the names."""
    if array.name != "status" or "flag_meanings" not in array.attrs:
        return array.values
    names = array.attrs["flag_meanings"].split()
    of = dict(zip(array.attrs["flag_values"], names, strict=False))
    distinct, place = np.unique(array.values, return_inverse=True)
    return np.array([of.get(v, str(v)) for v in distinct.tolist()], dtype=object)[place]


def write_csv_or_parquet(
    paths: Sequence[Path], source: Source, kind: str, attributes: Mapping[str, Any]
) -> int:
    """Write a `Source` to a file.

    Parameters
    ----------
    paths : list of Path
        The file, and for CSV the file with the units of its columns.
    source : Source
    kind : {"csv", "parquet"}
    attributes : dict
        Attributes of the study, for the metadata of Parquet.

    Returns
    -------
    int
        Number of rows.
    """
    types = {"str": pa.string(), "bool": pa.bool_(), "int": pa.int64(), "float": pa.float64()}
    schema = pa.schema(
        [
            pa.field(
                escape_control_characters(name) if kind == "csv" else name,
                types[f.kind],
                metadata=_parquet_field_metadata(f),
            )
            for name, f in source.fields.items()
        ],
        metadata={"geosweep": json.dumps(attributes, ensure_ascii=False, default=str)},
    )
    if kind == "csv":
        _write_csv_units_file(paths[1], source.fields)
        writer = pyarrow.csv.CSVWriter(paths[0], schema)
    else:
        writer = pyarrow.parquet.ParquetWriter(paths[0], schema, compression="zstd")
    total = 0
    with writer:
        for rows, values in source.column_batches():
            if kind == "csv":  # text, which others print
                values = {
                    escape_control_characters(name): _visible_text(column)
                    for name, column in values.items()
                }
            arrays = [_arrow_column(values.get(f.name), f.type, rows) for f in schema]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
            total += rows
    return total


def _visible_text(column: np.ndarray) -> np.ndarray:
    """A column; if it is one of labels, with their control characters as escapes."""
    if column.dtype.kind not in "OU":
        return column
    labels = column.tolist()
    visible = {label: escape_control_characters(label) for label in {*labels}}
    return np.array([visible[label] for label in labels], dtype=object)


def _arrow_column(values: np.ndarray | None, dtype: Any, rows: int) -> Any:
    """An Arrow array, null where values are NaN or the column is missing."""
    if values is None:
        return pa.nulls(rows, dtype)
    if dtype == pa.string() and values.dtype.kind != "O":
        values = values.astype(str).astype(object)
    return pa.array(values, type=dtype, from_pandas=True)


def _parquet_field_metadata(field: Field) -> dict[str, str]:
    return {
        "units": column_metadata_text(field.units),
        "long_name": column_metadata_text(field.long_names),
    }


def column_metadata_text(by_experiment: Mapping[str | None, str]) -> str:
    """A text that is the same for all experiments, or each text with its experiments."""
    texts: dict[str, list[str]] = {}
    for name, text in by_experiment.items():
        texts.setdefault(text, []).append(str(name))
    if len(texts) <= 1:
        return "".join(texts)
    return "; ".join(f"{text} ({', '.join(names)})" for text, names in texts.items())


def _write_csv_units_file(path: Path, fields: Mapping[str, Field]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["column", "units", "long_name"])
        for name, field in fields.items():
            units, long_names = map(column_metadata_text, (field.units, field.long_names))
            writer.writerow(map(escape_control_characters, (name, units, long_names)))

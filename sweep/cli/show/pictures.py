"""Pictures of experiments, and the files that they are written to.

This module does not import Matplotlib before a picture is drawn.
"""

import functools
import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sweep
from integrators.errors import InputError
from sweep.cli.output import writing
from sweep.cli.selected_runs import open_experiments
from sweep.store.store import Store
from sweep.text import escape_control_characters

if TYPE_CHECKING:
    import xarray as xr

    from sweep.plugins.plots import PlotKind

PICTURES = (".pdf", ".svg", ".png", ".eps", ".jpg", ".tif", ".webp")  # endings of their files


def draw_pictures(
    datasets: "Mapping[str, xr.Dataset]",
    kinds: "Mapping[PlotKind, Mapping[str, Any]]",
    where: str | None = None,
) -> Iterator[tuple[str, str, Any]]:
    """Draw pictures of each kind for each experiment.

    Parameters
    ----------
    datasets : dict of str to xarray.Dataset
        Run tables by experiment.
    kinds : dict of PlotKind to dict
        Kinds of pictures, with their options.
    where : str, optional
        An expression that the drawn runs satisfy, as in `sweep.query`.

    Yields
    ------
    tuple of (str, str, matplotlib.figure.Figure or InputError)
        The experiment, the kind, and the picture or the reason why it cannot be drawn. The kind is
        empty if no run of the experiment is selected.
    """
    for name, dataset in datasets.items():
        try:
            runs = dataset if where is None else sweep.query(dataset, where)
        except InputError as error:
            yield name, "", error
            continue
        for kind, options in kinds.items():
            try:
                yield name, kind.name, sweep.plots.picture(kind, runs, **options)
            except InputError as error:
                yield name, kind.name, error


def write_picture(dataset: "xr.Dataset", kind: str, path: Path) -> str:
    """Draw a picture and write it to a file; return why it cannot be drawn, or an empty text."""
    try:
        figure = sweep.plots.picture(kind, dataset)
    except InputError as error:
        return str(error)
    save_picture(figure, path)
    return ""


def write_picture_of_store(store: str, name: str, kind: str, path: Path) -> str:
    """Do the same for an experiment of a store, in a process that draws several of its pictures."""
    return write_picture(experiments_to_draw(store)[name], kind, path)


@functools.cache
def experiments_to_draw(store: str) -> "dict[str, xr.Dataset]":
    """The experiments of a store, opened once in this process; Matplotlib is imported too."""
    importlib.import_module("sweep.plots.kinds")
    return open_whole_experiments(store)


def open_whole_experiments(store: str | Store) -> "dict[str, xr.Dataset]":
    """All experiments of a store, read at once where they are small, not piece by piece."""
    opened = open_experiments(store)
    return {name: sweep.analysis.load_if_small(runs) for name, runs in opened.items()}


def save_picture(figure: Any, path: Path) -> Path:
    """Write a picture to a file, and create its directory.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    path : Path

    Returns
    -------
    Path

    Raises
    ------
    InputError
        If the file or its directory cannot be written.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep.plots.save(figure, path)
    return path


def picture_file(directory: Path, name: str, kind: str, ending: str = "png") -> Path:
    """Path of the picture of an experiment, of one kind, in a directory."""
    return directory / f"{escape_control_characters(name).replace(' ', '-')}-{kind}.{ending}"

"""Pictures of experiments, and the files that they are written to."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sweep
from integrators.errors import InputError
from sweep.cli.output import writing
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
    """Draw each experiment in each kind of picture, with the options of that kind.

    Parameters
    ----------
    datasets : dict of str to xarray.Dataset
        By experiment.
    kinds : dict of PlotKind to dict
    where : str, optional
        Only the runs for which this expression holds.

    Yields
    ------
    tuple of (str, str, matplotlib.figure.Figure or InputError)
        The experiment, the kind, and the picture or what is missing for it; no kind where no run
        is selected.
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


def save_picture(figure: Any, path: Path, mark: str = "") -> Path:
    """Write a picture to a file, whose directory is made; `InputError` where that cannot be."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep.plots.save(figure, path, mark)
    return path


def picture_file(directory: Path, name: str, kind: str, ending: str = "png") -> Path:
    """The file of a picture in a directory."""
    return directory / f"{escape_control_characters(name).replace(' ', '-')}-{kind}.{ending}"

"""What `sweep plot` draws of an experiment, by name."""

from pathlib import Path

from integrators.errors import InputError
from sweep.analysis.selection import without_repeats
from sweep.plots.drifts import drift_over_time
from sweep.plots.looks import save
from sweep.plots.orders import convergence
from sweep.plots.over_time import energy_over_time, unit_length_over_time
from sweep.plots.spheres import sphere

# What can be drawn, by the name that the command line and file names give it.
KINDS = {
    "convergence": convergence,
    "energy": energy_over_time,
    "unit-length": unit_length_over_time,
    "drift": drift_over_time,
    "sphere": sphere,
}


def save_all(dataset, directory, stem, ending=".png", kinds=None, skipped=None):
    """Write every picture that the dataset has the results for.

    Parameters
    ----------
    dataset : xarray.Dataset or xarray.DataTree
    directory : path
        Made where it is missing.
    stem : str
        Files are named ``stem-convergence.png`` and so on.
    ending : str, optional
        Format, e.g. ``.pdf``.
    kinds : dict of str to callable, optional
        What to draw, by the name of the kind; all of `KINDS` unless given.
    skipped : callable, optional
        Called with the name of each kind that the dataset lacks the results for, and why.

    Returns
    -------
    list of Path
    """
    dataset = without_repeats(dataset)
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    for kind, draw in (KINDS if kinds is None else kinds).items():
        try:
            figure = draw(dataset)
        except InputError as error:
            if skipped is not None:
                skipped(kind, error)
            continue
        paths.append(save(figure, directory / f"{stem}-{kind}{ending}"))
    return paths

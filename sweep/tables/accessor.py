"""``ds.geosweep``: answers and pictures of an xarray dataset or tree, as its attributes.

To import this module registers them; `sweep` has that done as soon as xarray is imported.
"""

from collections.abc import Callable
from typing import Any

import xarray as xr

from sweep import plots
from sweep.tables import answers


@xr.register_dataset_accessor("geosweep")
@xr.register_datatree_accessor("geosweep")
class Accessor:
    """Answers of an experiment, a selection of its runs, or a whole study.

    Each method is a function of `sweep` and takes its further arguments: ``order()`` is
    `sweep.order_table`. Other names are those of variables: ``ds.geosweep.count`` where
    ``ds.count`` is a method of xarray.

    Parameters
    ----------
    data : xarray.Dataset or xarray.DataTree

    Examples
    --------
    >>> pendulum = sweep.open_study("quickstart.zarr")["pendulum"].to_dataset()   # doctest: +SKIP
    >>> pendulum.geosweep.order()                                                 # doctest: +SKIP
    >>> pendulum.geosweep.query("step_size < 0.02").geosweep.plot.energy()        # doctest: +SKIP
    """

    def __init__(self, data: xr.Dataset | xr.DataTree) -> None:
        self._data = data

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._data:
            raise AttributeError(f"no answer and no variable is called {name!r}")
        return self._data[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *map(str, [*self._data, *self._data.coords])]

    @property
    def plot(self) -> "Plots":
        """Pictures: ``plot.order()``, ``plot.energy()``, or ``plot("energy")``."""
        return Plots(self._data)


def _method(name: str) -> Callable[..., Any]:
    """A method that calls the function of `sweep` with a name."""

    def method(self: Accessor, *arguments: Any, **options: Any) -> Any:
        return getattr(answers, name)(self._data, *arguments, **options)

    method.__name__, method.__doc__ = name, f"`sweep.{name}` of these runs."
    return method


for _name in (*answers.PYTHON, *answers.FOR_ONE_EXPERIMENT):
    setattr(Accessor, _name.removesuffix("_table"), _method(_name))


class Plots:
    """Pictures of an experiment, or of one of a study: a method for each of `sweep.plots.KINDS`.

    Parameters
    ----------
    data : xarray.Dataset or xarray.DataTree
    """

    def __init__(self, data: xr.Dataset | xr.DataTree) -> None:
        self._data = data

    def __call__(self, kind: str, **options: Any) -> Any:
        """A picture of a kind, a `matplotlib.figure.Figure`: `sweep.plots.picture`."""
        return plots.picture(kind, self._data, **options)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if (kind := name.replace("_", "-")) not in plots.KINDS:
            raise AttributeError(f"no kind of picture is called {name!r}; {', '.join(dir(self))}")
        return lambda **options: self(kind, **options)

    def __dir__(self) -> list[str]:
        return [kind.replace("-", "_") for kind in plots.KINDS]

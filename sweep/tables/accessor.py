"""``ds.geosweep``: answers and pictures as attributes of an xarray dataset or tree.

Importing this module registers the accessor; `sweep` does so as soon as xarray is imported.
"""

import inspect
from collections.abc import Callable
from typing import Any

import xarray as xr

from sweep import plots
from sweep.tables import answers

# Below the documentation of a method of `Plots`.
COMMON = """    Every kind also takes `experiment`, `width`, `font` and `heading`, as in
    ``width="3.4in", font="serif", heading=False``: see `sweep.plots.picture`.
"""
NAMES = (*answers.PYTHON, *answers.FOR_ONE_EXPERIMENT)


@xr.register_dataset_accessor("geosweep")
@xr.register_datatree_accessor("geosweep")
class Accessor:
    """Answers of an experiment, a selection of its runs, or a whole study.

    Each method calls a function of `sweep` with this data and further arguments; ``order()``, for
    example, calls `sweep.order_table`. Other names refer to variables, which helps where xarray has
    a method of the same name: ``ds.geosweep.count`` instead of ``ds.count``.

    Parameters
    ----------
    data : xarray.Dataset or xarray.DataTree
        One experiment or some of its runs, or the tree of a study.

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

    def __repr__(self) -> str:
        names = (name.removesuffix("_table") for name in NAMES)
        return f"Answers: {', '.join(f'{name}()' for name in names)}\n{self.plot}"

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *map(str, [*self._data, *self._data.coords])]

    @property
    def plot(self) -> "Plots":
        """Pictures: ``plot.order()``, ``plot.energy()``, or ``plot("energy")``."""
        return Plots(self._data)


def _method(name: str) -> Callable[..., Any]:
    """A method that calls the function `name` of `sweep`."""

    def method(self: Accessor, *arguments: Any, **options: Any) -> Any:
        return getattr(answers, name)(self._data, *arguments, **options)

    method.__name__, method.__doc__ = name, f"Call `sweep.{name}` for these runs."
    return method


for _name in NAMES:
    setattr(Accessor, _name.removesuffix("_table"), _method(_name))


class Plots:
    """Pictures of an experiment, with a method for each kind in `sweep.plots.KINDS`.

    Parameters
    ----------
    data : xarray.Dataset or xarray.DataTree
        For the tree of a study, the methods take the name of the experiment.
    """

    def __init__(self, data: xr.Dataset | xr.DataTree) -> None:
        self._data = data

    def __call__(self, kind: str = "", **options: Any) -> Any:
        """Draw a picture of a kind as a `matplotlib.figure.Figure`, see `sweep.plots.picture`."""
        return plots.picture(kind, self._data, **options)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if (kind := name.replace("_", "-")) not in plots.KINDS:
            raise AttributeError(f"no kind of picture is called {name!r}; {', '.join(dir(self))}")
        of = plots.KINDS[kind].draw

        def draw(**options: Any) -> Any:
            return self(kind, **options)

        # The options of the kind and those of all kinds, for `help` and editors.
        common = inspect.signature(plots.picture).parameters
        shown = [*inspect.signature(of).parameters.values()][1:]
        shown += [common[each] for each in ("experiment", "width", "font", "heading")]
        only = inspect.Parameter.KEYWORD_ONLY
        options = [each.replace(kind=only) for each in shown]
        draw.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
        draw.__name__, draw.__doc__ = name, f"{of.__doc__}\n{COMMON}"
        return draw

    def __repr__(self) -> str:
        return f"Pictures: {', '.join(f'{name}()' for name in dir(self))}"

    def __dir__(self) -> list[str]:
        return [kind.replace("-", "_") for kind in plots.KINDS]

"""``ds.geosweep``: answers and pictures of an xarray dataset or tree, as its attributes.

To import this module registers them; `sweep` has that done as soon as xarray is imported.
"""

from collections.abc import Callable, Sequence
from typing import Any

import xarray as xr

from sweep import plots
from sweep.analysis.rows import Rows
from sweep.tables import answers


@xr.register_dataset_accessor("geosweep")
@xr.register_datatree_accessor("geosweep")
class Accessor:
    """Answers of an experiment, a selection of its runs, or a whole study.

    Each method is the function of `sweep` with that name, and takes its further arguments. Other
    names are those of variables: ``ds.geosweep.count`` where ``ds.count`` is a method of xarray.

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

    def order(self, *arguments: Any, **options: Any) -> Rows:
        """Measured orders of convergence: `sweep.order_table`."""
        return answers.order_table(self._data, *arguments, **options)

    def tolerance(self, *arguments: Any, **options: Any) -> Rows:
        """Errors of adaptive integrators by tolerance: `sweep.tolerance_table`."""
        return answers.tolerance_table(self._data, *arguments, **options)

    def drift(self, *arguments: Any, **options: Any) -> Rows:
        """Errors and drifts of invariants: `sweep.drift_table`."""
        return answers.drift_table(self._data, *arguments, **options)

    def growth(self, *arguments: Any, **options: Any) -> Rows:
        """Growth of errors over an ensemble: `sweep.growth_table`."""
        return answers.growth_table(self._data, *arguments, **options)

    def arithmetic(self, *arguments: Any, **options: Any) -> Rows:
        """Which part of a drift is rounding: `sweep.arithmetic_table`."""
        return answers.arithmetic_table(self._data, *arguments, **options)

    def structure(self, *arguments: Any, **options: Any) -> Rows:
        """Symplectic defects and reversal errors: `sweep.structure_table`."""
        return answers.structure_table(self._data, *arguments, **options)

    def chaos(self, *arguments: Any, **options: Any) -> Rows:
        """Lyapunov exponents and MEGNO: `sweep.chaos_table`."""
        return answers.chaos_table(self._data, *arguments, **options)

    def work(self, *arguments: Any, **options: Any) -> Rows:
        """Errors beside what they cost: `sweep.work_table`."""
        return answers.work_table(self._data, *arguments, **options)

    def query(self, expression: str, **options: Any) -> xr.Dataset | xr.DataTree:
        """The runs for which an expression holds: `sweep.query`."""
        return answers.query(self._data, expression, **options)

    def grid(self, **options: Any) -> xr.Dataset:
        """The runs along the axes of the study, in place of ``run``: `sweep.grid`."""
        return answers.grid(self._data, **options)

    def results(self, columns: Sequence[str] | None = None, **options: Any) -> xr.Dataset:
        """Results by run, in memory: `sweep.results`."""
        return answers.results(self._data, columns, **options)

    def units(self, **options: Any) -> dict[str, str]:
        """Units by name: `sweep.units`."""
        return answers.units(self._data, **options)

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

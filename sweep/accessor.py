"""``ds.geosweep``: answers and pictures of an xarray dataset or tree, as its attributes.

It is there as soon as `sweep` and xarray are imported, in any order, and importing `sweep` does
not import xarray for it.
"""

import importlib.util
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import sweep

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    import xarray

    from sweep.rows import Rows

NAME = "geosweep"


class Accessor:
    """Answers of an experiment, a selection of its runs, or a whole study.

    Each method is the function of `sweep` with that name, and takes its further arguments.

    Parameters
    ----------
    data : xarray.Dataset or xarray.DataTree

    Examples
    --------
    >>> pendulum = sweep.open_study("quickstart.zarr")["pendulum"].to_dataset()   # doctest: +SKIP
    >>> pendulum.geosweep.order()                                                 # doctest: +SKIP
    >>> pendulum.geosweep.query("step_size < 0.02").geosweep.plot.energy()        # doctest: +SKIP
    """

    def __init__(self, data: "xarray.Dataset | xarray.DataTree") -> None:
        self._data = data

    def order(self, *arguments: Any, **options: Any) -> "Rows":
        """Measured orders of convergence: `sweep.order_table`."""
        return sweep.order_table(self._data, *arguments, **options)

    def tolerance(self, *arguments: Any, **options: Any) -> "Rows":
        """Errors of adaptive integrators by tolerance: `sweep.tolerance_table`."""
        return sweep.tolerance_table(self._data, *arguments, **options)

    def drift(self, *arguments: Any, **options: Any) -> "Rows":
        """Errors and drifts of invariants: `sweep.drift_table`."""
        return sweep.drift_table(self._data, *arguments, **options)

    def growth(self, *arguments: Any, **options: Any) -> "Rows":
        """Growth of errors over an ensemble: `sweep.growth_table`."""
        return sweep.growth_table(self._data, *arguments, **options)

    def arithmetic(self, *arguments: Any, **options: Any) -> "Rows":
        """Which part of a drift is rounding: `sweep.arithmetic_table`."""
        return sweep.arithmetic_table(self._data, *arguments, **options)

    def structure(self, *arguments: Any, **options: Any) -> "Rows":
        """Symplectic defects and reversal errors: `sweep.structure_table`."""
        return sweep.structure_table(self._data, *arguments, **options)

    def chaos(self, *arguments: Any, **options: Any) -> "Rows":
        """Lyapunov exponents and MEGNO: `sweep.chaos_table`."""
        return sweep.chaos_table(self._data, *arguments, **options)

    def work(self, *arguments: Any, **options: Any) -> "Rows":
        """Errors beside what they cost: `sweep.work_table`."""
        return sweep.work_table(self._data, *arguments, **options)

    def query(self, expression: str, **options: Any) -> "xarray.Dataset | xarray.DataTree":
        """The runs for which an expression holds: `sweep.query`."""
        return sweep.query(self._data, expression, **options)

    def grid(self, **options: Any) -> "xarray.Dataset":
        """The runs along the axes of the study, in place of ``run``: `sweep.grid`."""
        return sweep.grid(self._data, **options)

    def results(self, columns: list[str] | None = None, **options: Any) -> "xarray.Dataset":
        """Results by run, in memory: `sweep.results`."""
        return sweep.results(self._data, columns, **options)

    def units(self, **options: Any) -> dict[str, str]:
        """Units by name: `sweep.units`."""
        return sweep.units(self._data, **options)

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

    def __init__(self, data: "xarray.Dataset | xarray.DataTree") -> None:
        self._data = data

    def __call__(self, kind: str, **options: Any) -> Any:
        """A picture of a kind, a `matplotlib.figure.Figure`: `sweep.plots.picture`."""
        return sweep.plots.picture(kind, self._data, **options)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if (kind := name.replace("_", "-")) not in sweep.plots.KINDS:
            raise AttributeError(f"no kind of picture is called {name!r}; {', '.join(dir(self))}")
        return lambda **options: self(kind, **options)

    def __dir__(self) -> list[str]:
        return [kind.replace("-", "_") for kind in sweep.plots.KINDS]


class _AfterXarray:
    """A finder of `sys.meta_path`: registers the accessor when xarray is imported, and is gone."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> "ModuleSpec | None":
        """Called by Python for each import."""
        if name != "xarray":
            return None
        sys.meta_path.remove(self)
        if (spec := importlib.util.find_spec(name)) is not None:
            load = spec.loader.exec_module

            def load_and_register(module: Any) -> None:
                spec.loader.exec_module = load
                load(module)
                _register()

            spec.loader.exec_module = load_and_register
        return spec


def register_accessor() -> None:
    """Register the accessor, or have that done when xarray is imported."""
    if "xarray" in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _AfterXarray())


def _register() -> None:
    import xarray

    xarray.register_dataset_accessor(NAME)(Accessor)
    xarray.register_datatree_accessor(NAME)(Accessor)

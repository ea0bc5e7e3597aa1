"""Stores on the page: opened, with the choices that they offer, and a cache of answers."""

import collections
import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from integrators.errors import InputError, check_known
from sweep.analysis.runs.selection import distinct_values_and_codes, scanned_axes, take_runs
from sweep.errors import Damaged
from sweep.plots.style import curve_styles_of_integrators, units_with_superscripts
from sweep.reports.live.figures import Figure
from sweep.reports.live.progress import ProgressCache
from sweep.reports.live.runs import describe_run
from sweep.reports.live.views import VIEWS, Choice, axes_of_view, quantities_of_view
from sweep.store.open import open_study
from sweep.store.store import Store
from sweep.text import format_number

if TYPE_CHECKING:
    import xarray as xr

Answer = TypeVar("Answer")
Answers = collections.OrderedDict[Hashable, "concurrent.futures.Future[Any]"]

ALL = "all"  # `Choice.starts` for all of them, where views would show some
MOST_RUNS, MOST_VALUES = 20_000, 2_000_000  # in a view, unless all starts are asked for
FEWEST_STARTS = 16  # in a view of some of them
MOST_LISTED = 200  # starts, or values of an axis, to choose from
MOST_BYTES = 400_000_000  # of the series of an experiment, that are kept in memory
UNUSED = ("run_id", "ensemble")  # labels, which take long to read
MOST_ANSWERS = 200  # in the cache
PAUSE_PER_DURATION = 10  # a store is not opened again for so many times as long as it took


class Experiment:
    """An experiment of an opened store.

    Parameters
    ----------
    name : str
    dataset : xarray.Dataset
        Its runs, whose series are read when they are used.

    Attributes
    ----------
    whole : xarray.Dataset
        The runs of the study.
    shown : xarray.Dataset
        Those of a part of the starts, if there are too many to show all without delay.
    styles : dict of str to dict
        The styles of curves by integrator.
    """

    def __init__(self, name: str, dataset: "xr.Dataset") -> None:
        in_study = dataset["in_study"].values.astype(bool)
        dataset = dataset.drop_vars([key for key in UNUSED if key in dataset])
        self.name = name
        self.whole: xr.Dataset = (
            dataset if in_study.all() else take_runs(dataset, np.flatnonzero(in_study))
        )
        self._axes = {
            axis: _Axis.of_coordinate(self.whole[axis])
            for axis in ("integrator", "step_size", "tolerance", *scanned_axes(self.whole))
        }
        self._starts, self._start_codes = distinct_values_and_codes(
            self.whole["initial_condition"].values
        )
        self.starts_shown = len(self._starts)
        self._runs_shown = self._runs_of_some_starts()
        self.shown = (
            self.whole if self._runs_shown is None else self.whole.isel(run=self._runs_shown)
        )
        self.styles = curve_styles_of_integrators(self.shown)

    def _runs_of_some_starts(self) -> NDArray[np.intp] | None:
        """Runs of starts spread evenly over all; None if all can be shown without delay."""
        runs, starts = self.whole.sizes["run"], len(self._starts)
        most = min(MOST_RUNS, MOST_VALUES // self.whole.sizes["time"])
        few = max(FEWEST_STARTS, most * starts // runs)
        if few >= starts:
            return None
        chosen = np.zeros(starts, dtype=bool)
        chosen[np.linspace(0, starts - 1, few).astype(int)] = True
        self.starts_shown = few
        return np.flatnonzero(chosen[self._start_codes])

    def load(self) -> None:
        """Read the shown runs into memory, except states, as far as they fit."""
        room = MOST_BYTES
        for name, variable in self.shown.variables.items():
            if variable.dims[:1] == ("run",) and name != "state":
                room -= variable.nbytes
                if room > 0:
                    variable.load()

    def choices(self) -> dict[str, Any]:
        """The values of all axes, the starts and the views to choose from, for JSON."""
        axes = {name: axis.for_json() for name, axis in self._axes.items()}
        fixed = [axes.pop(name) for name in ("integrator", "step_size", "tolerance")]
        for integrator in fixed[0]["values"]:
            integrator["colour"] = self.styles[integrator["text"]]["color"]
        return {
            "name": self.name,
            "title": self.whole.attrs.get("title", ""),
            "integrators": fixed[0],
            "step_sizes": fixed[1],
            "tolerances": fixed[2],
            "scanned": [{"axis": name, **axis} for name, axis in axes.items()],
            "starts": {
                "count": len(self._starts),
                "shown": self.starts_shown,
                "values": self._starts[:MOST_LISTED].tolist(),
            },
            "axes": axes_of_view(self.shown),
            "views": {name: quantities_of_view(name, self.shown) for name in VIEWS},
        }

    def selected(self, choice: Choice) -> "xr.Dataset":
        """Select the runs of a choice; `InputError` if it names unknown values, or has no runs."""
        if choice.starts == "":
            dataset, runs = self.shown, self._runs_shown
        elif choice.starts == ALL:
            dataset, runs = self.whole, None
        else:
            check_known("start", choice.starts, self._starts.tolist())
            code = self._starts.tolist().index(choice.starts)
            runs = np.flatnonzero(self._start_codes == code)
            dataset = self.whole.isel(run=runs)
        chosen = {
            "integrator": choice.integrators,
            "step_size": choice.step_sizes,
            "tolerance": choice.tolerances,
        }
        for axis, text in choice.scanned:
            chosen[axis] = (*chosen.get(axis, ()), text)
        selected = np.ones(dataset.sizes["run"], dtype=bool)
        for axis, texts in chosen.items():
            check_known("axis", axis, self._axes)
            if texts:
                selected &= self._axes[axis].runs_with(axis, texts, runs)
        if not selected.any():
            raise InputError("no run has all that is chosen: choose more")
        taken: xr.Dataset = (
            dataset if selected.all() else take_runs(dataset, np.flatnonzero(selected))
        )
        return taken

    def figure(self, choice: Choice) -> Figure:
        """The `Figure` of a choice; its remark says if it shows a part of the starts."""
        figure = VIEWS[choice.view].draw(self.selected(choice), choice, self.styles)
        if choice.starts or self._runs_shown is None:
            return figure
        part = f"Of {self.starts_shown:,} of {len(self._starts):,} starts, spread evenly."
        return replace(figure, remark=f"{figure.remark} {part}".strip())

    def place_of_run(self, row: int) -> int:
        """Position of the run of a row of the store's table; `InputError` if there is none."""
        places = np.flatnonzero(self.whole["run"].values == row)
        if not len(places):
            raise InputError(f"{self.name} has no run {row} in its study")
        return int(places[0])


@dataclass(frozen=True, eq=False)
class _Axis:
    """The distinct values of a coordinate along the runs, as texts of an address and as labels.

    Parameters
    ----------
    texts, labels : list of str
        One of each for a value.
    codes : ndarray of int, shape (runs,)
        The place of each run's value among them.
    units : str
    """

    texts: list[str]
    labels: list[str]
    codes: NDArray[np.integer]
    units: str

    @classmethod
    def of_coordinate(cls, coordinate: "xr.DataArray") -> Self:
        distinct, codes = distinct_values_and_codes(coordinate.values)
        texts = [str(value) for value in distinct.tolist()]
        labels = [format_number(value, 4) for value in distinct.tolist()]
        return cls(
            texts, labels, codes, units_with_superscripts(coordinate.attrs.get("units", "1"))
        )

    def for_json(self) -> dict[str, Any]:
        """The values other than NaN, with their shorter labels."""
        values = [
            {"text": text, "label": label}
            for text, label in zip(self.texts, self.labels, strict=True)
            if text != "nan"
        ][:MOST_LISTED]
        return {"units": self.units, "values": values}

    def runs_with(
        self, name: str, texts: Collection[str], runs: NDArray[np.intp] | None
    ) -> NDArray[np.bool_]:
        """Which of some runs, or of all, have one of the values, or NaN for none at all."""
        for text in texts:
            check_known(name.replace("_", " "), text, self.texts)
        is_wanted: NDArray[np.bool_] = np.array([t in texts or t == "nan" for t in self.texts])
        codes = self.codes if runs is None else self.codes[runs]
        return np.asarray(is_wanted[codes])


def _open_experiments(store: Store) -> dict[str, Experiment]:
    """Open the experiments of a store that have runs, by name."""
    experiments = {}
    for name, node in open_study(store).children.items():
        dataset = node.to_dataset()
        if dataset["in_study"].values.any():
            experiments[name] = Experiment(name, dataset)
            experiments[name].load()
    return experiments


class OpenedStore:
    """A store on the page: its progress, its experiments when last opened, a cache of answers.

    Parameters
    ----------
    name : str
        Path or address of the store.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._store = Store.at(name)
        self._store.check()
        self.progress = ProgressCache(self._store)
        self._lock = threading.Lock()
        self._version: str | None = None  # of the experiments
        self._took, self._when = 0.0, 0.0  # seconds to open them, and when that was
        self._experiments: dict[str, Experiment] = {}
        self._answers: Answers = collections.OrderedDict()
        threading.Thread(target=self._open_early, daemon=True).start()

    def _open_early(self) -> None:
        """Open the experiments before the first request."""
        with contextlib.suppress(Exception):  # the first request meets it again
            self.choices()

    def experiments(self) -> dict[str, Experiment]:
        """The experiments by name, opened again if the store has changed, but not at every call."""
        with self._lock:
            version, now = self.progress.version(), time.monotonic()
            if version != self._version and now > self._when + PAUSE_PER_DURATION * self._took:
                try:
                    opened = _open_experiments(self._store)
                except (Damaged, OSError, ValueError, KeyError):  # as while it grows
                    if not self._experiments:
                        raise
                else:
                    self._experiments, self._version = opened, version
                    self._answers = collections.OrderedDict()
                self._when = time.monotonic()
                self._took = self._when - now
            return self._experiments

    def experiment(self, name: str) -> Experiment:
        """The experiment of a name, or `InputError`."""
        experiments = self.experiments()
        check_known("experiment", name, experiments)
        return experiments[name]

    def choices(self) -> dict[str, Any]:
        """The choices of each experiment, and the `ProgressCache.version` that they are of."""
        experiments, version = self.experiments().values(), self._version
        choices = self._cached_answer(
            "choices", lambda: [experiment.choices() for experiment in experiments]
        )
        return {"experiments": choices, "version": version}

    def figure(self, choice: Choice) -> Figure:
        """The `Figure` of a choice."""
        experiment = self.experiment(choice.experiment)
        check_known("view", choice.view, VIEWS)
        return self._cached_answer(choice, lambda: experiment.figure(choice))

    def run(self, name: str, row: int, quantity: str) -> dict[str, Any]:
        """Describe a run of an experiment, see `describe_run`."""
        experiment = self.experiment(name)
        return describe_run(
            experiment.whole, experiment.place_of_run(row), quantity, self.name, name
        )

    def row_of_cell(self, choice: Choice) -> int:
        """The row of the first run that a choice selects."""
        return int(self.experiment(choice.experiment).selected(choice)["run"].values[0])

    def _cached_answer(self, key: Hashable, make: Callable[[], Answer]) -> Answer:
        """The answer of a key, made by the first thread that asks, for which others wait."""
        with self._lock:
            answers, future = self._answers, self._answers.get(key)
            is_first = future is None
            if future is None:
                future = answers[key] = concurrent.futures.Future()
            else:
                answers.move_to_end(key)
            while len(answers) > MOST_ANSWERS:
                answers.popitem(last=False)
        if is_first:
            try:
                future.set_result(make())
            except BaseException as error:
                future.set_exception(error)
                with self._lock, contextlib.suppress(KeyError):
                    del answers[key]
        answer: Answer = future.result()
        return answer

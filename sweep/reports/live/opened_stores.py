"""Stores on the live page: open them, list the choices that they offer, and cache figures."""

import contextlib
import functools
import re
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from integrators.errors import InputError, check_known, short_repr
from sweep.analysis.runs.selection import distinct_values_and_codes, scanned_axes, take_runs
from sweep.errors import Damaged
from sweep.plots.style import curve_styles_of_integrators, units_with_superscripts
from sweep.reports.live.json_figures import Figure
from sweep.reports.live.progress_cache import ProgressCache
from sweep.reports.live.run_details import describe_run
from sweep.reports.live.views import VIEWS, Choice, axes_of_view, draw_view, last_of_choice
from sweep.store.open import open_study
from sweep.store.store import Store
from sweep.text import format_number

if TYPE_CHECKING:
    import xarray as xr

ALL = "all"  # choice of all starts instead of a part
MOST_RUNS, MOST_VALUES = 20_000, 2_000_000  # in a view, unless all starts are chosen
FEWEST_STARTS = 16  # in a view of a part of the starts
MOST_LISTED = 200  # starts, or values of an axis, that are offered as choices
MOST_BYTES = 400_000_000  # series of an experiment that are kept in memory
UNUSED = ("run_id", "ensemble")  # labels, which take long to read
MOST_FIGURES = 100  # cached figures of an experiment
PAUSE_PER_DURATION = 10  # minimum pause before a store is reopened, per duration of the opening
# Axes of every experiment, by their names in an address.
AXES = {name: name for name in ("integrator", "step_size", "tolerance")}
AXES |= {"starts": "initial_condition"}
TITLES = {"integrator": "Integrators", "step_size": "Step sizes", "tolerance": "Tolerances"}
OF_VIEWS = ("view", "quantity", "against")


class Experiment:
    """An experiment of an opened store.

    Parameters
    ----------
    name : str
    dataset : xarray.Dataset
        Its run table, whose series are read when they are used.

    Attributes
    ----------
    whole : xarray.Dataset
        All runs of the study.
    shown : xarray.Dataset
        The runs of a part of the starts, if there are too many to show all of them quickly.
    styles : dict of str to dict
        The styles of curves, by integrator.
    """

    def __init__(self, name: str, dataset: "xr.Dataset") -> None:
        dataset = dataset.drop_vars(UNUSED, errors="ignore")
        self.name = name
        self.whole: xr.Dataset = take_runs(dataset, np.flatnonzero(dataset["in_study"]))
        self._axes = AXES | {f"axis:{axis}": axis for axis in scanned_axes(self.whole)}
        self._values = {
            name: distinct_values_and_codes(self.whole[axis].values)
            for name, axis in self._axes.items()
        }
        self._starts = self._values["starts"][0].tolist()
        self._runs_shown, self._starts_shown = self._runs_of_some_starts()
        self.shown: xr.Dataset = take_runs(self.whole, self._runs_shown)
        self.styles = curve_styles_of_integrators(self.shown)
        self._draw_once = functools.lru_cache(MOST_FIGURES)(self._draw)

    def _runs_of_some_starts(self) -> tuple[NDArray[np.intp], int]:
        """Runs of evenly spread starts that can be shown quickly, and the number of these starts.

        They are all runs if there are few enough.
        """
        runs, starts = self.whole.sizes["run"], len(self._starts)
        most = min(MOST_RUNS, MOST_VALUES // self.whole.sizes["time"])
        few = min(starts, max(FEWEST_STARTS, most * starts // runs))
        chosen = np.linspace(0, starts - 1, few).astype(int)
        return np.flatnonzero(np.isin(self._values["starts"][1], chosen)), few

    def load(self) -> None:
        """Read the series of the shown runs into memory as far as they fit, except states."""
        room = MOST_BYTES
        for name, variable in self.shown.variables.items():
            if variable.dims[:1] == ("run",) and name != "state":
                room -= variable.nbytes
                if room > 0:
                    variable.load()

    @functools.cached_property
    def choices(self) -> dict[str, Any]:
        """The axis values, starts and views to choose from, for JSON."""
        return {
            "name": self.name,
            "title": self.whole.attrs["title"],
            "boxes": [self._values_for_json(name) for name in self._axes if name != "starts"],
            "starts": {
                "count": len(self._starts),
                "shown": self._starts_shown,
                "values": self._starts[:MOST_LISTED],
            },
            "axes": axes_of_view(self.shown),
            "views": {name: view.quantities(self.shown) for name, view in VIEWS.items()},
        }

    def _values_for_json(self, name: str) -> dict[str, Any]:
        """The values of an axis without NaN, as texts in addresses and as labels."""
        axis, values = self._axes[name], self._values[name][0].tolist()
        return {
            "name": name,
            "title": TITLES.get(name, axis),
            "units": units_with_superscripts(self.whole[axis].attrs.get("units", "1")),
            "values": [
                {
                    "text": str(value),
                    "label": format_number(value, 4),
                    "colour": self.styles.get(value, {}).get("color"),
                }
                for value in values
                if value == value
            ][:MOST_LISTED],
        }

    def selected(self, choice: Choice) -> "xr.Dataset":
        """Select the runs of a choice; raises `InputError` for unknown values, or without runs."""
        start = last_of_choice(choice, "starts")
        dataset, runs = (self.whole, slice(None)) if start else (self.shown, self._runs_shown)
        is_selected = np.ones(dataset.sizes["run"], dtype=bool)
        for name, texts in choice.items():
            if name.startswith("axis:"):
                check_known("axis", name.removeprefix("axis:"), list(self._axes.values()))
            if name in self._axes and not (name == "starts" and start in ("", ALL)):
                is_selected &= self._has_one_of(name, texts)[runs]
        if not is_selected.any():
            raise InputError("no run matches all choices: choose more values")
        taken: xr.Dataset = take_runs(dataset, np.flatnonzero(is_selected))
        return taken

    def _has_one_of(self, name: str, texts: Collection[str]) -> NDArray[np.bool_]:
        """Which runs have one of some values of an axis; NaN matches all runs without a value."""
        values, codes = self._values[name]
        known = list(map(str, values.tolist()))
        for text in texts:
            check_known(
                "start" if name == "starts" else self._axes[name].replace("_", " "), text, known
            )
        return np.array([text in texts or text == "nan" for text in known])[codes]

    def figure(self, choice: Choice) -> Figure:
        """The `Figure` of a choice, whose remark says if only a part of the starts is shown."""
        return self._draw_once(
            tuple(
                (name, tuple(texts))
                for name, texts in choice.items()
                if name in OF_VIEWS or name in AXES or name.startswith("axis:")
            )
        )

    def _draw(self, items: tuple[tuple[str, tuple[str, ...]], ...]) -> Figure:
        choice = dict(items)
        self.load()  # only now: while a study runs, most viewers look at its progress
        figure = draw_view(self.selected(choice), choice, self.styles)
        if last_of_choice(choice, "starts") or self._starts_shown == len(self._starts):
            return figure
        part = f"Of {self._starts_shown:,} of {len(self._starts):,} starts, spread evenly."
        return replace(figure, remark=f"{figure.remark} {part}".strip())


class OpenedStore:
    """A store on the live page: its progress, and its experiments when last opened.

    Parameters
    ----------
    name : str
        Path or address of the store.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._store = Store.at(name)
        self._store.check()
        self._progress = ProgressCache(self._store)
        self._lock = threading.Lock()
        self._version: str | None = None  # version of the progress when the experiments were opened
        self._took, self._when = 0.0, 0.0  # duration and time of the last opening
        self._experiments: dict[str, Experiment] = {}
        threading.Thread(target=self._open_early, daemon=True).start()

    def _open_early(self) -> None:
        """Open and read the experiments before the first request."""
        with contextlib.suppress(Exception):  # the first request reports the error
            for experiment in self.experiments().values():
                experiment.load()

    def experiments(self) -> dict[str, Experiment]:
        """The experiments by name, reopened if the store has changed, but not too often."""
        with self._lock:
            version, now = self._progress.look_up()["version"], time.monotonic()
            if version != self._version and now > self._when + PAUSE_PER_DURATION * self._took:
                try:
                    self._experiments = {
                        name: Experiment(name, node.to_dataset())
                        for name, node in open_study(self._store).children.items()
                        if node["in_study"].any()
                    }
                    self._version = version
                except (Damaged, OSError, ValueError, KeyError):  # may happen while the store grows
                    if not self._experiments:
                        raise
                self._when = time.monotonic()
                self._took = self._when - now
            return self._experiments

    def _experiment(self, choice: Choice) -> Experiment:
        experiments, name = self.experiments(), last_of_choice(choice, "experiment")
        check_known("experiment", name, experiments)
        return experiments[name]

    # --- responses to requests --------------------------------------------------------------------

    def progress(self, choice: Choice) -> dict[str, Any]:
        """The progress, see `ProgressCache.look_up`."""
        return self._progress.look_up()

    def choices(self, choice: Choice) -> dict[str, Any]:
        """The choices of each experiment, and the version of the progress to which they belong."""
        experiments = self.experiments().values()
        return {"experiments": [one.choices for one in experiments], "version": self._version}

    def figure(self, choice: Choice) -> dict[str, Any]:
        """The figure of a choice."""
        return self._experiment(choice).figure(choice).for_json()

    def data(self, choice: Choice) -> str:
        """The numbers of a figure as CSV."""
        return self._experiment(choice).figure(choice).as_csv()

    def run(self, choice: Choice) -> dict[str, Any]:
        """Describe the run in a row of the store, or the first run of a choice."""
        experiment, row = self._experiment(choice), last_of_choice(choice, "run")
        if row and not re.fullmatch(r"\d{1,18}", row):
            raise InputError(f"run = {short_repr(row)}; expected the row of a run")
        runs = experiment.whole["run"].values
        number = int(row) if row else experiment.selected(choice)["run"].values[0]
        if not (places := np.flatnonzero(runs == number)).size:
            raise InputError(f"{experiment.name} has no run {number} in its study")
        series = last_of_choice(choice, "series")
        return describe_run(experiment.whole, int(places[0]), series, self.name, experiment.name)


ANSWERS: dict[str, Callable[[OpenedStore, Choice], dict[str, Any] | str]] = {
    "progress": OpenedStore.progress,
    "choices": OpenedStore.choices,
    "figure": OpenedStore.figure,
    "data": OpenedStore.data,
    "run": OpenedStore.run,
}

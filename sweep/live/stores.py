"""Stores as the page has them: opened, with what there is to choose, and answers that are kept."""

import collections
import concurrent.futures
import contextlib
import threading
import time
from dataclasses import dataclass, replace

import numpy as np

from integrators.errors import InputError, check_known
from sweep.analysis.runs.selection import distinct_values_and_codes, scanned_axes, take_runs
from sweep.live.progress import Watched
from sweep.live.runs import describe_run
from sweep.live.views import VIEWS, quantities_of_view
from sweep.plots.style import curve_styles_of_integrators, units_with_superscripts
from sweep.store.open import open_study
from sweep.store.store import Store
from sweep.text import format_number

ALL = "all"  # starts, of an experiment with so many that views are of some
MOST_RUNS, MOST_VALUES = 20_000, 2_000_000  # that views are made of, unless all are asked for
FEWEST_STARTS = 16
MOST_LISTED = 200  # starts, or values of an axis, to choose from
MOST_BYTES = 400_000_000  # of the series of an experiment that are kept in memory
UNUSED = ("run_id", "ensemble")  # labels, which take long to read
MOST_ANSWERS = 200  # that are kept
AGAIN = 10  # times as long as it took is a store not opened again


@dataclass(frozen=True)
class Choice:
    """What a view is of; its texts are those of an address.

    Attributes
    ----------
    experiment, view : str
    integrators, step_sizes, tolerances : tuple of str
        All where there is none.
    scanned : tuple of (str, str)
        Axes and values.
    starts : str
        The label of one, `ALL`, or nothing for as many as are answered at once.
    quantity, against : str
        What the view shows; nothing for what it shows unless told.
    """

    experiment: str
    view: str = "orders"
    integrators: tuple = ()
    step_sizes: tuple = ()
    tolerances: tuple = ()
    scanned: tuple = ()
    starts: str = ""
    quantity: str = ""
    against: str = ""


class Experiment:
    """An experiment of an opened store.

    Parameters
    ----------
    name : str
    dataset : xarray.Dataset
        Its runs, whose series are read when they are used.
    """

    def __init__(self, name, dataset):
        asked = dataset["in_study"].values.astype(bool)
        dataset = dataset.drop_vars([key for key in UNUSED if key in dataset])
        self.name = name
        self.whole = dataset if asked.all() else take_runs(dataset, np.flatnonzero(asked))
        self._axes = {
            axis: _Axis.of_coordinate(self.whole[axis])
            for axis in ("integrator", "step_size", "tolerance", *scanned_axes(self.whole))
        }
        self._starts, self._start = distinct_values_and_codes(
            self.whole["initial_condition"].values
        )
        self._some = self._runs_of_some_starts()
        self.some = self.whole if self._some is None else self.whole.isel(run=self._some)
        self.looks = curve_styles_of_integrators(self.some)

    def _runs_of_some_starts(self):
        """Runs of starts spread evenly over all, if all are too many to be answered at once."""
        runs, starts = self.whole.sizes["run"], len(self._starts)
        most = min(MOST_RUNS, MOST_VALUES // self.whole.sizes["time"])
        few = max(FEWEST_STARTS, most * starts // runs)
        if few >= starts:
            return None
        chosen = np.zeros(starts, dtype=bool)
        chosen[np.linspace(0, starts - 1, few).astype(int)] = True
        self.starts_shown = few
        return np.flatnonzero(chosen[self._start])

    def load(self):
        """Read what views are made of into memory, as far as it fits."""
        room = MOST_BYTES
        for name, variable in self.some.variables.items():
            if variable.dims[:1] == ("run",) and name != "state":
                room -= variable.nbytes
                if room > 0:
                    variable.load()

    def choices(self):
        """What there is to choose, as JSON."""
        axes = {name: axis.for_json() for name, axis in self._axes.items()}
        fixed = [axes.pop(name) for name in ("integrator", "step_size", "tolerance")]
        for one in fixed[0]["values"]:
            one["colour"] = self.looks[one["text"]]["color"]
        return {
            "name": self.name,
            "title": self.whole.attrs.get("title", ""),
            "integrators": fixed[0],
            "step_sizes": fixed[1],
            "tolerances": fixed[2],
            "scanned": [{"axis": name, **axis} for name, axis in axes.items()],
            "starts": {
                "count": len(self._starts),
                "shown": len(self._starts) if self._some is None else self.starts_shown,
                "values": self._starts[:MOST_LISTED].tolist(),
            },
            "views": {name: quantities_of_view(name, self.some) for name in VIEWS},
        }

    def selected(self, choice):
        """The runs that a choice selects; `InputError` if it names what there is not, or none."""
        dataset, rows = self.whole, None
        if choice.starts in ("", ALL):
            dataset = self.whole if choice.starts else self.some
            rows = None if choice.starts else self._some
        else:
            check_known("start", choice.starts, self._starts.tolist())
            place = self._starts.tolist().index(choice.starts)
            rows = np.flatnonzero(self._start == place)
            dataset = self.whole.isel(run=rows)
        asked = {"integrator": choice.integrators, "step_size": choice.step_sizes}
        asked |= {"tolerance": choice.tolerances}
        for axis, text in choice.scanned:
            asked[axis] = (*asked.get(axis, ()), text)
        holds = np.ones(dataset.sizes["run"], dtype=bool)
        for axis, texts in asked.items():
            check_known("axis", axis, self._axes)
            if texts:
                holds &= self._axes[axis].holds(axis, texts, rows)
        if not holds.any():
            raise InputError("no run has all that is chosen: choose more")
        return dataset if holds.all() else take_runs(dataset, np.flatnonzero(holds))

    def figure(self, choice):
        """The `Figure` of a choice, which says of how many starts it is."""
        figure = VIEWS[choice.view].draw(self.selected(choice), choice, self)
        if choice.starts or self._some is None:
            return figure
        of = f"Of {self.starts_shown:,} of {len(self._starts):,} starts, spread evenly."
        return replace(figure, remark=f"{figure.remark} {of}".strip())

    def place_of_run(self, row):
        """Where the run of a row of the store's table is; `InputError` if there is none."""
        places = np.flatnonzero(self.whole["run"].values == row)
        if not len(places):
            raise InputError(f"{self.name} has no run {row} in its study")
        return int(places[0])


@dataclass(frozen=True, eq=False)
class _Axis:
    """The values of a coordinate along the runs, and their texts in an address."""

    texts: list
    labels: list
    code: np.ndarray
    units: str

    @classmethod
    def of_coordinate(cls, coordinate):
        distinct, code = distinct_values_and_codes(coordinate.values)
        distinct = distinct.tolist()
        texts, labels = map(str, distinct), (format_number(value, 4) for value in distinct)
        units = units_with_superscripts(coordinate.attrs.get("units", "1"))
        return cls(list(texts), list(labels), code, units)

    def for_json(self):
        """The values with their labels, which are not as long."""
        values = [
            {"text": text, "label": label}
            for text, label in zip(self.texts, self.labels, strict=True)
            if text != "nan"
        ][:MOST_LISTED]
        return {"units": self.units, "values": values}

    def holds(self, name, texts, rows):
        """Which runs have one of the values; none has a say where it has no value at all."""
        for text in texts:
            check_known(name.replace("_", " "), text, self.texts)
        wanted = np.array([text in texts or text == "nan" for text in self.texts])
        return wanted[self.code if rows is None else self.code[rows]]


def _open_experiments(store):
    """The experiments of a store that have runs, by name."""
    found = {}
    for name, node in open_study(store).children.items():
        dataset = node.to_dataset()
        if dataset["in_study"].values.any():
            found[name] = Experiment(name, dataset)
            found[name].load()
    return found


class OpenedStore:
    """A store that the page shows: its progress, its experiments as of some moment, its answers.

    Parameters
    ----------
    name : str
        As it was given.
    """

    def __init__(self, name):
        self.name = name
        self._store = Store.at(name)
        self._store.check()
        self.watched = Watched(self._store)
        self._lock = threading.Lock()
        self._version, self._took, self._when = None, 0.0, 0.0
        self._experiments, self._answers = {}, collections.OrderedDict()
        threading.Thread(target=self._prepare, daemon=True).start()

    def _prepare(self):
        """Open it before somebody asks."""
        with contextlib.suppress(Exception):  # who asks is told
            self.choices()

    def experiments(self):
        """The experiments by name: opened again if the store has grown, but not all the time."""
        with self._lock:
            version, now = self.watched.version(), time.monotonic()
            if version != self._version and now > self._when + AGAIN * self._took:
                try:
                    found = _open_experiments(self._store)
                except (InputError, OSError, ValueError, KeyError):  # as while it grows
                    if not self._experiments:
                        raise
                else:
                    self._experiments, self._version = found, version
                    self._answers = collections.OrderedDict()
                self._when = time.monotonic()
                self._took = self._when - now
            return self._experiments

    def experiment(self, name):
        """One of them; `InputError` if there is none of that name."""
        found = self.experiments()
        check_known("experiment", name, found)
        return found[name]

    def choices(self):
        """What there is to choose in each experiment, as JSON, and of which `Watched.version`."""
        found, version = self.experiments().values(), self._version
        made = self._kept("choices", lambda: [experiment.choices() for experiment in found])
        return {"experiments": made, "version": version}

    def figure(self, choice):
        """The `Figure` of a choice."""
        experiment = self.experiment(choice.experiment)
        check_known("view", choice.view, VIEWS)
        return self._kept(choice, lambda: experiment.figure(choice))

    def run(self, name, row, quantity):
        """What there is to say of one run, as JSON."""
        experiment = self.experiment(name)
        return describe_run(
            experiment.whole, experiment.place_of_run(row), quantity, self.name, name
        )

    def row_of_cell(self, choice):
        """The row of the first run that a choice selects."""
        return int(self.experiment(choice.experiment).selected(choice)["run"].values[0])

    def _kept(self, key, make):
        """What was made for a key, made once however many ask for it at a time."""
        with self._lock:
            answers, known = self._answers, self._answers.get(key)
            if known is None:
                known = answers[key] = concurrent.futures.Future()
                mine = True
            else:
                answers.move_to_end(key)
                mine = False
            while len(answers) > MOST_ANSWERS:
                answers.popitem(last=False)
        if mine:
            try:
                known.set_result(make())
            except BaseException as error:
                known.set_exception(error)
                with self._lock, contextlib.suppress(KeyError):
                    del answers[key]
        return known.result()

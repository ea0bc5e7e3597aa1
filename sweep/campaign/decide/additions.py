"""Runs that would decide an open verdict, what they cost, and the study texts that add them."""

from __future__ import annotations

import dataclasses
import math
import re
import tomllib
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from integrators.errors import InputError
from integrators.precision import ARITHMETIC
from sweep.campaign.decide.questions import DRIFT, ORDER, WORK
from sweep.campaign.extend import exact_multiple_of_unit
from sweep.store.studies import ADDED, stored_studies, study_with_longer_duration
from sweep.study.experiment import TOLERANCE_KEYS
from sweep.study.initial_conditions.base import GivenStart, NamedStart, RandomStarts
from sweep.study.initial_conditions.families import FamilyStarts
from sweep.study.system_defaults import label_of_entry
from sweep.study.time_axis import ExtendedTimeAxis, LogarithmicTimeAxis
from sweep.study.toml.writer import write_study_text

if TYPE_CHECKING:
    import xarray

    from sweep.analysis.reasons import Remedy
    from sweep.campaign.decide.questions import Estimate, Question
    from sweep.plugins.registry import Library
    from sweep.store.store import Store
    from sweep.study import Study
    from sweep.study.experiment import IntegratorEntry, ResolvedExperiment
    from sweep.study.initial_conditions.base import Start

CellKey = tuple[str, str | None, float]  # experiment, integrator or None, size
GroupKey = tuple[str, int | None, int | None]  # experiment, members, repeats

NOTE = f"{ADDED}what was open after look "  # first words of such a text, before the look's number
SPREAD = 0.05  # radians: of an ensemble about a start that stands alone
SEED = 1
MOST_CENTRES = 4  # of several starts, about which ensembles are drawn
HARDLY = 1.5  # least factor in the number of independent starts that is worth an addition
MORE = 2.0  # factor by which starts, or durations, exceed what would just suffice
LONGEST = 10  # times the duration that the study asks for, at most
FINER = 3  # number of step sizes from the present one to one that a remedy names
BEYOND = 2.0  # factor by which step sizes are tried beyond the largest and the smallest
STEP_KEYS = ("step_size", *TOLERANCE_KEYS)
EQUAL = 1e-9  # relative difference up to which two step sizes are the same

# Remedies that no addition to the same store can be, and what could be done instead.
BEYOND_STORE = {
    "reference": "the store keeps its reference: a new store with a smaller tolerance of it",
    "reference end": "the store keeps its reference: a new store in which it ends earlier",
    "samples": "the store keeps its sample times: a new store with more samples",
    "samples a decade": "the store keeps its sample times: a new store with more samples",
    "likeness": "starts further apart are another ensemble: a larger spread",
    "state": "the store keeps what is recorded: a new store with it",
    "global error": "the store keeps what is recorded: a new store with it",
}


@dataclasses.dataclass(frozen=True)
class Cell:
    """Runs to add of one integrator at one step size or tolerance; or references.

    Attributes
    ----------
    experiment : str
    integrator : str or None
        None for references of new starts.
    size : float
        Step size, in the system's unit of time, or tolerance; 0 of references.
    runs : int
        Number of runs.
    seconds : float
        Expected CPU seconds of each, from those of earlier runs.
    """

    experiment: str
    integrator: str | None
    size: float
    runs: int
    seconds: float

    @property
    def key(self) -> CellKey:
        """Key by which equal cells of several additions are recognised."""
        return self.experiment, self.integrator, self.size


@dataclasses.dataclass(frozen=True)
class Addition:
    """Runs that would decide an open verdict.

    Attributes
    ----------
    question : Question
    words : str
        Description of what is added, such as ``step sizes 0.014, 0.012``.
    cells : tuple of Cell
    members : int or None
        Size to which random ensembles grow.
    repeats : int or None
        Number of repeats of each run, in all.
    duration : float or None
        Duration to which all runs of the experiment are continued, in the study's unit of time.
    longer : float
        Expected CPU seconds of that continuation.
    """

    question: Question
    words: str
    cells: tuple[Cell, ...] = ()
    members: int | None = None
    repeats: int | None = None
    duration: float | None = None
    longer: float = 0.0

    @property
    def seconds(self) -> float:
        """Expected CPU seconds of the addition alone."""
        return self.seconds_beside({})

    def seconds_beside(self, taken: Mapping[str | CellKey, float]) -> float:
        """Expected CPU seconds beyond what other additions have taken, see `take`."""
        longer = self.longer - taken.get(self.question.experiment, 0.0)
        return max(longer, 0.0) + sum(
            max(cell.runs - taken.get(cell.key, 0), 0) * cell.seconds for cell in self.cells
        )

    def take(self, taken: dict[str | CellKey, float]) -> None:
        """Note in `taken` its runs by `Cell.key`, and its longer durations by experiment."""
        name = self.question.experiment
        taken[name] = max(taken.get(name, 0.0), self.longer)
        for cell in self.cells:
            taken[cell.key] = max(taken.get(cell.key, 0), cell.runs)


class Adviser:
    """Finds additions to an experiment of a store that would decide its open verdicts.

    Parameters
    ----------
    study : sweep.study.Study
        Study of the store, all its texts together.
    experiment : sweep.study.ResolvedExperiment
        Experiment of that study.
    dataset : xarray.Dataset
        The experiment's runs.
    seconds : float
        CPU seconds of these and of their references.
    asked : float
        Duration that the study asks for, beyond which the store may have been extended.
    allow_longer : bool
        Whether runs may be continued to a longer duration.
    """

    def __init__(
        self,
        study: Study,
        experiment: ResolvedExperiment,
        dataset: xarray.Dataset,
        seconds: float,
        asked: float,
        allow_longer: bool,
    ) -> None:
        self._study, self._experiment, self._allow_longer = study, experiment, allow_longer
        self._asked = asked
        self._entries = {entry.label: entry for entry in experiment.integrators}
        self._places = len(experiment.make_systems())  # combinations of scanned values
        self._starts = sum(start.size for start in experiment.initial_conditions)
        self._labels, self._sizes, self._tolerances = (
            dataset[name].values if name in dataset else np.full(dataset.sizes["run"], np.nan)
            for name in ("integrator", "step_size", "tolerance")
        )
        self._seconds, self._steps, self._status = (
            dataset[name].values for name in ("cpu_time", "steps", "status")
        )
        self._seconds_of_runs = float(np.nansum(self._seconds))
        self._seconds_of_references = max(seconds - self._seconds_of_runs, 0.0)

    def additions_for(self, question: Question) -> tuple[list[Addition], str]:
        """Additions each of which may decide a question, the cheapest first.

        Parameters
        ----------
        question : Question

        Returns
        -------
        additions : list of Addition
        why : str
            Why there is none; else empty.
        """
        found, reasons = [], []
        for remedy in question.remedies:
            try:
                found.append(self._addition_of_remedy(question, remedy))
            except InputError as error:
                reasons.append(str(error))
        found.sort(key=lambda one: one.seconds)
        why = "; ".join(dict.fromkeys(reasons)) or _why_nothing_helps(question)
        return found, "" if found else why

    def _addition_of_remedy(self, question: Question, remedy: Remedy) -> Addition:
        if remedy.what in BEYOND_STORE:
            raise InputError(BEYOND_STORE[remedy.what])
        if remedy.what == "duration":
            return self._longer_runs(question, remedy)
        if remedy.what == "starts":
            return self._more_starts(question, remedy)
        if remedy.what == "repeats":
            return self._more_repeats(question, remedy)
        return self._more_step_sizes(question, remedy)

    def _longer_runs(self, question: Question, remedy: Remedy) -> Addition:
        experiment, row = self._experiment, question.estimate
        least, most = math.ceil(remedy.number), self._most_times_longer()
        if not self._allow_longer:
            raise InputError(f"runs {least} times as long would, but the duration is to be kept")
        if least > most:
            raise InputError(
                f"runs {least} times as long would, beyond {LONGEST} times what the study asks for"
            )
        factor = min(math.ceil(MORE * remedy.number), most)
        duration = experiment.in_time_units(factor * experiment.duration)
        study_with_longer_duration(self._study, duration, names=[experiment.name])  # or refuse
        seconds = self._seconds_of_runs * (factor - 1)
        reference = experiment.reference
        if reference is not None and reference.until == experiment.duration:  # it goes on too
            seconds += self._seconds_of_references * (factor - 1)
        words = f"all runs until t = {duration:g}"
        size = row.sizes[-1] if question.kind == WORK else self._size_of(row)
        cells = self._cells(row.integrator, [size], 0)
        return Addition(question, words, cells, duration=duration, longer=seconds)

    def _most_times_longer(self) -> int:
        """Factor by which runs may become longer, see `LONGEST`."""
        return math.floor(LONGEST * self._asked / self._experiment.duration * (1 + EQUAL))

    def _more_starts(self, question: Question, remedy: Remedy) -> Addition:
        conditions, row = self._experiment.initial_conditions, question.estimate
        target, present = math.ceil(MORE * remedy.number), row.starts + row.left_out
        if target <= present:
            raise InputError("its ensemble has so many starts, of which some do not count")
        _check_more_starts_count(row, target)
        ensembles = [start.size for start in conditions if isinstance(start, RandomStarts)]
        if ensembles:
            alone = sum(start.size for start in conditions) - sum(ensembles)
            members = -(-(target - alone) // len(ensembles))
            words = f"random starts up to {members}"
        else:
            centres = _states_to_draw_about(conditions)
            members = -(-(target - present) // len(centres))
            about = " and ".join(repr(label) for label, _ in centres)
            words = f"{members} starts about {'each of ' * (len(centres) > 1)}{about}"
        if question.kind == DRIFT:
            sizes = [self._size_of(row)]
        else:
            sizes = [h for h in self._sizes_of(row.integrator) if not h < row.step_low]
        each = self._seconds_of_references / (self._starts * self._places)
        new = max(target - self._starts, 0) * self._places
        references = Cell(self._experiment.name, None, 0.0, new, each)
        cells = *self._cells(row.integrator, sizes, target - present), references
        return Addition(question, words, cells, members)

    def _more_repeats(self, question: Question, remedy: Remedy) -> Addition:
        row, repeats = question.estimate, math.ceil(remedy.number)
        more = self._starts * (repeats - int(remedy.now))
        cells = self._cells(row.integrator, row.sizes, more)
        return Addition(question, f"{repeats} repeats", cells, repeats=repeats)

    def _more_step_sizes(self, question: Question, remedy: Remedy) -> Addition:
        row = question.estimate
        if any(part.axis_of_steps is not None for part in self._experiment.grids):
            raise InputError("its step sizes advance with a scanned parameter")
        known = self._sizes_of(row.integrator)
        wanted = _wanted_sizes(row, remedy, known, self._smallest_failing_size(row.integrator))
        new = self._snapped_new_sizes(wanted, known)
        if not new:
            raise InputError("its sample interval leaves no other step size there")
        shown = ", ".join(f"{self._experiment.in_time_units(size):.4g}" for size in new)
        words = f"step size{'s' * (len(new) > 1)} {shown}"
        return Addition(question, words, self._cells(row.integrator, new, self._starts))

    def _cells(self, label: str, sizes: Iterable[float], starts: int) -> tuple[Cell, ...]:
        runs = starts * self._places
        return tuple(
            Cell(self._experiment.name, label, size, runs, self._seconds_of_run(label, size))
            for size in map(float, sizes)
        )

    def _size_of(self, row: Estimate) -> float:
        """Step size or tolerance of a row on a drift."""
        adaptive = self._entries[row.integrator].adaptive
        return float(row.tolerance if adaptive else row.step_size)

    def _sizes_of(self, label: str) -> NDArray[np.float64]:
        """Step sizes of an integrator, ascending."""
        return np.unique(self._sizes[self._labels == label])

    def _smallest_failing_size(self, label: str) -> float:
        """The smallest step size from which on no run is complete; infinite if there is none."""
        known = self._sizes_of(label)
        own = self._labels == label
        good = [np.any(own & (self._sizes == size) & (self._status == 0)) for size in known]
        failing = known[np.flatnonzero(good)[-1] + 1 :] if any(good) else known
        return float(failing[0]) if len(failing) else np.inf

    def _seconds_of_run(self, label: str, size: float) -> float:
        """Expected CPU seconds of a run, from those of the integrator's earlier runs."""
        own = self._labels == label
        if self._entries[label].adaptive:
            return float(np.nanmedian(self._seconds[own & (self._tolerances == size)]))
        with np.errstate(divide="ignore", invalid="ignore"):
            of_step = np.nanmedian(self._seconds[own] / self._steps[own])
        return float(np.nan_to_num(of_step * self._experiment.duration / size))

    def _snapped_new_sizes(
        self, wanted: Iterable[float], known: Iterable[float]
    ) -> tuple[float, ...]:
        """Step sizes that divide the sample interval, near those wanted and not yet known."""
        axis = self._experiment.time_axis
        new: list[float] = []
        for size in wanted:
            try:
                snapped = float(axis.snapped(float(size)))
            except InputError:  # larger than the sample interval
                continue
            if not any(abs(snapped - one) <= EQUAL * one for one in (*known, *new)):
                new.append(snapped)
        return tuple(new)


def _check_more_starts_count(row: Estimate, target: int) -> None:
    """Refuse starts that are so correlated that more of them add hardly any information."""
    likeness = getattr(row, "likeness", 0.0)
    now, then = (n / (1 + (n - 1) * likeness) for n in (max(row.starts, 1), target))
    if then < HARDLY * now:
        raise InputError(
            f"its starts are alike: {target} of them would count as {then:.2g}, and "
            f"{row.starts} count as {now:.2g}"
        )


def _wanted_sizes(
    row: Estimate, remedy: Remedy, known: NDArray[np.float64], failing: float
) -> NDArray[np.float64]:
    """Step sizes that a remedy asks for, before they are snapped to the sample interval.

    Those at which runs are known to fail are left out.
    """
    wanted = np.array(_sizes_that_remedy_names(row, remedy, known, failing))
    return wanted[wanted < failing]


def _sizes_that_remedy_names(
    row: Estimate, remedy: Remedy, known: NDArray[np.float64], failing: float
) -> Sequence[float] | NDArray[np.float64]:
    if remedy.what in ("smaller step size", "larger step size"):
        return np.geomspace(remedy.now, remedy.number, FINER + 1)[1:]
    if remedy.what == "step sizes":
        low = row.step_low if row.floor_count else row.step_low / BEYOND  # where slopes settle
        return _sizes_between(known, low, row.step_high, remedy.number - remedy.now + 1)
    # Some more that count: between those at the floor and those that are too coarse.
    low = row.floor_until if row.floor_until > 0 else known[0] / BEYOND
    high = row.pre_asymptotic_from if row.pre_asymptotic_from > low else BEYOND * known[-1]
    if failing <= high:  # all of them may be too large
        low, high = min(low, failing / BEYOND ** (remedy.number + 1)), failing
    return _sizes_between(known, low, high, remedy.number + 1)


def _why_nothing_helps(question: Question) -> str:
    """Why no addition is known to decide a verdict, with the evidence."""
    row = question.estimate
    if question.kind == ORDER and row.pre_asymptotic_from > row.floor_until > 0:
        early, late = row.pre_asymptotic_from, row.floor_until
        return (
            f"its error is not asymptotic at h = {early:.3g} and at the floor at h = {late:.3g}, a "
            f"factor of {early / late:.2g}"
        )
    return "nothing is known that would decide it"


def _sizes_between(
    known: NDArray[np.float64], low: float, high: float, count: float
) -> list[float]:
    """Further sizes between `low` and `high`, each in the middle of the widest logarithmic gap."""
    inside = known[(known >= low * (1 - EQUAL)) & (known <= high * (1 + EQUAL))]
    points = np.unique(np.log([low, *inside, high]))
    new = []
    for _ in range(int(count)):
        widest = int(np.argmax(np.diff(points)))
        middle = (points[widest] + points[widest + 1]) / 2
        new.append(float(np.exp(middle)))
        points = np.insert(points, widest + 1, middle)
    return sorted(new, reverse=True)


def _states_to_draw_about(conditions: Iterable[Start]) -> list[tuple[str, str | dict[str, Any]]]:
    """At most `MOST_CENTRES` states of an experiment about which random ones can be drawn.

    Returns
    -------
    list of (str, str or dict)
        Label of each, and its value as the `around` of a study.
    """
    found: list[tuple[str, str | dict[str, Any]]] = []
    for start in conditions:
        if isinstance(start, NamedStart):
            found.append((start.label, start.name))
        elif isinstance(start, FamilyStarts):
            found += [
                (label, {"name": start.name} | values)
                for label, values in zip(start.labels, start.values_of_axes(), strict=True)
            ]
        elif isinstance(start, GivenStart):
            vectors = {key: [list(v) for v in of] for key, of in start.vectors.items()}
            found.append((start.label, vectors | {"normalize": start.normalize}))
    if not found:
        raise InputError(
            "no start of it is a random ensemble that could grow, or a state about which others "
            'could be drawn: add an ensemble, such as { around = "…", random = 16, spread = 0.1, '
            "seed = 1 }"
        )
    some = np.linspace(0, len(found) - 1, min(len(found), MOST_CENTRES)).astype(int)
    return [found[i] for i in some]


# --- as studies --------------------------------------------------------------------------------


def study_texts_of_additions(
    store: Store,
    additions: Sequence[Addition],
    experiments: Mapping[str, ResolvedExperiment],
    look: int,
) -> list[str]:
    """Write study texts with the runs that are added.

    Parameters
    ----------
    store : Store
    additions : sequence of Addition
        Additions that have cells.
    experiments : dict of str to sweep.study.ResolvedExperiment
        Experiments of the store, by name.
    look : int
        Number of the look at the store after which they are added.

    Returns
    -------
    list of str
        Each has an experiment once. Additions, their reasons and the look are comments.
    """
    groups: dict[GroupKey, list[Addition]] = {}
    texts = []
    for one in additions:
        key = one.question.experiment, one.members, one.repeats
        groups.setdefault(key, []).append(one)
    written = _experiments_as_written(store)
    while groups:
        chosen = {key[0]: groups.pop(key) for key in _first_of_each(groups)}
        tables = [
            _table_with_additions(written[name], experiments[name], several)
            for name, several in chosen.items()
        ]
        top = written[next(iter(chosen))].top
        reasons = [f"# {_reason(one)}" for several in chosen.values() for one in several]
        comments = "\n".join([f"{NOTE}{look}", *reasons, ""])
        texts.append(comments + write_study_text(top, tables))
    return texts


def _first_of_each(groups: dict[GroupKey, list[Addition]]) -> list[GroupKey]:
    """The first key of each experiment."""
    return list({key[0]: key for key in reversed(groups)}.values())


def _reason(addition: Addition) -> str:
    question, why = addition.question, " ".join(addition.question.why.split())
    of = f"{question.subject} of {question.estimate.integrator!r}"
    return f"{question.experiment}, {of}: {addition.words}, since {why}"


def smallest_sizes_asked_for(studies: Iterable[Study]) -> dict[tuple[str, str], float]:
    """Smallest step size or tolerance of each integrator, without those added to decide.

    Parameters
    ----------
    studies : sequence of sweep.study.Study
        Studies of a store, one for each text.

    Returns
    -------
    dict of (str, str) to float
        Sizes by experiment and integrator.
    """
    found: dict[tuple[str, str], float] = {}
    for study in studies:
        if not study.toml().startswith(NOTE):
            for experiment in study.experiments:
                for entry in experiment.integrators:
                    key = experiment.name, entry.label
                    sizes = [size[entry.adaptive] for size in experiment.steps_of(entry)]
                    found[key] = min(*sizes, found.get(key, math.inf))
    return found


def looks_at_integrators(texts: Iterable[str], library: Library) -> dict[tuple[str, str], int]:
    """Number of the last look after which something was added, by experiment and integrator.

    Parameters
    ----------
    texts : sequence of str
        Texts of the store's study.
    library : Library
        Library with its plugins.

    Returns
    -------
    dict of (str, str) to int
    """
    looks: dict[tuple[str, str], int] = {}
    for text in texts:
        if found := re.match(rf"{NOTE}(\d+)$", text, re.MULTILINE):
            for table in tomllib.loads(text)["experiment"]:
                for entry in table["integrators"]:
                    if (label := label_of_entry(entry, library)) is None:
                        continue
                    key = table["name"], label
                    looks[key] = max(looks.get(key, 0), int(found[1]))
    return looks


@dataclasses.dataclass(frozen=True)
class _Written:
    """An experiment as the texts of a study write it.

    Attributes
    ----------
    top, table : dict
        Keys of the first text that has it, and its table there with the defaults.
    experiment : sweep.study.ResolvedExperiment
        The experiment that the table describes.
    entries : dict of str to dict
        Entries of its integrators in all texts, by label.
    """

    top: dict[str, Any]
    table: dict[str, Any]
    experiment: ResolvedExperiment
    entries: dict[str, dict[str, Any]]


def _experiments_as_written(store: Store) -> dict[str, _Written]:
    """Read the experiments of a store from the texts of its study, by name."""
    found: dict[str, _Written] = {}
    for study in stored_studies(store):
        top = tomllib.loads(study.toml())
        defaults = top.pop("defaults", {})
        tables = {table["name"]: table for table in top.pop("experiment")}
        for experiment in study.experiments:
            whole = defaults | tables[experiment.name]
            known = found.setdefault(experiment.name, _Written(top, whole, experiment, {}))
            given = whole["integrators"]
            for entry in given if isinstance(given, list) else [given]:
                if (label := label_of_entry(entry, study.library)) is None:
                    continue
                known.entries.setdefault(
                    label, entry if isinstance(entry, dict) else {"name": entry}
                )
    return found


def _table_with_additions(
    written: _Written, whole: ResolvedExperiment, additions: Sequence[Addition]
) -> dict[str, Any]:
    """The table of an experiment with only the integrators and step sizes that are added."""
    entries = {entry.label: entry for entry in whole.integrators}
    sizes: dict[str, list[float]] = {}
    for cell in (cell for one in additions for cell in one.cells):
        if cell.integrator is not None:
            sizes.setdefault(cell.integrator, []).append(cell.size)
    made = {
        k: v for k, v in written.table.items() if k not in ("step_size", "tolerance", "exclude")
    }
    made["integrators"] = [
        _entry_with_steps(written, entries[label], dict.fromkeys(steps), whole.time_unit)
        for label, steps in sizes.items()
    ]
    made |= _samples_as_stored(written.table, whole)
    if rules := _rules_on_integrators(written.table.get("exclude", []), sizes):
        made["exclude"] = rules
    ((members, repeats),) = {(one.members, one.repeats) for one in additions}
    if members is not None:
        made["initial_condition"] = _starts_with_members(written, members)
    if repeats is not None:
        made["repeat"] = repeats
    return made


def _entry_with_steps(
    written: _Written, entry: IntegratorEntry, steps: Iterable[float], unit: float
) -> dict[str, Any]:
    """The entry of an integrator, as a text has it or by its name alone, with other steps."""
    said = written.entries.get(entry.label, {"name": entry.name})
    said = {key: value for key, value in said.items() if key not in STEP_KEYS}
    if entry.is_precise:
        said[ARITHMETIC] = entry.options[ARITHMETIC]
    if entry.adaptive:
        return said | {"tolerance": list(steps)}
    return said | {"step_size": [exact_multiple_of_unit(size, unit) for size in steps]}


def _samples_as_stored(table: Mapping[str, Any], experiment: ResolvedExperiment) -> dict[str, Any]:
    """Keys that keep logarithmic sample times those of the store, whatever step sizes are added.

    Without them such samples are multiples of the largest step size, and begin with it.
    """
    if not isinstance(table["samples"], dict):
        return {}
    axis, unit = experiment.grids[0].time_axis, experiment.time_unit
    if isinstance(axis, ExtendedTimeAxis):
        axis = axis.first
    if not isinstance(axis, LogarithmicTimeAxis):
        return {}
    grid, first = (exact_multiple_of_unit(time, unit) for time in (axis.grid, axis.first))
    return {"step_size": [grid], "samples": table["samples"] | {"first": first}}


def _rules_on_integrators(
    rules: Sequence[dict[str, Any]], labels: Container[str]
) -> list[dict[str, Any]]:
    """Rules of `exclude` for a table that has only some of the integrators."""
    kept = []
    for rule in rules:
        named = rule.get("integrator", "")
        if named.removeprefix("!=").strip() in labels or not named:
            kept.append(rule)
        elif named.startswith("!="):  # which holds for all that are there
            kept.append({key: value for key, value in rule.items() if key != "integrator"})
    return [rule for rule in kept if rule]


def _starts_with_members(written: _Written, members: int) -> list[Any]:
    """Initial conditions as written, with so many members in random ensembles."""
    starts = written.table["initial_condition"]
    starts = list(starts) if isinstance(starts, list) else [starts]
    conditions = written.experiment.initial_conditions
    if not any(isinstance(start, RandomStarts) for start in conditions):
        made = [
            {"around": about, "random": members, "spread": SPREAD, "seed": SEED}
            | ({} if isinstance(about, str) else {"label": f"{label}-random"})
            for label, about in _states_to_draw_about(conditions)
        ]
        return [*starts, *made]
    return [
        of | {"random": max(members, start.size)} if isinstance(start, RandomStarts) else of
        for of, start in zip(starts, conditions, strict=True)
    ]

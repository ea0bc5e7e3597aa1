"""An experiment of a study as frozen values: systems, integrators, starts and times.

A union of experiments is in general not a grid: it has only the runs of its parts.
"""

import dataclasses
import functools
import itertools
import math
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import integrators
from integrators.diagnostics.exponents import Followed, obstacle_to_following
from integrators.errors import InputError
from integrators.method import Integrator
from integrators.precision import ARITHMETIC, DOUBLE, DOUBLE_DOUBLE
from integrators.stepping.adaptive import MOST_STEPS, SMALLEST_TOLERANCES
from sweep.errors import CannotUnite
from sweep.plugins.registry import BUILT_IN, Library, unite_libraries
from sweep.study import variables
from sweep.study.exclude import Rule
from sweep.study.run_id import StepSize, Tolerance
from sweep.study.starts import RandomStarts, Start
from sweep.study.time_axis import TimeAxis
from systems import System

TOLERANCE_KEYS = ("tolerance", "relative_tolerance")  # two keys of an entry with the same meaning
Groups = Sequence[Sequence[str]]  # groups of names of axes that advance together
ENTRY_KEYS = ("name", "label", "step_size", *TOLERANCE_KEYS)  # all other keys are options


@dataclasses.dataclass(frozen=True)
class Axis:
    """A scanned parameter of the system.

    Parameters
    ----------
    name : str
        Name of the parameter.
    values : tuple of int, float, str or tuple
    labels : tuple of str or None
        Labels of the values in the store, for example of vectors; None if the store has the values.
    where : callable
        Returns its place in the study, for messages.
    """

    name: str
    values: tuple[Any, ...]
    labels: tuple[str, ...] | None = None
    where: Callable[[], str] = dataclasses.field(default=str, compare=False)

    @property
    def column(self) -> np.ndarray:
        """The coordinate of the axis: an array of numbers or labels."""
        return np.array(self.values if self.labels is None else self.labels)


@dataclasses.dataclass(frozen=True)
class IntegratorEntry:
    """An integrator of an experiment.

    Parameters
    ----------
    label : str
        Its label in the store.
    name : str
        Its name with modifiers, such as ``variational+suzuki4``.
    options : dict
        All options, including defaults; ``arithmetic`` only if it is not double.
    step_sizes, tolerances : tuple of float or None
        Its own values; None for those of the experiment. Adaptive integrators have tolerances,
        others have step sizes.
    where : callable
        Returns its place in the study, for messages.
    library : Library
        The library that has the integrator.
    """

    label: str
    name: str
    options: dict[str, Any]
    step_sizes: tuple[StepSize, ...] | None = None
    tolerances: tuple[Tolerance, ...] | None = None
    where: Callable[[], str] = dataclasses.field(default=str, compare=False)
    library: Library = dataclasses.field(default=BUILT_IN, compare=False)

    @functools.cached_property
    def adaptive(self) -> bool:
        """Whether the integrator chooses its steps by a tolerance."""
        return self._made.adaptive

    @property
    def arithmetic(self) -> str:
        """Its arithmetic, one of `integrators.precision.ARITHMETICS`."""
        return str(self.options.get(ARITHMETIC, DOUBLE))

    @property
    def is_precise(self) -> bool:
        """Whether the integrator computes in double-double."""
        return self.arithmetic != DOUBLE

    def integrator(self) -> Integrator:
        """The `integrators.Integrator`."""
        return self._made

    @functools.cached_property
    def _made(self) -> Integrator:
        return self.library.integrator(self.name, self.options)

    def __getstate__(self) -> dict[str, Any]:
        """The state for pickling, without the integrator, which the receiver makes again."""
        return {name: value for name, value in vars(self).items() if name != "_made"}


@dataclasses.dataclass(frozen=True)
class Reference:
    """The trajectory that errors are measured against.

    Parameters
    ----------
    integrator : str
        Name of an adaptive integrator.
    tolerance : float
        Relative and absolute tolerance.
    until : float
        Time up to which it is computed.

    Raises
    ------
    InputError
        If the tolerance is below what double precision supports, or a value is out of bounds.
    """

    integrator: str
    tolerance: float
    until: float

    options: typing.ClassVar[dict[str, Any]] = {}
    least: typing.ClassVar[tuple[float, str]] = SMALLEST_TOLERANCES[DOUBLE]  # with its text

    def __post_init__(self) -> None:
        least, words = self.least
        if not least <= self.tolerance < 1:
            raise InputError(
                f"expected a tolerance from {words} to 1, got {self.tolerance}", key="tolerance"
            )

    @property
    def is_precise(self) -> bool:
        """Whether the reference is computed in double-double."""
        return ARITHMETIC in self.options

    def make_integrator(self) -> Integrator:
        """The `integrators.Integrator`."""
        return integrators.get(self.integrator, **self.options)


@dataclasses.dataclass(frozen=True)
class PreciseReference(Reference):
    """A reference in double-double.

    Parameters
    ----------
    integrator : str
        Name of an integrator with a fixed step. The step is halved until this changes the states by
        less than the tolerance.
    tolerance : float
        Tolerance relative to the norm of the initial state.
    until : float
        Time up to which it is computed.
    arithmetic : str
        Double-double.

    Raises
    ------
    InputError
        If the tolerance is below what double-double supports, or a value is out of bounds.
    """

    arithmetic: str = DOUBLE_DOUBLE

    options: typing.ClassVar[dict[str, Any]] = {ARITHMETIC: DOUBLE_DOUBLE}
    least: typing.ClassVar[tuple[float, str]] = 1e-28, "1e-28"


@dataclasses.dataclass(frozen=True)
class ResolvedExperiment:
    """An experiment with all values read and checked, which is one group of the store.

    It is a grid, from which rules may leave out runs, or a union of such grids. All times are in
    the system's own unit of time.

    Parameters
    ----------
    name : str
        Letters, digits, ``_`` and ``-``; does not start with ``_``.
    system : str
    parameters : dict
        The system's parameters that the study gives.
    scan : tuple of Axis
    integrators : tuple of IntegratorEntry
    step_sizes : tuple of float
        Exact step sizes of the integrators that have none of their own.
    tolerances : tuple of float
        Tolerances of the adaptive integrators that have none of their own.
    initial_conditions : tuple
        Starts, of the classes in `sweep.study.starts`.
    time_axis : TimeAxis
    record : tuple of str
        Quantities of the system, ``state``, ``step_size``, ``rejected_steps`` and the keys of
        `variables.STRUCTURE`.
    statistics : str
        ``every_step``, ``every 10`` or ``none``.
    reference : Reference or None
    exclude : tuple of Rule
        Rules that leave out runs.
    zipped : tuple of tuple of str
        Groups of axes that advance together: names in `scan`, and ``step_size``.
    repeat : int
        How often each run is computed.
    max_steps : int
        Largest number of steps of an adaptive run or reference.
    time_unit : float
        Unit of times and step sizes in the study.
    where : callable
        Returns its place in the study, for messages.
    library : Library
        The names that the study can use.
    parts : tuple of ResolvedExperiment
        The grids of a union, whose runs follow one another; the axes of the union have the values
        of all parts. See `unite_experiments`. Empty for a grid.

    Raises
    ------
    InputError
        If a value is out of bounds, or axes that advance together differ in length.
    """

    name: str
    system: str
    parameters: dict[str, Any]
    scan: tuple[Axis, ...]
    integrators: tuple[IntegratorEntry, ...]
    step_sizes: tuple[StepSize, ...]
    tolerances: tuple[Tolerance, ...]
    initial_conditions: tuple[Start, ...]
    time_axis: TimeAxis
    record: tuple[str, ...]
    statistics: str
    reference: Reference | None
    exclude: tuple[Rule, ...]
    zipped: tuple[tuple[str, ...], ...] = ()
    repeat: int = 1
    max_steps: int = MOST_STEPS
    time_unit: float = 1.0
    where: Callable[[], str] = dataclasses.field(default=str, compare=False)
    library: Library = dataclasses.field(default=BUILT_IN, compare=False)
    parts: "tuple[ResolvedExperiment, ...]" = ()

    def __post_init__(self) -> None:
        self._check_steps_advance_with_axes()
        if self.reference is not None:
            self._check_reference(self.reference)

    def _check_reference(self, reference: Reference) -> None:
        until, first = reference.until, float(self.times[1])
        said = f"the reference goes until {self.in_time_units(until)}"
        if until > self.duration:
            end = self.in_time_units(self.duration)
            raise InputError(f"{said}, beyond the duration {end}", key="reference")
        if until < first * (1 - 1e-12):
            raise InputError(
                f"{said}, before the first sample, at {self.in_time_units(first)}: no error would "
                "be measured; expected at least that",
                key="reference",
            )

    def _check_steps_advance_with_axes(self) -> None:
        for group in self.zipped:
            lengths = {axis.name: len(axis.values) for axis in self.scan if axis.name in group}
            for entry in self.integrators if "step_size" in group else ():
                if not entry.adaptive:
                    of = f" of {entry.label!r}" if entry.step_sizes else ""
                    lengths[f"step_size{of}"] = len(self.steps_of(entry))
            check_equal_axis_lengths(lengths)

    @functools.cached_property
    def duration(self) -> float:
        """Duration of a run in the system's unit of time."""
        return self.time_axis.duration

    def in_time_units(self, time: float) -> float:
        """A time or step size in the study's unit, for messages, rounded to 12 digits."""
        return time if self.time_unit == 1.0 else float(f"{time / self.time_unit:.12g}")

    @functools.cached_property
    def samples(self) -> int:
        """Number of samples after the one at time 0."""
        return self.time_axis.samples

    @property
    def times(self) -> NDArray[np.float64]:
        """Times of the samples, shape ``(samples + 1,)``."""
        return self.time_axis.times

    @property
    def grids(self) -> "tuple[ResolvedExperiment, ...]":
        """The grids whose runs the experiment has."""
        return self.parts or (self,)

    @property
    def size(self) -> int:
        """Number of runs, including excluded ones and those that an earlier part has as well."""
        if self.parts:
            return sum(part.size for part in self.parts)
        sizes = [(entry.adaptive, len(self.steps_of(entry))) for entry in self.integrators]
        fixed = sum(size for adaptive, size in sizes if not adaptive)
        if (axis := self.axis_of_steps) is not None:  # one step size for each value
            fixed //= len(self.scan[axis].values)
        methods = fixed + sum(size for adaptive, size in sizes if adaptive)
        starts = sum(start.size for start in self.initial_conditions)
        return self.repeat * methods * starts * count_scan_combinations(self.scan, self.zipped)

    @property
    def axis_of_steps(self) -> int | None:
        """Index into `scan` of an axis that advances with the step size, or None."""
        together = {name for group in self.zipped if "step_size" in group for name in group}
        return next((i for i, axis in enumerate(self.scan) if axis.name in together), None)

    def steps_of(self, entry: IntegratorEntry) -> tuple[tuple[StepSize, Tolerance], ...]:
        """Pairs of step size and tolerance of an `IntegratorEntry`; one of each pair is NaN."""
        if entry.adaptive:
            own = self.tolerances if entry.tolerances is None else entry.tolerances
            return tuple((math.nan, tolerance) for tolerance in own)
        own = self.step_sizes if entry.step_sizes is None else entry.step_sizes
        return tuple((step_size, math.nan) for step_size in own)

    def make_systems(self) -> tuple[System, ...]:
        """The systems for all combinations of scanned values; the last axis varies fastest."""
        return tuple(
            self.library.system(self.system, self.parameters | chosen)
            for chosen in scan_combinations(self.scan, self.zipped)
        )

    def plugin_hashes(self, entry: IntegratorEntry | None = None) -> dict[str, str]:
        """Hashes of the plugins that results depend on, by what the plugins add.

        For an `IntegratorEntry`, these are the plugins of the system and the integrator; without
        one, those of the system and the recorded observables.
        """
        if entry is None:
            return self.library.hashes(self.system, observables=self.record)
        return self.library.hashes(self.system, entry.name, entry.options)

    @property
    def shared_settings(self) -> dict[str, Any]:
        """The settings in which all tables of an experiment and its store have to agree.

        A scanned parameter has its first value.
        """
        first = {axis.name: axis.values[0] for axis in self.scan}
        system = self.library.system(self.system, self.parameters | first)
        return {
            "system": system.first_name,
            "duration": self.duration,
            "samples": self.time_axis.settings,
            "statistics": self.statistics,
            "reference": _as_plain_data(self.reference),
            "record": sorted(self.record),
            "plugins": self.plugin_hashes(),
            "parameters": {  # equal numbers of a vector as one, since its length may be scanned
                name: value[0] if isinstance(value, tuple) and len({*value}) == 1 else value
                for name, value in system.identity.items()
            },
        }

    def expanded(self) -> dict[str, Any]:
        """The experiment with all generated values, as lists, dicts, strings and numbers."""
        plain: dict[str, Any] = _as_plain_data(self)
        del plain["time_axis"], plain["parts"]
        if self.parts:
            plain["parts"] = [part.expanded() for part in self.parts]
        return plain | {"duration": self.duration, "samples": self.time_axis.settings}


def check_equal_axis_lengths(lengths: Mapping[str, int]) -> None:
    """Raise `InputError` unless all axes of a group, given as lengths by name, have one length."""
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} has {count}" for name, count in lengths.items())
        raise InputError(
            f"axes that advance together need as many values each: {found}; give each as many, or "
            "take one out of the group",
            key="zip",
        )


def scan_combinations(scan: Sequence[Axis], zipped: Groups) -> Iterator[dict[str, Any]]:
    """The combinations of scanned values as dicts; the last axis varies fastest."""
    for place in scan_index_combinations(scan, zipped).tolist():
        yield {axis.name: axis.values[i] for axis, i in zip(scan, place, strict=True)}


def scan_index_combinations(scan: Sequence[Axis], zipped: Groups) -> NDArray[np.intp]:
    """The combinations of scanned values as indices into the axes.

    Parameters
    ----------
    scan : sequence of Axis
    zipped : sequence of sequence of str
        Groups of names of axes that advance together.

    Returns
    -------
    ndarray, shape (combinations, axes)
    """
    groups, lengths = _axis_groups(scan, zipped)
    found = list(itertools.product(*map(range, lengths.values())))
    columns = [list(lengths).index(group) for group in groups]
    return np.array(found, dtype=np.intp).reshape(len(found), len(lengths))[:, columns]


def count_scan_combinations(scan: Sequence[Axis], zipped: Groups) -> int:
    """The number of `scan_index_combinations`."""
    return math.prod(_axis_groups(scan, zipped)[1].values())


def _axis_groups(
    scan: Sequence[Axis], zipped: Groups
) -> tuple[list[tuple[str, ...]], dict[tuple[str, ...], int]]:
    """The group of each axis, which may consist of it alone, and the length of each group."""
    together = {name: tuple(group) for group in zipped for name in group}
    groups = [together.get(axis.name, (axis.name,)) for axis in scan]
    return groups, {group: len(axis.values) for group, axis in zip(groups, scan, strict=True)}


def _as_plain_data(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        fields = (field.name for field in dataclasses.fields(value) if field.compare)
        return {name: _as_plain_data(getattr(value, name)) for name in fields}
    if isinstance(value, dict):
        return {key: _as_plain_data(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_as_plain_data(item) for item in value]
    return value


# --- tangent vectors ---------------------------------------------------------------------------


def followed_problem(
    problem: Any, integrator: Integrator, form: Any, record: Collection[str]
) -> Followed | None:
    """The `Followed` problem with the tangent vectors that a record needs; None if it needs none.

    Parameters
    ----------
    problem : Problem or AdaptiveProblem
    integrator : Integrator
        The integrator of the problem.
    form : SpheresLagrangian or another
    record : tuple of str
        Names of the recorded quantities.
    """
    if obstacle_to_following(integrator) or not {*record} & {*variables.CHAOS}:
        return None
    if integrator.adaptive and integrator.main is not None:
        problem = integrator.main.bind(form)
    return Followed(problem, form, max(1, len(variables.exponents_of_record(record))))


def checkpoint_size(integrator: Integrator, system: System, record: Collection[str]) -> int:
    """Size of the checkpoint at the end of a run: of the problem and its tangent vectors."""
    if integrator.counted is not None:  # such runs cannot be continued from their end
        return 0
    problem = integrator.bind(system)
    followed = followed_problem(problem, integrator, system.form, record)
    return problem.checkpoint_size + (followed.checkpoint_size if followed else 0)


# --- union ------------------------------------------------------------------------------------


def unite_experiments(
    parts: Sequence[ResolvedExperiment], whose: tuple[str, str] = ("one has", "another")
) -> ResolvedExperiment:
    """Unite grids of the same name into one experiment with all their runs.

    Parameters
    ----------
    parts : sequence of ResolvedExperiment
        Grids with the same time axis and the same shared settings.
    whose : tuple of str
        How messages name the first and a later grid.

    Returns
    -------
    ResolvedExperiment

    Raises
    ------
    CannotUnite
        If the grids contradict each other, a label has two meanings, or a parameter is scanned in
        one grid and not in another.
    """
    if len(parts) == 1:
        return parts[0]
    scan = _unite_scans([part.scan for part in parts])
    for part in parts[1:]:
        _check_shared_settings(parts[0], part, whose)
    return dataclasses.replace(
        parts[0],
        parts=tuple(parts),
        scan=scan,
        integrators=_unite_integrators(parts),
        step_sizes=tuple(dict.fromkeys(size for part in parts for size in part.step_sizes)),
        tolerances=tuple(dict.fromkeys(size for part in parts for size in part.tolerances)),
        initial_conditions=_unite_starts(parts),
        exclude=(),
        zipped=(),
        repeat=max(part.repeat for part in parts),
        max_steps=max(part.max_steps for part in parts),
        library=unite_libraries([part.library for part in parts]),
    )


def _check_shared_settings(
    one: ResolvedExperiment, other: ResolvedExperiment, whose: tuple[str, str]
) -> None:
    """Raise `CannotUnite` unless two grids have the same `shared_settings`."""
    settings, others = one.shared_settings, other.shared_settings
    for axis in one.scan:
        for of in (settings, others):
            of["parameters"].pop(axis.name, None)
    for name, value in settings.items():
        if (found := others[name]) != value:
            if name == "samples":
                value, found = one.time_axis.samples_in_words, other.time_axis.samples_in_words
            else:
                value, found = repr(value), repr(found)
            raise CannotUnite(f"{whose[0]} {name} = {value}, {whose[1]} {found}")


def _unite_scans(scans: Sequence[tuple[Axis, ...]]) -> tuple[Axis, ...]:
    """Axes with the values of all scans; a value keeps its first label."""
    axes = [{axis.name: axis for axis in scan} for scan in scans]
    for other in axes[1:]:
        for name in sorted(set(axes[0]) ^ set(other)):
            raise CannotUnite(f"{name!r} is scanned in one and not in another")
    return tuple(_unite_axes([scan[name] for scan in axes]) for name in axes[0])


def _unite_axes(axes: Sequence[Axis]) -> Axis:
    if len({axis.labels is None for axis in axes}) > 1:
        raise CannotUnite(f"the values of {axes[0].name!r} have labels in only one of them")
    pairs = [
        pair for axis in axes for pair in zip(axis.values, axis.labels or axis.values, strict=True)
    ]
    if len({label for _, label in pairs}) < len(set(pairs)):
        raise CannotUnite(f"a label of {axes[0].name!r} stands for two values")
    labels: dict[Any, Any] = {}
    for value, label in pairs:
        labels.setdefault(value, label)
    named = None if axes[0].labels is None else tuple(labels.values())
    return dataclasses.replace(axes[0], values=tuple(labels), labels=named)


def _unite_integrators(parts: Sequence[ResolvedExperiment]) -> tuple[IntegratorEntry, ...]:
    """Integrators of all parts, each with its step sizes or tolerances in all of them."""
    entries: dict[str, IntegratorEntry] = {}
    for part in parts:
        for entry in part.integrators:
            key = "tolerances" if entry.adaptive else "step_sizes"
            sizes: dict[str, Any] = {key: ()}
            known = entries.setdefault(entry.label, dataclasses.replace(entry, **sizes))
            if (known.name, known.options) != (entry.name, entry.options):
                raise CannotUnite(
                    f"the label {entry.label!r} stands for two integrators; give one another "
                    "label, and run its study on its store once more, if it has one"
                )
            more = (size[entry.adaptive] for size in part.steps_of(entry))
            sizes = {key: tuple(dict.fromkeys((*getattr(known, key), *more)))}
            entries[entry.label] = dataclasses.replace(known, **sizes)
    return tuple(entries.values())


def _unite_starts(parts: Sequence[ResolvedExperiment]) -> tuple[Start, ...]:
    """Distinct starts of all parts with distinct labels; each ensemble has its largest size."""
    found: dict[str, Any] = {}  # starts by content
    for start in (start for part in parts for start in part.initial_conditions):
        known: Any = found.get(start.content)
        if known is None:
            labels, number = {other.label for other in found.values()}, itertools.count(2)
            label = start.label
            while label in labels:
                label = f"{start.label} {next(number)}"
            new: Any = start
            found[start.content] = dataclasses.replace(new, label=label)
        elif isinstance(start, RandomStarts) and start.members > known.members:
            found[start.content] = dataclasses.replace(known, members=start.members)
    return tuple(found.values())

"""Turn the tables of a study into experiments, checked against systems and integrators.

``integrators = "all"`` stands for every integrator with a fixed step that fits the system,
including the main methods of adaptive pairs, except integrators that the study also names.
``{ name = "all", order = "< 5", arithmetic = "double-double" }`` restricts them to these orders, in
this arithmetic. ``duration = "declared"`` stands for the horizon in the system's `convergence`, and
``step_size = "declared"`` for the step sizes given there for each integrator's order.
"""

import collections
import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

import integrators
from integrators.compiler.elements import DOUBLE_DOUBLE as TWO_DOUBLES
from integrators.diagnostics import exponents
from integrators.errors import InputError, check_known
from integrators.forms.phase_spaces import phase_space, state_space
from integrators.method import EXACT, STEPS_OF
from integrators.precision import ARITHMETIC, DOUBLE, DOUBLE_DOUBLE
from integrators.stepping.adaptive import check_tolerance
from sweep.errors import (
    CannotUnite,
    KeyPath,
    Problem,
    StudyError,
    WrongValues,
    check_distinct,
    check_keys,
    noted,
    read_each,
    under,
)
from sweep.plugins import checks
from sweep.plugins.registry import (
    BUILT_IN,
    Library,
    check_observable_names,
    read_plugin_library,
    with_installed_plugins,
)
from sweep.study import model, study_limits, variables
from sweep.study.exclude import Condition, Rule
from sweep.study.experiment import (
    TOLERANCE_KEYS,
    Axis,
    IntegratorEntry,
    PreciseReference,
    Reference,
    ResolvedExperiment,
    check_equal_axis_lengths,
    count_scan_combinations,
    scan_combinations,
    unite_experiments,
)
from sweep.study.run_id import StepSize, Tolerance
from sweep.study.starts import Start, read_start
from sweep.study.time_axis import PerDecade, TimeAxis, checked_duration
from sweep.study.toml import StudyText
from sweep.study.variables import CHAOS, lyapunov_names
from systems import ALL_SYSTEMS, System
from systems.base import CONSERVED, Convergence

Found = TypeVar("Found")
Family = tuple[System, ...]  # the systems of an experiment, one for each combination scanned
NumberedEntry = tuple[model.Entry, int]  # with the index of the written entry that it comes from
DIGITS = 1e-24  # a usual tolerance of references in double-double
RECORDED = (*CONSERVED, "constraint")  # kinds of quantities that are recorded by default
WITH_TANGENTS = {variables.SYMPLECTIC_DEFECT, *CHAOS}  # steps are computed with tangents for these
BYTES_OF_A_SYSTEM_ROW = (
    500  # memory of its parameters as Python numbers; also keeps its making fast
)


def resolve_study(source: StudyText) -> dict[str, Any]:
    """Read and check all experiments of a study.

    Parameters
    ----------
    source : StudyText

    Returns
    -------
    dict
        ``name``, ``description``, ``library`` and ``experiments``, a tuple of
        `ResolvedExperiment`.

    Raises
    ------
    StudyError
        If the study has problems. The message lists all that were found.
    """
    given, problems = model.read_table(model.StudyTable, source.data)
    library: Library | None = None
    if given["plugins"] is not model.FAILED:
        with noted(problems, "plugins"):
            library = read_plugin_library(given["plugins"], source.directory, source.plugins)
    if given["defaults"] not in (model.FAILED, {}):
        _, wrong = model.read_table(model.Defaults, given["defaults"])
        problems += [one.under(("defaults",)) for one in wrong]
    experiments, of_experiments = tuple[ResolvedExperiment, ...](), list[Problem]()
    if library is not None and model.FAILED not in (given["defaults"], given["experiment"]):
        with noted(of_experiments, "experiment"):
            experiments = _resolve_experiments(source, given, library)
    told: dict[Problem | KeyPath, str] = {one: source.explain(one) for one in problems}
    for one in of_experiments:  # a value in the defaults once
        path, _ = source.find(one.path)
        told.setdefault(path if path[:1] == ("defaults",) else one, source.explain(one))
    if told:
        raise StudyError(*dict.fromkeys(told.values()))
    own = {key: given[key] for key in ("name", "description")}
    return own | {"library": library, "experiments": experiments}


def _resolvers(
    source: StudyText, given: Mapping[str, Any], library: Library
) -> "list[_ExperimentResolver]":
    """A resolver for each experiment table of a study, with the defaults."""
    asked = collections.Counter[study_limits.Limit]()
    known = {key: of for key, of in given["defaults"].items() if key in model.Defaults.model_fields}
    return [
        _ExperimentResolver(source, ("experiment", index), own, known, library, asked)
        for index, own in enumerate(given["experiment"])
    ]


def _resolve_experiments(
    source: StudyText, given: Mapping[str, Any], library: Library
) -> tuple[ResolvedExperiment, ...]:
    """The experiments; tables of the same name are united, and problems reported at the last."""
    resolvers = _resolvers(source, given, library)
    found = read_each(_ExperimentResolver.read, resolvers)
    last = {one.name: index for index, one in enumerate(found)}
    grids = [[one for one in found if one.name == name] for name in last]
    return read_each(_unite_grids, grids, paths=[(index, "name") for index in last.values()])


def _unite_grids(grids: Sequence[ResolvedExperiment]) -> ResolvedExperiment:
    most = {grid.max_steps for grid in grids}
    try:
        if len(most) > 1:
            raise CannotUnite(f"one has max_steps = {min(most)}, another {max(most)}")
        return unite_experiments(grids)
    except CannotUnite as error:
        raise InputError(
            f"the tables named {grids[0].name!r} are grids of one experiment, and cannot be "
            f"united: {error}; rename one of them"
        ) from None


def time_axes(
    source: StudyText, library: Library = BUILT_IN
) -> Iterator[tuple[str, float, TimeAxis]]:
    """Yield name, unit of time, and time axis in the system's own unit, of a study's experiments.

    Experiments that need other plugins to be read are skipped.

    Parameters
    ----------
    source : StudyText
    library : Library, optional
        The library with the study's own plugins.

    Raises
    ------
    StudyError
        If the study has no experiments.
    """
    study, problems = model.read_table(model.StudyTable, source.data)
    if problems:
        raise StudyError(*map(source.explain, problems))
    for one in _resolvers(source, study, library):
        with contextlib.suppress(InputError, Unread):  # skip experiments that are no longer valid
            yield one["name"], one["time_unit"], one.axis.times_unit(one["time_unit"])


# --- one experiment ---------------------------------------------------------------------------


class Unread(Exception):
    """A value that is needed could not be read, which is reported already."""


class _Step(Generic[Found]):
    def __init__(
        self, path: tuple[str, ...], read: "Callable[[_ExperimentResolver], Found]"
    ) -> None:
        self._path, self._read = path, read

    def __get__(self, resolver: "_ExperimentResolver", _: type) -> Found:
        if self not in resolver.found:
            resolver.found[self] = model.FAILED
            with contextlib.suppress(Unread), noted(resolver.problems, *self._path):
                resolver.found[self] = self._read(resolver)
        value: Any = resolver.found[self]
        if value is model.FAILED:
            raise Unread
        found: Found = value
        return found


def step(
    *path: str,
) -> "Callable[[Callable[[_ExperimentResolver], Found]], _Step[Found]]":
    """Decorator for a property that is read once; reports problems at a key of the experiment.

    Properties that depend on one that failed fail silently.
    """
    return lambda read: _Step(path, read)


class _ExperimentResolver:
    """Reads an ``[[experiment]]`` table, one step after the other.

    Parameters
    ----------
    source : StudyText
    path : tuple of str and int
        Key path of the table.
    own, defaults : dict
        The table, and the defaults that it uses.
    library : Library
        The library with the study's own plugins.
    asked : Counter of Limit
        Total demand of the study's experiments so far.
    """

    def __init__(
        self,
        source: StudyText,
        path: KeyPath,
        own: dict[str, Any],
        defaults: dict[str, Any],
        library: Library,
        asked: collections.Counter[study_limits.Limit],
    ) -> None:
        self._source, self._path, self._own, self._table = source, path, own, defaults | own
        self._given_library, self._asked = library, asked
        self.found: dict[_Step[Any], Any] = {}
        self._given, self.problems = model.read_table(model.ExperimentTable, self._table)
        self._has_unknown_keys = not self._table.keys() <= self._given.keys()
        self._without_size: set[bool] = (
            set()
        )  # kinds of integrators without sizes: whether adaptive

    def __getitem__(self, key: str) -> Any:
        """The value of a key."""
        if self._given[key] is model.FAILED:
            raise Unread
        return self._given[key]

    def _where(self, *path: str | int) -> Callable[[], str]:
        """A function that returns the place of a key of the experiment in the study."""
        return functools.partial(self._source.where, self._path + path)

    def _count(self, limit: study_limits.Limit, amount: int, key: str | None = None) -> None:
        """Add an amount to the study's demand, and refuse it at a key beyond the `Limit`."""
        total = self._asked[limit] + amount
        if total > limit.most:
            raise limit.error(total, key)
        self._asked[limit] = total

    def read(self) -> ResolvedExperiment:
        """Read the experiment, with times in the system's own unit, or report all its problems.

        A step size is the product of the value in the study and the time unit. So a run does not
        depend on the duration, and a unit of 1 is the same as none.
        """
        for name, own in vars(_ExperimentResolver).items():
            if isinstance(own, _Step):
                with contextlib.suppress(Unread):
                    getattr(self, name)
        if self.problems:
            raise WrongValues(*self.problems)
        unit, reference = float(self["time_unit"]), self.reference

        def in_own_unit(sizes: Sequence[float]) -> tuple[float, ...]:
            return tuple(size * unit for size in sizes)

        try:
            time_axis = self.axis.times_unit(unit)
        except InputError as error:
            raise InputError(
                f"{self.axis.duration} times the time_unit {self['time_unit']} is out of bounds: "
                f"{error}",
                key="duration",
            ) from None
        made = ResolvedExperiment(
            name=self["name"],
            system=self["system"],
            parameters=self.parameters,
            scan=self.scan,
            integrators=tuple(
                dataclasses.replace(one, step_sizes=one.step_sizes and in_own_unit(one.step_sizes))
                for one in self.integrators
            ),
            step_sizes=in_own_unit(self.step_sizes),
            tolerances=self.tolerances,
            initial_conditions=self.initial_conditions,
            time_axis=time_axis,
            record=self.record,
            statistics=self["statistics"],
            reference=reference and dataclasses.replace(reference, until=reference.until * unit),
            exclude=tuple(rule.scaled("step_size", unit) for rule in self.exclude),
            zipped=self.zipped,
            repeat=self["repeat"],
            max_steps=self["max_steps"],
            time_unit=unit,
            where=self._where(),
            library=self.library,
        )
        self._count(study_limits.RUNS, made.size)
        return made

    # --- systems ------------------------------------------------------------------------------

    @step()
    def named_library(self) -> Library:
        """The library with the installed system and integrators that the experiment names."""
        library = self._given_library
        for key, kind in (("system", "system"), ("integrators", "integrator")):
            names = [name.partition("+")[0] for name in self._strings(key)]
            try:
                library = with_installed_plugins(library, kind, names, (model.ALL, model.DECLARED))
            except InputError as error:
                raise InputError(str(error), key=key) from None
        return library

    def _strings(self, key: str) -> list[str]:
        """Names under a key, as a string, in a list or in tables; ignores values that are wrong."""
        value = self._table.get(key, [])
        names: list[Any] = []
        for item in value if type(value) is list else [value]:
            names += [item.get("name"), item.get(STEPS_OF)] if type(item) is dict else [item]
        return [name for name in names if type(name) is str]

    @step("system")
    def kind(self) -> type[System]:
        return self.named_library.system_class(self["system"])

    @step("parameters")
    def parameters(self) -> dict[str, Any]:
        given = self["parameters"]
        check_keys("parameter", given, self.kind.parameter_names())
        parameters: dict[str, Any] = model.as_tuples(given)
        return parameters

    @step("scan")
    def scan(self) -> tuple[Axis, ...]:
        given = self["scan"]
        check_keys("parameter", given, self.kind.parameter_names())
        for key in given.keys() & self.parameters:
            raise InputError(f"{key!r} is scanned here and fixed by 'parameters'", key=key)
        return read_each(self._axis, given, given.values(), paths=[(key,) for key in given])

    def _axis(self, name: str, given: Any) -> Axis:
        where = self._where("scan", name)
        if isinstance(given, model.Range):
            return Axis(name, given.numbers(), where=where)
        labels, values = None, tuple(given)
        if isinstance(given[0], model.Labelled):
            labels = tuple(point.label for point in given)
            values = tuple(model.as_tuples(point.value) for point in given)
            check_distinct(labels, "label")
        if name not in self._zipped_names():
            check_distinct(values, "value")
        return Axis(name, values, labels, where=where)

    def _zipped_names(self) -> set[str]:
        """Names of axes that advance with others, on which values may repeat."""
        groups = self._given["zip"]
        return set() if groups is model.FAILED else {name for group in groups for name in group}

    @step("zip")
    def zipped(self) -> tuple[tuple[str, ...], ...]:
        """Groups of names of axes that advance together: scanned parameters and ``step_size``."""
        groups, lengths = self["zip"], {axis.name: len(axis.values) for axis in self.scan}
        names = [name for group in groups for name in group]
        paths = [(i, j) for i, group in enumerate(groups) for j in range(len(group))]
        known = (*lengths, "step_size")
        read_each(lambda name: check_known("axis", name, known), names, paths=paths)
        check_distinct(names, "axis", "; an axis is in one group, and once", paths)
        for index, group in enumerate(groups):
            with under(index):
                check_equal_axis_lengths({name: lengths[name] for name in group if name in lengths})
        return tuple(map(tuple, groups))

    @step()
    def family(self) -> Family:
        """The systems, one for each combination of scanned values."""
        scan, zipped = self.scan, self.zipped
        self._count(study_limits.SYSTEMS, count_scan_combinations(scan, zipped), "scan")
        family = tuple(self._system(chosen) for chosen in scan_combinations(scan, zipped))
        if len({one.form.forced for one in family}) > 1:
            raise InputError(
                "some of these systems have a force and some have none, so that their energies are "
                "not one quantity: put them into two experiments, or give the force a size of 0, "
                'such as damping = 0 for damping = "none"',
                key="scan",
            )
        return family

    def _system(self, chosen: Mapping[str, Any]) -> System:
        try:
            with np.errstate(all="ignore"):  # numbers that are not finite are refused
                one = self.named_library.system(self.kind.name, {**self.parameters, **chosen})
                arrays = (getattr(value, "nbytes", 0) for value in vars(one.form).values())
        except InputError as error:
            case = ", ".join(f"{name} = {value}" for name, value in chosen.items())
            where = f" (where {case})" if case else ""
            with under(*self._path_of_parameter(error.key or "", chosen)):
                raise InputError(f"{error}{where}") from None
        self._count(study_limits.MEMORY, sum(arrays) + BYTES_OF_A_SYSTEM_ROW * one.rows, "system")
        return one

    def _path_of_parameter(self, name: str, chosen: Mapping[str, Any]) -> KeyPath:
        for axis in self.scan:
            if axis.name == name:
                return "scan", name, axis.values.index(chosen[name])
        return ("parameters", name) if name in self.parameters else ("system",)

    @step("record")
    def library(self) -> Library:
        """The library, which also has the installed observables that the experiment records."""
        known = {*(of.name for of in self.family[0].quantities), *model.BESIDES}
        recorded = self._strings("record")
        library = with_installed_plugins(self.named_library, "observable", recorded, known)
        names = variables.variable_names_of_quantity, variables.taken_variable_names
        check_observable_names(self.family, library, *names)
        return library

    # --- entries of integrators ---------------------------------------------------------------

    def _integrator_tables(self) -> list[tuple[model.Entry | model.AllEntries, int]]:
        """The tables of integrators, each with its index."""
        found: list[tuple[model.Entry | model.AllEntries, int]] = []
        for index, one in enumerate(model.as_list(self["integrators"])):
            if isinstance(one, str):
                one = model.AllEntries(name="all") if one == model.ALL else model.Entry(name=one)
            found.append((one, index))
        return found

    @step()
    def written(self) -> list[NumberedEntry]:
        """The entries of integrators, each with the index of the written entry that it comes from.

        Entries for all integrators are replaced by one for each, and ``"declared"`` by the step
        sizes that the system declares.
        """
        listed, entries = self._integrator_tables(), list[NumberedEntry]()
        self._count(study_limits.PAIRS, len(listed) * len(self.family), "integrators")
        taken = {
            label_of_entry(one, self.library) for one, _ in listed if isinstance(one, model.Entry)
        }
        for one, index in listed:
            with under("integrators", index):
                own = [one] if isinstance(one, model.Entry) else self._fitting_entries(one, taken)
            entries += [(entry, index) for entry in own]
        if self._given["step_size"] != model.DECLARED:
            return entries
        convergence = self._convergence("step_size")
        return [(self._with_declared_steps(one, convergence), index) for one, index in entries]

    def _fitting_entries(
        self, given: model.AllEntries, taken: set[str | None]
    ) -> list[model.Entry]:
        """Entries for the integrators that an entry for all stands for, except those `taken`."""
        condition = None
        if given.order not in (None, EXACT):
            try:
                condition = Condition.parse("order", given.order, None)
            except InputError:
                what = f'an order, a comparison such as "< 5", or "{EXACT}"'
                raise InputError(str(model.expected(what, given.order)), key="order") from None

        def is_meant(order: Any) -> bool:  # `EXACT` is greater and less than none
            if condition is None:
                return given.order in (None, order)
            return order not in (EXACT, None) and bool(condition.holds(order))

        options = {} if given.arithmetic in (None, DOUBLE) else {ARITHMETIC: given.arithmetic}
        fitting = {}
        for name, known in _integrators(self.library).items():
            if options and not known.method.precise:
                continue
            made = known if known.adaptive else self.library.integrator(name, options)
            if not made.adaptive and is_meant(made.order) and _integrator_fits(made, self.family):
                fitting[made.label] = model.Entry.model_validate({"name": name} | options)
        if not fitting:
            order = "" if given.order is None else f" and order {given.order}"
            raise InputError(f"no integrator with a fixed step{order} fits {self.family[0].name!r}")
        new = [entry for label, entry in fitting.items() if label not in taken]
        if not new:
            raise InputError("all integrators that it stands for are listed already: leave it out")
        taken.update(fitting)
        return new

    def _with_declared_steps(self, entry: model.Entry, convergence: Convergence) -> model.Entry:
        """An entry with the declared steps for its order, unless it has its own or is adaptive."""
        with contextlib.suppress(InputError):  # reported when entries are read
            integrator = self.library.integrator(entry.name, entry.options)
            if entry.step_size is None and not integrator.adaptive:
                order = integrator.order if isinstance(integrator.order, int) else 2  # or EXACT
                first, last, count = convergence.steps(order, integrator.arithmetic)
                if isinstance(samples := self["samples"], int):
                    first = min(first, self.duration / max(1, samples))
                steps = model.Range(start=first, stop=last, count=count, spacing="log")
                return entry.model_copy(update={"step_size": steps})
        return entry

    # --- times, and what systems declare ------------------------------------------------------

    def _convergence(self, key: str) -> Convergence:
        """The system's declared `Convergence`, from which a key takes its value."""
        convergence = self.family[0].convergence
        if convergence is None:
            raise InputError(f"{self.family[0].name!r} declares none: give a number", key=key)
        if "time_unit" in self._table:
            raise InputError(
                "what a system declares is in its own unit of time: leave out 'time_unit'", key=key
            )
        return convergence

    @step()
    def duration(self) -> float:
        if self["duration"] == model.DECLARED:
            return self._convergence("duration").duration
        return checked_duration(float(self["duration"]))

    @step()
    def axis(self) -> TimeAxis:
        """The time axis, in the experiment's unit of time."""
        samples = self["samples"]
        thins_out = isinstance(samples, model.PerDecadeTable)
        equal = TimeAxis.uniform(self.duration, 1 if thins_out else samples)
        return self._thinning_axis(samples) if thins_out else equal

    def _thinning_axis(self, samples: model.PerDecadeTable) -> TimeAxis:
        """A time axis that thins out, with samples at multiples of the largest step size."""
        declared = self._given["step_size"] == model.DECLARED
        given: dict[KeyPath, Any] = {("step_size",): None if declared else self["step_size"]}
        for entry, index in self.written if declared else self._integrator_tables():
            given["integrators", index, "step_size"] = getattr(entry, "step_size", None)
        found: list[tuple[float, KeyPath, bool]] = []  # step size, its key, whether from a range
        for path, own in given.items():
            if isinstance(own, model.Range):
                found.append((float(max(own.start, own.stop)), path, True))
            elif own not in (None, model.DECLARED):
                many = own if isinstance(own, list) else [own]
                found += [(float(value), (*path, i), False) for i, value in enumerate(many)]
        first = None if samples.first is None else float(samples.first)
        if not found and first is None:
            raise InputError(
                "the samples are multiples of the largest step size, and there is none: give "
                "'step_size', or the time of the 'first' sample",
                key="samples",
            )
        found = found or [(first or 0.0, ("samples",), False)]
        largest, path, generated = max(found, key=lambda own: own[0])
        thinning = PerDecade(samples.per_decade, first)
        try:
            return thinning.axis(self.duration, largest, generated)
        except InputError as error:
            of_samples = error.key in model.PerDecadeTable.model_fields
            with under(*(("samples", error.key or "") if of_samples else path)):
                raise InputError(str(error)) from None

    @step("step_size")
    def step_sizes(self) -> tuple[StepSize, ...]:
        return self._step_sizes(self["step_size"])

    def _step_sizes(self, given: Any) -> tuple[StepSize, ...]:
        """Read a number, a list or a range as step sizes; those of a range are snapped.

        Duplicates are removed, unless the step size advances with other axes.
        """
        axis, zipped = self.axis, "step_size" in self._zipped_names()
        if given is None or given == model.DECLARED:  # each integrator has its own
            return ()
        if isinstance(given, model.Range):
            near = [axis.snapped(float(value)) for value in given.numbers()]
            return tuple(near if zipped else {axis.steps(own): own for own in near}.values())
        values = tuple(map(float, model.as_list(given)))
        near = list(read_each(axis.snapped, [min(value, axis.interval) for value in values]))
        wrong = [i for i, value in enumerate(values) if near[i] != value]
        if len(wrong) > 1:
            nearest = [f"{value:.10g}" for value in near]
            raise InputError(
                f"{len(wrong)} of {len(values)} step sizes do not divide "
                f"{axis.interval_in_words}; the nearest that do are "
                f"[{', '.join(nearest if zipped else dict.fromkeys(nearest))}]"
            )
        for i in wrong:
            with under(i):
                axis.steps(values[i])
        if not zipped:
            exact = [axis.interval / axis.steps(value) for value in values]
            check_distinct(exact, "step size")
        return values

    # --- integrators --------------------------------------------------------------------------

    @step("integrators")
    def entries(self) -> tuple[IntegratorEntry, ...]:
        """The integrators, which must fit all systems.

        Their own step sizes are not read here, so that a mistake in the time axis hides no other.
        """
        paths = [(index,) for _, index in self.written]
        found = read_each(self._entry, *zip(*self.written, strict=True), paths=paths)
        labels = [entry.label for entry in found]
        check_distinct(labels, "label", "; give each a label of its own", paths)
        return found

    def _entry(self, entry: model.Entry, index: int) -> IntegratorEntry:
        try:
            integrator = self.library.integrator(entry.name, entry.options)
        except InputError as error:
            key = (error.key or "").partition(".")[0].partition("[")[0]
            key = str(error.key) if key in entry.model_fields_set else "name"
            raise InputError(str(error), key=key) from None
        with under("name"):
            for system in self.family:
                integrator.check(system)
        if ARITHMETIC in integrator.options:
            with under(ARITHMETIC):
                integrator.bind(self.family[0])
        given = [key for key in TOLERANCE_KEYS if getattr(entry, key) is not None]
        if given and not integrator.adaptive:
            said = f"{integrator.name!r} has a fixed step and no tolerance"
            raise InputError(said, key=given[0])
        if len(given) > 1:
            raise InputError(f"means the same as {given[0]!r}: give one of them", key=given[1])
        if entry.step_size is not None and integrator.adaptive:
            counted = integrator.counted
            raise InputError(
                f"{integrator.name!r} chooses its steps by a tolerance and has no step size"
                if counted is None
                else f"{integrator.name!r} takes as many steps as {counted.name!r} takes at a "
                "tolerance, and has no step size: leave out one of 'step_size' and 'steps_of'",
                key="step_size",
            )
        own = entry.label or integrator.label, integrator.name, integrator.options
        return IntegratorEntry(*own, where=self._where("integrators", index), library=self.library)

    @step("tolerance")
    def tolerances(self) -> tuple[Tolerance, ...]:
        return _tolerances(self["tolerance"], self.entries)

    @step()
    def integrators(self) -> tuple[IntegratorEntry, ...]:
        """The entries with their own step sizes or tolerances.

        Step sizes or tolerances of an experiment that none of its integrators uses are refused,
        unless they come from the defaults.
        """
        kinds = {entry.adaptive for entry in self.entries}
        if self.tolerances and "tolerance" in self._own and True not in kinds:
            raise InputError(
                "a tolerance is for adaptive integrators, and those of this experiment have a "
                "fixed step: leave it out, or add an adaptive one such as 'rk45'",
                key="tolerance",
            )
        if self.step_sizes and "step_size" in self._own and False not in kinds:
            raise InputError(
                "a step size is for integrators with a fixed step, and those of this experiment "
                "are adaptive: leave it out, or add one such as 'rk4'",
                key="step_size",
            )
        if self._has_unknown_keys:  # one of which may be a misspelt 'step_size' or 'tolerance'
            raise Unread
        written, numbers = zip(*self.written, strict=True)
        paths = [("integrators", index) for index in numbers]
        return read_each(self._with_own_sizes, written, self.entries, paths=paths)

    def _with_own_sizes(self, own: model.Entry, entry: IntegratorEntry) -> IntegratorEntry:
        for key in TOLERANCE_KEYS if entry.adaptive else ("step_size",):
            if (given := getattr(own, key)) is None:
                continue
            with under(key):
                if entry.adaptive:
                    return dataclasses.replace(entry, tolerances=_tolerances(given, [entry]))
                return dataclasses.replace(entry, step_sizes=self._step_sizes(given))
        shared = self.tolerances if entry.adaptive else self.step_sizes
        if shared or entry.adaptive in self._without_size:  # reported once for each kind
            return entry
        self._without_size.add(entry.adaptive)
        if not entry.adaptive:
            raise InputError("there is no 'step_size', neither here nor in the experiment")
        how = "takes its steps at a tolerance" if STEPS_OF in entry.options else "is adaptive"
        raise InputError(
            f"{entry.name!r} {how}, and there is no 'tolerance', neither here nor in the "
            f'experiment; write tolerance = 1e-6, or {{ name = "{entry.name}", '
            "relative_tolerance = 1e-6 }"
        )

    # --- starts, references, records, rules ---------------------------------------------------

    @step("initial_condition")
    def initial_conditions(self) -> tuple[Start, ...]:
        those = model.as_list(self["initial_condition"])
        self._count(study_limits.PAIRS, len(those) * len(self.family))
        found = read_each(self._start, those, range(len(those)))
        labels = [start.label for start in found]
        check_distinct(labels, "label", "; give each a label of its own")
        return found

    def _start(self, given: Any, index: int) -> Start:
        label = f"state[{index}]" if isinstance(self["initial_condition"], list) else "state"
        where, source = self._where("initial_condition", index), self._source
        return read_start(given, self.family, source, self._count, where, label)

    @step("reference")
    def reference(self) -> Reference | None:
        given, family = self["reference"], self.family
        if not given:
            return None
        precise = given.arithmetic not in (None, DOUBLE)
        options = PreciseReference.options if precise else {}
        tolerance = given.tolerance
        with under("integrator"):
            integrator = integrators.get(given.integrator)
            if precise and integrator.adaptive:
                raise InputError(_why_not_adaptive(integrator, family[0]))
            if not precise and integrator.method is not integrators.DOP853:
                raise InputError(
                    f"a reference is computed by 'dop853', not by {given.integrator!r}, in double "
                    "precision; an integrator with a fixed step computes it with arithmetic = "
                    '"double-double"'
                )
            integrator = integrators.get(given.integrator, **options)
            for system in family:
                integrator.check(system)
            if precise:
                integrator.bind(family[0])
        if precise and tolerance is None:
            raise InputError(
                "a reference in double-double needs a tolerance, from which its step size follows: "
                f"from 1e-28 to 1, such as tolerance = {DIGITS:g}"
            )
        kind = PreciseReference if precise else Reference
        until = self.duration if given.until is None else float(given.until)
        return kind(given.integrator, 2.3e-14 if tolerance is None else float(tolerance), until)

    @step("initial_condition")
    def _starts_have_all_digits(self) -> None:
        """Refuse starts made only in double precision, if anything is computed in double-double."""
        precise = self.reference is not None and self.reference.is_precise
        if not precise and not any(entry.is_precise for entry in self.entries):
            return
        system = self.family[0]
        for start in self.initial_conditions:
            if np.isnan(start.in_double_double(system, np.arange(1))).any():
                system.refined(start.states(system)[0])

    @step("record")
    def record(self) -> tuple[str, ...]:
        """The names of all that is recorded."""
        given, name = self["record"], self.family[0].name
        every = [self.library.quantities(system) for system in self.family]
        shared = set.intersection(*({quantity.name for quantity in own} for own in every))
        offered = [quantity for quantity in every[0] if quantity.name in shared]
        if given is None:
            return tuple(quantity.name for quantity in offered if quantity.kind in RECORDED)
        kind = f"quantity of {name}" + " with every scanned value" * (len(self.family) > 1)
        valid = [*(quantity.name for quantity in offered), *model.BESIDES]
        at_defaults = self.library.quantities(self.library.system_class(name)())
        elsewhere = {quantity.name for quantity in at_defaults} - set(valid)

        def recorded(one: str | model.Counted) -> tuple[str, ...]:
            if isinstance(one, model.Counted):
                return lyapunov_names(min(one.count, variables.MOST_EXPONENTS))
            if one in elsewhere:
                raise InputError(
                    f"no {kind} with these parameters: {one!r} is one at its defaults. "
                    f"Valid: {', '.join(valid)}"
                )
            check_known(kind, one, valid)
            return (one,)

        found = read_each(recorded, given)
        names = [one if isinstance(one, str) else one.name for one in given]
        check_distinct(names, "quantity")
        return sum(found, ())

    @step("record")
    def _record_is_measurable(self) -> None:
        """Refuse to record defects and exponents that no run of the experiment can measure."""
        given, first = self.record and self["record"] or [], self.initial_conditions[0]
        for index, one in enumerate(given):
            name, count = (one, 1) if isinstance(one, str) else (one.name, one.count)
            if name not in variables.MEASURED:
                continue
            with under(index):
                if reason := _obstacle_to_measuring(name, self.family, self.entries):
                    raise InputError(f"{name!r} {reason}; leave it out")
                if name in CHAOS:
                    smallest = min(self.family, key=lambda system: system.bodies)
                    exponents.check_count(smallest.form, first.states(smallest)[0], count)

    @step()
    def _plugins_work_at_first_start(self) -> None:
        """Refuse systems, integrators and observables of plugins that fail at the first start."""
        library, record, entries = self.library, self.record, self.entries
        system, first = self.family[0], self.initial_conditions[0]
        if not library.sources:
            return
        start = first.states(system)[0]
        with under("system"):
            checks.try_plugin_system(library, system.name, system, start)
        with under("integrators"):
            with_tangents = bool({*record} & WITH_TANGENTS)
            checks.try_plugin_integrators(library, entries, system, start, with_tangents)
        with under("record"):
            elements = [TWO_DOUBLES] * any(entry.is_precise for entry in entries)
            checks.try_plugin_observables(library, record, system, start, elements)

    @step("exclude")
    def exclude(self) -> tuple[Rule, ...]:
        given, conditions = self["exclude"], self.initial_conditions
        labels = (label for one in conditions for label in one.labels)  # there can be very many
        named = any("initial_condition" in rule for rule in given)
        columns: dict[str, Sequence[str] | None] = {  # their labels; None for numbers
            "integrator": [entry.label for entry in self.entries],
            "step_size": None,
            "tolerance": None,
            "initial_condition": list(labels) if named else [],
            "ensemble": [one.ensemble for one in conditions if one.ensemble],
        }
        columns |= {name: None for one in conditions for name in one.coordinates}
        for axis in self.scan:
            words = axis.labels is not None or isinstance(axis.values[0], str)
            columns[axis.name] = axis.column.tolist() if words else None

        def condition(column: str, written: float | str) -> Condition:
            return Condition.parse(column, written, columns[column])

        def rule(written: Mapping[str, float | str]) -> Rule:
            check_keys("key", written, columns)
            paths = [(column,) for column in written]
            return Rule(read_each(condition, written, written.values(), paths=paths))

        return read_each(rule, given)


def _tolerances(given: Any, entries: Sequence[IntegratorEntry]) -> tuple[Tolerance, ...]:
    """Read the tolerances of the adaptive integrators among `entries`."""
    if given is None:
        return ()
    found = {entry.arithmetic for entry in entries if entry.adaptive}
    arithmetic = DOUBLE_DOUBLE if found == {DOUBLE_DOUBLE} else DOUBLE
    read = functools.partial(check_tolerance, arithmetic=arithmetic)
    return model.read_numbers(given, "tolerance", lambda value: read(float(value)))


def _obstacle_to_measuring(
    name: str, systems: Sequence[System], entries: Sequence[IntegratorEntry]
) -> str:
    """The reason why no run of an experiment can be measured; empty if some runs can be."""
    if name == variables.REVERSAL_ERROR:
        if all(entry.adaptive for entry in entries):
            return "needs an integrator with a fixed step: an adaptive one has no steps to go back"
        return ""
    follows, first = name in CHAOS, systems[0].name
    obstacles = [exponents.obstacle_to_following(entry.integrator()) for entry in entries]
    if follows and all(obstacles):
        return f"cannot be computed: {'; '.join(dict.fromkeys(obstacles))}"
    try:
        if follows:
            exponents.check_compiled()
        for system in systems:
            (state_space if follows else phase_space)(system.form)
    except InputError as error:
        return f"cannot be {'computed' if follows else 'measured'} on {first}: {error}"
    fewest = min(system.bodies for system in systems)
    if fewest > variables.MOST_BODIES and not follows:
        return f"is measured of up to {variables.MOST_BODIES} bodies; {first} has {fewest}"
    return ""


def _why_not_adaptive(integrator: integrators.Integrator, system: System) -> str:
    """Explain that references in double-double need a fixed step, and suggest integrators."""
    fitting = fitting_integrators((system,), BUILT_IN)
    orders: dict[str, int] = {
        name: own.order
        for name, own in fitting.items()
        if own.method.precise and not own.adaptive and isinstance(own.order, int)
    }
    names = [repr(name) for name, order in orders.items() if order == max(orders.values())]
    return (
        f"{integrator.name!r} is adaptive; a reference in double-double needs a fixed step, such "
        f"as {', '.join(names[:3])}, of order {max(orders.values())}"
    )


# --- integrators that fit ---------------------------------------------------------------------


def label_of_entry(entry: Any, library: Library) -> str | None:
    """The label of an entry of a study's integrators.

    Parameters
    ----------
    entry : str or dict
        The entry as written.
    library : Library

    Returns
    -------
    str or None
        None if the entry cannot be read.
    """
    try:
        own = model.Entry.model_validate({"name": entry} if type(entry) is str else entry)
        return own.label or library.integrator(own.name, own.options).label
    except ValueError:
        return None


def fitting_integrators(
    family: Sequence[System], library: Library
) -> dict[str, integrators.Integrator]:
    """The integrators, fixed-step and adaptive, that fit all systems of a family.

    Parameters
    ----------
    family : sequence of systems.System
    library : Library

    Returns
    -------
    dict of str to integrators.method.Integrator
        Integrators with default options, by name with modifier.
    """
    known = _integrators(library)
    return {name: found for name, found in known.items() if _integrator_fits(found, family)}


def _integrators(library: Library) -> dict[str, integrators.Integrator]:
    """All integrators with their default options, by name."""
    return {name: library.integrator(name, {}) for name in integrators.names(library.methods)}


def fitting_methods(system: type[System], library: Library) -> list[str]:
    """Names of the methods that, with default options, fit a system with default parameters.

    Parameters
    ----------
    system : type of systems.System
    library : Library
    """
    family = [library.system(system.name, {})]
    methods = (*integrators.ALL_INTEGRATORS, *library.methods)
    made = {method.name: library.integrator(method.name, method.example) for method in methods}
    return [name for name, found in made.items() if _integrator_fits(found, family)]


def fitting_systems(method: integrators.Method, library: Library) -> list[str]:
    """Names of the systems that, with default parameters, fit a method with default options.

    Parameters
    ----------
    method : integrators.Method
    library : Library
    """
    made = library.integrator(method.name, method.example)
    classes: tuple[type[System], ...] = (*ALL_SYSTEMS, *library.systems)
    names = (system.name for system in classes)
    return [name for name in names if _integrator_fits(made, [library.system(name, {})])]


def _integrator_fits(integrator: integrators.Integrator, family: Sequence[System]) -> bool:
    try:
        for system in family:
            integrator.check(system)
    except InputError:
        return False
    return True

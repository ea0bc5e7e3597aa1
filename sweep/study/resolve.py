"""From the tables of a study to its experiments: checked against systems and integrators."""

import contextlib
import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import integrators
from integrators.compiler.elements import DOUBLE_DOUBLE as TWO_DOUBLES
from integrators.errors import InputError
from integrators.method import STEPS_OF
from integrators.precision import ARITHMETIC, DOUBLE, DOUBLE_DOUBLE
from integrators.stepping.adaptive import check_tolerance
from sweep.errors import CannotUnite, Gathered, StudyError, check_distinct_nodes
from sweep.plugins import checks
from sweep.plugins.registry import (
    BUILT_IN,
    Library,
    family_without_observable_clashes,
    read_plugin_library,
    with_installed_plugins,
)
from sweep.study import limits, schema, structure
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
from sweep.study.format import (
    ALL,
    DECLARED,
    Counted,
    Defaults,
    Entry,
    ExperimentTable,
    PerDecade,
    Range,
    ReferenceTable,
    StudyTable,
    as_tuples,
    read_table,
)
from sweep.study.initial_conditions.base import Start
from sweep.study.initial_conditions.resolve import resolve_starts
from sweep.study.run_id import StepSize, Tolerance
from sweep.study.schema import CHAOS, LYAPUNOV, MEGNO, STRUCTURE, lyapunov_names
from sweep.study.system_defaults import PlacedEntry, declared_convergence, expand_entries
from sweep.study.text import Place, StudyText, gather_each
from sweep.study.time_axis import PerDecade as Thinning
from sweep.study.time_axis import TimeAxis
from systems import System
from systems.base import CONSERVED

Family = tuple[System, ...]  # the systems of an experiment, one for each combination scanned
DIGITS = 1e-24  # a usual tolerance of references in double-double
STEPS = ("step_size", "rejected_steps")  # of the step control, along the run
BESIDES = ("state", *STEPS, *STRUCTURE, LYAPUNOV, MEGNO)  # what is recorded besides quantities
RECORDED = (*CONSERVED, "constraint")  # kinds, where a study says nothing


def resolve_study(source: StudyText) -> dict[str, Any]:
    """Read a study.

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
        With every problem that was found.
    """
    gather, top = Gathered(), Place(source)
    given = read_table(StudyTable, source.data, top, gather)
    library = BUILT_IN
    if given["plugins"]:
        library = gather(lambda _: read_plugin_library(top.at("plugins")), given["plugins"])
    if given["defaults"]:
        gather(read_table, Defaults, given["defaults"], top.at("defaults"), gather)
    experiments = gather(_resolve_experiments, top, given["experiment"], given["defaults"], library)
    gather.raise_problems()
    own = {key: given[key] for key in ("name", "description")}
    return own | {"library": library, "experiments": experiments}


def _tables(
    top: Place, tables: Sequence[dict[str, Any]], defaults: Mapping[str, Any]
) -> list[tuple[dict[str, Any], Place]]:
    """The tables of experiments, with what they have of the defaults, and where they stand."""
    known = {key: value for key, value in defaults.items() if key in Defaults.model_fields}
    return [(known | own, top.at("experiment", i)) for i, own in enumerate(tables)]


def _resolve_experiments(
    top: Place, tables: Sequence[dict[str, Any]], defaults: Mapping[str, Any], library: Library
) -> tuple[ResolvedExperiment, ...]:
    gather = Gathered()
    grids: dict[str, list[ResolvedExperiment]] = {}
    last: dict[str, Place] = {}
    for table, place in _tables(top, tables, defaults):
        found = gather(_resolve_experiment, table, place, library)
        if found is not Gathered.FAILED:
            grids.setdefault(found.name, []).append(found)
            last[found.name] = place.at("name")
    if gather.problems:
        raise StudyError(*_once_for_each_default(dict.fromkeys(gather.problems)))
    united = tuple(gather(_unite_grids, last[name], own) for name, own in grids.items())
    gather.raise_problems()
    return united


def _once_for_each_default(problems: Iterable[str]) -> Iterator[str]:
    """The problems; of a value in the defaults that several experiments cannot use the first."""
    seen: set[str] = set()
    for problem in problems:
        place = re.match(r".*?: defaults[^:]*: ", problem)
        if place is None or place[0] not in seen:
            yield problem
        if place is not None:
            seen.add(place[0])


def _unite_grids(name: Place, grids: Sequence[ResolvedExperiment]) -> ResolvedExperiment:
    """The experiment of all tables of one name; what is wrong is said of the last of them."""
    most = {grid.max_steps for grid in grids}
    try:
        if len(most) > 1:
            raise CannotUnite(f"one has max_steps = {min(most)}, another {max(most)}")
        return unite_experiments(grids)
    except CannotUnite as error:
        raise name.error(
            f"the tables of the name {name.value!r} are grids of one experiment, and cannot be: "
            f"{error}; give one of them another name"
        ) from None


def _resolve_experiment(
    table: dict[str, Any], place: Place, library: Library
) -> ResolvedExperiment:
    gather, at = Gathered(), place.at
    given = read_table(ExperimentTable, table, place, gather)
    together = _zipped_names(given["zip"])
    library, fixed, scan, zipped, family = _resolve_systems(given, place, library, gather)
    library = gather(_with_recorded_plugins, place, family, library)
    names = schema.variable_names_of_quantity, schema.taken_variable_names
    family = gather(family_without_observable_clashes, place, family, library, *names)
    own, duration, axis = _resolve_times(given, place, family, library, gather)
    steps = gather(_resolve_step_sizes, given["step_size"], at("step_size"), axis, together)
    entries = gather(_resolve_integrators, own, family, library)
    tolerances = gather(_resolve_tolerances, given["tolerance"], at("tolerance"), entries)
    used = gather(_check_sizes_are_used, place, entries, steps, tolerances)
    if used is not Gathered.FAILED and table.keys() <= ExperimentTable.model_fields.keys():
        entries = gather(_with_own_sizes, own, entries, axis, steps, tolerances, together)
    starts = gather(resolve_starts, given["initial_condition"], at("initial_condition"), family)
    reference = gather(_resolve_reference, given["reference"], at("reference"), family, duration)
    gather(_check_starts_have_all_digits, place, starts, family, entries, reference)
    record = gather(_resolve_record, given["record"], at("record"), family, library)
    gather(_check_measurable, given["record"], at("record"), record, family, entries, starts)
    gather(_try_plugins_at_first_start, place, library, family, starts, record, entries)
    kept = ("name", "system", "statistics", "repeat", "max_steps", "time_unit")
    values = {key: given[key] for key in kept} | {
        "parameters": fixed,
        "scan": scan,
        "integrators": entries,
        "step_sizes": steps,
        "tolerances": tolerances,
        "initial_conditions": starts,
        "time_axis": axis,
        "record": record,
        "reference": reference,
        "exclude": gather(_resolve_rules, given["exclude"], at("exclude"), entries, starts, scan),
        "zipped": zipped,
    }
    gather.raise_problems()
    with place.context():
        values |= _times_in_system_unit(values)
        experiment = ResolvedExperiment(**values, where=place.where, library=library)
    place.take(limits.RUNS, experiment.size)
    return experiment


def time_axes(source: StudyText) -> Iterator[tuple[str, float, TimeAxis]]:
    """Experiments of a study: name, unit of time and time axis in the system's own unit.

    Of those where no plugin is needed to know them.

    Parameters
    ----------
    source : StudyText

    Raises
    ------
    StudyError
        If the study has no experiments.
    """
    gather, top = Gathered(), Place(source)
    study = read_table(StudyTable, source.data, top, gather)
    gather.raise_problems()
    for table, place in _tables(top, study["experiment"], study["defaults"]):
        with contextlib.suppress(InputError):  # it is valid no longer
            gather, library, family = Gathered(), BUILT_IN, ()
            given = read_table(ExperimentTable, table, place, gather)
            if DECLARED in (given["duration"], given["step_size"]):
                library, *_, family = _resolve_systems(given, place, BUILT_IN, gather)
            *_, axis = _resolve_times(given, place, family, library, gather)
            gather.raise_problems()
            yield given["name"], given["time_unit"], axis.times_unit(given["time_unit"])


def _resolve_times(
    given: Mapping[str, Any], place: Place, family: Any, library: Any, gather: Gathered
) -> tuple[Any, Any, Any]:
    """Integrators with their places, duration, and time axis; FAILED where one is wrong."""
    step_size = given["step_size"]
    own = gather(expand_entries, given["integrators"], step_size, place, family, library)
    duration = gather(_resolve_duration, given["duration"], place, family)
    axis = gather(_resolve_time_axis, place, duration, given["samples"], step_size, own)
    return own, duration, axis


# --- systems ----------------------------------------------------------------------------------


def _resolve_systems(
    given: Mapping[str, Any], place: Place, library: Any, gather: Gathered
) -> tuple[Any, Any, Any, Any, Any]:
    """Library, fixed parameters, axes, groups of axes, and systems; FAILED where one is wrong."""
    library = gather(_with_named_plugins, place, library)
    system = gather(_resolve_system_class, given["system"], place.at("system"), library)
    fixed = gather(_resolve_parameters, given["parameters"], place.at("parameters"), system)
    together = _zipped_names(given["zip"])
    scan = gather(_resolve_scan, given["scan"], place.at("scan"), system, fixed, together)
    zipped = gather(_resolve_zip, given["zip"], place.at("zip"), scan)
    family = gather(_make_family, place, library, system, fixed, scan, zipped)
    return library, fixed, scan, zipped, family


def _with_named_plugins(place: Place, library: Library) -> Library:
    """The library, and the installed system and integrators that an experiment names."""
    for key, kind in (("system", "system"), ("integrators", "integrator")):
        names = (name.partition("+")[0] for name in _strings_under_key(place, key))
        with place.at(key).context():
            library = with_installed_plugins(library, kind, names, (ALL, DECLARED))
    return library


def _with_recorded_plugins(place: Place, family: Family, library: Library) -> Library:
    """The library, and the installed observables that an experiment records."""
    known = {*(of.name for of in family[0].quantities), *BESIDES}
    with place.at("record").context():
        return with_installed_plugins(
            library, "observable", _strings_under_key(place, "record"), known
        )


def _strings_under_key(place: Place, key: str) -> list[str]:
    """Names under a key of an experiment: itself, those of a list, and of tables in it."""
    value = place.at(key).value if place.has(key) else []
    names: list[Any] = []
    for item in value if type(value) is list else [value]:
        names += [item.get("name"), item.get(STEPS_OF)] if type(item) is dict else [item]
    return [name for name in names if type(name) is str]


def _resolve_system_class(name: str, place: Place, library: Library) -> type[System]:
    with place.context():
        return library.system_class(name)


def _resolve_parameters(
    given: Mapping[str, Any], place: Place, system: type[System]
) -> dict[str, Any]:
    place.keys(given, "parameter", system.parameter_names())
    parameters: dict[str, Any] = as_tuples(given)
    return parameters


def _resolve_scan(
    given: Mapping[str, Any],
    place: Place,
    system: type[System],
    fixed: Mapping[str, Any],
    together: Collection[str],
) -> tuple[Axis, ...]:
    """Axes; those in `fixed` are refused. Values may stand twice on those named in `together`."""
    places = place.keys(given, "parameter", system.parameter_names())
    for key in given:
        if key in fixed:
            raise place.at(key).error(f"{key!r} is scanned here and fixed by 'parameters'")
    return gather_each(lambda one, own: _resolve_axis(one, own, together), given.values(), places)


def _resolve_axis(given: Any, place: Place, together: Collection[str]) -> Axis:
    name = str(place.path[-1])
    if isinstance(given, Range):
        with place.context():
            return Axis(name, given.numbers(), where=place.where)
    places, labels = place.elements(), None
    if isinstance(given[0], str | float | int):
        values = tuple(given)
    else:
        labels = tuple(point.label for point in given)
        values = tuple(as_tuples(point.value) for point in given)
        check_distinct_nodes(places, labels, "label")
    if name not in together:
        check_distinct_nodes(places, values, "value")
    return Axis(name, values, labels, where=place.where)


def _zipped_names(groups: Any) -> set[str]:
    return set() if groups is Gathered.FAILED else {name for group in groups for name in group}


def _resolve_zip(
    groups: Sequence[Sequence[str]], place: Place, scan: Sequence[Axis]
) -> tuple[tuple[str, ...], ...]:
    """Groups of names of axes that advance together: scanned ones, and ``step_size``."""
    lengths = {axis.name: len(axis.values) for axis in scan}
    names = [name for group in groups for name in group]
    places = [place.at(i, k) for i, group in enumerate(groups) for k in range(len(group))]
    gather_each(
        lambda own, name: own.check_known("axis", name, (*lengths, "step_size")), places, names
    )
    check_distinct_nodes(places, names, "axis", "; an axis is in one group, and once")
    for index, group in enumerate(groups):
        with place.at(index).context():
            check_equal_axis_lengths({name: lengths[name] for name in group if name in lengths})
    return tuple(map(tuple, groups))


def _make_family(
    place: Place,
    library: Library,
    system: type[System],
    fixed: Mapping[str, Any],
    scan: Sequence[Axis],
    zipped: Sequence[Sequence[str]],
) -> Family:
    """The systems of an experiment: a tuple, one for each combination of `scan`."""
    family = []
    place.at("scan").take(limits.SYSTEMS, count_scan_combinations(scan, zipped))
    for chosen in scan_combinations(scan, zipped):
        try:
            with np.errstate(all="ignore"):  # numbers that are not finite are refused
                one = library.system(system.name, {**fixed, **chosen})
                family.append(one)
                arrays = (getattr(value, "nbytes", 0) for value in vars(one.form).values())
            place.at("system").take(limits.MEMORY, sum(arrays) + BYTES_OF_A_ROW * one.rows)
        except StudyError:
            raise
        except InputError as error:
            case = ", ".join(f"{name} = {value}" for name, value in chosen.items())
            where = f" (where {case})" if case else ""
            raise _place_of_parameter(place, scan, error.key, chosen).error(
                f"{error}{where}"
            ) from None
    if len({one.form.forced for one in family}) > 1:
        raise place.at("scan").error(
            "some of these systems have a force and some have none, so that their energies are not "
            "one quantity: put them into two experiments, or give the force a size of 0, such as "
            'damping = 0 for damping = "none"'
        )
    return tuple(family)


BYTES_OF_A_ROW = 500  # of a system's parameters, as Python's numbers; so that it is also made soon


def _place_of_parameter(
    place: Place, scan: Sequence[Axis], name: str | None, chosen: Mapping[str, Any]
) -> Place:
    for axis in scan:
        if axis.name == name:
            own = place.at("scan", name)
            return own.at(axis.values.index(chosen[name])) if type(own.value) is list else own
    found = place.at("parameters", name or "")
    return found if place.at("parameters").has(name or "") else place.at("system")


# --- times, integrators and their sizes -------------------------------------------------------


def _resolve_duration(given: float | str, place: Place, family: Family) -> float:
    if isinstance(given, str):
        return declared_convergence("duration", place, family).duration
    return float(given)


def _times_in_system_unit(values: Mapping[str, Any]) -> dict[str, Any]:
    """What an experiment says of times in the system's own unit, from multiples of another.

    A step size is the product of what the study gives and of the unit: the run is the same one
    whatever the duration, and with a unit of 1 it is the one without.
    """
    unit, reference = float(values["time_unit"]), values["reference"]
    duration = values["time_axis"].duration
    try:
        time_axis = values["time_axis"].times_unit(unit)
    except InputError as error:
        raise InputError(
            f"{duration} times the time_unit {values['time_unit']} is out of bounds: {error}",
            key="duration",
        ) from None

    def own(sizes: tuple[float, ...] | None) -> tuple[float, ...] | None:
        return None if sizes is None else tuple(size * unit for size in sizes)

    entries = (
        dataclasses.replace(entry, step_sizes=own(entry.step_sizes))
        for entry in values["integrators"]
    )
    if reference is not None:
        reference = dataclasses.replace(reference, until=reference.until * unit)
    return {
        "time_unit": unit,
        "time_axis": time_axis,
        "step_sizes": own(values["step_sizes"]),
        "integrators": tuple(entries),
        "reference": reference,
        "exclude": tuple(rule.scaled("step_size", unit) for rule in values["exclude"]),
    }


def _numbers(given: float | Sequence[float], place: Place) -> tuple[tuple[float, ...], list[Place]]:
    """A number, or those of a list, and their places."""
    values = tuple(map(float, given if isinstance(given, list) else [given]))
    return values, place.elements(len(values))


# --- time -------------------------------------------------------------------------------------


def _resolve_time_axis(
    table: Place,
    duration: float,
    samples: int | PerDecade,
    step_size: Any,
    entries: Sequence[PlacedEntry],
) -> TimeAxis:
    """The time axis of an experiment, in its unit of time.

    Parameters
    ----------
    table : Place
        Of the experiment.
    duration : float
    samples : int or PerDecade
    step_size : object
        Of the experiment.
    entries : list of (Entry, Place)
        Whose step sizes count where samples are multiples of the largest.
    """
    with table.context():
        equal = TimeAxis.uniform(duration, 1 if isinstance(samples, PerDecade) else samples)
    if not isinstance(samples, PerDecade):
        return equal
    found = _largest_values(step_size, table.at("step_size"))
    for entry, place in entries:
        found += _largest_values(getattr(entry, "step_size", None), place.at("step_size"))
    if not found and samples.first is None:
        raise table.at("samples").error(
            "the samples are multiples of the largest step size, and there is none: give "
            "'step_size', or the time of the 'first' sample"
        )
    first = None if samples.first is None else float(samples.first)
    largest, place, generated = max(
        found or [(float(samples.first or 0.0), table.at("samples"), False)],
        key=lambda own: own[0],
    )
    with table.at("samples").context(otherwise=place):
        return Thinning(samples.per_decade, first).axis(duration, largest, generated)


def _largest_values(given: Any, place: Place) -> list[tuple[float, Place, bool]]:
    """Values among which is the largest step size: each with its place, and whether of a range."""
    if given is None or given == DECLARED:
        return []
    if isinstance(given, Range):
        return [(float(max(given.start, given.stop)), place, True)]
    return [(value, own, False) for value, own in zip(*_numbers(given, place), strict=True)]


# --- step sizes and tolerances ----------------------------------------------------------------


def _resolve_step_sizes(
    given: Any, place: Place, axis: TimeAxis, together: Collection[str]
) -> tuple[StepSize, ...]:
    """A number, a list or a range as step sizes; those of a range are snapped.

    Each once, unless ``step_size`` is in `together`, the names of axes that advance with others.
    """
    zipped = "step_size" in together
    if given is None or given == DECLARED:  # each integrator has its own
        return ()
    if isinstance(given, Range):
        with place.context():
            near = [axis.snapped(float(value)) for value in given.numbers()]
        return tuple(near if zipped else {axis.steps(own): own for own in near}.values())
    values, places = _numbers(given, place)
    snapped = gather_each(_snapped, values, places, [axis] * len(values))
    wrong = [i for i, value in enumerate(values) if snapped[i] != value]
    if len(wrong) > 1:
        nearest = [f"{value:.10g}" for value in snapped]
        raise place.error(
            f"{len(wrong)} of {len(values)} step sizes do not divide "
            f"{axis.interval_in_words}; the nearest that do are "
            f"[{', '.join(nearest if zipped else dict.fromkeys(nearest))}]"
        )
    for i in wrong:
        with places[i].context():
            axis.steps(values[i])
    if not zipped:
        exact = [axis.interval / axis.steps(value) for value in values]
        check_distinct_nodes(places, exact, "step size")
    return values


def _snapped(value: float, place: Place, axis: TimeAxis) -> StepSize:
    with place.context():
        return axis.snapped(value)


def _resolve_tolerances(
    given: Any, place: Place, entries: Sequence[IntegratorEntry]
) -> tuple[Tolerance, ...]:
    """A number, a list or a range as tolerances of those of `entries` that are adaptive."""
    if given is None:
        return ()
    found = {entry.arithmetic for entry in entries if entry.adaptive}
    arithmetic = DOUBLE_DOUBLE if found == {DOUBLE_DOUBLE} else DOUBLE

    def check(value: float, own: Place) -> Tolerance:
        with own.context():
            return check_tolerance(value, arithmetic)

    if isinstance(given, Range):
        return tuple(check(value, place) for value in given.numbers())
    values, places = _numbers(given, place)
    gather_each(check, values, places)
    check_distinct_nodes(places, values, "tolerance")
    return values


def _check_sizes_are_used(
    table: Place,
    entries: Sequence[IntegratorEntry],
    steps: Sequence[StepSize],
    tolerances: Sequence[Tolerance],
) -> None:
    """Refuse sizes that an experiment, not the defaults, has and none of `entries` takes."""
    kinds = {entry.adaptive for entry in entries}
    own = {key: table.at(key) for key in ("tolerance", "step_size")}
    here = {key: place for key, place in own.items() if key in table.value}
    if tolerances and "tolerance" in here and True not in kinds:
        raise here["tolerance"].error(
            "a tolerance is for adaptive integrators, and those of this experiment have a fixed "
            "step: leave it out, or add an adaptive one such as 'rk45'"
        )
    if steps and "step_size" in here and False not in kinds:
        raise here["step_size"].error(
            "a step size is for integrators with a fixed step, and those of this experiment are "
            "adaptive: leave it out, or add one such as 'rk4'"
        )


# --- integrators ------------------------------------------------------------------------------


def _resolve_integrators(
    written: Sequence[PlacedEntry], family: Sequence[System], library: Library
) -> tuple[IntegratorEntry, ...]:
    """Integrators of a `Library` that fit all systems in `family`.

    Their own step sizes are not read yet, so that a mistake in the time axis hides no other.
    """

    def resolve(own: Entry, place: Place) -> IntegratorEntry:
        return _resolve_entry(own, place, family, library)

    places = [place for _, place in written]
    entries = gather_each(resolve, [own for own, _ in written], places)
    labels = [entry.label for entry in entries]
    check_distinct_nodes(places, labels, "label", "; give each a label of its own")
    return entries


def _resolve_entry(
    entry: Entry, place: Place, family: Sequence[System], library: Library
) -> IntegratorEntry:
    named = place.at("name")
    with place.context(otherwise=named):
        integrator = library.integrator(entry.name, entry.options)
    with named.context():
        for system in family:
            integrator.check(system)
    if ARITHMETIC in integrator.options:
        with place.at(ARITHMETIC).context():
            integrator.bind(family[0])
    given = [key for key in TOLERANCE_KEYS if getattr(entry, key) is not None]
    if given and not integrator.adaptive:
        raise place.at(given[0]).error(f"{integrator.name!r} has a fixed step and no tolerance")
    if len(given) > 1:
        raise place.at(given[1]).error(f"means the same as {given[0]!r}: give one of them")
    if entry.step_size is not None and integrator.adaptive:
        counted = integrator.counted
        raise place.at("step_size").error(
            f"{integrator.name!r} chooses its steps by a tolerance and has no step size"
            if counted is None
            else f"{integrator.name!r} takes as many steps as {counted.name!r} takes at a "
            "tolerance, and has no step size: leave out one of 'step_size' and 'steps_of'"
        )
    label = entry.label or integrator.label
    own = integrator.name, integrator.options
    return IntegratorEntry(label, *own, where=place.where, library=library)


def _with_own_sizes(
    written: Sequence[PlacedEntry],
    entries: Sequence[IntegratorEntry],
    axis: TimeAxis,
    shared: tuple[StepSize, ...],
    shared_tolerances: tuple[Tolerance, ...],
    together: Collection[str],
) -> tuple[IntegratorEntry, ...]:
    """`entries` with step sizes or tolerances of their own.

    Without them they take the `shared` ones of the experiment, of which there must be some.
    """

    def read(own: Entry, place: Place, entry: IntegratorEntry) -> IntegratorEntry:
        if entry.adaptive:
            mine = _own_tolerances(own, place, entry, shared_tolerances)
            return dataclasses.replace(entry, tolerances=mine)
        mine = _own_step_sizes(own, place, axis, shared, together)
        return dataclasses.replace(entry, step_sizes=mine)

    gather = Gathered()
    made = []
    lacking = set()  # kinds: of those without a size the first is told
    for (own, place), entry in zip(written, entries, strict=True):
        keys = TOLERANCE_KEYS if entry.adaptive else ("step_size",)
        given = shared_tolerances if entry.adaptive else shared
        lacks = not given and all(getattr(own, key) is None for key in keys)
        if not lacks or entry.adaptive not in lacking:
            made.append(gather(read, own, place, entry))
        if lacks:
            lacking.add(entry.adaptive)
    gather.raise_problems()
    return tuple(made)


def _own_tolerances(
    own: Entry, place: Place, entry: IntegratorEntry, shared: tuple[Tolerance, ...]
) -> tuple[Tolerance, ...] | None:
    for key in TOLERANCE_KEYS:
        if getattr(own, key) is not None:
            return _resolve_tolerances(getattr(own, key), place.at(key), [entry])
    if not shared:
        how = "takes its steps at a tolerance" if "steps_of" in entry.options else "is adaptive"
        raise place.error(
            f"{entry.name!r} {how}, and there is no 'tolerance', neither here nor in the "
            f'experiment; write tolerance = 1e-6, or {{ name = "{entry.name}", '
            "relative_tolerance = 1e-6 }"
        )
    return None


def _own_step_sizes(
    own: Entry,
    place: Place,
    axis: TimeAxis,
    shared: tuple[StepSize, ...],
    together: Collection[str],
) -> tuple[StepSize, ...] | None:
    if own.step_size is not None:
        return _resolve_step_sizes(own.step_size, place.at("step_size"), axis, together)
    if not shared:
        raise place.error("there is no 'step_size', neither here nor in the experiment")
    return None


# --- records, references, rules ---------------------------------------------------------------


def _resolve_record(
    given: Sequence[str | Counted] | None, place: Place, family: Family, library: Library
) -> tuple[str, ...]:
    """The names of what an experiment records."""
    every = [library.quantities(system) for system in family]
    shared = set.intersection(*({quantity.name for quantity in own} for own in every))
    offered = [quantity for quantity in every[0] if quantity.name in shared]
    if given is None:
        return tuple(quantity.name for quantity in offered if quantity.kind in RECORDED)
    kind = f"quantity of {family[0].name}" + " with every scanned value" * (len(family) > 1)
    valid = [*(quantity.name for quantity in offered), *BESIDES]
    default = library.system_class(family[0].name)()
    elsewhere = {quantity.name for quantity in library.quantities(default)} - set(valid)

    def read(own: Place, one: str | Counted) -> tuple[str, ...]:
        if isinstance(one, Counted):
            if one.count < 1:
                raise own.at("count").error(f"expected 1 or more, got {one.count}")
            return lyapunov_names(one.count)
        if one in elsewhere:
            raise own.error(
                f"no {kind} with these parameters: {one!r} is one at its defaults. "
                f"Valid: {', '.join(valid)}"
            )
        own.check_known(kind, one, valid)
        return (one,)

    places = place.elements(len(given))
    found = gather_each(read, places, given)
    names = [one if isinstance(one, str) else one.name for one in given]
    check_distinct_nodes(places, names, "quantity")
    return sum(found, ())


def _check_starts_have_all_digits(
    place: Place,
    starts: Sequence[Start],
    family: Family,
    entries: Sequence[IntegratorEntry],
    reference: Reference | None,
) -> None:
    """Refuse starts that are made in double precision only, of what is in double-double."""
    precise = reference is not None and reference.is_precise
    if not precise and not any(entry.is_precise for entry in entries):
        return
    with place.at("initial_condition").context():
        for start in starts:
            if np.isnan(start.in_double_double(family[0], np.arange(1))).any():
                family[0].refined(start.states(family[0])[0])


def _check_measurable(
    given: Sequence[str | Counted] | None,
    place: Place,
    record: tuple[str, ...],
    family: Family,
    entries: Sequence[IntegratorEntry],
    starts: Sequence[Start],
) -> None:
    """Refuse what no run of the experiment has of what is measured of its map."""
    for own, one in zip(place.elements(len(given or ())), given or (), strict=True):
        name, count = (one, 1) if isinstance(one, str) else (one.name, one.count)
        if name not in schema.MEASURED:
            continue
        reason = structure.obstacle_to_measuring(name, family, entries)
        if reason:
            raise own.error(f"{name!r} {reason}; leave it out")
        if name in CHAOS:
            with own.context():
                structure.check_exponent_count(family, starts[0], count)


def _try_plugins_at_first_start(
    place: Place,
    library: Library,
    family: Family,
    starts: Sequence[Start],
    record: tuple[str, ...],
    entries: Sequence[IntegratorEntry],
) -> None:
    """Refuse what is not built in of the experiment where it does not work at its first start."""
    if not library.sources:
        return
    system, start = family[0], starts[0].states(family[0])[0]
    with place.at("system").context():
        checks.try_plugin_system(library, system.name, system, start)
    with place.at("integrators").context():
        with_tangents = bool({*record} & structure.WITH_TANGENTS)
        checks.try_plugin_integrators(library, entries, system, start, with_tangents)
    with place.at("record").context():
        elements = [TWO_DOUBLES] * any(entry.is_precise for entry in entries)
        checks.try_plugin_observables(library, record, system, start, elements)


def _resolve_reference(
    given: ReferenceTable | bool | None, place: Place, family: Family, duration: float
) -> Reference | None:
    if given is None or isinstance(given, bool):
        return None
    name, until = given.integrator, duration if given.until is None else float(given.until)
    if given.arithmetic not in (None, DOUBLE):
        return _resolve_precise_reference(given, place, until, family)
    with place.at("integrator").context():
        integrator = integrators.get(name)
        if integrator.method is not integrators.DOP853:
            raise InputError(
                f"a reference is computed by 'dop853', not by {name!r}, in double precision; an "
                'integrator with a fixed step computes it with arithmetic = "double-double"'
            )
        for system in family:
            integrator.check(system)
    tolerance = 2.3e-14 if given.tolerance is None else float(given.tolerance)
    with place.context():
        return Reference(name, tolerance, until)


def _resolve_precise_reference(
    given: ReferenceTable, place: Place, until: float, family: Family
) -> PreciseReference:
    """A reference in double-double, by an integrator with a fixed step that fits the systems."""
    name, tolerance = given.integrator, given.tolerance
    with place.at("integrator").context():
        integrator = integrators.get(name)
        if integrator.adaptive:
            tolerance = DIGITS if tolerance is None else tolerance
            raise InputError(_why_not_adaptive(integrator, family[0], tolerance))
        integrator = integrators.get(name, **PreciseReference.options)
        for system in family:
            integrator.check(system)
        integrator.bind(family[0])
    if tolerance is None:
        raise place.error(
            "a reference in double-double needs a tolerance, of which its step size follows: from "
            f"1e-28 to 1, such as tolerance = {DIGITS:g}"
        )
    with place.context():
        return PreciseReference(name, float(tolerance), until)


def _why_not_adaptive(integrator: integrators.Integrator, system: System, tolerance: float) -> str:
    """Why an adaptive integrator computes no reference in double-double, and what does."""
    said = f"{integrator.name!r} is adaptive; a reference in double-double needs a fixed step"
    order, names = _highest_order_with_fixed_step(system)
    said += f", such as {', '.join(map(repr, names[:3]))}"
    precise = integrator.method.precise
    own = integrator.order
    if not (precise and 0 < tolerance < 1 and isinstance(own, int) and order > own):
        return said
    times = tolerance ** (1 / order - 1 / own)
    return (
        f"{said}: of order {order}, not {own}, at tolerance = {tolerance:g} it takes "
        f"some {times:,.0f} times fewer steps"
    )


def _highest_order_with_fixed_step(system: System) -> tuple[int, list[str]]:
    """The highest order that a system has in double-double, and integrators of it."""
    found: dict[int, list[str]] = {}
    for method in integrators.ALL_INTEGRATORS:
        if method.adaptive or not (method.precise and method.fits(system.form)):
            continue
        if isinstance(method.order, int):
            found.setdefault(method.order, []).append(method.name)
        for name, composition in method.compositions.items() if method.symmetric else ():
            found.setdefault(composition.order, []).append(f"{method.name}+{name}")
    order = max(found)
    return order, found[order]


def _resolve_rules(
    given: Sequence[Mapping[str, Any]],
    place: Place,
    entries: Sequence[IntegratorEntry],
    starts: Sequence[Start],
    scan: Sequence[Axis],
) -> tuple[Rule, ...]:
    named = any("initial_condition" in rule for rule in given)  # there can be very many
    columns: dict[str, Sequence[str] | None] = {  # labels of each; None of numbers
        "integrator": [entry.label for entry in entries],
        "step_size": None,
        "tolerance": None,
        "initial_condition": [of for start in starts for of in start.labels] if named else [],
        "ensemble": [start.ensemble for start in starts if start.ensemble],
    }
    columns |= {name: None for start in starts for name in start.coordinates}
    for axis in scan:
        words = axis.labels is not None or isinstance(axis.values[0], str)
        columns[axis.name] = axis.column.tolist() if words else None

    def condition(column: str, written: float | str, own: Place) -> Condition:
        with own.context():
            return Condition.parse(column, written, columns[column])

    def rule(written: Mapping[str, float | str], own: Place) -> Rule:
        places = own.keys(written, "key", columns)
        return Rule(gather_each(condition, written, written.values(), places))

    return gather_each(rule, given, place.elements(len(given)))

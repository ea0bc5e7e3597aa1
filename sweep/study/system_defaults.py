"""Values that a study leaves open: all integrators that fit, and what a system declares.

``integrators = "all"`` stands for every integrator with a fixed step that fits the system, main
methods of adaptive pairs among them, but for those that are named beside it, and
``{ name = "all", order = "< 5", arithmetic = "double-double" }`` for those of such orders, in that
arithmetic;
``duration = "declared"`` and ``step_size = "declared"`` for the horizon of the system's
`convergence` and, for each integrator, the step sizes that suit its order there.
"""

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import integrators
import systems
from integrators.errors import InputError
from integrators.method import EXACT
from integrators.precision import ARITHMETIC, DOUBLE
from sweep.plugins.registry import Library
from sweep.study import limits
from sweep.study.exclude import Condition
from sweep.study.format import ALL, DECLARED, AllEntries, Entry, Range, expected
from sweep.study.text import Place
from systems.base import Convergence

PlacedEntry = tuple[Entry, Place]
WrittenEntry = str | Entry | AllEntries


def declared_convergence(key: str, table: Place, family: Sequence[systems.System]) -> Convergence:
    """What the systems of an experiment declare for a key of its table, or `StudyError`."""
    convergence = family[0].convergence
    if convergence is None:
        raise table.at(key).error(f"{family[0].name!r} declares none: give a number")
    if table.has("time_unit"):
        raise table.at(key).error(
            "what a system declares is in its own unit of time: leave out 'time_unit'"
        )
    return convergence


def expand_entries(
    written: WrittenEntry | list[WrittenEntry],
    step_size: object,
    table: Place,
    family: Sequence[systems.System],
    library: Library,
) -> list[PlacedEntry]:
    """The integrators of an experiment, each with the place where the study asks for it.

    Parameters
    ----------
    written : str, Entry, AllEntries or list of these
        Those that stand for all that fit are replaced by these.
    step_size : object
        Of the experiment: where it is ``"declared"``, each has the step sizes that suit its order.
    table : Place
        Of the experiment.
    family : tuple of systems.System
    library : Library

    Raises
    ------
    StudyError
        If the system declares nothing, or no integrator fits.
    """
    those = written if isinstance(written, list) else [written]
    place = table.at("integrators")
    place.take(limits.PAIRS, len(those) * len(family))
    taken = {_label(_as_entry(one), library) for one in those if not _stands_for_all(one)}
    entries: list[PlacedEntry] = []
    for own, one in zip(place.elements(len(those)), those, strict=True):
        if _stands_for_all(one):
            fitting = _fitting_entries(one, own, family, library, taken)
            taken |= fitting.keys()
            entries += [(entry, own) for entry in fitting.values()]
        else:
            entries.append((_as_entry(one), own))
    if step_size != DECLARED:
        return entries
    convergence = declared_convergence("step_size", table, family)
    longest = _longest_step_allowed(table, convergence)
    return [(_with_declared_steps(one, convergence, longest, library), at) for one, at in entries]


def _stands_for_all(written: WrittenEntry) -> bool:
    return written == ALL or isinstance(written, AllEntries)


def _as_entry(written: WrittenEntry) -> Entry:
    return Entry(name=written) if isinstance(written, str) else Entry.model_validate(written)


def label_of_entry(entry: Any, library: Library) -> str | None:
    """The label of an entry of a study's integrators.

    Parameters
    ----------
    entry : str or dict
        As it is written.
    library : Library

    Returns
    -------
    str or None
        None where it is none that can be read.
    """
    table = {"name": entry} if type(entry) is str else entry
    try:
        return _label(Entry.model_validate(table), library)
    except ValueError:
        return None


def _label(entry: Entry, library: Library) -> str | None:
    integrator = _integrator_of_entry(entry, library)
    return entry.label or (None if integrator is None else integrator.label)


def _integrator_of_entry(entry: Entry, library: Library) -> integrators.Integrator | None:
    """The integrator of an entry, or None: what is wrong with it is said where it is resolved."""
    try:
        return library.integrator(entry.name, entry.options)
    except InputError:
        return None


def _order_condition(written: Any, place: Place) -> tuple[Callable[[Any], bool], str]:
    """Whether an order is one that is meant, as a function of it, and which that is in words.

    `EXACT` is greater and less than none.
    """
    if written is None:
        return lambda order: True, ""
    if written == EXACT:
        return lambda order: order == EXACT, ", exact,"
    try:
        condition = Condition.parse("order", written, None)
    except InputError:
        what = f'an order, a comparison such as "< 5", or "{EXACT}"'
        raise place.error(expected(what, written)) from None
    in_words = f" and order {written}"
    return lambda order: order not in (EXACT, None) and bool(condition.holds(order)), in_words


def _fitting_entries(
    written: WrittenEntry,
    place: Place,
    family: Sequence[systems.System],
    library: Library,
    taken: Collection[str | None],
) -> dict[str, Entry]:
    """Entries of the integrators that one for all stands for, by label, but those `taken`."""
    given = written if isinstance(written, AllEntries) else AllEntries(name="all")
    of_order, in_words = _order_condition(given.order, place.at("order"))
    options = {} if given.arithmetic in (None, DOUBLE) else {ARITHMETIC: given.arithmetic}
    fitting = {}
    for name in integrators.names(library.methods):
        if library.integrator(name, {}).adaptive:
            continue
        integrator = library.integrator(name, options)
        if of_order(integrator.order) and _integrator_fits(integrator, family):
            fitting[integrator.label] = Entry.model_validate({"name": name} | options)
    if not fitting:
        fixed = f"integrator with a fixed step{in_words}"
        raise place.error(f"no {fixed} fits {family[0].name!r}")
    new = {label: entry for label, entry in fitting.items() if label not in taken}
    if not new:
        raise place.error("all that it stands for are among the others: leave it out")
    return new


def fitting_integrators(
    family: Sequence[systems.System], library: Library
) -> dict[str, integrators.Integrator]:
    """The integrators that fit, with their default options, with a fixed step and adaptive ones.

    Parameters
    ----------
    family : sequence of systems.System
        All of which they are to fit.
    library : Library

    Returns
    -------
    dict of str to integrators.method.Integrator
        By name, with its modifier.
    """
    known = {name: library.integrator(name, {}) for name in integrators.names(library.methods)}
    return {name: found for name, found in known.items() if _integrator_fits(found, family)}


def fitting_methods(system: type[systems.System], library: Library) -> list[str]:
    """Names of the methods that fit a system with its default parameters and their own options.

    Parameters
    ----------
    system : type of systems.System
    library : Library
    """
    family = [library.system(system.name, {})]
    methods = (*integrators.ALL_INTEGRATORS, *library.methods)
    made = {method.name: library.integrator(method.name, method.example) for method in methods}
    return [name for name, found in made.items() if _integrator_fits(found, family)]


def _integrator_fits(integrator: integrators.Integrator, family: Sequence[systems.System]) -> bool:
    try:
        for system in family:
            integrator.check(system)
    except InputError:
        return False
    return True


def _longest_step_allowed(table: Place, convergence: Convergence) -> float:
    """The longest step that the sample interval allows, as far as the table says it."""
    given, samples = table.at("duration").value, table.at("samples").value
    duration: Any = convergence.duration if given == DECLARED else given
    if type(duration) not in (int, float) or type(samples) is not int or samples < 1:
        return math.inf
    try:
        return float(duration / samples)
    except OverflowError:  # which is said where they are read
        return math.inf


def _with_declared_steps(
    entry: Entry, convergence: Convergence, longest: float, library: Library
) -> Entry:
    """An entry with the step sizes that suit its order; one that has its own, or none, as it is."""
    integrator = _integrator_of_entry(entry, library)
    if entry.step_size is not None or integrator is None or integrator.adaptive:
        return entry
    order = integrator.order if isinstance(integrator.order, int) else 2  # EXACT: any steps do
    first, last, count = convergence.steps(order, integrator.arithmetic)
    steps = Range(start=min(first, longest), stop=last, count=count, spacing="log")
    return entry.model_copy(update={"step_size": steps})

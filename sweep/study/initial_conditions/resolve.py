"""The initial conditions of an experiment, checked against its systems."""

from typing import Any

from integrators.errors import suggest_nearest
from sweep.errors import check_distinct_nodes
from sweep.study import format, limits, schema
from sweep.study.format import AnyStart, Range, Values, Vector, Vectors, expected, read_value
from sweep.study.initial_conditions import from_store
from sweep.study.initial_conditions.base import (
    FileStarts,
    GivenStart,
    LatticeStarts,
    NamedStart,
    RandomStarts,
    Start,
)
from sweep.study.initial_conditions.families import FamilyStarts
from sweep.study.initial_conditions.from_store import StoreStarts
from sweep.study.text import Place, gather_each
from systems import System
from systems.base import Family as StartFamily

BYTES_OF_A_ROW = 24
Systems = tuple[System, ...]


def resolve_starts(given: Any, place: Place, systems: Systems) -> tuple[Start, ...]:
    """Starts, all of which are states of all `systems`.

    Parameters
    ----------
    given : str, table of starts or list of these
    place : Place
    systems : tuple of systems.System

    Raises
    ------
    StudyError
        With every problem that was found.
    """
    those = given if isinstance(given, list) else [given]
    place.take(limits.PAIRS, len(those) * len(systems))
    places = place.elements(len(those))
    starts = gather_each(lambda one, own: _resolve_start(one, own, systems), those, places)
    labels = [start.label for start in starts]
    check_distinct_nodes(places, labels, "label", "; give each a label of its own")
    return starts


def _resolve_start(given: Any, place: Place, systems: Systems) -> Start:
    system, where = systems[0], place.where
    start: Start
    match given:
        case str() | format.NameStart():
            start = _named_start(given, place, system)
        case format.RandomStart():
            start = _random_starts(given, place, systems)
        case format.LatticeStart():
            own = given.lattice, given.body, given.around, given.label or "lattice"
            with place.context():
                start = LatticeStarts(*own, where=where)
        case format.FileStart():
            path = place.source.directory / given.file
            with place.context():
                start = FileStarts.load(
                    path,
                    file=given.file,
                    normalize=given.normalize,
                    label=given.label or path.stem,
                    where=where,
                )
        case format.StoreStart():
            start = _store_starts(given, place)
        case _:
            start = _given_start(given, place, system)
    bytes_of_states = BYTES_OF_A_ROW * start.size * sum(own.rows for own in systems)
    place.take(limits.MEMORY, bytes_of_states)
    if isinstance(start, FamilyStarts | LatticeStarts):
        place.take(limits.PAIRS, start.size * len(systems))
    with place.context(otherwise=place.at("around")):
        for own_system in systems:
            start.check(own_system)
    return start


def _named_start(given: str | format.NameStart, place: Place, system: System) -> Start:
    """A named start or a family, by its name or as a table."""
    table = format.NameStart(name=given) if isinstance(given, str) else given
    name, axes = table.name, dict(table.model_extra or {})
    families = {family.name: family for family in system.families}
    place.at("name").check_known(f"start of {system.name}", name, (*system.starts, *families))
    if name in families:
        return _family_starts(table, place, families[name], system)
    for key in axes:
        known = format.NameStart.model_fields
        raise place.at(key).error(
            f"unknown key {key!r}; {name!r} is one state and has no axes."
            f"{suggest_nearest(key, known)}"
        )
    return NamedStart(name, table.label or name, where=place.where)


def _family_starts(
    table: format.NameStart, place: Place, family: StartFamily, system: System
) -> FamilyStarts:
    written = table.model_extra or {}
    places = place.keys(written, f"axis of {family.name}", ["name", "label", *family.axes])
    values = gather_each(_axis_values, written.values(), places)
    given = dict(zip(written, values, strict=True))
    defaults = {axis: (value,) for axis, value in family.axes.items() if axis not in given}
    taken = schema.taken_variable_names(system)
    with place.context():
        return FamilyStarts(
            name=family.name,
            axes=given | defaults,
            given=tuple(given),
            columns={a: f"{family.name}_{a}" if a in taken else a for a in family.axes},
            label=table.label or family.name,
            where=place.where,
        )


def _axis_values(written: object, place: Place) -> tuple[float, ...]:
    given = read_value(Values, written, place)
    if isinstance(given, Range):
        with place.context():
            return given.numbers()
    values = tuple(given) if isinstance(given, list) else (given,)
    check_distinct_nodes(place.elements(len(values)), values, "value")
    return values


def _random_starts(given: format.RandomStart, place: Place, systems: Systems) -> RandomStarts:
    around: str | Start | None = None
    if isinstance(given.around, dict):
        own = place.at("around")
        around = _resolve_start(read_value(AnyStart, given.around, own), own, systems)
        if around.size != 1:
            raise own.error(f"an ensemble is about one state, and this gives {around.size:,}")
    elif given.around is not None:
        around = given.around
    centre = around.label if isinstance(around, Start) else around
    spread = None if given.spread is None else float(given.spread)
    label = given.label or ("random" if centre is None else f"{centre}-random")
    with place.context():
        return RandomStarts(given.random, given.seed, around, spread, label, where=place.where)


def _given_start(given: format.GivenStart, place: Place, system: System) -> GivenStart:
    keys, written = system.state_keys, given.model_extra or {}
    wrong = [key for key, value in written.items() if type(value) is list and key not in keys]
    if wrong:
        raise place.at(wrong[0]).error(
            f"a state of {system.name} is given by {' and '.join(keys)}, not by "
            f"{' and '.join(wrong)}"
        )
    if not any(key in keys for key in written):
        shown = ", ".join([*keys[:2], "…"])
        what = (
            "a start's name, { name, … }, { random, seed, … }, { lattice, … }, { file, … }, "
            f"{{ store, … }} or the state itself: {{ {shown} }}"
        )
        raise place.error(expected(what, place.value))
    place.keys(written, "key", [*keys, *format.GivenStart.model_fields], keys)
    rows = system.state_rows
    vectors = gather_each(lambda key: _vectors(written[key], place.at(key), rows[key]), keys)
    position = f"[{place.path[-1]}]" if _is_listed(place) else ""
    label = given.label or f"state{position}"
    own = dict(zip(keys, vectors, strict=True))
    return GivenStart(own, given.normalize, label, where=place.where)


def _is_listed(place: Place) -> bool:
    """Whether a place is an element of a list that is written."""
    return isinstance(place.source.find(place.path)[0][-1], int)


def _vectors(written: Any, place: Place, rows: int) -> tuple[tuple[float, ...], ...]:
    """The rows of a part of a state; a single one may be written as a vector."""
    alone = rows == 1 and type(written) is list and not any(type(own) is list for own in written)
    given = [read_value(Vector, written, place)] if alone else read_value(Vectors, written, place)
    return tuple(tuple(map(float, vector)) for vector in given)


def _store_starts(given: format.StoreStart, place: Place) -> StoreStarts:
    source, name = place.source, given.store
    with place.context():
        return from_store.read_end_states(
            name if "://" in name else source.directory / name,
            kept=source.kept,
            trust_plugins=source.trust_plugins,
            file=name,
            experiment=given.experiment,
            where_runs=given.where,
            normalize=given.normalize,
            label=given.label or "",
            where=place.where,
        )

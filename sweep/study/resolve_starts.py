"""From what a study's file says of initial conditions to the states: checked for all systems."""

from typing import Any

from integrators.errors import check_known, suggest_nearest
from sweep.study import limits, model, variables
from sweep.study.model import expected, read_value
from sweep.study.starts import (
    BYTES_OF_A_ROW,
    FamilyStarts,
    FileStarts,
    GivenStart,
    LatticeStarts,
    NamedStart,
    RandomStarts,
    Start,
    StoreStarts,
    Systems,
    read_end_states,
)
from sweep.study.text import Place, read_each
from systems import System
from systems.base import Family


def read_start(given: Any, place: Place, family: Systems) -> Start:
    """A start, all states of which are states of all systems."""
    system, where = family[0], place.where
    with place.context():
        match given:
            case str() | model.NameStart():
                start = _named_start(given, place, system)
            case model.RandomStart():
                start = _random_starts(given, place, family)
            case model.LatticeStart():
                own = given.lattice, given.body, given.around, given.label or "lattice"
                start = LatticeStarts(*own, where=where)
            case model.FileStart():
                path = place.source.directory / given.file
                label = given.label or path.stem
                with place.at("file").context():
                    start = FileStarts.load(
                        path, file=given.file, normalize=given.normalize, label=label, where=where
                    )
            case model.StoreStart():
                start = _store_starts(given, place)
            case _:
                start = _given_start(given, place, system)
    place.count_against(
        limits.MEMORY, BYTES_OF_A_ROW * start.size * sum(own.rows for own in family)
    )
    if isinstance(start, FamilyStarts | LatticeStarts):
        place.count_against(limits.PAIRS, start.size * len(family))
    with place.context(otherwise=place.at("around")):
        for own_system in family:
            start.check(own_system)
    return start


def _named_start(given: str | model.NameStart, place: Place, system: System) -> Start:
    """A named start or those of a family."""
    given = model.NameStart(name=given) if isinstance(given, str) else given
    families = {family.name: family for family in system.families}
    with place.at("name").context():
        check_known(f"start of {system.name}", given.name, (*system.starts, *families))
    if given.name in families:
        return _family_starts(given, place, families[given.name], system)
    for key in given.model_extra or ():
        close = suggest_nearest(key, model.NameStart.model_fields)
        raise place.at(key).error(
            f"unknown key {key!r}; {given.name!r} is one state and has no axes.{close}"
        )
    return NamedStart(given.name, given.label or given.name, where=place.where)


def _family_starts(
    given: model.NameStart, place: Place, family: Family, system: System
) -> FamilyStarts:
    written = given.model_extra or {}
    places = place.keys(written, f"axis of {family.name}", ["name", "label", *family.axes])
    values = read_each(places, _axis_values, written.values(), places)
    axes = dict(zip(written, values, strict=True))
    defaults = {axis: (value,) for axis, value in family.axes.items() if axis not in axes}
    taken = variables.taken_variable_names(system)
    columns = {a: f"{family.name}_{a}" if a in taken else a for a in family.axes}
    own = family.name, axes | defaults, tuple(axes), columns, given.label or family.name
    return FamilyStarts(*own, where=place.where)


def _axis_values(written: object, place: Place) -> tuple[float, ...]:
    given = read_value(model.Values, written, place)
    return model.read_numbers(given, place, "value", lambda value: value)


def _random_starts(given: model.RandomStart, place: Place, family: Systems) -> RandomStarts:
    around: Any = given.around
    if isinstance(around, dict):
        own = place.at("around")
        around = read_start(read_value(model.AnyStart, around, own), own, family)
        if around.size != 1:
            raise own.error(f"an ensemble is about one state, and this gives {around.size:,}")
    centre = around.label if isinstance(around, Start) else around
    spread = None if given.spread is None else float(given.spread)
    label = given.label or ("random" if centre is None else f"{centre}-random")
    return RandomStarts(given.random, given.seed, around, spread, label, where=place.where)


def _given_start(given: model.GivenStartTable, place: Place, system: System) -> GivenStart:
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
    place.keys(written, "key", [*keys, *model.GivenStartTable.model_fields])
    for key in keys:
        if key not in written:
            raise place.error(f"the key {key!r} is missing")
    rows = system.state_rows
    places = [place.at(key) for key in keys]
    vectors = read_each(
        places, lambda key, own: _vectors(written[key], own, rows[key]), keys, places
    )
    last = place.source.find(place.path)[0][-1]
    label = given.label or ("state" if isinstance(last, str) else f"state[{last}]")
    own = dict(zip(keys, vectors, strict=True))
    return GivenStart(own, given.normalize, label, where=place.where)


def _vectors(written: Any, place: Place, rows: int) -> tuple[tuple[float, ...], ...]:
    """The rows of a part of a state; a single one may be written as a vector."""
    alone = rows == 1 and type(written) is list and not any(type(own) is list for own in written)
    given = [read_value(model.Vector, written, place)] if alone else None
    given = given or read_value(model.Vectors, written, place)
    return tuple(tuple(map(float, vector)) for vector in given)


def _store_starts(given: model.StoreStart, place: Place) -> StoreStarts:
    source, name = place.source, given.store
    return read_end_states(
        name if "://" in name else source.directory / name,
        kept=source.kept,
        file=name,
        experiment=given.experiment,
        where_runs=given.where,
        normalize=given.normalize,
        label=given.label or "",
        where=place.where,
    )

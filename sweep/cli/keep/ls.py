"""`sweep ls`: list systems, integrators, observables, kinds of plots and packaged studies."""

import inspect
import textwrap
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any

import click

import integrators
import sweep
import systems
from integrators.errors import check_known
from sweep.cli.options import ClickSettings, command, packaged_studies
from sweep.cli.output import echo
from sweep.result_cache import digest_of_state, find_in_cache, put_into_cache
from sweep.text import format_table

if TYPE_CHECKING:
    from sweep.plugins.registry import Library

STUDIES = "studies"  # the kind that no plugin adds to
COLUMNS, LEAST_DESCRIPTION = 80, 20  # of a terminal
MORE = {
    "systems": "sweep show system NAME",
    "integrators": "sweep show integrator NAME",
    STUDIES: "sweep show study NAME",
}
ADDITION_IF_NONE = {
    "observables": " besides the quantities of systems, which `sweep show system NAME` lists"
}


def _list_systems(library: "Library") -> list[dict[str, Any]]:
    library = sweep.plugins.with_installed_plugins(library, "system")
    library = sweep.plugins.with_installed_plugins(library, "integrator")
    classes: tuple[type[systems.System], ...] = (*systems.ALL_SYSTEMS, *library.systems)
    return [
        {
            "name": system.name,
            "parameters": list(system.parameter_names()),
            "starts": [start.name for start in system.named_starts],
            "description": system.description,
            "integrators": sweep.study.fitting_methods(system, library),
        }
        for system in classes
    ]


def _list_integrators(library: "Library") -> list[dict[str, Any]]:
    installed = sweep.plugins.with_installed_plugins(library, "integrator")
    return [
        {
            "name": method.name,
            "order": method.order,
            "symmetric": method.symmetric,
            "needs": [form.__name__ for form in method.forms],
            "modifiers": [f"+{name}" for name in method.modifiers],
            "description": method.description,
        }
        for method in (*integrators.ALL_INTEGRATORS, *installed.methods)
    ]


def _list_observables(library: "Library") -> list[dict[str, Any]]:
    return [
        {
            "name": observable.name,
            "units": observable.units,
            "of": [*observable.systems, *(form.__name__ for form in observable.forms)],
            "description": observable.long_name,
        }
        for observable in sweep.plugins.with_installed_plugins(library, "observable").observables
    ]


def _list_plot_kinds(library: "Library") -> list[dict[str, Any]]:
    built_in = sweep.plots.KINDS
    installed = sweep.plugins.with_installed_plugins(library, "plot", taken=built_in)
    kinds = built_in | sweep.plots.kinds_of_plugins(installed)
    return [
        {
            "name": kind.name,
            "description": (inspect.getdoc(kind.draw) or "").partition("\n")[0].replace("`", ""),
        }
        for kind in kinds.values()
    ]


def _list_packaged_studies() -> list[dict[str, Any]]:
    return [
        {"name": name, "description": tomllib.loads(file.read_text("utf-8"))["description"]}
        for name, file in packaged_studies().items()
    ]


def _rows_as_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table of names, orders and descriptions, `COLUMNS` wide."""
    first = [key for key in ("name", "order") if key in rows[0]]
    cells = [["any" if row[key] is None else str(row[key]) for key in first] for row in rows]
    taken = sum(2 + max(map(len, column)) for column in zip(first, *cells, strict=True))
    lines = list[list[str]]()
    for row, begun in zip(rows, cells, strict=True):
        for part in textwrap.wrap(row["description"], max(COLUMNS - taken, LEAST_DESCRIPTION)):
            lines.append([*begun, part])
            begun = [""] * len(first)
    return format_table([*first, "description"], lines)


KINDS: "dict[str, Callable[[Library], list[dict[str, Any]]]]" = {
    "systems": _list_systems,
    "integrators": _list_integrators,
    "observables": _list_observables,
    "plots": _list_plot_kinds,
}


def _rows_of_kind(kind: str, library: "Library | None") -> list[dict[str, Any]]:
    """Rows of what there is; kept, since all classes take half a second to import."""
    if kind == STUDIES:
        return _list_packaged_studies()
    if library is not None or any(own.startswith("geosweep.") for own in entry_points().groups):
        return KINDS[kind](library or sweep.plugins.BUILT_IN)
    name, state = f"list of {kind}", digest_of_state()
    if (rows := find_in_cache(name, state)) is None:
        rows = KINDS[kind](sweep.plugins.BUILT_IN)
        put_into_cache(name, state, rows)
    found: list[dict[str, Any]] = rows
    return found


def _complete_kind(ctx: click.Context, param: click.Parameter, word: str) -> list[str]:
    return [kind for kind in (*KINDS, STUDIES) if kind.startswith(word)]


Kind = Annotated[
    str, ClickSettings(metavar=f"{{{'|'.join([*KINDS, STUDIES])}}}", shell_complete=_complete_kind)
]


@command
def ls(kind: Kind, library: "Library | None", as_json: bool) -> None:
    """List systems, integrators, observables, kinds of plots or packaged studies.

    The lists include those of installed plugins. Observables can be recorded in addition to the
    quantities of a system, which `sweep show system NAME` lists.

    \b
    Example:
      sweep ls integrators
      sweep ls systems --study my-study.toml
    """
    check_known("kind", kind, [*KINDS, STUDIES])
    rows = _rows_of_kind(kind, library)
    if not rows:
        text = f"There are no {kind}{ADDITION_IF_NONE.get(kind, '')}"
    else:
        text = _rows_as_text(rows) + (f"\n\nMore: {MORE[kind]}" if kind in MORE else "")
    echo(rows, text, as_json)

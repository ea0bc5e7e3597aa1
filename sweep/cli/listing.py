"""`sweep ls`: what there is to choose from."""

import collections
import inspect
import string
import textwrap

import click

import integrators
import sweep
import systems
from integrators.errors import check_known
from sweep.cli.common import echo_json, json_option, plugin_library_option
from sweep.text import format_table

KINDS = ("systems", "integrators", "observables", "plots", "studies")
COLUMNS, LEAST = 80, 20  # of a terminal, and of a description
ONE_OF_THEM = "Parameters, starts and what can be recorded: sweep show system NAME"
BESIDES = {
    "observables": " besides the quantities of systems, which `sweep show system NAME` lists"
}


@click.command("ls")
@click.argument(
    "kind",
    metavar=f"{{{'|'.join(KINDS)}}}",
    shell_complete=lambda ctx, param, word: [kind for kind in KINDS if kind.startswith(word)],
)
@plugin_library_option
@json_option
def command(kind, library, as_json):
    """List systems, integrators, observables, kinds of plots or packaged studies.

    Also those of installed distributions. Observables are what is recorded besides the quantities
    of a system, which `sweep show system NAME` lists.

    \b
    Example:
      sweep ls integrators
      sweep ls systems --study my-study.toml
    """
    check_known("kind", kind, KINDS)
    rows = {
        "systems": _list_systems,
        "integrators": _list_integrators,
        "observables": _list_observables,
        "plots": _list_plot_kinds,
        "studies": _list_packaged_studies,
    }[kind](library)
    if as_json:
        echo_json(rows)
    elif kind == "systems":
        click.echo(_systems_in_words(rows))
    elif rows:
        click.echo(
            format_table(
                list(rows[0]), [[_listing_cell_text(v) for v in row.values()] for row in rows]
            )
        )
    else:
        click.echo(f"There are no {kind}{BESIDES.get(kind, '')}")


def _list_systems(library):
    library = sweep.plugins.with_installed_plugins(library, "system")
    library = sweep.plugins.with_installed_plugins(library, "integrator")
    return [
        {
            "name": system.name,
            "parameters": list(system.parameter_names()),
            "starts": [start.name for start in system.named_starts],
            "description": system.description,
            "integrators": sweep.study.fitting_methods(system, library),
        }
        for system in (*systems.ALL_SYSTEMS, *library.systems)
    ]


def _systems_in_words(rows):
    """The systems in 80 columns, and which integrators fit them, by a letter for each group."""
    fitting = collections.defaultdict(list)  # the systems of each integrator
    for row in rows:
        for name in row["integrators"]:
            fitting[name].append(row["name"])
    groups = collections.defaultdict(list)  # the integrators that fit the same systems
    for name, of in fitting.items():
        groups[tuple(of)].append(name)
    letters = {of: string.ascii_uppercase[i % 26] * (i // 26 + 1) for i, of in enumerate(groups)}
    cells = []
    for row in rows:
        fits = "".join(letter for of, letter in letters.items() if row["name"] in of)
        cells.append((row["name"], fits, row["description"]))
    width = COLUMNS - sum(
        max(map(len, column)) + 2 for column in list(zip(*cells, strict=True))[:2]
    )
    lines = [
        (*(texts if not begun else ("", "")), line)
        for *texts, description in cells
        for begun, line in enumerate(textwrap.wrap(description, max(width, LEAST)))
    ]
    fits = [
        textwrap.fill(f"{letters[of]}  {', '.join(names)}", COLUMNS, subsequent_indent="   ")
        for of, names in groups.items()
    ]
    table = format_table(["name", "fits", "description"], lines)
    return "\n".join([table, "", "Integrators that fit:", *fits, "", ONE_OF_THEM])


def _list_integrators(library):
    return [
        {
            "name": method.name,
            "order": method.order,
            "symmetric": method.symmetric,
            "needs": [form.__name__ for form in method.forms],
            "modifiers": [f"+{name}" for name in method.modifiers],
            "description": method.description,
        }
        for method in (
            *integrators.ALL_INTEGRATORS,
            *sweep.plugins.with_installed_plugins(library, "integrator").methods,
        )
    ]


def _list_observables(library):
    return [
        {
            "name": observable.name,
            "units": observable.units,
            "of": [*observable.systems, *(form.__name__ for form in observable.forms)],
            "description": observable.long_name,
        }
        for observable in sweep.plugins.with_installed_plugins(library, "observable").observables
    ]


def _list_plot_kinds(library):
    kinds = sweep.plots.KINDS
    installed = sweep.plugins.with_installed_plugins(library, "plot", taken=kinds)
    every = kinds | sweep.plots.kinds_of_plugins(installed)
    return [
        {
            "name": kind.name,
            "description": (inspect.getdoc(kind.draw) or "").partition("\n")[0].replace("`", ""),
        }
        for kind in every.values()
    ]


def _list_packaged_studies(library):
    return [
        {"name": name, "description": sweep.store.load(name).description}
        for name in sweep.study.packaged_study_names()
    ]


def _listing_cell_text(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "any"
    return " ".join(value) if isinstance(value, list) else str(value)

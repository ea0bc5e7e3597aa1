"""`sweep ls`: what there is to choose from."""

import click

import integrators
import sweep
import systems
from sweep.cli.common import echo_json, json_option, library_option
from sweep.text import format_table


@click.command("ls")
@click.argument("kind", type=click.Choice(["systems", "integrators", "studies"]))
@library_option
@json_option
def command(kind, library, as_json):
    """List systems, integrators or packaged studies.

    \b
    Example:
      sweep ls integrators
      sweep ls systems --study my-study.toml
    """
    rows = {"systems": _systems, "integrators": _integrators, "studies": _studies}[kind](library)
    if as_json:
        echo_json(rows)
        return
    click.echo(format_table(list(rows[0]), [[_text(v) for v in row.values()] for row in rows]))


def _systems(library):

    return [
        {
            "name": system.name,
            "parameters": list(system.parameter_names()),
            "starts": [start.name for start in system.named_starts],
            "description": system.description,
        }
        for system in (*systems.ALL_SYSTEMS, *library.systems)
    ]


def _integrators(library):

    return [
        {
            "name": method.name,
            "order": method.order,
            "symmetric": method.symmetric,
            "needs": [form.__name__ for form in method.forms],
            "modifiers": [f"+{name}" for name in method.modifiers],
            "description": method.description,
        }
        for method in (*integrators.ALL_INTEGRATORS, *library.methods)
    ]


def _studies(library):

    return [
        {"name": name, "description": sweep.store.load(name).description}
        for name in sweep.study.packaged()
    ]


def _text(value):
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "any"
    return " ".join(value) if isinstance(value, list) else str(value)

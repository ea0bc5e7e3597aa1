"""`sweep new`: write a plugin with a system, integrator, observable or kind of plot."""

import re
from typing import Literal

import click

import integrators
import systems
from integrators.errors import InputError
from sweep.cli.options import command
from sweep.cli.output import write_from_template
from sweep.store.backends.places import require_local_path

Kind = Literal["python-integrator", "python-system", "integrator", "system", "observable", "plot"]
PLUGIN_NAME = "[a-z][a-z0-9_]*"
NEXT_COMMANDS = {"plot": "sweep plot {name} {name}.zarr"}  # for other kinds, `sweep report`
PAGES = {"integrator": "integrator", "observable": "observable", "plot": "observable"}


@command
def new(kind: Kind, name: str) -> None:
    """Write a plugin NAME.py with comments, and a study NAME.toml that uses it.

    Both work as they are, and are meant to be changed into your own. The python-integrator is an
    implicit midpoint rule in NumPy, the python-system a spherical pendulum; the compiled integrator
    is a leapfrog along great circles, the compiled system a bead on a sphere, the observable the
    height of a body, and the plot one of energy errors over time. Existing files are never
    overwritten.

    \b
    Example:
      sweep new integrator my_leapfrog && sweep run my_leapfrog.toml
    """
    _check_name(kind, name)
    paths = {ending: require_local_path(f"{name}.{ending}") for ending in ("py", "toml")}
    for path in paths.values():
        if path.exists():
            raise InputError(f"{path} exists; give another name, or remove it first")
    camel = "".join(part.capitalize() for part in name.split("_"))
    for ending, path in paths.items():
        changes = {"@name@": name, "@Class@": camel}
        write_from_template(f"{kind}.{ending}.txt", str(path), changes)
    click.echo(f"Wrote {paths['py']}, and {paths['toml']}, a study that uses it.")
    after = NEXT_COMMANDS.get(kind, "sweep report {name}.zarr").format(name=name)
    page = PAGES.get(kind.removeprefix("python-"), "system")
    click.echo(f"Next: sweep run {paths['toml']}, {after}. More: sweep guide {page}")


def _check_name(kind: str, name: str) -> None:
    """Raise `InputError` unless a plugin of this kind may have this name."""
    if not re.fullmatch(PLUGIN_NAME, name):
        raise InputError(
            f"{name!r} is no name of a plugin; expected small letters, digits and '_', beginning "
            "with a letter, such as my_leapfrog"
        )
    kind = kind.removeprefix("python-")
    methods = [method.name for method in integrators.ALL_INTEGRATORS]
    built_in = {"system": systems.names(), "integrator": methods}.get(kind, [])
    if name in built_in:
        raise InputError(f"the {kind} {name!r} is built in; give the plugin another name")

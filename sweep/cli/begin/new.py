"""`sweep new`: write a plugin with a system, integrator, observable or kind of plot."""

import re
from typing import Annotated, Literal

import click

import integrators
import systems
from integrators.errors import InputError
from sweep.cli.options import ClickSettings, command
from sweep.cli.output import write_from_template
from sweep.store.backends.places import require_local_path

Kind = Literal[
    "mechanical-system",
    "spin-system",
    "lie-group-system",
    "python-system",
    "integrator",
    "python-integrator",
    "observable",
    "plot",
]
PLUGIN_NAME = "[a-z][a-z0-9_]*"
STUDIES = {"python-integrator": "integrator"}  # templates of studies, if not called like the kind
NEXT_COMMANDS = {"plot": "sweep plot {name} {name}.zarr"}  # for other kinds, `sweep report`
PAGES = {"plot": "observable"}  # of the guide, if not called like the last word of the kind


@command
def new(kind: Annotated[Kind, ClickSettings(metavar="KIND")], name: str) -> None:
    """Write a plugin NAME.py with comments, and a study NAME.toml that uses it.

    Both work as they are, and are meant to be changed into your own. Existing files are never
    overwritten. What each KIND writes:

    \b
    mechanical-system  a bead on a sphere, by its potential
    spin-system        two coupled spins, by their Hamiltonian
    lie-group-system   a rigid body, by the motion of its rotation matrix
    python-system      a spherical pendulum in NumPy, by its vector field
    integrator         a leapfrog along great circles
    python-integrator  an implicit midpoint rule in NumPy
    observable         the height of a body, to record
    plot               a picture of energy errors over time

    \b
    Example:
      sweep new integrator my_leapfrog && sweep run my_leapfrog.toml
    """
    adds = kind.rpartition("-")[2]
    _check_name(adds, name)
    paths = {ending: require_local_path(f"{name}.{ending}") for ending in ("py", "toml")}
    for path in paths.values():
        if path.exists():
            raise InputError(f"{path} exists; give another name, or remove it first")
    changes = {"@name@": name, "@Class@": "".join(map(str.capitalize, name.split("_")))}
    write_from_template(f"{kind}.py.txt", str(paths["py"]), changes)
    write_from_template(f"{STUDIES.get(kind, kind)}.toml.txt", str(paths["toml"]), changes)
    click.echo(f"Wrote {paths['py']}, and {paths['toml']}, a study that uses it.")
    after = NEXT_COMMANDS.get(kind, "sweep report {name}.zarr").format(name=name)
    click.echo(
        f"Next: sweep run {paths['toml']}, {after}. More: sweep guide {PAGES.get(adds, adds)}"
    )


def _check_name(adds: str, name: str) -> None:
    """Raise `InputError` unless a plugin that adds a system, … may have this name."""
    if not re.fullmatch(PLUGIN_NAME, name):
        raise InputError(
            f"{name!r} is no name of a plugin; expected small letters, digits and '_', beginning "
            "with a letter, such as my_leapfrog"
        )
    methods = [method.name for method in integrators.ALL_INTEGRATORS]
    built_in = {"system": systems.names(), "integrator": methods}.get(adds, [])
    if name in built_in:
        raise InputError(f"the {adds} {name!r} is built in; give the plugin another name")

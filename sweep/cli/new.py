"""`sweep new`: a system, integrator, observable or kind of plot of one's own, to start from."""

import importlib.resources
import re

import click

import integrators
import systems
from integrators.errors import InputError
from sweep.store.backends.places import require_local_path

KINDS = ("system", "integrator", "observable", "plot")
NAME = "[a-z][a-z0-9_]*"
NEXT = {"plot": "sweep plot {name} {name}.zarr"}


@click.command("new")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name")
def command(kind, name):
    """Write a commented plugin NAME.py that works at once, and a study NAME.toml that uses it.

    The system is a bead on a sphere, the integrator a leapfrog along great circles, the observable
    a height, the plot one of energy errors: each is to be changed into what you want. Existing
    files are never overwritten.

    \b
    Example:
      sweep new integrator my_leapfrog && sweep run my_leapfrog.toml
    """
    _check_name(kind, name)
    folder = importlib.resources.files("sweep").joinpath("cli", "templates")
    paths = {ending: require_local_path(f"{name}.{ending}") for ending in ("py", "toml")}
    for path in paths.values():
        if path.exists():
            raise InputError(f"{path} exists; give another name, or remove it first")
    for ending, path in paths.items():
        text = folder.joinpath(f"{kind}.{ending}.txt").read_text("utf-8")
        camel = "".join(part.capitalize() for part in name.split("_"))
        text = text.replace("@name@", name).replace("@Class@", camel)
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror}") from None
    click.echo(f"Wrote {paths['py']}, and {paths['toml']}, a study that uses it.")
    after = NEXT.get(kind, "sweep report {name}.zarr").format(name=name)
    click.echo(f"Next: sweep run {paths['toml']}, {after}. More: sweep guide plugins")


def _check_name(kind, name):
    if not re.fullmatch(NAME, name):
        raise InputError(
            f"{name!r} is no name of a plugin; expected small letters, digits and '_', the first a "
            "letter, such as my_leapfrog"
        )
    taken = {
        "system": systems.names,
        "integrator": lambda: [method.name for method in integrators.ALL_INTEGRATORS],
    }.get(kind, list)()
    if name in taken:
        raise InputError(f"the {kind} {name!r} is built in; expected a name of its own")

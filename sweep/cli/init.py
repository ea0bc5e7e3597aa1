"""`sweep init`: a study file to start from."""

import importlib.resources
import re

import click

from integrators.errors import InputError
from sweep.store.backends.places import require_local_path


@click.command("init")
@click.argument("path", default="study.toml", type=click.Path(dir_okay=False))
def command(path: str) -> None:
    """Write a commented study file to PATH (study.toml by default).

    An existing file is never overwritten.

    \b
    Example:
      sweep init my-study.toml && sweep check my-study.toml
    """
    text = (
        importlib.resources.files("sweep")
        .joinpath("cli", "templates", "study.toml")
        .read_text("utf-8")
    )
    target = require_local_path(path)
    try:
        with target.open("x", encoding="utf-8") as file:
            name = re.sub("[^A-Za-z0-9_.-]+", "-", target.stem).strip("-_.") or "my-study"
            file.write(text.replace('"my-study"', f'"{name}"'))
    except FileExistsError:
        raise InputError(f"{path} exists; give another path, or remove it first") from None
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
    click.echo(f"Wrote {path}. Next: sweep check {path}, sweep run {path}")

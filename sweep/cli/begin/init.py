"""`sweep init`: a study file to start from."""

import re
from pathlib import Path
from typing import Annotated

import click

from sweep.cli.options import ClickSettings, command
from sweep.cli.output import write_from_template


@command
def init(
    path: Annotated[str, ClickSettings(type=click.Path(dir_okay=False))] = "study.toml",
) -> None:
    """Write a commented study file to PATH (study.toml by default).

    An existing file is never overwritten.

    \b
    Example:
      sweep init my-study.toml && sweep check my-study.toml
    """
    name = re.sub("[^A-Za-z0-9_.-]+", "-", Path(path).stem).strip("-_.") or "my-study"
    write_from_template("study.toml", path, {'"my-study"': f'"{name}"'})
    click.echo(f"Wrote {path}. Next: sweep check {path}, sweep run {path}")

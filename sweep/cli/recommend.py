"""`sweep recommend`: which integrator keeps an error below a bound at the least cost."""

import dataclasses
import os
import tomllib
from pathlib import Path

import click

import sweep
from integrators.errors import InputError
from sweep.cli.common import Duration, echo_json, json_option, study_argument, trust_option
from sweep.cli.plot import PICTURES
from sweep.store.backends.places import require_local_path


@click.command("recommend")
@study_argument
@click.option("--experiment", "-e", metavar="NAME", help="Where the study has several.")
@click.option("--energy-error", type=float, metavar="BOUND", help="Largest change of the energy.")
@click.option(
    "--momentum-error", type=float, metavar="BOUND", help="Largest change of momentum maps."
)
@click.option(
    "--global-error", type=float, metavar="BOUND", help="Largest error against a reference."
)
@click.option(
    "--until", type=float, metavar="T", help="In the study's unit; its duration unless given."
)
@click.option(
    "--budget",
    type=Duration(),
    default=600.0,
    show_default="10m",
    metavar="TIME",
    help="That the search may take: 90s, 10m, 1h.",
)
@click.option("--plot", metavar="FILE", help="Write errors against CPU time as a picture.")
@click.option(
    "--study", "shown", metavar="FILE", help="Write a study of the answer, which sweep run runs."
)
@trust_option
@json_option
def command(study, experiment, until, budget, plot, shown, trust_plugins, as_json, **asked):
    """Recommend an integrator for the system of STUDY, with its step size or tolerance.

    It is the cheapest, of all that fit, that keeps the errors asked for below their bounds over
    the whole time. Of the study the system, its parameters and the initial conditions count; of an
    ensemble new members are drawn. The answer is verified from some that were held back.

    \b
    Example:
      sweep recommend quickstart -e pendulum --energy-error 1e-9
      sweep recommend my-study.toml --energy-error 1e-9 --until 1e4 --study answer.toml
      sweep recommend my-study.toml --global-error 1e-6 --until 10 --plot answer.pdf
    """
    picture = None if plot is None else _new_file(plot, "plot")
    if picture is not None and picture.suffix.lower() not in PICTURES:
        raise InputError(
            f"--plot {plot}: no picture ends in {picture.suffix or 'nothing'}; expected one of "
            f"{', '.join(PICTURES)}"
        )
    written = None if shown is None else _new_file(shown, "study")
    if written is not None and written.exists():
        raise InputError(f"--study {shown} exists; give another path, or remove it first")
    read, _ = sweep.store.resolve_study_and_store(study, trust_plugins=trust_plugins)
    home = Path(study).parent if os.path.exists(study) else Path()
    if written is not None and written.parent.resolve() != home.resolve() and _names_files(read):
        raise InputError(f"--study {shown}: {study} names files beside it; expected one in {home}")
    found = sweep.recommend(
        read,
        until=until,
        experiment=experiment,
        budget=budget,
        say=lambda line: click.echo(line, err=True),
        **asked,
    )
    if as_json:
        echo_json(dataclasses.asdict(found))
    else:
        click.echo("\n".join(sweep.tables.recommendation_in_sentences(found)))
        click.echo(f"\n{sweep.tables.recommendation_as_table(found)}")
    if written is not None:
        written.write_text(found.text, encoding="utf-8")
        click.echo(f"Wrote {shown}. Next: sweep run {shown}", err=as_json)
    if picture is not None:
        sweep.plots.save(sweep.plots.recommendation_picture(found), picture)
        click.echo(f"Wrote {plot}", err=as_json)


def _names_files(study):
    """Whether a study has plugins, or initial states in files and stores."""
    for top in map(tomllib.loads, study.texts):
        tables = [top.get("defaults", {}), *top["experiment"]]
        starts = [own for table in tables for own in _listed(table.get("initial_condition", []))]
        origins = [own.keys() & {"file", "store"} for own in starts if isinstance(own, dict)]
        if top.get("plugins") or any(origins):
            return True
    return False


def _listed(value):
    return value if isinstance(value, list) else [value]


def _new_file(path, option):
    """The path of a file that is to be written; `InputError` where there is no directory for it."""
    target = require_local_path(path)
    if not target.parent.is_dir() or target.is_dir():
        raise InputError(f"--{option} {path}: expected a file in a directory that is there")
    return target

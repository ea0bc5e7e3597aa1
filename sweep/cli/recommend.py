"""`sweep recommend`: which integrator keeps an error below a bound at the least cost."""

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import sweep
from integrators.errors import InputError
from sweep.analysis.drift.estimators import FEWEST
from sweep.cli.common import (
    Duration,
    cluster_options,
    echo_json,
    json_option,
    study_argument,
    trust_option,
)
from sweep.cli.plot import PICTURES
from sweep.store.backends.places import require_local_path
from sweep.text import count_with_noun

if TYPE_CHECKING:
    from sweep.study.study import Study


@click.command("recommend")
@study_argument
@click.option(
    "--experiment", "-e", metavar="NAME", help="Experiment to use, if the study has several."
)
@click.option(
    "--energy-error", type=float, metavar="BOUND", help="Bound on the change of the energy."
)
@click.option(
    "--momentum-error", type=float, metavar="BOUND", help="Bound on the change of momentum maps."
)
@click.option(
    "--global-error", type=float, metavar="BOUND", help="Bound on the error against a reference."
)
@click.option(
    "--until",
    type=float,
    metavar="T",
    help="Duration, in the study's unit of time; by default the study's.",
)
@click.option(
    "--budget",
    type=Duration(),
    default="10m",
    show_default=True,
    metavar="TIME",
    help="Time that the search may take: 90s, 10m, 1h.",
)
@click.option(
    "--keep",
    metavar="STORE",
    help="Store for the runs of the search: the same command goes on from what it has.",
)
@click.option("--plot", metavar="FILE", help="Write errors against CPU time as a picture.")
@click.option(
    "--study", "shown", metavar="FILE", help="Write the answer as a study file for sweep run."
)
@cluster_options
@trust_option
@json_option
def command(
    study: str,
    plot: str | None,
    shown: str | None,
    trust_plugins: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Recommend an integrator for the system of STUDY, with its step size or tolerance.

    It is the cheapest of all fitting integrators that keep the given errors below their bounds
    over the whole time. Only the system, its parameters and the initial conditions of the study
    count; new members of ensembles are drawn. The answer is verified from starts that the search
    did not use. All runs are ordinary ones of a store, which --keep keeps.

    \b
    Example:
      sweep recommend quickstart -e pendulum --energy-error 1e-9
      sweep recommend my-study.toml --energy-error 1e-9 --until 1e4 --study answer.toml
      sweep recommend my-study.toml --global-error 1e-6 --until 10 --plot answer.pdf
      sweep recommend my-study.toml --energy-error 1e-9 --keep search.zarr --budget 1h
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
    loaded, _ = sweep.store.resolve_study_and_store(study, trust_plugins=trust_plugins)
    home = Path(study).parent if os.path.exists(study) else Path()
    if written is not None and written.parent.resolve() != home.resolve() and _names_files(loaded):
        raise InputError(f"--study {shown}: {study} names files beside it; expected one in {home}")
    recommendation = sweep.recommend(loaded, say=lambda line: click.echo(line, err=True), **options)
    if as_json:
        echo_json(dataclasses.asdict(recommendation))
    else:
        click.echo(recommendation)
    if written is not None:
        written.write_text(recommendation.text, encoding="utf-8")
        click.echo(f"Wrote {shown}. Next: sweep run {shown}", err=as_json)
        if recommendation.samples < FEWEST:
            has = count_with_noun(recommendation.samples, "sample")
            said = f"With {has} it tells whether bounds are kept, and no drift"
            click.echo(f"{said}: give the file {FEWEST} or more.", err=as_json)
    if picture is not None:
        sweep.plots.save(sweep.plots.recommendation_picture(recommendation), picture)
        click.echo(f"Wrote {plot}", err=as_json)


def _names_files(study: "Study") -> bool:
    """Whether a study names plugins, or files or stores of initial states."""
    starts = [own for experiment in study.experiments for own in experiment.initial_conditions]
    return bool(study.library.plugins) or any(hasattr(own, "file") for own in starts)


def _new_file(path: str, option: str) -> Path:
    """The path of a file to write; `InputError` where there is no directory for it."""
    target = require_local_path(path)
    if not target.parent.is_dir() or target.is_dir():
        raise InputError(f"--{option} {path}: expected a file in a directory that is there")
    return target

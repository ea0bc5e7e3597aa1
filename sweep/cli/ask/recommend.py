"""`sweep recommend`: find the cheapest integrator that keeps errors below bounds."""

import dataclasses
import os
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict, Unpack

import click

import sweep
from integrators.errors import InputError
from sweep.cli.options import ClickSettings, Seconds, command
from sweep.cli.output import echo, path_of_new_file
from sweep.cli.show.pictures import PICTURES
from sweep.text import count_with_noun

if TYPE_CHECKING:
    from sweep.clusters.spec import ClusterSpec
    from sweep.study.study import Study


class Search(TypedDict):
    """Arguments of `sweep.recommend`."""

    experiment: str | None
    energy_error: float | None
    momentum_error: float | None
    global_error: float | None
    until: float | None
    budget: Annotated[Seconds, ClickSettings(default=600.0)]
    keep: str | None


@command
def recommend(
    study: str,
    cluster: "ClusterSpec",
    plot: str | None,
    study_file: str | None,
    trust_plugins: bool,
    as_json: bool,
    **search: Unpack[Search],
) -> None:
    """Recommend an integrator for the system of STUDY, with its step size or tolerance.

    The recommendation is the cheapest of all suitable integrators that keep the given errors below
    their bounds over the whole duration. From the study, only the system, its parameters, the
    initial conditions and the number of samples are used; random ensembles get new members. The
    answer is verified with initial conditions that the search did not use. All runs are written to
    a store, which is deleted at the end unless --keep is given.

    \b
    Example:
      sweep recommend quickstart -e pendulum --energy-error 1e-9
      sweep recommend my-study.toml --energy-error 1e-9 --study answer.toml
      sweep recommend my-study.toml --global-error 1e-6 --until 10
      sweep recommend my-study.toml --energy-error 1e-9 --keep search.zarr

    Options:
      --plot FILE  Draw errors against CPU time, as a picture in FILE.
      --study FILE  Write the answer to FILE, as a study for sweep run.
      -e, --experiment NAME  Experiment to use, if the study has several.
      --energy-error BOUND  Bound on the change of the energy.
      --momentum-error BOUND  Bound on the change of momentum maps.
      --global-error BOUND  Bound on the error against a reference.
      --until T  Duration, in the study's unit of time; by default the study's.
      --budget TIME  Time that the search may take: 90s, 10m, 1h.  [default: 10m]
      --keep STORE  Keep the runs of the search in STORE; the same command resumes from there.
    """
    picture = plot and path_of_new_file(plot, "plot", "picture", PICTURES)
    written = study_file and path_of_new_file(study_file, "study_file")
    if written and written.exists():
        raise InputError(f"--study {study_file} exists; give another path, or remove it first")
    loaded, _ = sweep.store.resolve_study_and_store(study, trust_plugins=trust_plugins)
    home = Path(study).parent if os.path.exists(study) else Path()
    if written and written.parent.resolve() != home.resolve() and _names_files(loaded):
        raise InputError(
            f"--study {study_file}: {study} names files beside it; expected one in {home}"
        )
    recommendation = sweep.recommend(
        loaded, cluster=cluster, say=lambda line: click.echo(line, err=True), **search
    )
    echo(dataclasses.asdict(recommendation), recommendation, as_json)
    if written:
        written.write_text(recommendation.text, encoding="utf-8")
        click.echo(f"Wrote {study_file}. Next: sweep run {study_file}", err=as_json)
        from sweep.analysis.drift.estimators import FEWEST  # loads SciPy, unlike --help

        (table,) = tomllib.loads(recommendation.text)["experiment"]
        if table["samples"] < FEWEST:
            has = count_with_noun(table["samples"], "sample")
            said = f"With {has} it prints the largest energy errors, and no drifts"
            click.echo(f"{said}: these need {FEWEST} samples or more.", err=as_json)
    if picture:
        sweep.plots.save(sweep.plots.recommendation_picture(recommendation), picture)
        click.echo(f"Wrote {plot}", err=as_json)


def _names_files(study: "Study") -> bool:
    """Whether a study names files: plugins, or files or stores with initial states."""
    starts = [own for experiment in study.experiments for own in experiment.initial_conditions]
    return bool(study.library.plugins) or any(hasattr(own, "file") for own in starts)

"""Computation of a paper's studies, and measurement of its claims in their stores."""

import dataclasses
import math
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import xarray as xr

from integrators.errors import InputError, check_known, check_number
from sweep.analysis.rows import Rows
from sweep.campaign.run import run
from sweep.clusters.connect import local_cluster_client
from sweep.clusters.stop_request import StopRequest
from sweep.errors import Interrupted
from sweep.papers.claims import Paper
from sweep.papers.registry import PAPERS
from sweep.store.open import open_study
from sweep.study.experiment import ResolvedExperiment
from sweep.study.study import Study, load_study_file


def reproduce(
    paper: str | Paper,
    directory: str | Path,
    *,
    only: Sequence[str] = (),
    step_factor: float = 1.0,
    workers: int | None = None,
    pictures: bool = False,
    max_time: float | None = None,
    told: Callable[[str], object] = lambda text: None,
) -> tuple[Rows, dict[str, dict[str, xr.Dataset]]]:
    """Compute every number of a paper.

    Parameters
    ----------
    paper : str or Paper
        ``"lee"``, ``"mclachlan"``, ``"celledoni"``, or a paper of your own.
    directory : str or Path
        Directory of the stores, one for each study. Runs that they have are not computed again.
    only : sequence of str, optional
        Parts and figures of the paper, such as ``Example 1`` or ``figure-3``. Only their claims are
        measured, and only the experiments that these need are run.
    step_factor : float, optional
        Factor for every step size.
    workers : int, optional
        Number of processes of the local cluster; by default one per core.
    pictures : bool, optional
        Also run the experiments that are needed only for pictures.
    max_time : float, optional
        Time limit in seconds.
    told : callable, optional
        Called with the name of each study before it is run.

    Returns
    -------
    rows : Rows of Row
        In the order of the paper's claims.
    datasets : dict of str to dict of str to xarray.Dataset
        The results, by study and experiment.

    Raises
    ------
    InputError
        If the paper has no such part; if the factor is not positive, or gives a step size that does
        not divide its sample interval; or if a store cannot be written.
    sweep.errors.Interrupted
        If the computation was interrupted; the stores have all committed results.
    """
    if isinstance(paper, str):
        check_known("paper", paper, PAPERS, key="paper")
        paper = PAPERS[paper]
    paper = paper.only(only)
    factor = check_number("step_factor", step_factor, above=0.0)
    studies = [
        _study_to_run(load_study_file(name), experiments, factor)
        for name, experiments in paper.experiments(pictures).items()
    ]
    end = math.inf
    if max_time is not None:
        end = time.monotonic() + check_number("max_time", max_time, above=0.0)
    datasets = {}
    with StopRequest(max_time=max_time) as stop, local_cluster_client(workers) as client:
        for study in studies:
            stop.check()
            told(study.name)
            store = Path(directory) / f"{study.name}.zarr"
            left = None if max_time is None else max(end - time.monotonic(), 1e-3)
            outcome = run(study, store, client, max_time=left)
            if not outcome.complete:
                raise Interrupted(outcome.stopped)
            tree = open_study(store)
            datasets[study.name] = {name: node.to_dataset() for name, node in tree.items()}
    return Rows(claim.computed_row(datasets, factor) for claim in paper.claims), datasets


def _study_to_run(study: Study, wanted: Collection[str], factor: float) -> Study:
    """The study reduced to some experiments, with every step size multiplied by `factor`."""
    experiments = tuple(
        one if factor == 1.0 else _experiment_with_scaled_steps(study.name, one, factor)
        for one in study.experiments
        if one.name in wanted
    )
    return study.replaced(experiments=experiments)


def _experiment_with_scaled_steps(
    study: str, experiment: ResolvedExperiment, factor: float
) -> ResolvedExperiment:
    def scaled(sizes: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(factor * size for size in sizes)

    entries = tuple(
        dataclasses.replace(entry, step_sizes=entry.step_sizes and scaled(entry.step_sizes))
        for entry in experiment.integrators
    )
    made = dataclasses.replace(
        experiment, integrators=entries, step_sizes=scaled(experiment.step_sizes)
    )
    try:
        for size in (size for entry in entries for size, _ in made.steps_of(entry)):
            if not math.isnan(size):
                made.time_axis.steps(size)
    except InputError as error:
        raise InputError(f"step_factor = {factor:g}: {study}: {error}", key="step_factor") from None
    return made

"""`sweep summary`: the tables and plots that are also printed and written at the end of a run."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import sweep
from integrators.errors import InputError
from sweep.cli.options import command
from sweep.cli.progress_line import ProgressLine
from sweep.cli.show.pictures import (
    experiments_to_draw,
    open_whole_experiments,
    picture_file,
    write_picture,
    write_picture_of_store,
)
from sweep.result_cache import (
    digest_of_pictures,
    digest_of_state,
    find_in_cache,
    put_into_cache,
    stamps,
)
from sweep.store.backends.places import METADATA
from sweep.store.files import INTERNAL
from sweep.store.store import Store
from sweep.tables.answers import ANSWERS, Answer
from sweep.text import width_of_output, wrap_for_output

if TYPE_CHECKING:
    import xarray as xr

PACKAGES = "matplotlib", "numpy", "pandas", "scipy", "xarray"  # that tables and pictures depend on
# Pictures drawn at the end of every run. `_kinds_that_fit` adds others; `sweep plot` draws all.
KINDS = ("order", "scan", "energy", "unit-length", "megno", "lyapunov", "sphere")

MOST_PROCESSES = 4  # that draw: each takes 0.6 s of CPU time to begin, and 0.2 GB

Stamps = dict[str, list[int]]


@command
def summary(datasets: "dict[str, xr.Dataset]") -> None:
    """Print the tables that `sweep run` prints at its end: orders, drifts, exponents, structure.

    Each experiment gets the tables that it has results for. `sweep order`, `drift` and `chaos`
    print each in more detail; `sweep report` writes all of them, with pictures, on one page.

    \b
    Example:
      sweep summary quickstart.zarr
    """
    for text in answers_in_text(datasets):
        click.echo(text)


def print_run_summary(store: Store, workers: int = 0) -> None:
    """Print the answers of a store, and write its plots.

    If nothing changed since, the kept tables are printed, without importing xarray or Matplotlib.

    Parameters
    ----------
    store : Store
    workers : int, optional
        Number of workers that have computed in this run; as many processes draw, on this machine.
    """
    directory, name, state = store.output_path("-plots"), f"summary of {store.place}", ""
    if isinstance(store.place, Path):  # to look at the files of a bucket takes longer
        state = _state_of_summary(store, store.place)
        kept = find_in_cache(name, state)
        if kept is not None and _are_unchanged(kept["pictures"]):
            click.echo(kept["tables"])
            _print_where_plots_are(store, directory, [], 0, len(kept["pictures"]))
            return
    with _drawing_processes(store, workers) as helpers:
        datasets, tables = open_whole_experiments(store), list[str]()
        for text in answers_in_text(datasets):
            click.echo(text)
            tables.append(text)
        pictures = _save_summary_plots(store, directory, datasets, helpers)
    if pictures and state:
        put_into_cache(name, state, {"tables": "\n".join(tables), "pictures": pictures})


@contextlib.contextmanager
def _drawing_processes(store: Store, workers: int) -> Iterator[Executor | None]:
    """Context manager for processes that draw beside this one, which open the store at once."""
    cores = min(workers, os.cpu_count() or 1, MOST_PROCESSES)
    if cores < 2 or (pool := sweep.clusters.processes.pool_of_server(cores - 1)) is None:
        yield None
        return
    try:
        for _ in range(cores - 1):
            pool.submit(experiments_to_draw, str(store))
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _state_of_summary(store: Store, place: Path) -> str:
    """A digest of what tables and pictures depend on: files, versions, and the output's width."""
    files = [place / path for path in sorted(store.list_files())]
    notes = place / INTERNAL  # files there are notes on the last run, but for the metadata
    stable = [file for file in files if file.parent != notes or file.name == METADATA]
    return digest_of_state(stamps(stable), [*map(version, PACKAGES)], width_of_output())


def _are_unchanged(known: dict[str, list[int]]) -> bool:
    with contextlib.suppress(OSError):
        return stamps(known) == known
    return False


def answers_in_text(datasets: "Mapping[str, xr.Dataset]") -> Iterator[str]:
    """Yield the tables of each answer that an experiment was made for, by experiment."""
    for name, dataset in datasets.items():
        title = f"{name}: {dataset.attrs['title'].partition(': ')[2]}"
        energy = [sweep.analysis.name_of_energy_quantity(dataset)]
        said = []
        for asked, arguments in {"order": [], "drift": [energy], "chaos": []}.items():
            said += _answer_in_text(ANSWERS[asked], dataset, *arguments)
        if sweep.analysis.has_structure(dataset):
            said += _answer_in_text(ANSWERS["structure"], dataset)
        yield "\n".join([f"\n{title}", "=" * len(title), "\n\n".join(said)])


def _answer_in_text(answer: Answer, dataset: "xr.Dataset", *arguments: Any) -> list[str]:
    """The tables of an analysis, or why it was not made; empty if its quantity is not recorded."""
    if why := answer.unasked(dataset):
        return [wrap_for_output(why)]
    if answer.analyse is not None and answer.suits(dataset):
        with contextlib.suppress(InputError):
            tables = answer.tables(dataset, answer.analyse(dataset, *arguments))
            return [sweep.tables.tables_as_text(tables)]
    return []


def _save_summary_plots(
    store: Store,
    directory: Path,
    datasets: "Mapping[str, xr.Dataset]",
    helpers: Executor | None,
) -> Stamps:
    """Write the plots, or print why they cannot be written: the run is complete all the same.

    Returns the stamps of their files; none where something is to be said again, or drawn, the next
    time.
    """
    place = f"pictures in {directory.absolute()}"
    before = find_in_cache(place, "") or {}
    pictures: Stamps = {}
    asked: dict[tuple[str, str], Path] = {}
    digests: dict[str, str] = {}
    for name, dataset in datasets.items():
        kinds = (*KINDS, *_kinds_that_fit(dataset))
        digest, known = digest_of_pictures(dataset, kinds), before.get(name, {})
        if known.get("digest") == digest and _are_unchanged(known["pictures"]):
            pictures |= known["pictures"]
        else:
            digests[name] = digest
            asked |= {(name, kind): picture_file(directory, name, kind) for kind in kinds}
    unchanged, refused = len(pictures), dict[tuple[str, str], str]()
    with ProgressLine() as line:
        try:
            for done, (of, why) in enumerate(_draw(store, datasets, asked, helpers)):
                refused |= {of: why} if why else {}
                line.show(f"Pictures of {of[0]}", (done + 1) / len(asked))
        except InputError as error:
            line.close()
            click.echo(f"\nNo plots: {error}", err=True)
            return {}
    lines = list[str]()
    for name, digest in digests.items():
        drawn = stamps(file for of, file in asked.items() if of[0] == name and of not in refused)
        pictures |= drawn
        if "state" in datasets[name] and (name, "sphere") in refused:  # to be said next time too
            said = refused[name, "sphere"]
            lines.append(f"No picture of {name} on the sphere: {said}")
        else:
            before[name] = {"digest": digest, "pictures": drawn}
    put_into_cache(place, "", before)
    _print_where_plots_are(store, directory, lines, len(pictures) - unchanged, unchanged)
    return {} if lines else pictures


def _draw(
    store: Store,
    datasets: "Mapping[str, xr.Dataset]",
    asked: dict[tuple[str, str], Path],
    helpers: Executor | None,
) -> Iterator[tuple[tuple[str, str], str]]:
    """Write pictures, by experiment and kind; yield each, with why it cannot be drawn.

    Helpers begin with the first pictures, and this process with the last.
    """
    futures: dict[tuple[str, str], Future[str]] = {}
    if helpers is not None:
        with contextlib.suppress(BrokenExecutor):
            for of, file in asked.items():
                futures[of] = helpers.submit(write_picture_of_store, str(store), *of, file)
    for of in reversed(asked):
        why: str | None = None
        if of in futures and not futures[of].cancel():  # since a helper has begun it
            with contextlib.suppress(BrokenExecutor):  # the helper was killed
                why = futures[of].result()
        yield of, write_picture(datasets[of[0]], of[1], asked[of]) if why is None else why


def _print_where_plots_are(
    store: Store, directory: Path, lines: Sequence[str], written: int, unchanged: int
) -> None:
    kept = f" ({written} drawn, {unchanged} unchanged)" if unchanged else ""
    page = f"All on one page: sweep report {store}"
    click.echo("\n" + "\n".join([f"Plots: {directory}{kept}", *lines, page]))


def _kinds_that_fit(dataset: "xr.Dataset") -> list[str]:
    """Further kinds of pictures that suit an experiment.

    Drifts suit runs that last longer than their reference or have none. Work suits experiments with
    both adaptive integrators and others.
    """
    experiment = json.loads(dataset.attrs["experiment"])
    until = (experiment["reference"] or {"until": 0.0})["until"]
    adaptive = sweep.analysis.adaptive_runs(dataset)
    fitting = {"drift": until is not None and until < experiment["duration"]}
    fitting["work"] = adaptive.any() and not adaptive.all()
    return [kind for kind, fits in fitting.items() if fits]

"""The tables and plots that end a run."""

import contextlib
import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import sweep
from integrators.errors import InputError
from sweep.cli.common import draw_pictures, open_experiments_for_command, picture_file_stem
from sweep.cli.progress import ProgressLine
from sweep.plots.marks import digest_of_pictures, picture_mark, unchanged_pictures
from sweep.store.store import Store
from sweep.tables.answers import ANSWERS

if TYPE_CHECKING:
    import xarray as xr

    from sweep.campaign.decide import Decisions

# Pictures at the end of every run; `_kinds_that_fit` adds others, and `sweep plot` draws all.
KINDS = ("order", "scan", "energy", "unit-length", "megno", "lyapunov", "sphere")


def print_run_summary(store: Store) -> None:
    """Print tables of orders, drifts and exponents of each experiment, and write its plots."""
    datasets = open_experiments_for_command(store)
    for name, dataset in datasets.items():
        title = f"{name}: {dataset.attrs['title'].partition(': ')[2]}"
        click.echo(f"\n{title}\n{'=' * len(title)}")
        click.echo("\n\n".join(_answers_in_text(dataset)))
    _save_summary_plots(store, datasets)


def _answers_in_text(dataset: "xr.Dataset") -> list[str]:
    """The tables of each answer that an experiment was made for."""
    energy = [sweep.analysis.name_of_energy_quantity(dataset)]
    asked: dict[str, tuple[Any, ...]] = {"order": (), "drift": (energy,), "chaos": ()}
    if sweep.analysis.has_structure(dataset):
        asked["structure"] = ()
    said = []
    for name, arguments in asked.items():
        answer = ANSWERS[name]
        if (why := answer.unasked(dataset)) or answer.analyse is None:
            said.append(why)
        elif answer.suits(dataset):
            with contextlib.suppress(InputError):  # it does not record what this is about
                tables = answer.tables(dataset, answer.analyse(dataset, *arguments))
                said.append(sweep.tables.tables_as_text(tables))
    return said


def decisions_for_json(decisions: "Decisions") -> dict[str, Any]:
    """The answer of `sweep.decide` as a dict for JSON."""
    row: dict[str, Any]
    (row,) = sweep.tables.table_rows_for_json([dataclasses.replace(decisions, outcome=None)])
    return row


def _save_summary_plots(store: Store, datasets: "Mapping[str, xr.Dataset]") -> None:
    """Write the plots, or print why they cannot be written: the run is complete all the same."""
    directory, lines = default_plot_directory(store), list[str]()
    drawn = unchanged = 0
    with ProgressLine() as line:
        try:
            for done, (name, dataset) in enumerate(datasets.items()):
                kinds = (*KINDS, *_kinds_that_fit(dataset))
                files = {kind: directory / f"{picture_file_stem(name, kind)}.png" for kind in kinds}
                digest = digest_of_pictures(dataset, kinds)
                if same := unchanged_pictures(files, digest):
                    unchanged += len(same)
                    continue
                line.show(f"Pictures of {name}", done / len(datasets))
                asked = {sweep.plots.KINDS[kind]: dict[str, Any]() for kind in kinds}
                pictures = list(draw_pictures({name: dataset}, asked))
                written = [picture for picture in pictures if picture.figure is not None]
                said = [
                    f"No picture of {name} on the sphere: {picture.error}"
                    for picture in pictures
                    if picture.error and picture.kind == "sphere" and "state" in dataset
                ]
                # Without a mark they are drawn again next time, and what is said is said again.
                mark = picture_mark(digest, [p.kind for p in written])
                for picture in written:
                    picture.save(files[picture.kind], "" if said else mark)
                drawn, lines = drawn + len(written), lines + said
        except InputError as error:
            line.close()
            click.echo(f"\nNo plots: {error}", err=True)
            return
    kept = f" ({drawn} drawn, {unchanged} unchanged)" if unchanged else ""
    page = f"All on one page: sweep report {store}"
    click.echo("\n" + "\n".join([f"Plots: {directory}{kept}", *lines, page]))


def _kinds_that_fit(dataset: "xr.Dataset") -> list[str]:
    """Further kinds of pictures that suit an experiment.

    They are drifts of long runs, that last longer than their reference or have none; and work, if
    some of the integrators are adaptive and others are not.
    """
    experiment = json.loads(dataset.attrs["experiment"])
    until = (experiment["reference"] or {"until": 0.0})["until"]
    adaptive = sweep.analysis.adaptive_runs(dataset)
    fitting = {"drift": until is not None and until < experiment["duration"]}
    fitting["work"] = adaptive.any() and not adaptive.all()
    return [kind for kind, fits in fitting.items() if fits]


def default_plot_directory(store: str | Store) -> Path:
    """The default directory of a store's plots: NAME-plots beside it, or here for a bucket."""
    return Store.at(store).product("-plots")

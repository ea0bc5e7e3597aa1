"""`sweep summary`: the tables and plots that are also printed and written at the end of a run."""

import contextlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

import sweep
from integrators.errors import InputError
from sweep.cli.options import command
from sweep.cli.progress import ProgressLine
from sweep.cli.selection import open_experiments
from sweep.cli.show.pictures import draw_pictures, picture_file, save_picture
from sweep.plots.picture_digests import digest_of_pictures, picture_mark, unchanged_pictures
from sweep.store.store import Store
from sweep.tables.answers import ANSWERS, Answer

if TYPE_CHECKING:
    import xarray as xr

# Pictures drawn at the end of every run. `_kinds_that_fit` adds others; `sweep plot` draws all.
KINDS = ("order", "scan", "energy", "unit-length", "megno", "lyapunov", "sphere")


@command
def summary(datasets: "dict[str, xr.Dataset]") -> None:
    """Print the tables that `sweep run` prints at its end: orders, drifts, exponents, structure.

    Each experiment gets the tables that it has results for. `sweep order`, `drift` and `chaos`
    print each in more detail; `sweep report` writes all of them, with pictures, on one page.

    \b
    Example:
      sweep summary quickstart.zarr
    """
    print_answers(datasets)


def print_run_summary(store: Store) -> None:
    """Print the summary tables of a store, and write its summary plots."""
    datasets = open_experiments(store)
    print_answers(datasets)
    _save_summary_plots(store, datasets)


def print_answers(datasets: "Mapping[str, xr.Dataset]") -> None:
    """Print the tables of each analysis that an experiment has results for."""
    for name, dataset in datasets.items():
        title = f"{name}: {dataset.attrs['title'].partition(': ')[2]}"
        click.echo(f"\n{title}\n{'=' * len(title)}")
        energy = [sweep.analysis.name_of_energy_quantity(dataset)]
        said = []
        for asked, arguments in {"order": [], "drift": [energy], "chaos": []}.items():
            said += _answer_in_text(ANSWERS[asked], dataset, *arguments)
        if sweep.analysis.has_structure(dataset):
            said += _answer_in_text(ANSWERS["structure"], dataset)
        click.echo("\n\n".join(said))


def _answer_in_text(answer: Answer, dataset: "xr.Dataset", *arguments: Any) -> list[str]:
    """The tables of an analysis, or why it was not made; empty if its quantity is not recorded."""
    if why := answer.unasked(dataset):
        return [why]
    if answer.analyse is not None and answer.suits(dataset):
        with contextlib.suppress(InputError):
            tables = answer.tables(dataset, answer.analyse(dataset, *arguments))
            return [sweep.tables.tables_as_text(tables)]
    return []


def _save_summary_plots(store: Store, datasets: "Mapping[str, xr.Dataset]") -> None:
    """Write the plots; if that fails, print why, since the run itself is complete."""
    directory, lines = store.output_path("-plots"), list[str]()
    written = unchanged = 0
    with ProgressLine() as line:
        try:
            for done, (name, dataset) in enumerate(datasets.items()):
                kinds = (*KINDS, *_kinds_that_fit(dataset))
                files = {kind: picture_file(directory, name, kind) for kind in kinds}
                digest = digest_of_pictures(dataset, kinds)
                if same := unchanged_pictures(files, digest):
                    unchanged += len(same)
                    continue
                line.show(f"Pictures of {name}", done / len(datasets))
                asked = {sweep.plots.KINDS[kind]: dict[str, Any]() for kind in kinds}
                found = {kind: own for _, kind, own in draw_pictures({name: dataset}, asked)}
                drawn = {k: own for k, own in found.items() if not isinstance(own, InputError)}
                mark = picture_mark(digest, drawn)
                if "sphere" not in drawn and "state" in dataset:
                    lines.append(f"No picture of {name} on the sphere: {found['sphere']}")
                    mark = ""  # so that they are drawn, and this line is printed, next time too
                for kind, figure in drawn.items():
                    save_picture(figure, files[kind], mark)
                written += len(drawn)
        except InputError as error:
            line.close()
            click.echo(f"\nNo plots: {error}", err=True)
            return
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

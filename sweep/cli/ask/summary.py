"""`sweep summary`: the tables and plots that are also printed and written at the end of a run."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import sweep
from integrators.errors import InputError
from sweep.cli.options import command
from sweep.cli.progress import ProgressLine
from sweep.cli.selection import open_experiments
from sweep.cli.show.pictures import draw_pictures, picture_file, save_picture
from sweep.kept import digest_of_state, find_kept, keep, stamps
from sweep.reports.picture_digests import digest_of_pictures, picture_mark, unchanged_pictures
from sweep.store.backends.places import METADATA
from sweep.store.files import INTERNAL
from sweep.store.store import Store
from sweep.tables.answers import ANSWERS, Answer
from sweep.text import width_of_output

if TYPE_CHECKING:
    import xarray as xr

PACKAGES = "matplotlib", "numpy", "pandas", "scipy", "xarray"  # that tables and pictures depend on
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
    for text in answers_in_text(datasets):
        click.echo(text)


def print_run_summary(store: Store) -> None:
    """Print the answers of a store, and write its plots.

    If nothing changed since, the kept tables are printed, without importing xarray or Matplotlib.
    """
    directory, name, state = store.output_path("-plots"), f"summary of {store.place}", ""
    if isinstance(store.place, Path):  # to look at the files of a bucket takes longer
        state = _state_of_summary(store, store.place)
        kept = find_kept(name, state)
        if kept is not None and _are_unchanged(kept["pictures"]):
            click.echo(kept["tables"])
            _print_where_plots_are(store, directory, [], 0, len(kept["pictures"]))
            return
    datasets, tables = open_experiments(store), list[str]()
    for text in answers_in_text(datasets):
        click.echo(text)
        tables.append(text)
    if (pictures := _save_summary_plots(store, directory, datasets)) and state:
        keep(name, state, {"tables": "\n".join(tables), "pictures": stamps(pictures)})


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
        return [why]
    if answer.analyse is not None and answer.suits(dataset):
        with contextlib.suppress(InputError):
            tables = answer.tables(dataset, answer.analyse(dataset, *arguments))
            return [sweep.tables.tables_as_text(tables)]
    return []


def _save_summary_plots(
    store: Store, directory: Path, datasets: "Mapping[str, xr.Dataset]"
) -> list[Path]:
    """Write the plots, or print why they cannot be written: the run is complete all the same.

    Returns their files; none where something is to be said again, or drawn, the next time.
    """
    lines, pictures, written = list[str](), list[Path](), 0
    with ProgressLine() as line:
        try:
            for done, (name, dataset) in enumerate(datasets.items()):
                kinds = (*KINDS, *_kinds_that_fit(dataset))
                files = {kind: picture_file(directory, name, kind) for kind in kinds}
                digest = digest_of_pictures(dataset, kinds)
                if same := unchanged_pictures(files, digest):
                    pictures += [files[kind] for kind in same]
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
                    pictures.append(save_picture(figure, files[kind], mark))
                written += len(drawn)
        except InputError as error:
            line.close()
            click.echo(f"\nNo plots: {error}", err=True)
            return []
    _print_where_plots_are(store, directory, lines, written, len(pictures) - written)
    return [] if lines else pictures


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

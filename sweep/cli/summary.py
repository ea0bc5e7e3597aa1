"""The tables and plots that end a run."""

import dataclasses
import json

import click

import sweep
from integrators.errors import InputError
from sweep.cli.common import open_experiments_for_command, save_experiment_plots
from sweep.cli.progress import StatusLine
from sweep.store.store import Store

# Pictures that end a run, besides those that only some studies are about; `sweep plot` has all.
KINDS = ("order", "energy", "unit-length", "megno", "lyapunov", "sphere")


def print_run_summary(store):
    """Print tables of orders, drifts and exponents of each experiment, and where the plots are."""
    datasets = open_experiments_for_command(store)
    for name, dataset in datasets.items():
        title = f"{name}: {dataset.attrs['title'].partition(': ')[2]}"
        click.echo(f"\n{title}\n{'=' * len(title)}")
        if sweep.analysis.run_table_has_error(dataset):
            click.echo(
                sweep.tables.tables_as_text(
                    sweep.tables.errors_as_tables(*sweep.analysis.orders_and_tolerances(dataset))
                )
                + "\n"
            )
        quantities = [
            q for q in (sweep.analysis.name_of_energy_quantity(dataset),) if f"{q}_error" in dataset
        ]
        if quantities:
            click.echo(
                sweep.tables.tables_as_text(
                    sweep.tables.drifts_as_tables(
                        sweep.drift_table(dataset, quantities, step_sizes="smallest")
                    )
                )
            )
        if sweep.analysis.variables_of_chaos(dataset):
            click.echo(f"\n{sweep.tables.chaos_as_table(sweep.chaos_table(dataset))}")
        if sweep.analysis.has_structure(dataset):
            rows = sweep.analysis.structure_table(dataset, "smallest")
            click.echo(f"\n{sweep.tables.structure_as_table(rows)}")
    with StatusLine() as line:
        _save_summary_plots(store, datasets, line)


def decisions_for_json(found):
    """What became of verdicts that were open, of `sweep.decide`, as a dict."""
    (row,) = sweep.tables.table_rows_for_json([dataclasses.replace(found, outcome=None)])
    return row


def print_decisions(found, proposed=False):
    """Print what became of verdicts that were open, or what would be added; see `sweep.decide`."""
    said = sweep.tables.decisions_as_table if found.rows else sweep.tables.decisions_in_words
    click.echo(f"\n{said(found, proposed)}")


def _save_summary_plots(store, datasets, line):
    """Write the plots; where that cannot be, the run is complete all the same."""
    directory, left_out = default_plot_directory(store), []
    try:
        for done, (name, dataset) in enumerate(datasets.items()):
            line.show(f"Pictures of {name}", done / len(datasets), at_once=True)

            def note_why_not_drawn(kind, error, name=name, stored="state" in dataset):
                if kind == "sphere" and stored:
                    left_out.append(f"No picture of {name} on the sphere: {error}")

            kinds = dict.fromkeys((*KINDS, *_kinds_that_fit(dataset)), {})
            save_experiment_plots(dataset, directory, name, kinds=kinds, skipped=note_why_not_drawn)
    except InputError as error:
        line.close()
        click.echo(f"\nNo plots: {error}", err=True)
        return
    line.close()
    page = f"All on one page: sweep report {store}"
    click.echo("\n" + "\n".join([f"Plots: {directory}", *left_out, page]))


def _kinds_that_fit(dataset):
    """Pictures of what an experiment is about: drifts over long runs, and work by tolerances.

    Runs are long that go on beyond their reference, or have none.
    """
    asked = json.loads(dataset.attrs["experiment"])
    until = (asked["reference"] or {"until": 0.0})["until"]
    adaptive = sweep.analysis.adaptive_runs(dataset)
    fitting = {"drift": until is not None and until < asked["duration"]}
    fitting["work"] = adaptive.any() and not adaptive.all()
    return [kind for kind, fits in fitting.items() if fits]


def default_plot_directory(store):
    """Where the plots of a store go unless told: NAME-plots, beside it or here."""
    return Store.at(store).product("-plots")

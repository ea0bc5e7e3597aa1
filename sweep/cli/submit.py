"""`sweep submit`: hand a study's coordinator to a cluster, and return."""

import click

import sweep
from sweep.cli.common import (
    max_time_option,
    optional_store,
    scheduler_options,
    study_argument,
    trust_option,
)


@click.command("submit")
@study_argument
@optional_store
@scheduler_options
@max_time_option
@trust_option
def command(study, store, cluster, max_time, trust_plugins):
    """Run STUDY into STORE on a running cluster, without waiting for it.

    As `sweep run`, but what plans and watches the tasks runs on a worker: this command returns, and
    the machine that it was typed on may be switched off. If that worker dies, it goes on elsewhere.
    `sweep status STORE` says how far it is, `sweep cancel STORE` ends it; the same command again
    goes on. STUDY may be a store, too, whose own study goes on.

    \b
    Example:
      sweep submit my-study.toml /scratch/my-study.zarr --scheduler tcp://login1:8786
    """
    if not cluster.is_running:
        raise click.UsageError("give --scheduler ADDRESS or --scheduler-file FILE of a running one")
    options = {} if max_time is None else {"max_time": max_time}
    name, scheduler, store = sweep.submit(
        study, store, cluster, trust_plugins=trust_plugins, **options
    )
    click.echo(f"Store: {store}\nSubmitted: {name} to {scheduler}")
    click.echo(f"How far it is: sweep status {store}\nTo end it: sweep cancel {store}")

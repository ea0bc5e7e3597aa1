"""`sweep submit`: hand a study's coordinator to a cluster, and return."""

import click

from sweep.cli.common import max_time_option, optional_store, study_argument


@click.command("submit")
@study_argument
@optional_store
@click.option("--scheduler", required=True, metavar="ADDRESS", help="A running Dask scheduler.")
@max_time_option
def command(study, store, scheduler, max_time):
    """Run STUDY into STORE on a running cluster, without waiting for it.

    As `sweep run`, but what plans, submits and watches the tasks runs on a worker: this command
    returns, and the machine that it was typed on may be switched off. If that worker dies, it
    goes on elsewhere. `sweep status STORE` says how far it is, `sweep cancel STORE` ends it; the
    same command again goes on.

    \b
    Example:
      sweep submit my-study.toml /scratch/my-study.zarr --scheduler tcp://login1:8786
    """
    from sweep.cli.common import kept_store, store_path
    from sweep.cluster import remote_client
    from sweep.coordinating import submit
    from sweep.study import load

    loaded = load(study, kept_store(study, store))
    path = store_path(loaded, store)
    options = {} if max_time is None else {"max_time": max_time}
    with remote_client(scheduler) as client:
        submission = submit(loaded, path, client, **options)
    click.echo(f"Store: {path}")
    click.echo(f"Submitted: {submission.name} to {submission.scheduler}")
    click.echo(f"How far it is: sweep status {path}\nTo end it: sweep cancel {path}")

"""`sweep submit`: hand a study's coordinator to a cluster or a batch system, and return."""

import click

import sweep
from integrators.errors import InputError
from sweep.cli.common import (
    Duration,
    checkpoint_option,
    echo_json,
    json_option,
    optional_store,
    study_argument,
    submit_options,
    trust_option,
)


@click.command("submit")
@study_argument
@optional_store
@submit_options
@click.option(
    "--max-time",
    type=Duration(),
    metavar="TIME",
    help="End so long after the coordinator has begun, wherever it then is; 3600, 55m, 2h, 1h30m. "
    "A job without it is followed by another one when its time is up.",
)
@checkpoint_option
@trust_option
@json_option
def command(study, store, cluster, max_time, checkpoint_every, trust_plugins, as_json):
    """Run STUDY into STORE on a running cluster or by a batch system, without waiting for it.

    As `sweep run`, but what plans and watches the tasks runs elsewhere: this command returns, and
    the machine that it was typed on may be switched off. On a running cluster it runs on a worker;
    if that dies, it goes on at another one. By a batch system (--cluster slurm, pbs, lsf, sge, or a
    profile of such a kind) it runs in a job of its own, which submits the jobs of workers.
    `sweep status STORE` says how far it is, `sweep cancel STORE` ends it; the same command again
    goes on. STUDY may be a store, too, whose own study goes on.

    \b
    Example:
      sweep submit my-study.toml /scratch/my-study.zarr --scheduler tcp://login1:8786
      sweep submit my-study.toml /scratch/my-study.zarr --cluster slurm --workers 64
    """
    if not (cluster.is_running or cluster.profile):
        raise InputError(
            "it is not said where to run; expected --scheduler ADDRESS or --scheduler-file FILE of "
            "a running one, or --cluster PROFILE of a batch system"
        )
    options = {} if max_time is None else {"max_time": max_time}
    name, scheduler, store = sweep.submit(
        study, store, cluster, trust_plugins=trust_plugins, checkpoint_every=checkpoint_every,
        **options,
    )  # fmt: skip
    if as_json:
        echo_json({"store": str(store), "submission": name, "to": str(scheduler)})
        return
    click.echo(f"Store: {store}\nSubmitted: {name} to {scheduler}")
    click.echo(f"How far it is: sweep status {store}\nTo end it: sweep cancel {store}")

"""`sweep cancel`: end the run of a store, wherever it runs."""

import dataclasses
import sys

import click

import sweep
from integrators.errors import InputError
from sweep.cli.common import echo_json, json_option, store_argument
from sweep.cli.main import INCOMPLETE
from sweep.store.lease import requests
from sweep.store.lease.lease import lease_holder_of_store
from sweep.store.store import Store

PATIENCE = 60.0  # seconds


@click.command("cancel")
@store_argument
@click.option("--no-wait", is_flag=True, help="Return when it is asked to end.")
@json_option
def command(store, no_wait, as_json):
    """End the run of STORE, submitted or not, as Ctrl-C does where it runs.

    Running tasks commit first, within some seconds; the same study goes on from there. Exit code
    4: it has not ended within a minute.

    \b
    Example:
      sweep cancel /scratch/my-study.zarr
    """
    store = Store.at(store)
    with store.reading():
        holder, submission = lease_holder_of_store(store), requests.submission_of_store(store)
    if submission is not None and submission.state == requests.ENDED:
        submission = None
    if holder is None and submission is None:
        raise InputError(
            f"nothing runs on {store}: nobody holds it, and nothing was submitted. "
            f"`sweep status {store}` says how far it is"
        )
    names = [found for found in (holder and holder.token, submission and submission.name) if found]
    requests.request_cancellation(store, names)
    if holder is None:
        begun = submission.state == requests.RUNNING
        why = "cancelled" if begun else "cancelled before it began"
        requests.note_submission(
            store, dataclasses.replace(submission, state=requests.ENDED, why=why)
        )
        text = "its worker is gone; tasks that still run commit" if begun else "it had not begun"
        _answer(as_json, f"Cancelled: {submission.name}, {text}", names, True)
        return
    click.echo(f"Asked to end: {holder} since {holder.since}", err=as_json)
    if no_wait:
        _answer(as_json, "", names, False)
    elif not requests.wait_until_lease_released(store, names, PATIENCE):
        text = f"It has not ended within {PATIENCE:.0f} s; if it is dead, `sweep run` goes on"
        _answer(as_json, text, names, False)
        sys.exit(INCOMPLETE)
    elif sweep.store.names_existing_store(store):
        text = "Ended; what is committed stays, and the same study goes on from there."
        _answer(as_json, text, names, True)
    else:
        text = f"Ended; there is no store at {store}, so the same study begins anew."
        _answer(as_json, text, names, True)


def _answer(as_json, text, names, ended):
    """Print whether a run has ended: in words, if there are any, or as JSON."""
    if as_json:
        echo_json({"asked": names, "ended": ended})
    elif text:
        click.echo(text)

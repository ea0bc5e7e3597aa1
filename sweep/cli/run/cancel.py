"""`sweep cancel`: stop the computation of a store, wherever it runs."""

import dataclasses
import sys

import click

import sweep
from integrators.errors import InputError
from sweep.cli.main import INCOMPLETE
from sweep.cli.options import command
from sweep.cli.output import echo
from sweep.store.lease import requests
from sweep.store.lease.lease import lease_holder_of_store
from sweep.store.store import Store

PATIENCE = 60.0  # seconds


@command
def cancel(store: str, no_wait: bool, as_json: bool) -> None:
    """Stop the computation that writes to STORE, submitted or not, as Ctrl-C would.

    Running tasks first commit their results, within some seconds; running the same study again
    resumes from there. Exit code 4: the computation has not ended within a minute.

    \b
    Example:
      sweep cancel /scratch/my-study.zarr

    Options:
      --no-wait  Return at once, without waiting for the computation to end.
    """
    opened = Store.at(store)
    with opened.reading():
        holder, submission = lease_holder_of_store(opened), requests.submission_of_store(opened)
    waiting = submission if submission is not None and submission.state != requests.ENDED else None
    if holder is None and waiting is None:
        ended = "no coordinator waits to begin" if submission is None else f"what was {submission}"
        far = f"`sweep status {opened}` prints its progress"
        raise InputError(
            f"nothing runs on {opened}: nobody holds it, and {ended}. "
            f"{far if opened.exists() else 'There is no such store'}"
        )
    names = [token for token in (holder and holder.token, waiting and waiting.name) if token]
    requests.request_cancellation(opened, names)
    done = True
    if holder is not None:
        click.echo(f"Asked to end: the coordinator, {holder} since {holder.since}", err=as_json)
        done = not no_wait and requests.wait_until_lease_released(opened, names, PATIENCE)
    if waiting is not None and holder is None:
        begun = waiting.state == requests.RUNNING
        why = "cancelled" if begun else "cancelled before it began"
        noted = dataclasses.replace(waiting, state=requests.ENDED, why=why)
        requests.note_submission(opened, noted)
        said = "its worker is gone; running tasks still commit" if begun else "it had not begun"
        said = f"Cancelled: {waiting.name}, {said}"
    elif not done:
        within = f"It has not ended within {PATIENCE:.0f} s. If it is dead, `sweep run` resumes"
        said = "" if no_wait else within
    elif sweep.store.names_existing_store(opened):
        said = "Ended; committed results are kept, and running the same study resumes from there."
    else:
        said = f"Ended; there is no store at {opened}, so running the same study starts anew."
    if as_json or said:
        echo({"asked": names, "ended": done}, said, as_json)
    if not done and not no_wait:
        sys.exit(INCOMPLETE)

"""`sweep cancel`: end the run of a store, wherever it runs."""

import dataclasses
import sys
from collections.abc import Sequence

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
@click.option("--no-wait", is_flag=True, help="Ask the run to end, and return at once.")
@json_option
def command(store: str, no_wait: bool, as_json: bool) -> None:
    """End the run that writes to STORE, submitted or not, as Ctrl-C does where it runs.

    Running tasks commit first, within some seconds; the same study goes on from there. Exit code
    4: it has not ended within a minute.

    \b
    Example:
      sweep cancel /scratch/my-study.zarr
    """
    opened = Store.at(store)
    with opened.reading():
        holder, submission = lease_holder_of_store(opened), requests.submission_of_store(opened)
    waiting = submission if submission is not None and submission.state != requests.ENDED else None
    if holder is None and waiting is None:
        ended = "no coordinator waits to begin" if submission is None else f"what was {submission}"
        far = f"`sweep status {opened}` says how far it is"
        raise InputError(
            f"nothing runs on {opened}: nobody holds it, and {ended}. "
            f"{far if opened.exists() else 'There is no such store'}"
        )
    names = [token for token in (holder and holder.token, waiting and waiting.name) if token]
    requests.request_cancellation(opened, names)
    if holder is None and waiting is not None:
        begun = waiting.state == requests.RUNNING
        why = "cancelled" if begun else "cancelled before it began"
        noted = dataclasses.replace(waiting, state=requests.ENDED, why=why)
        requests.note_submission(opened, noted)
        text = "its worker is gone; tasks that still run commit" if begun else "it had not begun"
        _print_whether_ended(as_json, f"Cancelled: {waiting.name}, {text}", names, True)
        return
    assert holder is not None
    click.echo(f"Asked to end: {holder} since {holder.since}", err=as_json)
    if no_wait:
        _print_whether_ended(as_json, "", names, False)
    elif not requests.wait_until_lease_released(opened, names, PATIENCE):
        text = f"It has not ended within {PATIENCE:.0f} s; if it is dead, `sweep run` goes on"
        _print_whether_ended(as_json, text, names, False)
        sys.exit(INCOMPLETE)
    elif sweep.store.names_existing_store(opened):
        text = "Ended; what is committed stays, and the same study goes on from there."
        _print_whether_ended(as_json, text, names, True)
    else:
        text = f"Ended; there is no store at {opened}, so the same study begins anew."
        _print_whether_ended(as_json, text, names, True)


def _print_whether_ended(as_json: bool, text: str, names: Sequence[str], ended: bool) -> None:
    """Print whether a run has ended: as a sentence, if there is one, or as JSON."""
    if as_json:
        echo_json({"asked": names, "ended": ended})
    elif text:
        click.echo(text)

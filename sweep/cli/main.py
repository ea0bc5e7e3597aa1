"""The command group, its exit codes, and what turns an error into one message.

Exit codes: 0 complete, 1 internal error, 2 bad input, 3 complete but something does not hold,
4 incomplete and resumable. A subcommand is imported when it is used, and imports the service
when it runs: help does not wait for Numba and Dask.
"""

import atexit
import contextlib
import difflib
import gc
import importlib
import logging
import os
import signal
import sys
import threading

import click

from integrators.errors import InputError
from sweep.cli.streams import show_control_characters
from sweep.errors import Interrupted, StoreLost, TaskFailed
from sweep.store.backends.disk import (
    explain_storage_failure,
    is_storage_full_or_failing,
    remedy_for_full_storage,
)

COMMANDS = (
    "init", "new", "check", "plan", "recommend", "run", "submit", "cancel", "status", "extend",
    "decide", "merge", "failures", "retry", "verify", "ls", "show", "query", "order", "drift",
    "chaos", "work", "plot", "report", "serve", "export", "reproduce", "certificates", "schema",
    "guide",
)  # fmt: skip
MODULES = {"ls": "listing"}

COMPLETING = "_SWEEP_COMPLETE"  # set by the shell that asks what a word could be completed to
INTERNAL, BAD_INPUT, DOES_NOT_HOLD, INCOMPLETE = 1, 2, 3, 4


class Commands(click.Group):
    """Loads `sweep.cli.NAME` for the subcommand NAME."""

    def list_commands(self, ctx):
        """In the order of their use."""
        return list(COMMANDS)

    def get_command(self, ctx, name):
        """The `command` of the subcommand's module."""
        if name not in COMMANDS:
            return None
        return importlib.import_module(f"sweep.cli.{MODULES.get(name, name)}").command

    def resolve_command(self, ctx, args):
        """As click does, with the nearest command in the message."""

        if args[:1] == ["help"]:
            ctx.fail(
                "No such command 'help'. sweep --help lists the commands, sweep COMMAND --help "
                "explains one, and sweep guide lists what the guide explains."
            )
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


# "color": click would else leave out what looks like a colour, where streams are to show it.
@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "color": True})
@click.version_option(package_name="geosweep", prog_name="sweep")
def group():
    """Compare time-stepping methods on spheres, on a cluster.

    \b
    sweep run quickstart          a first study, half a minute the first time
    sweep init my-study.toml      a study file to start from
    sweep run my-study.toml       run it; the same command goes on after an interruption
    sweep guide                   what the guide has to say of each topic
    """


def main():
    """Entry point of the command `sweep`."""
    if COMPLETING not in os.environ:  # which writes bytes for a shell to read
        show_control_characters()
    # Imports make a million objects that stay: looking for garbage among them took 0.4 s.
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)
    # Each of them prints a traceback of a connection that Dask loses, as it does at a shutdown.
    # Disabled, since Dask sets their levels when it is imported.
    for name in ("asyncio", "distributed.batched", "tornado.application"):
        logging.getLogger(name).disabled = True
    ended = atexit.register(_End())
    try:
        _run_command()
    except SystemExit as end:
        ended.note(end.code)
        raise


class _End:
    """Ends this process, at its exit, where a kernel compiles in a thread that nobody waits for."""

    def __init__(self):
        self._code, self._leaves = 0, False

    def note(self, code):
        """The exit code; whether something compiles is seen now, since that is not waited for."""
        planner = sys.modules.get("sweep.campaign.planner")
        if planner is not None and planner.is_planning():
            self._code, self._leaves = code, True
            atexit.unregister(planner.wait_for_planners)

    def __call__(self):
        if self._leaves and sys.modules["sweep.campaign.planner"].is_planning():
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self._code if isinstance(self._code, int) else int(self._code is not None))


def _run_command():
    """Run the command, with one message in the place of what it raises, and exit."""
    try:
        with _sigterm_as_ctrl_c():
            sys.exit(group.main(standalone_mode=False))
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(BAD_INPUT)
    except click.Abort:
        _echo_to_stderr("Interrupted; the same command goes on from what is recorded.")
        sys.exit(INCOMPLETE)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read the output has enough
        sys.exit(0)
    except (ValueError, RuntimeError, OSError) as error:
        _error_message_or_raise(error)


@contextlib.contextmanager
def _sigterm_as_ctrl_c():
    """Within this, SIGTERM ends a command as Ctrl-C does, where nothing else is made of either."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


def _echo_to_stderr(text):
    click.echo(text, err=True, color=True)  # outside of a command: as in its context


def _error_message_or_raise(error):
    """One message for bad input or a task that failed; anything else is ours, with traceback."""
    if str(error).startswith("A dask config file"):  # Dask reads them when it is imported
        _echo_to_stderr(f"Error: {' '.join(str(error).split())}. Mend that file or move it")
        sys.exit(BAD_INPUT)

    if is_storage_full_or_failing(error):
        text = explain_storage_failure(error.filename or ".", error)
        _echo_to_stderr(f"Stopped: {text}. {remedy_for_full_storage(error)}, and repeat it")
        sys.exit(INCOMPLETE)

    if isinstance(error, StoreLost):
        _echo_to_stderr(f"Error: {error}.")
        sys.exit(INTERNAL)
    if isinstance(error, Interrupted):
        _echo_to_stderr(f"Stopped ({error}); the same command goes on from what is kept.")
        sys.exit(INCOMPLETE)
    if isinstance(error, InputError):
        _echo_to_stderr(f"Error: {error}")
        sys.exit(BAD_INPUT)
    if isinstance(error, TaskFailed):
        _echo_to_stderr(f"Error: {error}. What is committed stays; the same command goes on.")
        sys.exit(INTERNAL)
    raise error

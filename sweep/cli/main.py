"""The command group, its exit codes, and the conversion of errors to messages.

Exit codes: 0 complete, 1 internal error, 2 bad input, 3 complete but something does not hold, or a
store is damaged, 4 incomplete and resumable. A subcommand is imported when it is used, and imports
the service when it runs: help does not wait for Numba and Dask.
"""

import atexit
import contextlib
import gc
import importlib
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from typing import NoReturn

import click

from integrators.errors import InputError, suggest_nearest
from sweep.cli.streams import OutputFailed, prepare_streams
from sweep.errors import Damaged, Interrupted, StoreLost, TaskFailed
from sweep.store.backends.disk import (
    explain_storage_failure,
    is_storage_full_or_failing,
    remedy_for_full_storage,
)

COMMANDS = (
    "init", "new", "check", "plan", "recommend", "run", "submit", "cancel", "status", "extend",
    "decide", "merge", "failures", "retry", "verify", "ls", "show", "query", "order", "drift",
    "chaos", "work", "plot", "report", "serve", "export", "reproduce", "schema", "guide",
)  # fmt: skip
MODULES = {"ls": "listing"}

COMPLETING = "_SWEEP_COMPLETE"  # set by a shell that asks for completions of a word
INTERNAL, BAD_INPUT, DOES_NOT_HOLD, INCOMPLETE = 1, 2, 3, 4


class Commands(click.Group):
    """A group that imports `sweep.cli.NAME` when the subcommand NAME is used."""

    used: click.Command | None = None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the subcommands, in the order of their use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a subcommand, and return its `command`."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"sweep.cli.{MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = module.command
        self.used = command
        return command

    def options_by_name(self) -> dict[str, str]:
        """Options of the subcommand that is used, by what functions of Python call them."""
        parameters = self.used.params if self.used else []
        options = {own.name: own.opts[0] for own in parameters if isinstance(own, click.Option)}
        several = {f"{name}s": option for name, option in options.items()}
        return {str(name): option for name, option in {**several, **options}.items()}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a subcommand as click does; the message names the nearest one."""
        if args[:1] == ["help"]:
            ctx.fail(
                "No such command 'help'. sweep --help lists the commands, sweep COMMAND --help "
                "explains one, and sweep guide lists what the guide explains."
            )
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}.{suggest_nearest(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)


# "color": click would otherwise strip colour sequences, which the streams are to make visible.
@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "color": True})
@click.version_option(package_name="geosweep", prog_name="sweep")
def group() -> None:
    """Compare time-stepping methods on spheres, on a cluster.

    \b
    sweep run quickstart          a first study, half a minute the first time
    sweep init my-study.toml      a study file to start from
    sweep run my-study.toml       run it; the same command goes on after an interruption
    sweep guide                   list the topics of the guide
    """


def main() -> None:
    """Entry point of the command `sweep`."""
    if COMPLETING not in os.environ:  # click writes completions to `stdout.buffer`
        prepare_streams()
    # Imports make a million lasting objects: looking for garbage among them took 0.4 s.
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)
    # Each logs a traceback when Dask loses a connection, as it does at every shutdown. Disabled
    # rather than set to a level, since Dask sets their levels when it is imported.
    for name in ("asyncio", "distributed.batched", "tornado.application"):
        logging.getLogger(name).disabled = True
    codes: list[str | int | None] = []
    atexit.register(_exit_while_compiling, codes)  # as the first, so that it runs as the last
    try:
        _run_command()
    except SystemExit as end:
        planner = sys.modules.get("sweep.campaign.plan")
        if planner is not None and planner.is_planning():
            atexit.unregister(planner.wait_for_planners)
            codes.append(end.code)
        raise


def _exit_while_compiling(codes: list[str | int | None]) -> None:
    """End the process with its exit code although a thread of the planner compiles a kernel."""
    if codes and sys.modules["sweep.campaign.plan"].is_planning():
        with contextlib.suppress(OutputFailed):
            sys.stdout.flush()
        sys.stderr.flush()
        os._exit(int(codes[0] or 0))


def _run_command() -> NoReturn:
    """Run the command and exit; expected exceptions become one message and an exit code."""
    try:
        with _sigterm_as_ctrl_c():
            sys.exit(group.main(standalone_mode=False))
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(BAD_INPUT)
    except Exception as error:
        expected = _message_and_exit_code(error)
        if expected is None:  # a defect of ours
            raise
        message, code = expected
        if message:
            click.echo(message, err=True, color=True)  # as in a command, whose context has ended
        sys.exit(code)


@contextlib.contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Context in which SIGTERM raises KeyboardInterrupt, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)


def _name_options(message: str) -> str:
    """A message with options for arguments: `name`, `name=value`, or name = at its beginning."""
    options = group.options_by_name()

    def option(found: re.Match[str]) -> str:
        name, value, first = found.groups()
        known = options.get(name or first, found[0])
        return f"{known} {value}" if known != found[0] and value not in (None, "True") else known

    return re.sub(r"`(\w+)(?:=([^`\s]+))?`|^(\w+)(?= = )", option, message)


def _message_and_exit_code(error: Exception) -> tuple[str, int] | None:
    """What an expected error says, and the exit code; None for any other error."""
    text = str(error)
    if isinstance(error, click.Abort):
        return "Interrupted; the same command goes on from what is recorded.", INCOMPLETE
    if isinstance(error, OutputFailed):
        if error.is_closed_pipe:  # whose reader, as `head`, has read what it wanted
            return "", INTERNAL
        return f"Stopped: {text}. Write to another place, and repeat the command", INCOMPLETE
    if text.startswith("A dask config file"):  # Dask reads them when it is imported
        return f"Error: {' '.join(text.split())}. Mend that file or move it", BAD_INPUT
    if isinstance(error, OSError) and is_storage_full_or_failing(error):
        why = explain_storage_failure(error.filename or ".", error)
        return f"Stopped: {why}. {remedy_for_full_storage(error)}, and repeat it", INCOMPLETE
    if isinstance(error, Damaged):
        return f"Error: {text}", DOES_NOT_HOLD
    if isinstance(error, StoreLost):
        return f"Error: {text}.", INTERNAL
    if isinstance(error, Interrupted):
        return f"Stopped ({text}); the same command goes on from what is kept.", INCOMPLETE
    if isinstance(error, InputError):
        return f"Error: {_name_options(text)}", BAD_INPUT
    if isinstance(error, TaskFailed):
        return f"Error: {text}. What is committed stays; the same command goes on.", INTERNAL
    return None

"""The command group, its exit codes, and the conversion of errors to messages.

Exit codes: 0 complete, 1 internal error, 2 bad input, 3 complete but something does not hold, or a
store is damaged, 4 incomplete and resumable. A subcommand is imported when it is used, and imports
the service when it runs: help does not wait for Numba and Dask.
"""

import atexit
import contextlib
import difflib
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

from integrators.errors import InputError
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
            close = difflib.get_close_matches(args[0].lower(), COMMANDS, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
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
    exit_hook = _ExitWhileCompiling()
    atexit.register(exit_hook)
    try:
        _run_command()
    except SystemExit as end:
        exit_hook.note(end.code)
        raise


class _ExitWhileCompiling:
    """Exit hook that ends the process although a thread of the planner still compiles a kernel."""

    def __init__(self) -> None:
        self._code: str | int | None = 0
        self._is_compiling = False

    def note(self, code: str | int | None) -> None:
        """Note the exit code, and that the planner need not be waited for if it is at work now."""
        planner = sys.modules.get("sweep.campaign.plan")
        if planner is not None and planner.is_planning():
            self._code, self._is_compiling = code, True
            atexit.unregister(planner.wait_for_planners)

    def __call__(self) -> None:
        if self._is_compiling and sys.modules["sweep.campaign.plan"].is_planning():
            with contextlib.suppress(OutputFailed):
                sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self._code if isinstance(self._code, int) else int(self._code is not None))


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
    except click.Abort:
        _echo_to_stderr("Interrupted; the same command goes on from what is recorded.")
        sys.exit(INCOMPLETE)
    except OutputFailed as failure:
        if failure.is_closed_pipe:  # whose reader, as `head`, has read what it wanted
            sys.exit(INTERNAL)
        _echo_to_stderr(f"Stopped: {failure}. Write to another place, and repeat the command")
        sys.exit(INCOMPLETE)
    except Damaged as error:
        _echo_to_stderr(f"Error: {error}")
        sys.exit(DOES_NOT_HOLD)
    except (ValueError, RuntimeError, OSError) as error:
        _error_message_or_raise(error)


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


def _echo_to_stderr(text: str) -> None:
    click.echo(text, err=True, color=True)  # as in the context of a command, which has ended


def _name_options(message: str) -> str:
    """A message with options for arguments: `name`, `name=value`, or name = at its beginning."""
    options = group.options_by_name()

    def option(found: re.Match[str]) -> str:
        name, value, first = found.groups()
        known = options.get(name or first, found[0])
        return f"{known} {value}" if known != found[0] and value not in (None, "True") else known

    return re.sub(r"`(\w+)(?:=([^`\s]+))?`|^(\w+)(?= = )", option, message)


def _error_message_or_raise(error: ValueError | RuntimeError | OSError) -> NoReturn:
    """Print one message for an expected error and exit; raise any other, a defect of ours."""
    if str(error).startswith("A dask config file"):  # Dask reads them when it is imported
        _echo_to_stderr(f"Error: {' '.join(str(error).split())}. Mend that file or move it")
        sys.exit(BAD_INPUT)

    if isinstance(error, OSError) and is_storage_full_or_failing(error):
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
        _echo_to_stderr(f"Error: {_name_options(str(error))}")
        sys.exit(BAD_INPUT)
    if isinstance(error, TaskFailed):
        _echo_to_stderr(f"Error: {error}. What is committed stays; the same command goes on.")
        sys.exit(INTERNAL)
    raise error

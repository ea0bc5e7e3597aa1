"""The command group, its exit codes, and the conversion of errors to messages.

Exit codes: 0 complete; 1 internal error; 2 bad input; 3 complete, but runs failed, a check does not
hold or a store is damaged; 4 incomplete and resumable. A subcommand's module is imported when the
subcommand is used, and Numba and Dask only when it runs, so that help is printed at once.
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

from integrators.errors import InputError, suggest_nearest
from sweep.cli.streams import OutputFailed, prepare_streams
from sweep.errors import Damaged, Interrupted, StoreLost, TaskFailed
from sweep.store.backends.storage_failures import (
    explain_storage_failure,
    is_storage_full_or_failing,
    remedy_for_full_storage,
)

# The groups of commands, in the order in which they are needed; each is a folder of `sweep.cli`.
SECTIONS = {
    "begin": {
        "init": "Write a study file to start from.",
        "new": "Write a plugin to start from, and a study that uses it.",
        "guide": "Print the guide.",
    },
    "run": {
        "check": "Check studies without running anything.",
        "plan": "Print what a study costs.",
        "run": "Run a study into a store, or resume it.",
        "submit": "Run a study on a cluster, without waiting for it.",
        "status": "Print the progress of a store, and which runs failed.",
        "cancel": "Stop the computation of a store.",
    },
    "ask": {
        "order": "Print measured and declared orders of convergence.",
        "drift": "Print errors of invariants, and how they drift.",
        "work": "Print errors and the work that they cost.",
        "chaos": "Print Lyapunov exponents and MEGNO.",
        "query": "Print the runs that satisfy an expression.",
        "summary": "Print orders, drifts and exponents of each experiment.",
        "recommend": "Find the cheapest integrator that meets an error bound.",
        "decide": "Add the runs that undecided verdicts need.",
    },
    "show": {
        "plot": "Draw pictures.",
        "report": "Write a report as HTML.",
        "atlas": "Write what studies show of every integrator, as web pages.",
        "serve": "Show stores in a browser.",
        "export": "Write results as NetCDF, CSV or Parquet.",
        "reproduce": "Recompute the numbers that a paper prints.",
    },
    "keep": {
        "extend": "Continue the runs of a store, or add runs.",
        "merge": "Merge stores of one study.",
        "retry": "Compute failed runs again.",
        "verify": "Check a store for damage, or repair it.",
        "ls": "List systems, integrators, observables, plots or studies.",
        "show": "Show a system, an integrator, a study or its plugins.",
        "schema": "Print the JSON Schema of study files.",
    },
}
COMMANDS = {name: section for section, names in SECTIONS.items() for name in names}
MODULES = dict.fromkeys(("order", "drift", "work", "chaos"), "answers")  # or the command's name

COMPLETING = "_SWEEP_COMPLETE"  # environment variable set by a shell that asks for completions
INTERNAL, BAD_INPUT, DOES_NOT_HOLD, INCOMPLETE = 1, 2, 3, 4


class Commands(click.Group):
    """A group that imports a subcommand when it is used."""

    used: click.Command | None = None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the subcommands, in the order of `SECTIONS`."""
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a line for each subcommand, in sections, without importing any."""
        for section, names in SECTIONS.items():
            with formatter.section(section.title()):
                formatter.write_dl([*names.items()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a subcommand."""
        if cmd_name not in COMMANDS:
            return None
        section = COMMANDS[cmd_name]
        module = importlib.import_module(f"sweep.cli.{section}.{MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, cmd_name)
        command.short_help = SECTIONS[section][cmd_name]
        self.used = command
        return command

    def options_by_name(self) -> dict[str, str]:
        """Options of the subcommand in use, by the names of the parameters of Python functions."""
        parameters = self.used.params if self.used else []
        options = {own.name: own.opts[0] for own in parameters if isinstance(own, click.Option)}
        several = {f"{name}s": option for name, option in options.items()}
        return {str(name): option for name, option in {**several, **options}.items()}

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a subcommand as click does; suggest the nearest one to an unknown name."""
        if args[:1] == ["help"]:
            ctx.fail(
                "No such command 'help'. sweep --help lists the commands, sweep COMMAND --help "
                "explains one, and sweep guide lists what the guide explains."
            )
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}.{suggest_nearest(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)


# "color": otherwise click strips control sequences; `OutputStream` shows them as escapes instead.
@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "color": True})
@click.version_option(package_name="geosweep", prog_name="sweep")
def group() -> None:
    """Compare time-stepping methods on spheres, on one machine or a cluster.

    \b
    sweep run quickstart          run a first study; takes half a minute the first time
    sweep init my-study.toml      write a study file to start from
    sweep run my-study.toml       run it; the same command resumes after an interruption
    sweep guide                   list the topics of the guide
    """


def main() -> None:
    """Entry point of the command `sweep`."""
    if COMPLETING not in os.environ:  # click writes completions to `stdout.buffer`, which is hidden
        prepare_streams()
    # Imports make a million permanent objects; searching them for garbage took 0.4 s.
    gc.set_threshold(50_000)
    # Each logs a traceback when Dask loses a connection, as it does at every shutdown. Setting
    # their levels would have no effect, since Dask sets these when it is imported.
    for name in ("asyncio", "distributed.batched", "tornado.application"):
        logging.getLogger(name).disabled = True
    codes: list[str | int | None] = []
    atexit.register(_exit_at_once, codes)  # registered first, so it runs last
    try:
        _run_command()
    except SystemExit as end:
        codes.append(end.code)
        if (planner := sys.modules.get("sweep.campaign.plan")) is not None:
            atexit.unregister(planner.wait_for_planners)
        raise


def _exit_at_once(codes: list[str | int | None]) -> None:
    """End the process of a command with its exit code, as the last of the exit handlers.

    Python itself would free a million objects first, which takes 0.1 s, and must not end while LLVM
    compiles in a planner's thread. Handlers that were registered before `main` do not run.
    """
    if codes:
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
        (_no_such_option(error) if isinstance(error, click.NoSuchOption) else error).show()
        sys.exit(BAD_INPUT)
    except Exception as error:
        expected = _message_and_exit_code(error)
        if expected is None:  # a defect of ours
            raise
        message, code = expected
        if message:
            click.echo(message, err=True, color=True)  # as in a command, whose context has ended
        sys.exit(code)


def _no_such_option(error: click.NoSuchOption) -> click.NoSuchOption:
    """The error with the option that is meant; click finds ``--help`` near to ``--where``."""
    known = error.ctx.command.params if error.ctx else []
    names = [name.strip("-") for own in known for name in own.opts if name.startswith("--")]
    near = difflib.get_close_matches(error.option_name.strip("-"), names, n=1, cutoff=0.75)
    hint = f"Did you mean --{near[0]}?" if near else f"Options: --{', --'.join(names)}."
    message = f"No such option {error.option_name!r}. {hint if names else ''}"
    return click.NoSuchOption(error.option_name, message.strip(), ctx=error.ctx)


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
    """Replace argument names in a message by the names of options.

    Argument names are found as `name` or `name=value` in backquotes, and as ``name = `` at the
    beginning of the message.
    """
    options = group.options_by_name()

    def option(found: re.Match[str]) -> str:
        name, value, first = found.groups()
        known = options.get(name or first, found[0])
        return f"{known} {value}" if known != found[0] and value not in (None, "True") else known

    return re.sub(r"`(\w+)(?:=([^`\s]+))?`|^(\w+)(?= = )", option, message)


# Messages and exit codes of expected errors.
EXPECTED_ERRORS: dict[type[BaseException], tuple[str, int]] = {
    click.Abort: ("Interrupted; the same command resumes from what is recorded.", INCOMPLETE),
    Interrupted: ("Stopped ({}); the same command resumes from what is recorded.", INCOMPLETE),
    Damaged: ("Error: {}", DOES_NOT_HOLD),
    StoreLost: ("Error: {}.", INTERNAL),
    InputError: ("Error: {}", BAD_INPUT),
    TaskFailed: ("Error: {}. Committed results are kept; the same command resumes.", INTERNAL),
}


def _message_and_exit_code(error: Exception) -> tuple[str, int] | None:
    """Message and exit code of an expected error; None for any other error."""
    text = str(error)
    if isinstance(error, OutputFailed):
        if error.is_closed_pipe:  # the reader, such as `head`, has read enough
            return "", INTERNAL
        return f"Stopped: {text}. Write elsewhere, and repeat the command", INCOMPLETE
    if text.startswith("A dask config file"):  # Dask reads its files when it is imported
        return f"Error: {' '.join(text.split())}. Mend that file or move it away", BAD_INPUT
    if isinstance(error, OSError) and is_storage_full_or_failing(error):
        why = explain_storage_failure(error.filename or ".", error)
        return f"Stopped: {why}. {remedy_for_full_storage(error)}, and repeat it", INCOMPLETE
    for kind, (message, code) in EXPECTED_ERRORS.items():
        if isinstance(error, kind):
            return message.format(_name_options(text) if kind is InputError else text), code
    return None

"""The program `sweep` without a process, a cluster or what the command does: whether it is one."""

import contextlib
import gc
import io
import sys
from importlib.metadata import entry_points

import click
import pytest


def answer(*words):
    """What it prints of a command line that it understands, which it does not run.

    One that it does not understand fails the test, with the message.
    """
    main = entry_points(group="console_scripts", name="sweep")["sweep"].load()
    printed, thresholds = io.StringIO(), gc.get_threshold()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(printed):
        patch.setattr(click.Command, "invoke", lambda *_: None)
        patch.setattr(sys, "argv", ["sweep", *words])
        with contextlib.redirect_stdout(printed), pytest.raises(SystemExit) as end:
            main()
    gc.set_threshold(*thresholds)
    assert not end.value.code, printed.getvalue()
    return printed.getvalue()

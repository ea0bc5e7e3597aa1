"""`sweep extend`: continue the runs of a store, and add runs to its study."""

import shlex
from typing import Any, TypedDict, Unpack

import click

import sweep
from sweep.cli.ask.summary import print_run_summary
from sweep.cli.options import Count, command
from sweep.cli.terminal import Terminal, finish_command
from sweep.store.store import Store


class Additions(TypedDict):
    """Arguments of `sweep.extend`: what is added to a store."""

    duration: float | None
    samples: Count | None
    integrators: tuple[str, ...]
    step_sizes: tuple[float, ...]
    tolerances: tuple[float, ...]
    initial_conditions: tuple[str, ...]
    members: Count | None


@command
def extend(
    store: str,
    experiment: tuple[str, ...],
    run_options: dict[str, Any],
    summary: bool,
    trust_plugins: bool,
    as_json: bool,
    **added: Unpack[Additions],
) -> None:
    """Continue every run of STORE to a longer --duration, or add runs to it, or both.

    Integrators, step sizes and initial conditions are added to the study that the store keeps;
    `sweep show study STORE` prints it. Only what is new is computed. On the same kind of machine, a
    continued run is bitwise equal to a run computed in one go. Failed runs are left as they are.
    After an interruption, the same command resumes.

    \b
    Example:
      sweep extend my-study.zarr --duration 1e6
      sweep extend my-study.zarr --duration 1e6 --samples 100
      sweep extend my-study.zarr --integrator rk4 --step-size 0.01 --members 128
      sweep extend study.zarr --integrator '{ name = "rk45", tolerance = 1e-9 }'

    Options:
      --duration T  Continue runs to this duration.
      --samples N  Number of equal sample intervals to add, none shorter than those before. By
          default, intervals are as long as the last one, or grow at the same rate as before.
      --integrator NAME  Add an integrator; repeatable. To set options, give an inline TOML table.
      --step-size H  Add a step size; repeatable.
      --tolerance TOL  Add a tolerance; repeatable.
      --initial-condition NAME  Add a named initial condition; repeatable.
      --members N  Enlarge random ensembles to N members.
    """
    opened = Store.at(store)
    terminal = Terminal(opened, as_json)
    outcome = sweep.extend(
        opened, experiments=experiment, trust_plugins=trust_plugins,
        watcher=terminal, **added, **run_options,
    )  # fmt: skip
    if summary and outcome.complete and not as_json:
        print_run_summary(opened, terminal.workers)
    if outcome.complete:
        said = f"Added to the study in {opened.name}, not to a file of it. To go on"
        click.echo(f"{said}: {shlex.join(['sweep', 'run', store])}", err=as_json)
    finish_command(outcome, as_json)

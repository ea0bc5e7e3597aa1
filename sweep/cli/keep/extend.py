"""`sweep extend`: continue the runs of a store, and add some to its study."""

from typing import Any, TypedDict, Unpack

import sweep
from sweep.cli.ask.summary import print_run_summary
from sweep.cli.options import Count, command
from sweep.cli.terminal import Terminal, end
from sweep.store.store import Store


class Additions(TypedDict):
    """What is added to a store."""

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
    options: dict[str, Any],
    summary: bool,
    trust_plugins: bool,
    as_json: bool,
    **added: Unpack[Additions],
) -> None:
    """Continue every run of STORE, as if it had never stopped, to a longer --duration.

    And, or instead, add integrators, step sizes and starts to the study that the store keeps;
    `sweep show study STORE` prints it. Only what is new is computed. On one kind of machine a
    continued run is bit for bit the run computed in one go. Runs that failed stay as they are.
    After an interruption the same command goes on.

    \b
    Example:
      sweep extend my-study.zarr --duration 1e6
      sweep extend my-study.zarr --duration 1e6 --samples 100
      sweep extend my-study.zarr --integrator rk4 --step-size 0.01 --members 128
      sweep extend my-study.zarr --integrator '{ name = "rk4", arithmetic = "double-double" }'

    Options:
      --duration T  Duration to which runs are continued.
      --samples N  Number of equal sample intervals to add, each at least as long as before. By
          default as long as the last one, or growing as they did.
      --integrator NAME  Add an integrator; repeatable. With options as an inline table of TOML.
      --step-size H  Add a step size; repeatable.
      --tolerance TOL  Add a tolerance; repeatable.
      --initial-condition NAME  Add a named start; repeatable.
      --members N  Enlarge random ensembles to N.
    """
    opened = Store.at(store)
    outcome = sweep.extend(
        opened, experiments=experiment, trust_plugins=trust_plugins,
        watcher=Terminal(opened, as_json), **added, **options,
    )  # fmt: skip
    if summary and outcome.complete and not as_json:
        print_run_summary(opened)
    end(outcome, as_json)

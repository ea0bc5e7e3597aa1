"""`sweep run`: compute what a study asks for and its store lacks."""

from typing import Any

import click

import sweep
from sweep.cli.ask.decide import decisions_for_json
from sweep.cli.ask.summary import print_run_summary
from sweep.cli.options import OptionalStore, command
from sweep.cli.terminal import Terminal, end


@command
def run(
    study: str,
    store: OptionalStore,
    options: dict[str, Any],
    summary: bool,
    decide: bool,
    budget: float,
    trust_plugins: bool,
    as_json: bool,
) -> None:
    """Run STUDY, a file or a packaged study's name, into STORE (by default ./NAME.zarr).

    STUDY may also be a store: the study that it keeps goes on, as after a merge; or, with another
    STORE, is computed there anew.

    The same command again goes on where it stopped; an edited study adds what is missing. Ctrl-C,
    SIGTERM and the end of --max-time let running tasks commit. One process at a time may write to
    a store. Exit code 3: some runs failed, 4: interrupted.

    Plugins that the study names are sent to the workers, and kept in the store by source and hash;
    only the coordinator needs their files. Plugins of a study's file are approved by running it;
    those that a store brings need --trust-plugins once, unless they were approved before.

    With --json the outcome is printed to standard output, and everything else to standard error;
    there are no tables and plots at the end.

    \b
    Example:
      sweep run quickstart
      sweep run my-study.toml /scratch/my-study.zarr --scheduler tcp://login1:8786
      sweep run my-study.toml /scratch/my-study.zarr --cluster slurm --workers 64
      sweep run my-study.toml --max-time 55m
      sweep run my-study.toml --decide --budget 5m
      sweep run my-study.toml s3://my-bucket/studies/my-study.zarr

    Options:
      --decide  Then add runs that decide open verdicts, as sweep decide does.
    """
    loaded, opened = sweep.store.resolve_study_and_store(study, store, trust_plugins)
    click.echo(f"Store: {opened}", err=as_json)
    options["watcher"] = Terminal(loaded.name, as_json)
    outcome, decisions = sweep.run(loaded, opened, **options), None
    if decide and outcome.complete:
        decisions = sweep.decide(opened, budget, trust_plugins=trust_plugins, **options)
        outcome = decisions.outcome or outcome
    if summary and outcome.complete and not as_json:
        print_run_summary(opened)
    if decisions is not None and not as_json:
        click.echo(f"\n{decisions}")
    end(outcome, as_json, decisions and {"decisions": decisions_for_json(decisions)})

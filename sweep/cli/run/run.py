"""`sweep run`: compute the runs of a study that its store lacks."""

from typing import Any

import click

import sweep
from sweep.cli.ask.decide import decisions_for_json
from sweep.cli.ask.summary import print_run_summary
from sweep.cli.options import OptionalStore, command
from sweep.cli.terminal import Terminal, finish_command


@command
def run(
    study: str,
    store: OptionalStore,
    run_options: dict[str, Any],
    summary: bool,
    decide: bool,
    budget: float,
    trust_plugins: bool,
    as_json: bool,
) -> None:
    """Run STUDY, a file or a packaged study's name, into STORE (by default ./NAME.zarr).

    STUDY may also be a store. Then the study that it keeps is resumed, for example after a merge;
    or, if another STORE is given, it is computed there anew.

    After an interruption, the same command resumes. After the study is edited, the same command
    computes the missing runs. Ctrl-C, SIGTERM and the end of --max-time let running tasks commit
    their results. Only one process at a time may write to a store. Exit code 3: some runs failed;
    4: interrupted.

    Plugins of the study are sent to the workers, and their source is kept in the store; only the
    coordinator needs their files. Running a study file approves its plugins. Plugins kept in a
    store need --trust-plugins once, unless they were approved before.

    With --json, the outcome is printed to standard output and everything else to standard error,
    and no tables and plots are made at the end.

    \b
    Example:
      sweep run quickstart
      sweep run my-study.toml /scratch/my-study.zarr --scheduler tcp://login1:8786
      sweep run my-study.toml /scratch/my-study.zarr --cluster night
      sweep run my-study.toml --max-time 55m
      sweep run my-study.toml --decide --budget 5m
      sweep run my-study.toml s3://my-bucket/studies/my-study.zarr

    Options:
      --decide  Then add the runs that undecided verdicts need, as sweep decide does.
    """
    loaded, opened = sweep.store.resolve_study_and_store(study, store, trust_plugins)
    click.echo(f"Store: {opened}", err=as_json)
    sweep.clusters.processes.keep_fork()  # before there are threads
    run_options["watcher"] = terminal = Terminal(loaded.name, as_json)
    outcome, decisions = sweep.run(loaded, opened, **run_options), None
    if decide and outcome.complete:
        decisions = sweep.decide(opened, budget, trust_plugins=trust_plugins, **run_options)
        outcome = decisions.outcome or outcome
    if summary and outcome.complete and not as_json:
        print_run_summary(opened, terminal.workers)
    if decisions is not None and not as_json:
        click.echo(f"\n{decisions}")
    more = None if decisions is None else {"decisions": decisions_for_json(decisions)}
    finish_command(outcome, as_json, more)

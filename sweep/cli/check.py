"""`sweep check`: read a study and say what it asks for, or what is wrong with it."""

import click

import sweep
from sweep.cli.common import print_warnings_before_work, study_argument, trust_option
from sweep.text import format_table


@click.command("check")
@study_argument
@trust_option
def command(study, trust_plugins):
    """Check STUDY, a file or a packaged study's name, without running anything.

    Its plugins are imported and tried: what they add compiles, and a gradient agrees with
    differences of its potential.

    \b
    Example:
      sweep check my-study.toml
    """
    loaded, tables = sweep.check(study, trust_plugins)
    print_warnings_before_work(tables)
    columns = {
        "experiment": [table.experiment.name for table in tables],
        "system": [table.experiment.system for table in tables],
        "integrators": [str(len(table.experiment.integrators)) for table in tables],
        "step sizes": [_count_distinct_as_text(table, "step_size") for table in tables],
        "tolerances": [_count_distinct_as_text(table, "tolerance") for table in tables],
        "starts": [str(table.start_count) for table in tables],
        "scanned": [str(len(table.systems)) for table in tables],
        "repeats": [str(table.experiment.repeat) for table in tables],
        "runs": [f"{table.size:,}" for table in tables],
    }
    for name, nothing in (("tolerances", "0"), ("repeats", "1")):
        if set(columns[name]) == {nothing}:  # a column of few studies
            del columns[name]
    click.echo(format_table(list(columns), list(zip(*columns.values(), strict=True))))
    for line in sweep.study.remarks_on_parameters(tables):
        click.echo(line)
    for plugin in loaded.library.plugins:
        added = ", ".join(f"{kind} {name}" for kind, name in plugin.exported_names)
        click.echo(f"plugin {plugin.name}, sha256 {plugin.hash[:16]}…: {added}")
    click.echo(f"{loaded.name}: valid, {sum(table.size for table in tables):,} runs")


def _count_distinct_as_text(table, name):
    """How many different step sizes or tolerances there are, as text; NaN is none."""
    values = getattr(table.methods, name)[table.occurring(1)]
    return str(len(set(values[values == values].tolist())))

"""`sweep check`: read a study and say what it asks for, or what is wrong with it."""

import click

from sweep.cli.common import study_argument


@click.command("check")
@study_argument
def command(study):
    """Check STUDY, a file or a packaged study's name, without running anything.

    \b
    Example:
      sweep check my-study.toml
    """
    from sweep.expand import expand
    from sweep.study import load
    from sweep.tables import format_table

    loaded = load(study)
    rows = []
    for experiment in loaded.experiments:
        table = expand(experiment)
        starts = len(table.starts[0])
        rows.append(
            [
                experiment.name,
                experiment.system,
                str(len(experiment.integrators)),
                *(_distinct(values) for values in (table.step_size, table.tolerance)),
                str(starts),
                str(len(table.systems)),
                f"{table.size:,}",
            ]
        )
    headers = ["experiment", "system", "integrators", "step sizes", "tolerances", "starts"]
    headers += ["scanned", "runs"]
    if all(row[4] == "0" for row in rows):  # no integrator is adaptive
        for line in (headers, *rows):
            del line[4]
    click.echo(format_table(headers, rows))
    click.echo(f"{loaded.name}: valid, {sum(int(row[-1].replace(',', '')) for row in rows):,} runs")


def _distinct(values):
    """How many different numbers there are, as text; NaN is none."""
    return str(len({value for value in values.tolist() if value == value}))

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
    import numpy as np

    from sweep.expand import expand
    from sweep.study import load
    from sweep.tables import format_table

    loaded = load(study)
    rows = []
    repeats = any(experiment.repeat > 1 for experiment in loaded.experiments)
    for experiment in loaded.experiments:
        table = expand(experiment)
        starts = len(table.starts[0])
        rows.append(
            [
                experiment.name,
                experiment.system,
                str(len(experiment.integrators)),
                *(
                    str(len(np.unique(values[np.isfinite(values)])))
                    for values in (table.step_size, table.tolerance)
                ),
                str(starts),
                str(len(table.systems)),
                *([str(experiment.repeat)] if repeats else []),
                f"{table.size:,}",
            ]
        )
    headers = ["experiment", "system", "integrators", "step sizes", "tolerances", "starts"]
    headers += ["scanned", *(["repeats"] if repeats else []), "runs"]
    click.echo(format_table(headers, rows))
    click.echo(f"{loaded.name}: valid, {sum(int(row[-1].replace(',', '')) for row in rows):,} runs")

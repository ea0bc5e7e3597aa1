"""`sweep check`: print what studies ask for, or what is wrong with them."""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import click
import numpy as np

import sweep
from integrators.errors import InputError
from sweep.cli.main import BAD_INPUT
from sweep.cli.options import ClickSettings, command, complete_study
from sweep.cli.output import echo_json, rows_as_text
from sweep.cli.terminal import print_warnings
from sweep.text import count_with_noun, format_number

if TYPE_CHECKING:
    from sweep.study.experiment import ResolvedExperiment
    from sweep.study.run_table import RunTable
    from sweep.study.study import Study


Studies = Annotated[
    tuple[str, ...], ClickSettings(metavar="STUDY [STUDY …]", shell_complete=complete_study)
]


@command
def check(studies: Studies, as_json: bool) -> None:
    """Check each STUDY, a file or a packaged study's name, without running anything.

    Plugins are imported, and those of their systems, integrators and observables that an experiment
    uses are tried: they must compile, and gradients must agree with differences of their
    potentials. The others are listed as not tried. Exit code 2: a study is not valid; the remaining
    studies are checked nevertheless.

    \b
    Example:
      sweep check my-study.toml
      sweep check *.toml
    """
    checked: list[dict[str, Any]] = []
    for study in studies:
        try:
            loaded, tables = sweep.check(study)
        except InputError as error:
            if len(studies) == 1 and not as_json:
                raise
            checked.append({"study": study, "valid": False, "problems": str(error).splitlines()})
            click.echo(f"Error: {error}", err=True)
            continue
        print_warnings([(table, None) for table in tables])
        checked.append(_study_facts(study, loaded, tables))
        if not as_json:
            _echo_study_facts(checked[-1], loaded.name if len(studies) == 1 else study)
    if as_json:
        echo_json(checked)
    if not all(row["valid"] for row in checked):
        sys.exit(BAD_INPUT)


def _study_facts(study: str, loaded: "Study", tables: "Sequence[RunTable]") -> dict[str, Any]:
    """Facts of a valid study for JSON: its experiments, and which parts of plugins were tried."""
    used = {pair for table in tables for pair in _used_names(table.experiment)}
    return {
        "study": study,
        "valid": True,
        "name": loaded.name,
        "runs": sum(table.size for table in tables),
        "experiments": [
            {
                "experiment": table.experiment.name,
                "system": table.experiment.system,
                "integrators": len(table.experiment.integrators),
                "step_sizes": _distinct_values(table, "step_size"),
                "tolerances": _distinct_values(table, "tolerance"),
                "starts": len(table.starts),
                "scanned": len(table.systems),
                "repeats": table.experiment.repeat,
                "runs": table.size,
            }
            for table in tables
        ],
        "remarks": sweep.study.remarks_on_parameters(tables),
        "plugins": [
            {
                "plugin": plugin.name,
                "sha256": plugin.hash,
                "adds": [" ".join(pair) for pair in plugin.exported_names],
                "not_tried": [" ".join(pair) for pair in plugin.exported_names if pair not in used],
            }
            for plugin in loaded.library.plugins
        ],
    }


def _used_names(experiment: "ResolvedExperiment") -> set[tuple[str, str]]:
    """Kinds and names of the system, integrators and observables that an experiment uses."""
    integrators = (entry.name.partition("+")[0] for entry in experiment.integrators)
    named = {"integrator": integrators, "observable": experiment.record}
    used = {(kind, name) for kind, names in named.items() for name in names}
    return used | {("system", experiment.system)}


def _echo_study_facts(facts: Mapping[str, Any], title: str) -> None:
    """Print the facts of a valid study: experiments, remarks and plugins."""
    rows = [
        {
            key.replace("_", " "): _range_in_words(value) if isinstance(value, list) else str(value)
            for key, value in row.items()
        }
        | {"runs": f"{row['runs']:,}"}
        for row in facts["experiments"]
    ]
    for name, nothing in (("step sizes", "–"), ("tolerances", "–"), ("repeats", "1")):
        if {row[name] for row in rows} == {nothing}:  # leave out a column without information
            rows = [{key: cell for key, cell in row.items() if key != name} for row in rows]
    click.echo(rows_as_text(rows, str))
    for line in facts["remarks"]:
        click.echo(f"Note: {line}")
    for plugin in facts["plugins"]:
        added = ", ".join(plugin["adds"]) or "adds nothing"
        click.echo(f"plugin {plugin['plugin']}, sha256 {plugin['sha256'][:16]}…: {added}")
        for exported in plugin["not_tried"]:
            drawn = exported.startswith("plot ")
            why = "until it is drawn" if drawn else "since no experiment uses it"
            click.echo(f"  {exported} was not tried, {why}")
    click.echo(f"{title}: valid, {count_with_noun(facts['runs'], 'run')}")


def _distinct_values(table: "RunTable", name: str) -> list[float]:
    """The distinct step sizes or tolerances of the runs of a table, ascending, without NaN."""
    values = getattr(table.methods, name)[table.occurring_methods()]
    distinct: list[float] = np.unique(values[~np.isnan(values)]).tolist()
    return distinct


def _range_in_words(values: Sequence[float]) -> str:
    """First, last and number of ascending values, as in ``0.1 – 1 (4)``."""
    if not values:
        return "–"
    if len(values) == 1:
        return format_number(values[0])
    return f"{format_number(values[0])} – {format_number(values[-1])} ({len(values)})"

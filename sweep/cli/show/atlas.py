"""`sweep atlas`: what studies show of every integrator on every system, as web pages."""

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

import sweep
from integrators.errors import GeosweepError, InputError
from sweep.cli.options import ClickSettings, Count, Files, command, packaged_studies
from sweep.cli.output import echo
from sweep.cli.progress_line import ProgressLine
from sweep.cli.terminal import Terminal, finish_command
from sweep.store.store import Store

if TYPE_CHECKING:
    from sweep.study.study import Study

STUDIES = ("all-orders", "all-properties", "round-off")


@command
def atlas(
    stores: Annotated[Files, ClickSettings(metavar="[STORE …]", required=False)],
    integrator: Annotated[str | None, ClickSettings(type=click.Path())],
    workers: Count | None,
    as_json: bool,
    output: Annotated[str, ClickSettings(type=click.Path())] = "atlas",
) -> None:
    """Write web pages of what every STORE shows about each integrator on each system.

    The first page says for each system which integrators have the least work and drift. Every
    number leads to a certificate: orders, drifts, structure defects and work, with the ids of the
    runs and the study.

    Without a STORE, the packaged studies all-orders, all-properties and round-off are run first,
    or resumed, in the current directory: all integrators on all systems.

    With --integrator, those of your plugin are run as all-orders and all-properties run every
    other, into stores of their own, and have a row of their own beside those of every STORE.

    \b
    Example:
      sweep atlas -o site
      sweep atlas all-orders.zarr round-off.zarr
      sweep atlas --integrator my_leapfrog.py

    Options:
      -o, --output DIR  Directory to write.  [default: atlas]
      --integrator FILE.py  A plugin with integrators, as sweep new integrator writes it.
      --workers N  Number of local processes; by default one per core.
    """
    sweep.reports.check_atlas_directory(output)
    shown = [_existing_store(store) for store in stores]
    studies: list[str | Study] = []
    if integrator is not None:
        studies = _studies_of_plugin(integrator)
    elif not stores:
        studies = [*STUDIES]
    _check_stores_of_studies(studies)
    shown += [_completed(study, workers) for study in studies]
    with ProgressLine() as line:
        index = sweep.atlas(shown, output, workers, line.show)
    echo({"atlas": str(index)}, index, as_json)


def _existing_store(store: str) -> Store:
    if not sweep.store.names_existing_store(store):
        raise InputError(
            f"{store}: there is no store; sweep run STUDY makes that of a study", key="STORE"
        )
    return Store.at(store)


def _check_stores_of_studies(studies: "list[str | Study]") -> None:
    """Refuse to run a study that the directory has a store of, by another name, or to replace one.

    Raises
    ------
    InputError
    """
    known = {path: _study_of_store(path) for path in sorted(Path().glob("*.zarr"))}
    for study in studies:
        name = study if isinstance(study, str) else study.name
        own = Path(f"{name}.zarr")
        if known.get(own, "") not in ("", name):
            raise InputError(
                f"{own} holds the study {known[own]}, and {name} would be run into it: move it, "
                "or give each STORE to show",
                key="STORE",
            )
        others = [str(path) for path in known if known[path] == name]
        if own not in known and others:
            raise InputError(
                f"{others[0]} holds the study {name}, which would be run again into {own}: rename "
                "the store, or give each STORE to show",
                key="STORE",
            )


def _study_of_store(path: Path) -> str:
    """The name of the study that a store holds; empty if it is no store that can be read."""
    try:
        return str(Store.at(path).attributes.get("study_name", ""))
    except GeosweepError:
        return ""


def _completed(study: "str | Study", workers: int | None) -> Store:
    """The complete store of a study; exit as `sweep run` if it is not complete."""
    loaded, opened = sweep.store.resolve_study_and_store(study)
    click.echo(f"Store: {opened}", err=True)
    outcome = sweep.run(loaded, opened, workers=workers, watcher=Terminal(loaded.name, err=True))
    if not outcome.complete:
        finish_command(outcome)
    return Store.at(opened)


def _studies_of_plugin(plugin: str) -> "list[str | Study]":
    """The packaged studies of all integrators, with only those that a plugin has.

    Raises
    ------
    InputError
        If the plugin cannot be used, or no experiment suits an integrator of it.
    """
    try:
        sweep.plugins.read_plugin_source(plugin, Path())
    except InputError as error:
        raise InputError(f"`integrator={plugin}`: {error}", key="integrator") from None
    found: list[str | Study] = []
    for name in STUDIES:
        text = packaged_studies()[name].read_text(encoding="utf-8")
        whole = sweep.study.parse_study(f"plugins = [{json.dumps(plugin)}]\n{text}", name)
        own = {method.name for method in whole.library.methods}
        entries = {
            experiment.name: [
                {"name": entry.name} | entry.options
                for entry in experiment.integrators
                if entry.name in own
            ]
            for experiment in whole.experiments
        }
        data = tomllib.loads(text)
        tables = [
            table | {"integrators": entries[table["name"]]}
            for table in data.pop("experiment")
            if entries[table["name"]]
        ]
        data["defaults"].pop("integrators", None)
        data |= {"name": f"{Path(plugin).stem}-{name}", "plugins": [plugin]}
        if tables:
            made = sweep.study.write_study_text(data, tables)
            found.append(sweep.study.parse_study(made, data["name"]))
    if not found:
        raise InputError(
            f"{plugin} has no integrator with a fixed step that fits a system; expected "
            "INTEGRATORS as sweep new integrator writes them",
            key="integrator",
        )
    return found

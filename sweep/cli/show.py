"""`sweep show`: a system, an integrator, a study, its plugins or its citations in full."""

import contextlib
import dataclasses
import inspect
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import integrators
import sweep
import systems
from integrators.errors import InputError
from sweep.cli.common import echo_document, echo_json, json_option, plugin_library_option
from sweep.store.backends.places import require_local_path
from sweep.store.store import Store
from sweep.text import escape_controls_in_lines

if TYPE_CHECKING:
    from sweep.plugins.loader import Plugin
    from sweep.plugins.registry import Library


class _KindParameter(click.Choice[str]):
    """A kind of thing to show; given a system's or integrator's name, the error names the kind."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The kind; fails for anything else."""
        plain = value.partition("+")[0]
        for kind, known in (
            ("system", systems.ALL_SYSTEMS),
            ("integrator", integrators.ALL_INTEGRATORS),
        ):
            if value not in self.choices and plain in {item.name for item in known}:
                self.fail(f"{value!r} is no kind; expected {kind} {value}", param, ctx)
        return super().convert(value, param, ctx)


@click.command("show")
@click.argument(
    "kind", type=_KindParameter(["system", "integrator", "study", "plugins", "citations"])
)
@click.argument("name")
@plugin_library_option
@click.option("--output", "-o", metavar="DIRECTORY", help="Write the plugins' files there.")
@json_option
def command(kind: str, name: str, library: "Library", output: str | None, as_json: bool) -> None:
    """Show a system, an integrator, a study, its plugins with their source, or what to cite for it.

    With study, plugins and citations, NAME may be a store: then the study that it keeps is used,
    followed by what `sweep extend` or `sweep merge` have added. Shown plugins are not run; those
    of --study are. Citations are BibTeX: the sources of the study's integrators, systems and
    recorded quantities, each once.

    \b
    Example:
      sweep show system spherical_pendulum_chain
      sweep show integrator variational+suzuki4
      sweep show study quickstart
      sweep show study my-study.zarr > my-study.toml
      sweep show citations quickstart.zarr > citations.bib
      sweep show plugins my-study.zarr --output restored
      sweep show system my_system --study my-study.toml
    """
    if output is not None and kind != "plugins":
        raise click.UsageError("--output is for plugins")
    if kind == "study":
        _show_study(name, as_json)
    elif kind == "citations":
        _show_citations(name, as_json)
    elif kind == "plugins" and output is not None:
        _write_plugin_sources(name, output)
    elif kind == "plugins":
        _show_plugins(name, as_json)
    else:
        _show_system_or_integrator(kind, name, library, as_json)


def _show_system_or_integrator(kind: str, name: str, library: "Library", as_json: bool) -> None:
    plain = name.partition("+")[0]
    library = sweep.plugins.with_installed_plugins(library, kind, [plain])
    text: str | None = None
    if kind == "system":
        made = library.system(name, {})
        recorded = {
            q.name: f"{q.long_name}, {q.kind}, in {q.units}" for q in library.quantities(made)
        }
        facts = made.facts() | {"record": recorded}
        text = inspect.getdoc(inspect.getmodule(type(made)))
    else:
        facts = _integrator_facts(name, library)
    if source := library.origin(kind, plain):
        facts["from"] = f"{source.in_words}, sha256 {source.hash}"
    if as_json:
        echo_json(facts)
        return
    width = max(map(len, facts))
    for key, value in facts.items():
        lines = (
            [f"{of}: {item}" for of, item in value.items()] if isinstance(value, dict) else [value]
        )
        for line in lines or ["none"]:
            click.echo(f"{key:<{width}}  {line}")
            key = ""
    if text:
        click.echo(f"\n{text}")


def _integrator_facts(name: str, library: "Library") -> dict[str, Any]:
    """The facts of an integrator, and the systems that it fits with their default parameters."""
    method, _ = integrators.named(name, library.methods)
    made = library.integrator(name, method.example)
    classes: tuple[type[systems.System], ...] = (*systems.ALL_SYSTEMS, *library.systems)
    fitting = [
        system.name
        for system in classes
        if method.name in sweep.study.fitting_methods(system, library)
    ]
    facts: dict[str, Any] = {}
    for key, value in made.facts().items():
        facts[key] = value
        if key == "needs":
            everything = len(fitting) == len(classes)
            facts["fits"] = "every system" if everything else ", ".join(fitting) or "none of them"
    if method.made_of:
        variable = ("order", "evaluations", *(["adaptive"] if made.adaptive else []))
        facts |= dict.fromkeys(variable, "as its options say")
        facts["description"] = method.description
    return facts


def _show_study(name: str, as_json: bool) -> None:
    if sweep.store.names_existing_store(name):
        text = sweep.store.stored_study_text(name)
        store = Store.at(name)
        groups = [store.group(experiment) for experiment in store.attributes["experiments"]]
        expanded = [json.loads(group.attrs["experiment"]) for group in groups]
    else:
        study = sweep.store.load(name)
        text = study.toml()
        expanded = [experiment.expanded() for experiment in study.experiments]
    echo_json(expanded) if as_json else echo_document(text.rstrip())


def _show_citations(name: str, as_json: bool) -> None:
    citations = sweep.citations(name)
    if as_json:
        echo_json([dataclasses.asdict(citation) for citation in citations])
        return
    echo_document(escape_controls_in_lines("\n\n".join(map(str, citations))))


def _show_plugins(name: str, as_json: bool) -> None:
    approved: set[str] = set()
    with contextlib.suppress(InputError):  # of unreadable approvals, an error when plugins are run
        approved = sweep.plugins.approved_plugin_hashes()
    plugins = _plugins_of_store_or_study(name)
    if as_json:
        echo_json(
            [
                {"name": own.name, "sha256": own.hash, "approved": own.hash in approved}
                | {"source": own.text}
                for own in plugins
            ]
        )
        return
    if not plugins:
        click.echo(f"{name} has no plugins")
    for own in plugins:
        approval = "approved" if own.hash in approved else "not approved"
        click.echo(f"# {own.name}  sha256 {own.hash}  {approval}\n")
        # For reading; --output writes the source unchanged.
        click.echo(own.text.replace("\r\n", "\n").expandtabs().rstrip())


def _plugins_of_store_or_study(name: str) -> "Sequence[Plugin]":
    """The plugins of a store, or of a study's file; none is run."""
    plugins: Sequence[Plugin] = (
        sweep.plugins.plugins_kept_in_store(Store.at(name).attributes, name)
        if sweep.store.names_existing_store(name)
        else sweep.study.plugins_of_study(name)
    )
    return plugins


def _write_plugin_sources(name: str, output: str) -> None:
    """Write the source of plugins unchanged; existing files are never overwritten."""
    for plugin in _plugins_of_store_or_study(name):
        path = require_local_path(output) / f"{Path(plugin.name).name.removesuffix('.py')}.py"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(plugin.text.encode())
        except FileExistsError:
            raise InputError(f"{path} exists; give another DIRECTORY") from None
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", error)
            raise InputError(f"{str(path)!r} cannot be written: {why}") from None
        click.echo(f"Wrote {path}")

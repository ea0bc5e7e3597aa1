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
from integrators.precision import ARITHMETICS, DOUBLE
from sweep.cli.common import echo_document, echo_json, json_option, plugin_library_option
from sweep.store.backends.places import require_local_path
from sweep.store.store import Store
from sweep.text import escape_controls_in_lines

if TYPE_CHECKING:
    from integrators import Integrator
    from sweep.plugins.loader import Plugin
    from sweep.plugins.registry import Library
    from systems.base import Family


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
    if output is not None:
        if kind != "plugins":
            raise click.UsageError("--output is for plugins")
        _write_plugin_sources(name, output)
        return
    if kind == "study":
        _show_study(name, as_json)
    elif kind == "plugins":
        _show_plugins(name, as_json)
    elif kind == "citations":
        _show_citations(name, as_json)
    else:
        _show_system_or_integrator(kind, name, library, as_json)


def _show_system_or_integrator(kind: str, name: str, library: "Library", as_json: bool) -> None:
    plain = name.partition("+")[0]
    library = sweep.plugins.with_installed_plugins(library, kind, [plain])
    text: str | None = None
    if kind == "system":
        facts = _system_facts(name, library)
        text = inspect.getdoc(inspect.getmodule(library.system_class(name)))
    else:
        facts = _integrator_facts(name, library)
    if source := library.origin(kind, plain):
        facts["from"] = f"{source.in_words}, sha256 {source.hash}"
    if as_json:
        echo_json(facts)
        return
    width = max(map(len, facts))
    for key, value in facts.items():
        for line in _fact_lines(value):
            click.echo(f"{key:<{width}}  {line}")
            key = ""
    if text:
        click.echo(f"\n{text}")


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
    rows: list[dict[str, Any]] = [
        {
            "name": plugin.name,
            "sha256": plugin.hash,
            "approved": plugin.hash in approved,
            "source": plugin.text,
        }
        for plugin in _plugins_of_store_or_study(name)
    ]
    if as_json:
        echo_json(rows)
        return
    if not rows:
        click.echo(f"{name} has no plugins")
    for row in rows:
        approval = "approved" if row["approved"] else "not approved"
        click.echo(f"# {row['name']}  sha256 {row['sha256']}  {approval}\n")
        # For reading; --output writes the source unchanged.
        click.echo(row["source"].replace("\r\n", "\n").expandtabs().rstrip())


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


def _declared_convergence_facts(system: "type[systems.System]") -> str | dict[str, str]:
    """The meaning of ``duration = "declared"`` and ``step_size = "declared"`` for a system."""
    declared = system.convergence
    if declared is None:
        return "declares none"
    unit = "" if system.units["time"] == "1" else f" {system.units['time']}"
    steps = f"{declared.shortest_step:g} – {declared.longest_step:g}{unit}"
    return {"duration": f"{declared.duration:g}{unit}", "step sizes": steps}


def _system_facts(name: str, library: "Library") -> dict[str, Any]:
    system = library.system_class(name)
    made = library.system(name, {})
    parameters = {
        key: _value_with_unit(value, system.parameter_units[key])
        for key, value in made.parameters.items()
    }
    for key, why in system.surprising_defaults.items():
        parameters[key] += f" ({why})"
    facts: dict[str, Any] = {
        "system": name,
        "description": system.description,
        "form": type(made.form).__name__,
        "parameters": parameters,
        "state": f"({made.rows}, 3): {made.rows_in_words}",
        "starts": {start.name: start.description for start in system.named_starts},
        "remarks": "; ".join(made.remarks),
        "convergence": _declared_convergence_facts(system),
        "families": {family.name: _state_family_facts(family) for family in system.families},
        "record": {
            q.name: f"{q.long_name}, {q.kind}, in {q.units}" for q in library.quantities(made)
        },
    }
    for optional in ("families", "remarks"):
        if not facts[optional]:
            del facts[optional]
    return facts


def _value_with_unit(value: object, unit: str) -> str:
    """A parameter's value as text, with its unit unless the value is a word."""
    unit = "" if isinstance(value, str) or unit == "1" else f" {unit}"
    return f"{_tuples_as_lists(value)}{unit}"


def _state_family_facts(family: "Family") -> str:
    """The description of a family of states, and its axes with their defaults."""
    axes = ", ".join(f"{axis} = {value:g}" for axis, value in family.axes.items())
    return f"{family.description} ({axes})"


def _evaluations_in_words(made: "Integrator") -> str:
    """The number of evaluations of the system's function for a step, and more for a sample."""
    per_sample = "a sample, or a step of which statistics are kept"
    if isinstance(made.order, str):  # exact
        return f"1 {per_sample}"
    per_step = f"{made.evaluations or 'as many as the solver takes'} a step"
    processor = getattr(made.composition, "processor_stages", 0)
    return f"{per_step}, and {processor} {per_sample}" if processor else per_step


def _fitting_systems_in_words(name: str, library: "Library") -> str:
    """The names of the systems that a method fits with their default parameters."""
    classes: tuple[type[systems.System], ...] = (*systems.ALL_SYSTEMS, *library.systems)
    method = name.partition("+")[0]
    fitting = [
        system.name for system in classes if method in sweep.study.fitting_methods(system, library)
    ]
    return "every system" if len(fitting) == len(classes) else ", ".join(fitting) or "none of them"


def _integrator_facts(name: str, library: "Library") -> dict[str, Any]:
    method, _ = integrators.named(name, library.methods)
    made = library.integrator(name, method.example)
    facts: dict[str, Any] = {
        "integrator": made.name,
        "description": method.description if method.made_of else made.method.description,
        "family": made.family,
        "order": made.order,
        "symmetric": "yes" if made.symmetric else "no",
        "adaptive": "yes, takes a tolerance" if made.adaptive else "no",
        "arithmetic": " or ".join(ARITHMETICS) if made.method.precise else DOUBLE,
        "needs": " or ".join(form.__name__ for form in made.method.forms)
        + (f", and {made.method.condition}" if made.method.condition else ""),
        "fits": _fitting_systems_in_words(name, library),
        "evaluations": _evaluations_in_words(made),
        "preserves": {key: ", ".join(forms) or "yes" for key, forms in made.preserves.items()},
        "options": {
            key: f"{'required' if option.read else repr(option.default)}: {option.description}"
            for key, option in made.method.options.items()
        },
        "modifiers": " ".join(f"+{modifier}" for modifier in made.method.modifiers)
        if made.method.modifiers and not made.modifier
        else "none",
    }
    if method.made_of:
        variable = ("order", "evaluations", *(["adaptive"] if made.adaptive else []))
        facts |= dict.fromkeys(variable, "as its options say")
    if made.method.stability_limit < float("inf"):
        facts["stable"] = (
            f"for step size × frequency{' × largest |γ|' * (made.composition is not None)} < "
            f"{made.method.stability_limit:g}"
        )
    if made.composition:
        facts["composition"] = f"{made.composition.stages} stages; {made.composition.source}"
    return facts


def _tuples_as_lists(value: object) -> object:
    return [_tuples_as_lists(item) for item in value] if isinstance(value, tuple) else value


def _fact_lines(value: object) -> list[object]:
    if isinstance(value, dict):
        return [f"{key}: {item}" for key, item in value.items()] or ["none"]
    return [value]

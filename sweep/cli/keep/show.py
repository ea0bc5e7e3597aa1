"""`sweep show`: print a system, an integrator, a study, its plugins or its citations in full."""

import contextlib
import dataclasses
import inspect
import json
import shlex
import textwrap
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import click

import integrators
import sweep
import systems
from integrators.bibliography import work_in_words
from integrators.errors import InputError
from sweep.cli.keep.ls import COLUMNS
from sweep.cli.options import Choice, ClickSettings, command, packaged_studies
from sweep.cli.output import echo, echo_document, writing
from sweep.store.backends.places import require_local_path
from sweep.store.store import Store

if TYPE_CHECKING:
    from sweep.plugins.loader import Plugin
    from sweep.plugins.registry import Library


class _KindParameter(Choice):
    """A kind of thing to show; if a name is given instead, the error says of which kind it is."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check that the value is a kind."""
        plain = value.partition("+")[0]
        for kind, known in (
            ("system", systems.ALL_SYSTEMS),
            ("integrator", integrators.ALL_INTEGRATORS),
        ):
            if value not in self.choices and plain in {item.name for item in known}:
                self.fail(f"{value!r} is no kind; expected {kind} {value}", param, ctx)
        if value.endswith((".zarr", ".toml")):
            self.fail(f"{value!r} is no kind; expected study {value}", param, ctx)
        return super().convert(value, param, ctx)


NAMES = ("fits", "integrators")  # facts that are long lists of names
KINDS = ("system", "integrator", "study", "plugins", "citations")


@command
def show(
    kind: Annotated[str, ClickSettings(type=_KindParameter(KINDS))],
    name: str,
    library: "Library | None",
    output: str | None,
    as_json: bool,
) -> None:
    """Show a system, an integrator, a study, the source of its plugins, or its citations.

    For a study, plugins or citations, NAME may be a store; then the study that the store keeps is
    used, with everything that `sweep extend` or `sweep merge` added. Plugins that are shown are not
    run; plugins of --study are. Citations are the BibTeX entries of the sources of the study's
    integrators, systems and recorded quantities.

    \b
    Example:
      sweep show system spherical_pendulum_chain
      sweep show integrator variational+suzuki4
      sweep show study quickstart
      sweep show study my-study.zarr > my-study.toml
      sweep show citations quickstart.zarr > citations.bib
      sweep show plugins my-study.zarr --output restored
      sweep show system my_system --study my-study.toml

    Options:
      -o, --output DIRECTORY  Write the files of the plugins to DIRECTORY.
    """
    if output is not None and kind != "plugins":
        raise click.UsageError("--output can only be used with plugins")
    if output is not None:
        _write_plugin_sources(name, output)
        return
    shown = {
        "study": _study_facts_and_text,
        "citations": _citation_facts_and_text,
        "plugins": _plugin_facts_and_text,
    }.get(kind)
    facts, text = (
        shown(name) if shown else _system_or_integrator_facts_and_text(kind, name, library)
    )
    if kind == "study" and not as_json:
        echo_document(text)
    else:
        echo(facts, text, as_json)


def _system_or_integrator_facts_and_text(
    kind: str, name: str, known: "Library | None"
) -> tuple[Any, str]:
    plain = name.partition("+")[0]
    library = sweep.plugins.with_installed_plugins(known or sweep.plugins.BUILT_IN, kind, [plain])
    try:
        facts, module = (_system_facts if kind == "system" else _integrator_facts)(name, library)
    except InputError as error:
        if known is None and str(error).startswith(f"unknown {kind} "):
            raise InputError(f"{error} Those of a study's plugins need --study FILE.") from None
        raise
    if source := library.origin(kind, plain):
        facts["from"] = f"{source.in_words}, sha256 {source.hash}"
    width, lines = max(map(len, facts)), list[str]()
    for key, value in facts.items():
        items = value if isinstance(value, list) else [value]
        if isinstance(value, dict):
            items = [f"{of}: {item}" for of, item in value.items()]
        if key in NAMES:
            items = textwrap.wrap(str(value), COLUMNS - width - 2)
        for item in items or ["none"]:
            lines.append(f"{key:<{width}}  {item}")
            key = ""
    explanation = module and inspect.getdoc(module)
    return facts, "\n".join([*lines, *(["", explanation] if explanation else [])])


def _system_facts(name: str, library: "Library") -> tuple[dict[str, Any], ModuleType | None]:
    """Facts of a system at default parameters, and the module whose docstring has its formula."""
    made = library.system(name, {})
    facts = made.facts() | {
        "record": {
            own.name: f"{own.long_name}, {own.kind}, in {own.units}"
            for own in library.quantities(made)
        },
        "integrators": ", ".join(sweep.study.fitting_methods(type(made), library)),
        "references": [*map(work_in_words, made.sources)],
        "TOML": f'system = "{name}"',
    }
    texts = {study: file.read_text("utf-8") for study, file in packaged_studies().items()}
    using = [study for study, text in texts.items() if f'\nsystem = "{name}"\n' in text]
    if using:
        shortest = min(using, key=lambda study: len(texts[study]))
        facts["shell"] = f"sweep show study {shortest} > copy.toml"
    return facts, inspect.getmodule(type(made))


def _integrator_facts(name: str, library: "Library") -> tuple[dict[str, Any], ModuleType | None]:
    """Facts of an integrator, with the systems (at default parameters) that it fits.

    They come with the module whose docstring has its formula, if it is built in.
    """
    method, _ = integrators.named(name, library.methods)
    made = library.integrator(name, method.example)
    fitting = sweep.study.fitting_systems(method, library)
    is_any = len(fitting) == len(systems.ALL_SYSTEMS) + len(library.systems)
    fits = "every system" if is_any else ", ".join(fitting)
    facts: dict[str, Any] = {}
    for key, value in made.facts().items():
        facts[key] = value
        if key == "needs":
            facts["fits"] = fits or "none of them"
    if method.made_of:
        variable = ("order", "evaluations", *(["adaptive"] if made.adaptive else []))
        facts |= dict.fromkeys(variable, "depends on its options")
        facts["description"] = method.description
    sources = integrators.registry.sources(name, library.methods)
    facts["references"] = [work_in_words(key) for keys in sources.values() for key in keys]
    entry: Any = {"name": name, **method.example} | ({"tolerance": 1e-8} if made.adaptive else {})
    options = _as_toml(entry) if len(entry) > 1 else ""
    facts["TOML"] = f"integrators = [{options or _as_toml(name)}]"
    facts["shell"] = f"sweep extend my-study.zarr --integrator {shlex.quote(options or name)}"
    built_in = method in integrators.ALL_INTEGRATORS
    return facts, inspect.getmodule(method.bind or method.made_of) if built_in else None


def _as_toml(value: object) -> str:
    """A value as inline TOML."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {_as_toml(of)}' for key, of in value.items())} }}"
    return json.dumps(value)


def _study_facts_and_text(name: str) -> tuple[Any, str]:
    if sweep.store.names_existing_store(name):
        store, text = Store.at(name), sweep.store.stored_study_text(name)
        groups = [store.group(experiment) for experiment in store.attributes["experiments"]]
        return [json.loads(group.attrs["experiment"]) for group in groups], text.rstrip()
    study = sweep.store.load(name)
    return [experiment.expanded() for experiment in study.experiments], study.toml().rstrip()


def _citation_facts_and_text(name: str) -> tuple[Any, str]:
    citations = sweep.citations(name)
    facts = [dataclasses.asdict(citation) for citation in citations]
    return facts, "\n\n".join(map(str, citations))


def _plugin_facts_and_text(name: str) -> tuple[Any, str]:
    approved: set[str] = set()
    with contextlib.suppress(InputError):  # unreadable approvals matter only when plugins are run
        approved = sweep.plugins.approved_plugin_hashes()
    facts, texts = [], []
    for own in _plugins_of_store_or_study(name):
        known = {"name": own.name, "sha256": own.hash, "approved": own.hash in approved}
        facts.append(known | {"source": own.text})
        approval = "approved" if known["approved"] else "not approved"
        # The source as text to read; --output writes it unchanged.
        source = own.text.replace("\r\n", "\n").expandtabs().rstrip()
        texts.append(f"# {own.name}  sha256 {own.hash}  {approval}\n\n{source}")
    return facts, "\n".join(texts) or f"{name} has no plugins"


def _plugins_of_store_or_study(name: str) -> "Sequence[Plugin]":
    """Plugins of a store or of a study file; none is run."""
    plugins: Sequence[Plugin] = (
        sweep.plugins.plugins_kept_in_store(Store.at(name).attributes, name)
        if sweep.store.names_existing_store(name)
        else sweep.study.plugins_of_study(name)
    )
    return plugins


def _write_plugin_sources(name: str, output: str) -> None:
    """Write the source of plugins to files, unchanged; never overwrite an existing file."""
    for plugin in _plugins_of_store_or_study(name):
        path = require_local_path(output) / f"{Path(plugin.name).name.removesuffix('.py')}.py"
        with writing(path, place="DIRECTORY"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(plugin.text.encode())
        click.echo(f"Wrote {path}")

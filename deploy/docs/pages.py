"""Writes the source of the site: the guide, and what is generated from registries and docstrings.

    python deploy/docs/pages.py DIRECTORY [PICTURES]

PICTURES has what `sweep reproduce PAPER --plots -o PICTURES` draws.

The guide stays what `sweep guide` prints; here its names of topics, commands, systems and
integrators become links. Pages of systems and integrators have what `sweep show` prints of them.
"""

import dataclasses
import functools
import importlib
import inspect
import json
import re
import shutil
import sys
from collections.abc import Collection
from pathlib import Path

import click.testing
from equations import as_it_stands, markdown

import integrators
import systems
from integrators.bibliography import (
    authors,
    entries,
    entry_of_source,
    fields_of_entry,
    work_in_words,
)
from integrators.errors import InputError
from sweep import guide
from sweep.cli.main import group
from sweep.papers import FIGURES

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FAMILIES: dict[str, list[integrators.Method]] = {}
for _method in integrators.ALL_INTEGRATORS:
    FAMILIES.setdefault(_method.family or _method.name, []).append(_method)
METHODS = {method.name for method in integrators.ALL_INTEGRATORS}
COMMANDS = group.list_commands(None)
SHOWN_MODULES = {
    "kernels": (
        "How kernels run: elements, lanes, the loop over steps",
        "integrators.compiler.kernels",
        "integrators.compiler.elements",
        "integrators.compiler.lanes",
        "integrators.compiler.double_double",
        "integrators.stepping.loop",
    ),
    "commits": (
        "How results come into a store: leases, records, folds, shards",
        "sweep.store.lease.lease",
        "sweep.store.commit.records",
        "sweep.store.commit.fold",
        "sweep.store.commit.shards",
        "sweep.store.upkeep.verify",
        "sweep.store.upkeep.repair",
    ),
}
# Drawn by `sweep plot work solvers.zarr -e NAME -o work-NAME.svg`.
PICTURE_OF_WORK = (
    '\n<img src="../_static/work-{0}.svg" alt="Errors of the {0} against their cost">\n'
)
PACKAGES = ("sweep", "sweep.analysis", "sweep.plots", "sweep.errors", "systems", "systems.plugin",
            "integrators", "integrators.plugin")  # fmt: skip


def sources() -> dict[str, str]:
    """The text of every page by its path, relative to the source of the site."""
    pages = {page.name: page.read_text() for page in HERE.glob("*.md") if page.stem != "README"}
    pages |= {f"guide/{topic}.md": linked(guide.text(topic)) for topic in guide.TOPICS}
    pages["guide/work.md"] += "".join(
        PICTURE_OF_WORK.format(name) for name in ("pendulum", "spins")
    )
    pages |= _deployment() | _systems() | _integrators() | _command_line() | _python()
    pages |= {f"explanations/{name}.md": _of_modules(*of) for name, of in SHOWN_MODULES.items()}
    return pages | {"forms.md": _forms(), "studies.md": _studies(), "bibliography.md": _works()}


# --- pictures of the papers -----------------------------------------------------------------------


def with_pictures(page: str, files: Collection[str]) -> str:
    """The page of the papers with the pictures of each at the end of its section.

    Parameters
    ----------
    page : str
    files : collection of str
        Names of the pictures, which `sweep reproduce` gives them: ``lee-figure-3.1.png``.
    """
    head, *parts = re.split(r"^(?=## )", page, flags=re.MULTILINE)
    for i, part in enumerate(parts):
        author = part.split()[1].strip(",")  # of a heading such as "## Lee, Leok and McClamroch"
        shown = [
            f"{_capitalised(name.replace('-', ' '))}:\n\n"
            f"![Counterpart of {name.replace('-', ' ')}](pictures/{author.lower()}-{name}.png)\n\n"
            for name in FIGURES.get(author.lower(), ())
            if f"{author.lower()}-{name}.png" in files
        ]
        if shown:
            parts[i] = f"{part.rstrip()}\n\n### Pictures: {author} et al.\n\n{''.join(shown)}"
    return head + "".join(parts)


# --- the guide ------------------------------------------------------------------------------------

FENCED = re.compile(r"(^```.*?^```$|^#+ .*?$)", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"\[`[^`]+`\]\(|\{math\}`[^`]*`|`([^`]+)`")  # not that of a link, an equation


def linked(text: str) -> str:
    """Markdown of the guide, in which code that names something with a page links to it."""
    text = text.replace("](../../deploy/", "](../deploy/")
    parts = FENCED.split(text)
    linked = [part if i % 2 else CODE.sub(_link, part) for i, part in enumerate(parts)]
    return re.sub(r"\]\(([\w./-]*/)\)", r"](\1README.md)", "".join(linked))


def _link(found):
    """The match of `CODE` itself, or as a link."""
    target = found[1] and _target(found[1], found[1].split())
    return f"[{found[0]}]({target})" if target else found[0]


def _target(code, words):
    """Where a page or section is of what code names, or None."""
    if words[:2] == ["sweep", "guide"] and words[-1] in guide.TOPICS:
        return f"/guide/{words[-1]}.md"
    if words[:1] == ["sweep"] and words[1:2] and words[1] in COMMANDS:
        return f"/command-line/{words[1]}.md"
    if code in systems.names():
        return f"/systems/{code}.md"
    method = code.partition("+")[0]
    return f"#method-{method}" if method in METHODS else None


def _deployment():
    """README of `deploy/` and of its folders, and its other pages."""
    folder = ROOT / "deploy"
    paths = [folder / name for name in ("README.md", "limits.md", "durable.md")]
    paths += sorted(folder.glob("*/README.md"))
    pages = {str(path.relative_to(ROOT)): linked(path.read_text()) for path in paths}
    for path in paths:  # what they link to besides
        for name in re.findall(r"\]\(([\w./-]+)\)", path.read_text()):
            if (other := (path.parent / name).resolve()).is_file() and other.suffix != ".md":
                pages[str(other.relative_to(ROOT))] = other.read_text()
    names = [str(path.relative_to(folder)) for path in paths[1:]]
    pages["deploy/README.md"] += f"\n{_toctree(names)}"
    return pages


# --- systems and integrators ----------------------------------------------------------------------


def _systems():
    pages = {f"systems/{system.name}.md": _system_page(system) for system in systems.ALL_SYSTEMS}
    kinds = {}
    for system in systems.ALL_SYSTEMS:
        kinds.setdefault(system.__module__.rpartition(".")[0], []).append(system)
    index = ["# Systems", "Each with its equations, parameters, starts and recorded quantities."]
    for kind, of in kinds.items():
        heading, _ = _headed(importlib.import_module(kind))
        index += [f"## {heading}", _described(of, "{}.md")]
    pages["systems/index.md"] = _page(*index, _toctree(systems.names(), "hidden"))
    return {path: linked(text) for path, text in pages.items()}


def _system_page(system):
    facts, made = _shown("system", system.name), _default(system.name)
    fitting = [method for method in integrators.ALL_INTEGRATORS if _fits(method, made)]
    shape, _, rows = facts["state"].partition(": ")
    form = facts["form"]
    return _page(
        f"# {_capitalised(system.description)}", f'In a study `system = "{system.name}"`.',
        "## Equations", markdown(inspect.getdoc(inspect.getmodule(system))),
        "## Parameters", _parameters(system), facts.get("remarks"),
        "## States", f"Shape `{shape}`: {rows}. The form is [`{form}`](#{form}).",
        "## Starts", _definitions(facts["starts"] | facts.get("families", {})) or "None is named.",
        "## What can be recorded", _quantities(made),
        "## Study of convergence", _convergence(facts["convergence"]),
        "## Integrators that fit", "With the default parameters:",
        _described(fitting, "#method-{}"),
        "## Sources", _sources(system.sources),
    )  # fmt: skip


def _shown(kind, name):
    """What `sweep show` prints of a system or an integrator."""
    done = click.testing.CliRunner().invoke(group, ["show", kind, name, "--json"])
    if done.exception:
        raise done.exception
    return json.loads(done.stdout)


@functools.cache
def _default(name):
    """The system with its default parameters, made once, since forms take a while."""
    return systems.get(name)


def _fits(method, system):
    try:
        integrators.get(method.name, **method.example).check(system)
    except InputError:
        return False
    return True


def _parameters(system):
    """A table of the parameters: the default in its unit, and what the docstring says."""
    meanings = _documented_parameters(system)
    rows = []
    for field in sorted(dataclasses.fields(system), key=lambda field: field.kw_only):
        unit = system.parameter_units.get(field.name, "1")
        unit = "" if isinstance(field.default, str) else f" {_unit(unit)}"
        default = _shortened(json.dumps(field.default))
        rows.append((f"`{field.name}`", f"`{default}`{unit}", meanings.get(field.name, "")))
    return _table(("parameter", "default", "meaning"), rows)


def _documented_parameters(made):
    """Meanings of parameters in a numpydoc docstring, by their names."""
    section = re.search(
        r"^Parameters\n-+\n(.*?)(?=^\w+\n-+$|\Z)", inspect.getdoc(made), re.MULTILINE | re.DOTALL
    )
    meanings = {}
    for found in re.finditer(r"^(\S.*?)(?: : (.*))?\n((?: +.*\n?)*)", section[1], re.MULTILINE):
        meaning = as_it_stands(" ".join(found[3].split()))
        meanings |= dict.fromkeys(found[1].split(", "), meaning)
    return meanings


def _unit(text):
    """A unit such as ``kg m2 s-1`` with its exponents above the line; none where it is 1."""
    high = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    return "" if text == "1" else re.sub(r"-?\d+", lambda found: found[0].translate(high), text)


def _quantities(made):
    rows = [
        (f"`{own.name}`", own.kind, _unit(own.units) or "–", own.long_name)
        for own in made.quantities
    ]
    return _table(("`record`", "kind", "unit", "what it is"), rows)


def _convergence(facts):
    if isinstance(facts, str):
        return "It declares none."
    return f"Over {facts['duration']}, with step sizes of {facts['step sizes']}."


def _integrators():
    pages = {
        f"integrators/{family}.md": _family_page(family, of) for family, of in FAMILIES.items()
    }
    index = ["# Integrators", "By construction; `sweep guide methods` says which fit."]
    for family, of in FAMILIES.items():
        title = _title_of_family(of)
        index += [f"## [{title}]({family}.md)", _described(of, "#method-{}")]
    pages["integrators/index.md"] = _page(*index, _toctree(FAMILIES, "hidden"))
    return {path: linked(text) for path, text in pages.items()}


def _family_page(family, methods):
    """The constructions, as the modules of the methods say them, and the facts of each method."""
    parts = [f"# {_title_of_family(methods)}", f"The family `{family}`."]
    for module in _modules(methods):
        heading, rest = _headed(module)
        parts += [f"## {heading}", markdown(rest)]
    for method in methods:
        parts += [f"(method-{method.name})=\n## `{method.name}`", *_method_facts(method)]
    return _page(*parts)


def _title_of_family(methods):
    return _headed(_modules(methods)[0])[0].partition(":")[0]


def _modules(methods):
    return list(dict.fromkeys(inspect.getmodule(one.bind) for one in methods if one.bind))


def _headed(module):
    """The first sentence of a module's docstring as a heading, and what follows it."""
    first, _, rest = inspect.getdoc(module).partition("\n\n")
    return " ".join(first.split()).rstrip(".").replace("*", r"\*"), rest


def _method_facts(method):
    facts = _shown("integrator", method.name)
    options = facts.pop("options")
    names = ("order", "symmetric", "adaptive", "arithmetic", "evaluations")
    rows = [(name, str(facts[name])) for name in names]
    rows.append(("needs", re.sub(r"\b([A-Z]\w+)", r"[`\1`](#\1)", facts["needs"])))
    rows.append(("preserves", "; ".join(f"{k}: {v}" for k, v in facts["preserves"].items())))
    if "stable" in facts:
        rows.append(("stable", facts["stable"]))
    modifiers = facts["modifiers"].split()
    rows.append(("modifiers", " ".join(f"`{m}`" for m in modifiers if m != "none") or "none"))
    fitting = [name for name in systems.names() if _fits(method, _default(name))]
    rows.append(("fits", _codes(fitting)))
    parts = [_capitalised(facts["description"]) + ".", _table(("", ""), rows)]
    if options:
        split = {name: text.split(": ", 1) for name, text in options.items()}
        defaults = [(f"`{name}`", f"`{default}`", said) for name, (default, said) in split.items()]
        parts += [_table(("option", "default", "meaning"), defaults)]
    return [*parts, "Sources: " + _sources(method.sources)]


def _forms():
    """The forms that methods require, by their docstrings."""
    offers = "What a system offers and a method requires. Forms derive from one another: a system"
    parts = ["# Forms", f"{offers} writes its physics once."]
    for form in _required_forms():
        offering = [name for name in systems.names() if type(_default(name).form) is form]
        requiring = [one.name for one in integrators.ALL_INTEGRATORS if form in one.forms]
        parts += [
            f"```{{eval-rst}}\n.. autoclass:: {form.__module__}.{form.__name__}\n```",
            f"- With their default parameters, systems of this form: {_codes(offering)}.",
            f"- Methods that take it: {_codes(requiring)}.",
        ]
    return linked(_page(*parts))


def _codes(names):
    return ", ".join(f"`{name}`" for name in names) or "none"


def _required_forms():
    return list(dict.fromkeys(form for one in integrators.ALL_INTEGRATORS for form in one.forms))


# --- other references -----------------------------------------------------------------------------


def _studies():
    parts = ["# Packaged studies", "`sweep run NAME` runs one, `sweep show study NAME` prints it."]
    for path in sorted((ROOT / "sweep" / "studies").glob("*.toml")):
        text = path.read_text()
        description = re.search(r'^description = "(.*)"$', text, re.MULTILINE)
        parts += [f"## {path.stem}", f"{description[1]}." if description else ""]
        parts += [f"```toml\n{text.rstrip()}\n```"]
    return linked(_page(*parts))


def _works():
    parts = ["# Bibliography", "`sweep show citations STUDY` prints those of a study as BibTeX."]
    return linked(_page(*parts, *(f"({key})=\n{work_in_words(key)}" for key in entries())))


def _sources(sources):
    """Links to works in the bibliography, by their authors and years."""
    links = []
    for key, entry in map(entry_of_source, sources):
        fields = fields_of_entry(entry)
        names = ", ".join(name[0] for name in authors(fields))
        links.append(f"[{names} ({fields['year']})](#{key})")
    return "; ".join(links)


def _command_line():
    """A page for each command: its help, and its options in a table."""
    contexts = {name: _context(name) for name in COMMANDS}
    pages = {f"command-line/{name}.md": _command_page(ctx) for name, ctx in contexts.items()}
    rows = [
        (f"[`sweep {name}`]({name}.md)", _escaped(ctx.command.get_short_help_str(limit=200)))
        for name, ctx in contexts.items()
    ]
    codes = re.search(r"(?<=Exit codes: ).*?resumable", sys.modules["sweep.cli.main"].__doc__, re.S)
    index = _page(
        "# Command line", _table(("command", ""), rows),
        "## Exit codes", "- " + "\n- ".join(codes[0].replace("\n", " ").split(", ")),
        _toctree(COMMANDS, "hidden"),
    )  # fmt: skip
    return pages | {"command-line/index.md": index}


def _context(name):
    return click.Context(group.get_command(None, name), info_name=f"sweep {name}")


def _command_page(ctx):
    usage = ctx.get_usage().partition(": ")[2]
    parts = [f"# {ctx.info_name}", f"```text\n{' '.join(usage.split())}\n```"]
    for block in inspect.cleandoc(ctx.command.help).split("\n\n"):
        as_it_is = block.startswith("\b\n")
        parts.append(f"```text\n{block[2:]}\n```" if as_it_is else _escaped(block))
    options = (one for one in ctx.command.params if isinstance(one, click.Option))
    records = (option.get_help_record(ctx) for option in options)
    rows = [(f"`{name}`", _escaped(text)) for name, text in filter(None, records)]
    return linked(_page(*parts, "## Options", _table(("option", ""), rows)))


def _escaped(text):
    """Plain text as Markdown: stars and bars are no markup in it."""
    return re.sub(r"([*|<])", r"\\\1", text)


def _python():
    """A page for each package, with all that is public."""
    described = {form: f"{form.__module__}.{form.__name__}" for form in _required_forms()}
    pages = {f"python/{name}.rst": _package_page(name, described) for name in PACKAGES}
    return pages | {"python/index.md": _page("# Python", _toctree(PACKAGES))}


def _package_page(name, described):
    """What a package offers; what `described` has is on another page, and the rest is put there."""
    module = importlib.import_module(name)
    public = {own: getattr(module, own) for own in module.__all__}
    public = {own: it for own, it in public.items() if inspect.isroutine(it) or inspect.isclass(it)}
    here = [own for own, it in public.items() if it not in described]
    others = [f":py:obj:`{own} <{described[it]}>`" for own, it in public.items() if it in described]
    parts = [f"{name}\n{'=' * len(name)}", inspect.getdoc(module), f".. currentmodule:: {name}"]
    parts += [".. autosummary::\n\n" + "\n".join(f"   {own}" for own in here)]
    parts += ["Also here: " + ", ".join(others) + "."] if others else []
    for own in here:
        is_class = inspect.isclass(public[own])
        kind = "class" if is_class else "function"
        kind = "exception" if is_class and issubclass(public[own], Exception) else kind
        parts.append(f".. auto{kind}:: {own}" + "\n   :members:" * (kind == "class"))
        described[public[own]] = f"{name}.{own}"
    return "\n\n".join(parts) + "\n"


def _of_modules(title, *modules):
    """What docstrings of modules say, one after the other."""
    parts = [f"# {title}"]
    for name in modules:
        heading, rest = _headed(importlib.import_module(name))
        parts += [f"## {heading}", markdown(rest), f"In `{name}`."]
    return linked(_page(*parts))


# --- Markdown -------------------------------------------------------------------------------------


def _page(*parts):
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(headers, rows):
    lines = [headers, ["---"] * len(headers), *rows]
    cells = ([re.sub(r"(?<!\\)[|]", r"\|", cell) for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _toctree(names, *options):
    given = "".join(f":{option}:\n" for option in options or ["maxdepth: 1"])
    return "```{toctree}\n" + given.replace("1:", "1") + "\n" + "\n".join(names) + "\n```\n"


def _definitions(meanings):
    return "\n".join(f"- `{name}`: {meaning}" for name, meaning in meanings.items())


def _described(things, target):
    return "\n".join(
        f"- [`{one.name}`]({target.format(one.name)}): {one.description}" for one in things
    )


def _capitalised(text):
    return text[0].upper() + text[1:]


def _shortened(text, longest=40):
    return text if len(text) <= longest else f"{text[:longest].rpartition(',')[0]}, …"


def main(target: Path, pictures: Path | None = None) -> None:
    """Write the source of the site into a directory, anew; with pictures of the papers if given."""
    shutil.rmtree(target, ignore_errors=True)
    pages = sources()
    if pictures is not None:
        page, files = "guide/papers.md", sorted(pictures.glob("*.png"))
        pages[page] = with_pictures(pages[page], {file.name for file in files})
        shutil.copytree(pictures, target / "guide" / "pictures")
    for name, text in pages.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))

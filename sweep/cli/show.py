"""`sweep show`: one system, integrator or study in full."""

import inspect

import click

from sweep.cli.common import echo_json, json_option


@click.command("show")
@click.argument("kind", type=click.Choice(["system", "integrator", "study"]))
@click.argument("name")
@json_option
def command(kind, name, as_json):
    """Show a system, an integrator or a study: a file's, a packaged one's, or that of a store.

    A store's study is as it was amended since, by `sweep extend` or `sweep merge`.

    \b
    Example:
      sweep show system spherical_pendulum_chain
      sweep show integrator variational+suzuki4
      sweep show study quickstart
      sweep show study my-study.zarr > my-study.toml
    """
    if kind == "study":
        _show_study(name, as_json)
        return
    facts, text = {"system": _system, "integrator": _integrator}[kind](name)
    if as_json:
        echo_json(facts)
        return
    width = max(map(len, facts))
    for key, value in facts.items():
        for line in _lines(value):
            click.echo(f"{key:<{width}}  {line}")
            key = ""
    if text:
        click.echo(f"\n{text}")


def _show_study(name, as_json):
    from sweep.amending import stored_text
    from sweep.extending import is_store, stored_study
    from sweep.study import load

    kept = is_store(name)
    if as_json:
        study = stored_study(name) if kept else load(name)
        echo_json([experiment.expanded() for experiment in study.experiments])
    else:
        click.echo((stored_text(name) if kept else load(name).text).rstrip())


def _system(name):
    import systems

    system = systems.named(name)
    made = system()
    parameters = {
        key: f"{_plain(value)} {system.parameter_units[key]}".removesuffix(" 1")
        for key, value in made.parameters.items()
    }
    facts = {
        "system": name,
        "description": system.description,
        "form": type(made.form).__name__,
        "parameters": parameters,
        "state": f"({made.rows}, 3): {made.rows_in_words}",
        "starts": {start.name: start.description for start in system.named_starts},
        "families": {family.name: _family(family) for family in system.families},
        "record": {q.name: f"{q.long_name}, {q.kind}, in {q.units}" for q in made.quantities},
    }
    if not system.families:
        del facts["families"]
    return facts, inspect.getdoc(inspect.getmodule(system))


def _family(family):
    """What the states of a family are, and its axes with their defaults."""
    axes = ", ".join(f"{axis} = {value:g}" for axis, value in family.axes.items())
    return f"{family.description} ({axes})"


def _integrator(name):
    import integrators

    method, _ = integrators.named(name)
    made = integrators.get(name, **method.example)
    facts = {
        "integrator": made.name,
        "description": method.description if method.made_of else made.method.description,
        "order": made.order,
        "symmetric": "yes" if made.symmetric else "no",
        "adaptive": "yes, takes a tolerance" if made.adaptive else "no",
        "needs": " or ".join(form.__name__ for form in made.method.forms)
        + (f", and {made.method.condition}" if made.method.condition else ""),
        "evaluations": f"{made.evaluations or 'as many as the solver takes'} a step",
        "preserves": {k: ", ".join(v) or "yes" for k, v in made.preserves.items()},
        "options": {
            key: f"{'required' if option.read else repr(option.default)}: {option.description}"
            for key, option in made.method.options.items()
        },
        "modifiers": " ".join(f"+{m}" for m in made.method.modifiers) or "none",
    }
    if method.made_of:
        own = ("order", "evaluations", *(["adaptive"] if made.adaptive else []))
        facts |= dict.fromkeys(own, "as its options say")
    if made.method.stability_limit < float("inf"):
        facts["stable"] = (
            f"for step size × frequency{' × largest |γ|' * (made.composition is not None)} < "
            f"{made.method.stability_limit:g}"
        )
    if made.composition:
        facts["composition"] = f"{made.composition.stages} stages; {made.composition.source}"
    return facts, None


def _plain(value):
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _lines(value):
    if isinstance(value, dict):
        return [f"{key}: {item}" for key, item in value.items()] or ["none"]
    return [value]

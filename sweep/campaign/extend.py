"""The study of a store with more in it; and as text, with the durations that it has by now."""

import contextlib
import dataclasses
import json

import integrators
from integrators.errors import InputError, check_known
from sweep.campaign import coordinator
from sweep.campaign.merge import editing
from sweep.campaign.merge.editing import elements_as_list, exact_multiple_of_unit, set_table_key
from sweep.errors import StoreError
from sweep.store.store import Store
from sweep.store.studies import stored_study, study_with_longer_duration, time_axis_as_stored
from sweep.study.initial_conditions.base import RandomStarts
from sweep.study.reader import read_time_axis
from sweep.study.time_axis import TimeAxis
from sweep.study.toml.nodes import parse_toml
from sweep.study.toml.writer import as_toml_item

EQUAL = 1e-9  # relative difference up to which a step size is one that there is


@dataclasses.dataclass(frozen=True)
class Additions:
    """What is added to experiments.

    Parameters
    ----------
    integrators, initial_conditions : tuple of str
        Names.
    step_sizes, tolerances : tuple of float
        In the study's unit of time; of integrators that have none of their own.
    members : int or None
        To which random ensembles grow.
    """

    integrators: tuple = ()
    step_sizes: tuple = ()
    tolerances: tuple = ()
    initial_conditions: tuple = ()
    members: int | None = None

    def __bool__(self):
        return any(getattr(self, field.name) for field in dataclasses.fields(self))


def extend(
    store, duration=None, samples=None, *, integrators=(), step_sizes=(), tolerances=(),
    initial_conditions=(), members=None, experiments=(), trust_plugins=False, **options,
):  # fmt: skip
    """Let all runs of a store go on to a longer duration, add some to them, or both.

    Parameters
    ----------
    store : str, Path or Store
    duration : float, optional
        In the unit in which the study gives it.
    samples : int, optional
        Equal sample intervals from the present end on; unless given, as long as the last one.
    integrators, initial_conditions : str or sequence of str
        Names of what is added.
    step_sizes, tolerances : float or sequence of float
        That are added.
    members : int, optional
        To which random ensembles grow.
    experiments : sequence of str, optional
        That are meant; all unless given.
    trust_plugins : bool
        Whether to approve the plugins that the store brings; see `sweep.plugins.approvals`.
    **options
        Of `sweep.run`.

    Returns
    -------
    sweep.campaign.coordinator.Outcome

    Raises
    ------
    InputError
        If nothing is to be extended, an experiment cannot be, or as `sweep.run`.
    """
    added = map(_as_tuple, (integrators, step_sizes, tolerances, initial_conditions))
    additions = Additions(*added, members)
    if duration is None and samples is not None:
        raise InputError("samples are of a longer duration: give that too", key="samples")
    if duration is None and not additions:
        raise InputError(
            "nothing to extend: give a longer duration, integrators, step sizes, tolerances, "
            "initial conditions or members"
        )
    store = Store.at(store).absolute()
    experiments = _as_tuple(experiments)
    study = study_with_additions(store, additions, experiments, trust_plugins=trust_plugins)
    if duration is not None:
        study = study_with_longer_duration(study, duration, samples, experiments)
    return coordinator.run(study, store, **options)


def _as_tuple(values):
    """Values as a tuple; a name or a number stands for itself alone."""
    return (values,) if isinstance(values, str | int | float) else tuple(values)


def study_with_additions(store, additions, names=(), directory=".", trust_plugins=False):
    """The study that a store keeps, with additions in its text.

    Parameters
    ----------
    store : Store
    additions : Additions
        What an experiment has already is not added to it.
    names : sequence of str, optional
        Of the experiments that are meant; all that can take them unless given.
    directory, trust_plugins
        As in `sweep.store.studies.stored_study`.

    Returns
    -------
    sweep.study.Study

    Raises
    ------
    InputError
        If no experiment, or not one that is named, can take what is added.
    StudyError
        If the study is not valid with it.
    """
    study = stored_study(store, directory, trust_plugins=trust_plugins)
    known = {experiment.name: experiment for experiment in study.experiments}
    for name in names:
        check_known("experiment", name, known)
    written = editing.parse_toml_document(study.text)
    tables, defaults = editing.experiment_tables(written), written.get("defaults", {})
    for key, values in _additions_by_key(additions).items():
        able = [name for name in names or known if _accepts_addition(known[name], key, additions)]
        lacking = [name for name in names if name not in able]
        if lacking or not able:
            where = (
                f"experiment {lacking[0]!r} of {store}" if lacking else f"no experiment of {store}"
            )
            has = "has no" if lacking else "has any"
            raise InputError(f"{where} {has} {_TAKERS[key]}", key=key)
        for name in able:
            _add_to_experiment_key(key, values, known[name], tables[name], defaults)
    return stored_study(store, directory, editing.text_of_toml_document(written), trust_plugins)


_TAKERS = {
    "integrators": "integrator",
    "initial_condition": "start",
    "step_size": "integrator with a fixed step that takes the experiment's step sizes",
    "tolerance": "adaptive integrator that takes the experiment's tolerances",
    "random": "random ensemble: { random = N, seed = … }",
}


def _additions_by_key(additions):
    """What is to be added, by the key of the study that it belongs to."""
    found = {
        "integrators": additions.integrators,
        "step_size": additions.step_sizes,
        "tolerance": additions.tolerances,
        "initial_condition": additions.initial_conditions,
        "random": additions.members,
    }
    return {key: values for key, values in found.items() if values}


def _accepts_addition(experiment, key, additions):
    if key in ("step_size", "tolerance"):
        adaptive = key == "tolerance"
        entries = [e for e in experiment.integrators if e.adaptive == adaptive]
        added = any(_is_adaptive_integrator(name) == adaptive for name in additions.integrators)
        return added or any((e.tolerances if adaptive else e.step_sizes) is None for e in entries)
    if key == "random":
        return any(isinstance(start, RandomStarts) for start in experiment.initial_conditions)
    return True


def _is_adaptive_integrator(name):
    return integrators.get(name).adaptive


def _add_to_experiment_key(key, values, experiment, table, defaults):
    """Add to a key of an experiment's table; taken over from the defaults if it is theirs."""
    of = "initial_condition" if key == "random" else key
    if of not in table and of in defaults:
        set_table_key(table, of, _plain(defaults[of]))
    if key == "random":
        _grow_random_ensembles(table, experiment, values)
    elif key in ("step_size", "tolerance"):
        adaptive = key == "tolerance"
        there = experiment.tolerances if adaptive else experiment.step_sizes
        unit = 1.0 if adaptive else experiment.time_unit
        there = [value if unit == 1.0 else exact_multiple_of_unit(value, unit) for value in there]
        new = [v for v in values if not any(abs(v - known) <= EQUAL * known for known in there)]
        if new:
            _append_to_array(table, key, there, list(dict.fromkeys(new)))
    else:
        there = elements_as_list(_plain(table[of]))
        bare = [raw["name"] if isinstance(raw, dict) and set(raw) == {"name"} else raw
                for raw in there]  # fmt: skip
        new = [name for name in dict.fromkeys(values) if name not in bare]
        if new:
            _append_to_array(table, of, there, new)


def _append_to_array(table, key, there, new):
    """Append to an array, whose comments stay; one is made of what is no array."""
    if key in table and isinstance(_plain(table[key]), list):
        for value in new:
            table[key].append(as_toml_item(value))
    else:
        set_table_key(table, key, [*there, *new])


def _grow_random_ensembles(table, experiment, members):
    """Let random ensembles have so many members."""
    raws = _plain(table["initial_condition"])
    for index, start in enumerate(experiment.initial_conditions):
        if not isinstance(start, RandomStarts):
            continue
        if start.size > members:
            raise InputError(
                f"the ensemble {start.label!r} of experiment {experiment.name!r} has {start.size} "
                f"members, and {members} are fewer: a store is not cut",
                key="random",
            )
        item = table["initial_condition"]
        (item[index] if isinstance(raws, list) else item)["random"] = members


def _plain(value):
    return value.unwrap() if hasattr(value, "unwrap") else value


# --- as text ---------------------------------------------------------------------------------


def stored_study_text(store):
    """The text of the study that a store keeps, with the durations that it was extended to.

    An axis that no study can ask for, since its samples became coarser, is said in a comment. No
    plugin is run for it.

    Parameters
    ----------
    store : str, Path or Store

    Raises
    ------
    StoreError
        If there is no store.
    """
    store = Store.at(store)
    root = store.existing_root()
    if root is None:
        raise StoreError(f"{store}: there is no store")
    text, notes = root.attrs["study"], []
    for name, before in _time_axes_in_text(text).items():
        stored = json.loads(root[name].attrs.get("time_axis", "{}")) if name in root else {}
        if not stored or stored["duration"] == before.duration:
            continue
        axis = time_axis_as_stored(**stored)
        longer, duration = _text_with_time_axis(text, name, before, axis)
        if _time_axes_in_text(longer).get(name) == axis:
            text = longer
        else:
            notes.append(
                f"# {name} was extended to {duration:g} by samples that no study asks for: "
                f"{json.dumps(axis.settings)}. `sweep run STORE` goes on.\n"
            )
    return "".join(notes) + text


def _time_axes_in_text(text):
    """The time axes of a study's text by experiment, where no plugin is needed to know them."""
    found = {}
    with contextlib.suppress(InputError):  # it is valid no longer, and is shown as it is
        top = parse_toml(text, "the study").table(required=("experiment",))
        for table in top["experiment"].elements():
            table = dataclasses.replace(table, fallback=top.get("defaults", None))
            with contextlib.suppress(InputError):
                name = table.table(required=("name",))["name"].string()
                found[name] = read_time_axis(table)
    return found


def _text_with_time_axis(text, name, before, axis):
    """The text with another time axis of an experiment, and its duration as the text has it."""
    written = editing.parse_toml_document(text)
    table, defaults = editing.experiment_tables(written)[name], written.get("defaults", {})
    unit = float(_plain(table.get("time_unit", defaults.get("time_unit", 1.0))))
    duration = exact_multiple_of_unit(axis.duration, unit)
    set_table_key(table, "duration", duration)
    if isinstance(axis, TimeAxis):
        set_table_key(table, "samples", axis.samples)
    reference = _plain(table.get("reference", defaults.get("reference")))
    if reference and reference.get("until", 0.0) * unit == before.duration:
        set_table_key(table, "reference", reference | {"until": duration})
    return editing.text_of_toml_document(written), duration

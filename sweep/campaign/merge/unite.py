"""One study that yields the runs of several: their experiments side by side, axes united.

An experiment is a grid; the union of two is a grid again, and may have runs that neither had.
"""

import dataclasses

from integrators.errors import InputError
from sweep.campaign.merge import editing
from sweep.campaign.merge.editing import elements_as_list, exact_multiple_of_unit, set_table_key
from sweep.errors import CannotUnite
from sweep.store import studies
from sweep.study.run_table import expand_experiment

STEPPING = ("step_size", "tolerance", "relative_tolerance")


def unite_studies(one, other):
    """A study with all runs of two studies.

    Parameters
    ----------
    one, other : sweep.study.Study
        Of the same name.

    Returns
    -------
    sweep.study.Study
        `one`, where the other says the same.

    Raises
    ------
    CannotUnite
        If their experiments differ in what is no list of values, or a label has two meanings.
    """
    plugins = _united_plugins(one, other)
    written, theirs = editing.parse_toml_document(one.text), editing.parse_toml_document(other.text)
    if written.unwrap() == theirs.unwrap():
        return one
    if written.get("defaults") != theirs.get("defaults"):
        editing.push_defaults_into_experiments(written)
        editing.push_defaults_into_experiments(theirs)
    names = [*written.get("plugins", []), *theirs.get("plugins", [])]
    if names:
        editing.set_table_key(written, "plugins", list(dict.fromkeys(names)))
    defaults = written.get("defaults", {})
    mine = editing.experiment_tables(written)
    experiments = {experiment.name: experiment for experiment in one.experiments}
    for experiment in other.experiments:
        table = editing.experiment_tables(theirs)[experiment.name]
        if experiment.name not in mine:
            written["experiment"].append(table)
            continue
        pair = _Pair(
            experiments[experiment.name],
            experiment,
            mine[experiment.name],
            _plain(defaults) | _plain(mine[experiment.name]),
            _plain(defaults) | _plain(table),
        )
        pair.unite()
    try:
        return studies.parse_study(
            editing.text_of_toml_document(written), "the united study", plugins=plugins
        )
    except InputError as error:
        raise CannotUnite(str(error)) from None


def _united_plugins(one, other):
    """The plugins of both, by name."""
    found = {}
    for plugin in (*one.library.plugins, *other.library.plugins):
        if found.setdefault(plugin.name, plugin) != plugin:
            raise CannotUnite(f"the plugin {plugin.name!r} is not the same in both")
    return found


def _plain(value):
    return value.unwrap() if hasattr(value, "unwrap") else value


@dataclasses.dataclass(frozen=True, eq=False)
class _Pair:
    """An experiment of two studies; `table` is the first one's, which is amended.

    Parameters
    ----------
    one, other : sweep.study.ResolvedExperiment
    table : tomlkit.items.Table
    ours, theirs : dict
        As written, with defaults filled in.
    """

    one: object
    other: object
    table: object
    ours: dict
    theirs: dict

    def unite(self):
        """Amend the table."""
        if self.ours == self.theirs:
            return
        self._excluded()
        self._scanned()
        self._integrators()
        self._starts()
        repeat = max(self.one.repeat, self.other.repeat)
        if repeat != self.one.repeat:
            set_table_key(self.table, "repeat", repeat)

    def _refuse(self, what):
        raise CannotUnite(f"experiment {self.one.name!r}: {what}")

    # --- axes --------------------------------------------------------------------------------

    def _scanned(self):
        one, other = ({axis.name: axis for axis in e.scan} for e in (self.one, self.other))
        if set(one) != set(other):
            odd = sorted(set(one) ^ set(other))[0]
            self._refuse(f"{odd!r} is scanned in one study and not in the other")
        if self.one.zipped != self.other.zipped:
            self._refuse("'zip' differs")
        together = {name for group in self.one.zipped for name in group}
        for name, axis in one.items():
            if (axis.values, axis.labels) == (other[name].values, other[name].labels):
                continue
            if name in together:
                self._refuse(f"the values of {name!r}, which advances with others, differ")
            values = _union_of_lists(
                _axis_values_as_written(axis), _axis_values_as_written(other[name])
            )
            labels = [point["label"] for point in values if isinstance(point, dict)]
            if len(set(labels)) < len(labels):
                self._refuse(f"a label of {name!r} stands for two values")
            if "scan" not in self.table or not hasattr(self.table["scan"], "unwrap"):
                set_table_key(self.table, "scan", self.ours["scan"])
            set_table_key(self.table["scan"], name, values)

    def _integrators(self):
        """Unite integrators; where they had other steps, each gets the steps that it had."""
        sides = [_methods_by_label(self.one, self.ours), _methods_by_label(self.other, self.theirs)]
        for label in set(sides[0]) & set(sides[1]):
            first, second = sides[0][label].entry, sides[1][label].entry
            if (first.name, first.options) != (second.name, second.options):
                self._refuse(
                    f"the label {label!r} stands for two integrators; give one another label, and "
                    "run that study on its store once more"
                )
        steps = {label: _union_of_lists(*(side[label].steps for side in sides if label in side))
                 for label in (*sides[0], *sides[1])}  # fmt: skip
        entry = {label: (sides[0].get(label) or sides[1][label]) for label in steps}
        if "step_size" in {name for group in self.one.zipped for name in group} and any(
            set(of) != set(entry[label].steps) for label, of in steps.items()
        ):
            self._refuse("step sizes, which advance with others, differ")
        shared = {
            adaptive: _union_of_lists(
                _shared_steps_as_written(self.one, adaptive),
                _shared_steps_as_written(self.other, adaptive),
            )
            for adaptive in (False, True)
        }
        used, made, changed = set(), [], len(steps) > len(sides[0])
        for label, method in entry.items():
            common = shared[method.entry.adaptive]
            if set(steps[label]) == set(common):
                used.add(method.entry.adaptive)
                made.append(method.without_steps())
            else:
                made.append(method.with_steps(steps[label]))
            changed |= made[-1] != method.raw
        if changed:
            set_table_key(self.table, "integrators", made)
        for adaptive, key in ((False, "step_size"), (True, "tolerance")):
            before = set(_shared_steps_as_written(self.one, adaptive))
            if adaptive not in used and key in self.table and changed:
                del self.table[key]
            elif adaptive in used and set(shared[adaptive]) != before:
                set_table_key(self.table, key, shared[adaptive])

    def _starts(self):
        ours, theirs = elements_as_list(self.ours["initial_condition"]), elements_as_list(
            self.theirs["initial_condition"]
        )  # fmt: skip
        made, labels = list(ours), [start.label for start in self.one.initial_conditions]
        for raw, start in zip(theirs, self.other.initial_conditions, strict=True):
            place = next((i for i, known in enumerate(made) if _is_same_start(known, raw)), None)
            if place is None:
                made.append(_start_with_unused_label(raw, start.label, labels))
                labels.append(start.label)
            elif isinstance(raw, dict) and raw.get("random", 0) > made[place].get("random", 0):
                made[place] = {**made[place], "random": raw["random"]}
        if made != ours:
            set_table_key(self.table, "initial_condition", made)

    # --- rules -------------------------------------------------------------------------------

    def _excluded(self):
        """Keep those rules that leave no run of the other one out."""
        kept = []
        for raws, rules, against in (
            (self.ours.get("exclude", []), self.one.exclude, self.other),
            (self.theirs.get("exclude", []), self.other.exclude, self.one),
        ):
            runs = expand_experiment(against) if rules else None
            for raw, rule in zip(raws, rules, strict=True):
                if raw not in kept and not rule.holds(runs.where).any():
                    kept.append(raw)
        if kept != self.ours.get("exclude", []):
            set_table_key(self.table, "exclude", kept)


@dataclasses.dataclass(frozen=True, eq=False)
class _Method:
    """An integrator of an experiment: as read, as written, and the steps it takes there."""

    entry: object
    raw: object
    steps: list

    def without_steps(self):
        """As written, taking the experiment's steps."""
        if not isinstance(self.raw, dict):
            return self.raw
        left = {key: value for key, value in self.raw.items() if key not in STEPPING}
        return left["name"] if set(left) == {"name"} and left != self.raw else left

    def with_steps(self, steps):
        """As written, with steps of its own."""
        raw = self.raw if isinstance(self.raw, dict) else {"name": self.raw}
        if set(self.steps) == set(steps) and any(key in raw for key in STEPPING):
            return self.raw
        left = {key: value for key, value in raw.items() if key not in STEPPING}
        return left | {"tolerance" if self.entry.adaptive else "step_size": list(steps)}


def _methods_by_label(experiment, written):
    """The `_Method` of each label."""
    raws = elements_as_list(written["integrators"])
    found = {}
    for entry, raw in zip(experiment.integrators, raws, strict=True):
        sizes = experiment.steps_of(entry)
        steps = [size[int(entry.adaptive)] for size in sizes]
        found[entry.label] = _Method(
            entry, raw, _steps_as_written(experiment, entry.adaptive, steps)
        )
    return found


def _shared_steps_as_written(experiment, adaptive):
    """The experiment's step sizes or tolerances, as written."""
    own = experiment.tolerances if adaptive else experiment.step_sizes
    return _steps_as_written(experiment, adaptive, own)


def _steps_as_written(experiment, adaptive, steps):
    """Step sizes in the study's unit of time, exact; tolerances have none."""
    if adaptive or experiment.time_unit == 1.0:
        return list(steps)
    return [exact_multiple_of_unit(step, experiment.time_unit) for step in steps]


def _axis_values_as_written(axis):
    """The values of an axis as a study writes them."""
    if axis.labels is None:
        return list(axis.values)
    return [
        {"label": label, "value": value}
        for label, value in zip(axis.labels, axis.values, strict=True)
    ]


def _union_of_lists(*lists):
    """The elements of all, each once; they need not be hashable."""
    made = []
    for value in (value for values in lists for value in values):
        if value not in made:
            made.append(value)
    return made


def _is_same_start(one, other):
    """Whether two starts are the same, but for how many members are drawn."""
    one, other = (
        {"name": raw} if isinstance(raw, str) else {k: v for k, v in raw.items() if k != "random"}
        for raw in (one, other)
    )
    return one == other


def _start_with_unused_label(raw, label, labels):
    """A start with a label that none of `labels` is; others keep theirs, or have their place's."""
    if label not in labels or label.startswith("state["):
        return raw
    number = 2
    while f"{label} {number}" in labels:
        number += 1
    table = {"name": raw} if isinstance(raw, str) else raw
    return {**table, "label": f"{label} {number}"}

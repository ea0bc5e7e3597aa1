"""The tables of the guide that are made from the program: keys of studies, integrators, systems.

    python tests/guide/generated_tables.py            compare all; exit code 1 if one is off
    python tests/guide/generated_tables.py --write    write them anew

A table stands in its topic below the header that it is made with. Which keys a study can have is
not looked up: studies with an unknown key, and without any, are read, and the reader says which
keys it knows and which are missing. A key without a meaning in `KEYS` is an error, and so is a
meaning of a key that the reader does not know.
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path

from documents import GUIDE

import integrators
import sweep
import systems
from integrators.errors import InputError
from integrators.method import STEPS_OF
from integrators.precision import ARITHMETIC
from integrators.registry import ALL_INTEGRATORS
from integrators.tableaux.compositions import (
    ADJOINT_COMPOSITIONS,
    COMPOSITIONS,
    PROCESSED_COMPOSITIONS,
)
from sweep.errors import StudyError
from systems.registry import ALL_SYSTEMS

# --- keys of a study ------------------------------------------------------------------------------

TOP = 'format = 1\nname = "probe"\n'
EXPERIMENT = """\
[[experiment]]
name = "probe"
system = "{system}"
integrators = [{integrator}]
step_size = {step_size}
initial_condition = [{start}]
duration = 1.0
samples = {samples}
"""
WRITTEN = {
    "system": "spherical_pendulum_chain",
    "integrator": '"rk4"',
    "step_size": "0.1",
    "start": '"lee"',
    "samples": "10",
}
UNKNOWN, GAP = '"?" = 1', "@@"


def _experiment(more="", **given):
    return TOP + EXPERIMENT.format(**WRITTEN | given) + more


# A study with a gap in each kind of table: what stands there is a key that no table knows, or none.
FILE, OF_EXPERIMENT, DEFAULTS = "the file", "`[[experiment]]`", "`[defaults]`"
ENTRY = "an integrator"
ALL_ENTRY = "all integrators"
PROBES = {
    FILE: GAP,
    OF_EXPERIMENT: TOP + "[[experiment]]\n" + GAP,
    ALL_ENTRY: _experiment(integrator='{ name = "all", @@}'),
    "`scan`, a labelled value": _experiment("scan = { gravity = [{@@}] }"),
    "a range of `step_size`, `tolerance` or an axis": _experiment(step_size="{@@}"),
    "`samples`": _experiment(samples="{@@}"),
    "`reference`": _experiment("reference = {@@}"),
    "`exclude`, a rule": _experiment("exclude = [{@@}]"),
    "a named start": _experiment(start='{ name = "lee", @@}'),
    "a family of starts": _experiment(
        system="point_vortices",
        integrator='"spherical_midpoint"',
        start='{ name = "invariant_manifold", @@}',
    ),
    "an ensemble of starts": _experiment(start="{ random = 1, @@}"),
    "a lattice of starts": _experiment(start="{ lattice = 1, @@}"),
    "starts from a file": _experiment(start='{ file = "states.npy", @@}'),
    "starts from a store": _experiment(start='{ store = "other.zarr", @@}'),
    "a start written out": _experiment(start="{ q = [[0.0, 0.0, 1.0]], @@}"),
}
GIVEN = {  # required keys that a probe has, since they say which kind of table it is
    ALL_ENTRY: ["name"],
    "a named start": ["name"],
    "a family of starts": ["name"],
    "an ensemble of starts": ["random"],
    "a lattice of starts": ["lattice"],
    "starts from a file": ["file"],
    "starts from a store": ["store"],
    "a start written out": ["q"],
}
LABEL = "name in the store and in tables"
NORMALIZE = "`true`: project states onto the manifold; otherwise a state off it is refused"
KEYS = {
    FILE: {
        "format": "1",
        "name": "name of the study: letters, digits, `_`, `-` and `.`",
        "description": "one line, shown by `sweep ls studies` and in reports",
        "plugins": "files or modules with systems, integrators, observables: `sweep guide plugins`",
        "defaults": "a table: values of keys for all experiments that do not set them",
        "experiment": "an array of tables, `[[experiment]]`",
    },
    OF_EXPERIMENT: {
        "name": "name of the experiment and of its group in the store; tables of one name are "
        "grids of one experiment",
        "system": "name of a system: `sweep ls systems`",
        "parameters": "a table: values of the system's parameters that are not scanned",
        "scan": "a table: for each scanned parameter a list, a range or labelled values",
        "zip": "groups of axes (also `step_size`) that advance together, not as a grid",
        "exclude": "rules: a run that meets all conditions of a rule is left out",
        "integrators": 'a list of names or tables; or `"all"`',
        "step_size": 'for integrators with a fixed step: a number, a list, a range or `"declared"`',
        "tolerance": "for adaptive integrators: a number, a list or a range",
        "initial_condition": "a start or a list of starts: a name, or one of the tables below",
        "duration": 'length of a run in time; or `"declared"`',
        "samples": "number of sample intervals, all equally long; or a table",
        "record": "what to store: quantities of the system, `state`, `step_size`, "
        "`rejected_steps`, `lyapunov`, `megno`, `symplectic_defect`, `reversal_error`",
        "statistics": '`"every_step"`: also mean, minimum and maximum of errors over all steps of '
        'each sample interval; or `"none"`',
        "reference": "a table: the solution that errors are measured against; `false`: none, where "
        "`[defaults]` has one",
        "repeat": "number of times that each run is computed, to compare CPU times",
        "max_steps": "the most steps of an adaptive run or of a reference, 10,000,000 by default: "
        "one that would need more ends as `step_too_small`",
        "time_unit": "unit of all times and step sizes of the experiment",
    },
    ENTRY: {
        "name": "name, with a modifier if any: `variational+suzuki4`",
        "label": LABEL,
        "step_size": "step sizes of this integrator, instead of the experiment's",
        "tolerance": "tolerances of this integrator, instead of the experiment's",
        "relative_tolerance": "the same as `tolerance`",
        STEPS_OF: "an adaptive integrator: take as many steps as it does, of equal size",
        ARITHMETIC: '`"double"` or `"double-double"`',
    },
    ALL_ENTRY: {
        "name": '`"all"`',
        "order": 'only those of this order: a number, a comparison such as `"< 5"`, or `"exact"`',
        ARITHMETIC: "the arithmetic of all of them",
    },
    "`scan`, a labelled value": {
        "label": LABEL,
        "value": "a number, a string or a vector",
    },
    "a range of `step_size`, `tolerance` or an axis": {
        "start": "first value",
        "stop": "last value",
        "count": "number of values",
        "spacing": '`"linear"` or `"log"`; step sizes are rounded to divisors of a sample interval',
    },
    "`samples`": {
        "per_decade": "number of samples per decade of time, instead of equal intervals",
        "first": "time of the first sample after 0",
    },
    "`reference`": {
        "integrator": '`"dop853"`; in double-double an integrator with a fixed step',
        ARITHMETIC: '`"double"` or `"double-double"`: `sweep guide precision`',
        "tolerance": "relative and absolute, 2.3e-14 by default; in double-double relative to the "
        "size of the initial state, at least 1e-28",
        "until": "time up to which it is computed, by default the duration",
    },
    "`exclude`, a rule": {
        "integrator": 'a label, or `"!= label"`',
        "step_size": 'a number, or a comparison such as `"< 0.002"`',
        "tolerance": "likewise",
        "initial_condition": "a label, or one member of an ensemble: `lee-random[3]`",
        "ensemble": "an ensemble's label. Scanned parameters and axes of families are also keys",
    },
    "a named start": {"name": "one of `sweep show system NAME`", "label": LABEL},
    "a family of starts": {
        "name": "one of `sweep show system NAME`",
        "label": LABEL,
        "theta": "an axis of the family, here `invariant_manifold`: a number, a list or a range",
        "phi": "likewise",
    },
    "an ensemble of starts": {
        "random": "number of members",
        "seed": "seed; each member depends on it and on the number of the member alone",
        "around": "a named start, or a table of one state as below; by default the whole manifold",
        "spread": "with `around`: standard deviation in radians",
        "label": LABEL,
    },
    "a lattice of starts": {
        "lattice": "number of directions, nearly uniform on the sphere",
        "body": "body that takes these directions, counted from 0",
        "around": "named start that gives the state of the other bodies",
        "label": LABEL,
    },
    "starts from a file": {
        "file": "a `.npy` or `.npz` file, relative to the study",
        "normalize": NORMALIZE,
        "label": LABEL,
    },
    "starts from a store": {
        "store": "another store, whose final states are the starts",
        "experiment": "an experiment of that store",
        "where": "only runs for which this expression holds, as in `sweep query`",
        "normalize": NORMALIZE,
        "label": LABEL,
    },
    "a start written out": {
        "q": "a vector for each body; spins have `w`, other systems: `sweep show system NAME`",
        "omega": "a vector for each body",
        "normalize": NORMALIZE,
        "label": LABEL,
    },
}


def accepted(study):
    """The keys that the reader knows in the table of a study with a `GAP`, and those it misses."""
    if "{@@}" in study or ", @@}" in study:
        problem, bare = study.replace(GAP, UNKNOWN), study.replace(", @@", "").replace(GAP, "")
    else:
        problem, bare = study.replace(GAP, UNKNOWN + "\n"), study.replace(GAP, "")
    (known,) = re.findall(r"unknown \w[\w ]* '\?'.*? Valid: (.*)\.$", _problems(problem), re.M)
    return known.split(", "), re.findall(r"the key '(\w+)' is missing$", _problems(bare), re.M)


def _problems(text):
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "study.toml"
        study.write_text(text)
        try:
            sweep.load_study(study)
        except StudyError as error:
            return str(error)
    return ""


def study_keys():
    """Every key of a study, in which table it stands, and what it means."""
    found = {kind: accepted(study) for kind, study in PROBES.items()}
    entry = sweep.study.study_schema()["definitions"]["Entry"]
    found[ENTRY] = [*entry["properties"], STEPS_OF, ARITHMETIC], entry["required"]
    of_defaults, _ = accepted(TOP + "[defaults]\n" + GAP + _experiment().removeprefix(TOP))
    rows = []
    for kind, meanings in KEYS.items():
        keys, missing = found[kind]
        if set(keys) != set(meanings):
            differ = ", ".join(sorted(set(keys) ^ set(meanings)))
            raise SystemExit(f"KEYS and the reader differ in the keys of {kind}: {differ}")
        required = {*missing, *GIVEN.get(kind, ())}
        for key in keys:
            word = "required" if key in required else ""
            if kind == OF_EXPERIMENT and key in of_defaults:
                word = f"{word}, {DEFAULTS}".removeprefix(", ")
            rows.append((kind, f"`{key}`", word, meanings[key]))
    return _table(("in", "key", "", "meaning"), rows)


# --- what is registered ---------------------------------------------------------------------------


def integrator_table():
    """Every method, with its order, its modifiers and the systems that it fits."""
    rows = []
    for method in ALL_INTEGRATORS:
        words = [name for name in method.modifiers if name not in COMPOSITIONS]
        words = ["compositions"] * (set(COMPOSITIONS) <= set(method.modifiers)) + [
            f"`+{name}`" for name in words
        ]
        order = "of its tableau" if method.order is None else str(method.order)
        order += ", symmetric" * method.symmetric + ", adaptive" * method.adaptive
        cells = f"`{method.name}`", order, ", ".join(words), _fits(method), method.description
        rows.append(cells)
    return _table(("integrator", "order", "modifiers", "fits", "description"), rows)


def _fits(method):
    """The systems that a method fits: kinds of which all do, and the names of others."""
    integrator = integrators.get(method.name, **method.example)
    kinds = {}
    for system in ALL_SYSTEMS:
        kinds.setdefault(_kind(system), {})[system.name] = _checks(integrator, system)
    return ", ".join(
        word
        for kind, fitting in kinds.items()
        for word in ([kind] if all(fitting.values()) else _named(kind, fitting))
    )


def _named(kind, fitting):
    fit = [f"`{name}`" for name, fits in fitting.items() if fits]
    others = [f"`{name}`" for name, fits in fitting.items() if not fits]
    few = len(others) < len(fit)
    return [f"{kind} except {' and '.join(others)}"] if few else fit


def _checks(integrator, system):
    try:
        integrator.check(systems.get(system.name))
    except InputError:
        return False
    return True


def _kind(system):
    return system.__module__.split(".")[1]


def composition_table():
    """Every composition, with its order and its stages."""
    rows = [
        (f"`+{name}`", str(one.order), str(one.stages), of)
        for known, of in (
            (COMPOSITIONS, "a symmetric method of order 2"),
            (ADJOINT_COMPOSITIONS, "a method of order 1 with its adjoint"),
            (PROCESSED_COMPOSITIONS, "the same: the kernel of a processed composition"),
        )
        for name, one in known.items()
    ]
    return _table(("composition", "order", "stages", "of"), rows)


def system_table():
    """Every system, with its kind, its form, its parameters and its starts."""
    rows = []
    for system in ALL_SYSTEMS:
        starts = [f"`{start.name}`" for start in (*system.named_starts, *system.families)]
        form = f"`{type(systems.get(system.name).form).__name__}`"
        parameters = ", ".join(f"`{name}`" for name in system.parameter_names())
        cells = f"`{system.name}`", _kind(system), form, parameters, ", ".join(starts)
        rows.append((*cells, system.description))
    headers = ("system", "kind", "form", "parameters", "starts and families", "description")
    return _table(headers, rows)


def _table(headers, rows):
    lines = [headers, ["---"] * len(headers), *rows]
    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n"
                   for line in lines)  # fmt: skip


# --- the guide ------------------------------------------------------------------------------------

TABLES = {
    "study": (study_keys,),
    "integrators": (integrator_table, composition_table, system_table),
}


def shown(text, made):
    """The table of a text that begins with the header of the one that is made."""
    header = made.partition("\n")[0] + "\n"
    if text.count(header) != 1:
        raise SystemExit(f"the guide has {text.count(header)} tables that begin with {header}")
    rows = text[text.index(header) :].splitlines(keepends=True)
    end = next((i for i, row in enumerate(rows) if not row.startswith("|")), len(rows))
    return "".join(rows[:end])


def main():
    """Compare or write all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write them instead of comparing")
    write, off = parser.parse_args().write, []
    for topic, makers in TABLES.items():
        path = GUIDE / f"{topic}.md"
        for make in makers:
            text, made = path.read_text(), make()
            if shown(text, made) != made:
                off.append(f"{topic}: {make.__name__}")
                if write:
                    path.write_text(text.replace(shown(text, made), made))
    for name in off:
        print(f"{name} {'is written anew' if write else 'is off'}")
    if off and not write:
        sys.exit("To write them: python tests/guide/generated_tables.py --write")


if __name__ == "__main__":
    main()

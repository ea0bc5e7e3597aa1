"""Every command by its entry point, as a user or a script calls it."""

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr
from study_text import one_experiment
from waiting import without_progress

import integrators
import sweep
import systems
from integrators.errors import InputError
from sweep.cli.streams import OutputStream

PROGRAM = Path(sys.executable).with_name("sweep")
STUDIES = Path(sweep.__file__).parent / "studies"
SHOWN = ("variational+suzuki4", "rk4+projected", "dop853")
SECTIONS = {
    "Begin": ["init", "new", "guide"],
    "Run": ["check", "plan", "run", "submit", "status", "cancel"],
    "Ask": ["order", "drift", "work", "chaos", "query", "summary", "recommend", "decide"],
    "Show": ["plot", "report", "atlas", "serve", "export", "reproduce"],
    "Keep": ["extend", "merge", "retry", "verify", "ls", "show", "schema"],
}
COMMANDS = [name for names in SECTIONS.values() for name in names]

# The kin of `quickstart`: both systems, a reference, an ensemble in lanes.
STUDY = """\
format = 1
name = "small"
description = "Two systems, two integrators"

[defaults]
initial_condition = ["lee", { around = "lee", random = 3, spread = 1e-2, seed = 1 }]
integrators = ["variational", "rk4"]
step_size = { start = 0.05, stop = 0.01, count = 4, spacing = "log" }
samples = 10
record = ["energy", "momentum"]
reference = { integrator = "dop853", tolerance = 2.3e-14 }

[[experiment]]
name = "pendulum"
system = "spherical_pendulum_chain"
duration = 2.0

[[experiment]]
name = "three-bodies"
system = "nbody_sphere"
duration = 0.5
"""
RUNS = 64


def parsed(answer):
    """Strict JSON: no NaN, and nothing else."""
    return json.loads(answer, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("commands")
    (place / "small.toml").write_text(STUDY)
    return place


@pytest.fixture(scope="module")
def ran(place, command):
    """What the first run printed; its store is ``small.zarr``."""
    return command(place, "run", "small.toml")


@pytest.fixture(scope="module")
def store(ran, place):
    return place / "small.zarr"


WHERE = "integrator == 'rk4' and step_size < 0.02"
QUESTIONS = {
    "check": ("check", "small.toml"),
    "check quickstart": ("check", "quickstart"),
    "plan": ("plan", "small.toml", "new.zarr"),
    "plan in json": ("plan", "small.toml", "new.zarr", "--json"),
    "plan of what is done": ("plan", "small.toml"),
    "status": ("status", "small.zarr", "--failures"),
    "status in json": ("status", "small.zarr", "--failures", "--json"),
    "order": ("order", "small.zarr", "-e", "pendulum"),
    "order in json": ("order", "small.zarr", "--json"),
    "order in the sup norm": (
        "order", "small.zarr", "--at", "sup", "--error", "position_error", "--json",
    ),
    **{
        f"{command} where": (command, "small.zarr", "--json", "--where", WHERE)
        for command in ("order", "drift", "work")
    },
    "drift": ("drift", "small.zarr", "-q", "energy", "-e", "pendulum"),
    "drift of all steps": ("drift", "small.zarr", "--all-steps", "-e", "pendulum"),
    "drift in json": ("drift", "small.zarr", "--all-steps", "--json"),
    "work": ("work", "small.zarr", "-e", "pendulum"),
    "work in json": ("work", "small.zarr", "--error", "energy_error", "--json"),
    "summary": ("summary", "small.zarr"),
    "query": (
        "query", "small.zarr", WHERE, "-e", "pendulum",
    ),
    "query in json": ("query", "small.zarr", "energy_error@max > 0", "--json"),
    "query of columns": (
        "query", "small.zarr", "-c", "integrator", "-c", "evaluations", "--sort", "evaluations",
        "--reverse", "--limit", "1",
    ),
    "ls": ("ls", "integrators"),
    "ls systems": ("ls", "systems", "--json"),
    "ls integrators": ("ls", "integrators", "--json"),
    "show system": ("show", "system", "spherical_pendulum_chain"),
    "show study": ("show", "study", "quickstart"),
    "show study in json": ("show", "study", "quickstart", "--json"),
} | {
    f"show {kind} {name}": ("show", kind, name, "--json")
    for kind, names in (("system", systems.names()), ("integrator", SHOWN))
    for name in names
}  # fmt: skip


@pytest.fixture(scope="module")
def answers(place, store, called):
    """What each of `QUESTIONS` prints; they write nothing."""
    before = sorted(place.rglob("*"))
    done = {key: called(place, *question) for key, question in QUESTIONS.items()}
    assert sorted(place.rglob("*")) == before
    for key, answer in done.items():
        assert (answer.returncode, without_progress(answer.stderr)) == (0, []), key
    return {key: answer.stdout for key, answer in done.items()}


# --- help ------------------------------------------------------------------------------------


def test_help_names_every_command(command, tmp_path):
    text = command(tmp_path, "--help").stdout
    for section, names in SECTIONS.items():
        (lines,) = re.findall(rf"^{section}:\n((?:  .*\n)+)", text, re.M)
        assert re.findall(r"^  (\w+)  +[A-Z]", lines, re.M) == names
    assert max(map(len, text.splitlines())) <= 80 + 7 and "…" not in text
    assert "sweep run quickstart" in text
    assert command(tmp_path, "-h").stdout == text
    assert re.fullmatch(r"sweep, version \d+\.\d+\.\d+\n", command(tmp_path, "--version").stdout)


IN_ONE_PROCESS = """
import contextlib, io, json, sys
from importlib.metadata import entry_points
main = entry_points(group="console_scripts", name="sweep")["sweep"].load()
for line in sys.argv[1:]:
    sys.argv, printed, code = ["sweep", *line.split()], io.StringIO(), None
    try:
        with contextlib.redirect_stdout(printed):
            main()
    except SystemExit as end:
        code = end.code or 0
    print(json.dumps([printed.getvalue(), code, sorted(sys.modules)]))
"""


UNUSED = {  # what command lines do not import, each after those before it
    "--help": {"xarray"},
    "ls studies": {"numba", "xarray", "matplotlib"},
    "ls systems": {"numba", "xarray", "matplotlib"},
    **{f"{name} --help": {"numba", "distributed", "zarr", "scipy"} for name in COMMANDS},
    "query small.zarr": {"numba", "distributed", "matplotlib", "scipy"},
    "order small.zarr": {"numba", "distributed", "matplotlib"},
}


@pytest.fixture(scope="module")
def in_one_process(place, store, called):
    """Of each line of `UNUSED` in one process: what it prints, and what is loaded after it."""
    for line in ("ls studies", "ls systems"):
        called(place, *line.split())  # which keeps what takes long to list
    before = sorted(place.rglob("*"))
    arguments = [sys.executable, "-c", IN_ONE_PROCESS, *UNUSED]
    answers = [
        json.loads(line) for line in subprocess.check_output(arguments, cwd=place).splitlines()
    ]
    assert sorted(place.rglob("*")) == before
    assert {code for _, code, _ in answers} == {0}
    found = ((printed, set(loaded)) for printed, _, loaded in answers)
    return dict(zip(UNUSED, found, strict=True))


def test_commands_import_what_they_use(in_one_process):
    """And so help comes at once."""
    for line, unused in UNUSED.items():
        _, loaded = in_one_process[line]
        assert "click" in loaded and not unused & loaded


def test_help_of_all_imports_no_command(in_one_process):
    _, loaded = in_one_process["--help"]
    assert "sweep.cli.main" in loaded and not re.search(r"sweep\.cli\.\w+\.", " ".join(loaded))


def test_runs_that_a_file_lacks_are_named(command, tmp_path):
    text = STUDY[: STUDY.index('[[experiment]]\nname = "three-bodies')]
    text = text.replace('"variational", ', "").replace("reference = ", "# reference = ")
    (tmp_path / "small.toml").write_text(text)
    command(tmp_path, "run", "small.toml", "--no-summary")
    added = ("extend", "small.zarr", "--integrator", "rkmk4", "--no-summary")
    said = "Added to the study in small.zarr, not to a file of it. To go on: sweep run small.zarr\n"
    assert said in command(tmp_path, *added).stdout
    said = command(tmp_path, "run", "small.toml", "--no-summary").stdout
    assert "16 kept, 16 no longer in the study\nThose stay in the store: 16 of rkmk4. " in said
    again = command(tmp_path, *added).stdout
    assert "0 new runs, 32 kept" in again and "no longer" not in again


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_has_an_example(in_one_process, name):
    text, _ = in_one_process[f"{name} --help"]
    assert text.startswith(f"Usage: sweep {name} ")
    assert re.search(rf"Examples?:\n +sweep {name} \S+", text)
    assert all(len(line) <= 80 and line[-1:] != "…" for line in text.splitlines())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("help",), "sweep COMMAND --help explains one"),
        (("show", "heavy_top"), "'heavy_top' is no kind; expected system heavy_top"),
        (("show", "rk4+projected"), "is no kind; expected integrator rk4+projected"),
        (("show", "nothing", "of"), "'nothing' is not one of 'system', 'integrator'"),
    ],
)
def test_what_was_meant_is_said(command, tmp_path, arguments, words):
    assert words in " ".join(command(tmp_path, *arguments, code=2).stderr.split())


# --- before a run ----------------------------------------------------------------------------


def test_init_writes_a_study_by_the_name_of_its_file(command, tmp_path):
    """Which runs: its output is shown in the guide."""
    assert "sweep check mine.toml" in command(tmp_path, "init", "mine.toml").stdout
    checked = command(tmp_path, "check", "mine.toml").stdout
    assert checked.splitlines()[-1] == "mine: valid, 146 runs"
    command(tmp_path, "init")
    assert sweep.load_study(tmp_path / "study.toml").name == "study"


def test_init_names_the_schema_that_editors_check_by(command, tmp_path):
    command(tmp_path, "init", "mine.toml")
    first = (tmp_path / "mine.toml").read_text().partition("\n")[0]
    directive, name = first.split(" ./")
    assert directive == "#:schema"
    command(tmp_path, "schema", "-o", name)
    assert (tmp_path / name).read_text() == command(tmp_path, "schema").stdout
    assert parsed((tmp_path / name).read_text())["title"] == "A study of Geosweep"


@pytest.mark.parametrize(
    ("instruction", "words", "expected"),
    [
        ("bash_source", {}, "_sweep_completion"),
        # Of these fish gives the word, and others its number.
        ("bash_complete", {"COMP_WORDS": "sweep run quick", "COMP_CWORD": "2"}, "quickstart"),
        ("fish_complete", {"COMP_WORDS": "sweep run quick", "COMP_CWORD": "quick"}, "quickstart"),
    ],
)
def test_shells_complete_commands_and_studies(tmp_path, instruction, words, expected):
    environment = {**os.environ, "_SWEEP_COMPLETE": instruction, **words}
    assert expected in subprocess.check_output([PROGRAM], text=True, env=environment, cwd=tmp_path)


def test_the_module_is_the_command():
    arguments = [sys.executable, "-m", "sweep", "guide", "nothing"]
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: unknown topic 'nothing'")


def test_init_writes_no_study_that_check_refuses(command, tmp_path):
    """A file may have a name that is none of a study."""
    command(tmp_path, "init", "my study (2).toml")
    assert sweep.load_study(tmp_path / "my study (2).toml").experiments


def test_check_remarks_on_moments_that_no_body_has(command, tmp_path):
    written = 'format = 1\nname = "moments"\n[[experiment]]\nname = "bodies"\n'
    written += 'system = "free_rigid_body"\nintegrators = ["spherical_midpoint"]\n'
    written += 'step_size = 0.1\nduration = 1.0\nsamples = 1\ninitial_condition = "figure3"\n'
    written += 'scan = { inertia = [{ label = "none", value = [1, 2, 4] }, '
    written += '{ label = "some", value = [1, 2, 3] }] }\n'
    (tmp_path / "moments.toml").write_text(written)
    lines = command(tmp_path, "check", "moments.toml").stdout.splitlines()
    (remark,) = (line for line in lines if "moments of no body" in line)
    assert remark.startswith(
        "Note: experiment bodies: inertia = (1.0, 2.0, 4.0) are the moments of no body"
    )


def test_check_counts_runs(answers):
    *lines, total = answers["check"].splitlines()
    (pendulum,) = (line for line in lines if line.startswith("pendulum "))
    assert pendulum.split() == [
        "pendulum",
        "spherical_pendulum_chain",
        "2",
        "0.01",
        "–",
        "0.05",
        "(4)",
        "4",
        "1",
        "32",
    ]
    assert total == f"small: valid, {RUNS} runs"
    assert "valid, 1,296 runs" in answers["check quickstart"]


def test_check_and_show_say_which_gravity_a_chain_has(command, tmp_path):
    """Its default is another than that of all other systems."""
    said = "gravity is not given: 1 m s-2, as in Example 1 of Lee et al.; on Earth it is 9.81"
    assert re.search(
        rf"^Note: experiments? .*: {said}", command(tmp_path, "check", "lee-example-1").stdout, re.M
    )
    assert "not given" not in command(tmp_path, "check", "quickstart").stdout
    shown = command(tmp_path, "show", "system", "spherical_pendulum_chain").stdout
    assert "gravity: 1.0 m s-2 (as in Example 1 of Lee et al.; on Earth it is 9.81" in shown


def test_plan_counts_what_is_to_be_done(answers, place):
    assert answers["plan"].startswith(f"Store: {place / 'new.zarr'}\n")
    assert re.search(
        rf"^{RUNS} runs to compute in \d+ tasks?, about .* of CPU time", answers["plan"], re.M
    )
    plan = parsed(answers["plan in json"])
    assert plan["store"] == str(place / "new.zarr") and plan["tasks"] >= 1
    pendulum, bodies = plan["experiments"]
    assert (pendulum["experiment"], pendulum["runs"], pendulum["committed"]) == ("pendulum", 32, 0)
    study = sweep.load_study(place / "small.toml")
    steps = [round(2.0 / h) for h in study.experiments[0].step_sizes]
    assert pendulum["steps"] == 2 * 4 * sum(steps)
    for row in (pendulum, bodies):
        assert 0 < row["cpu_seconds"] < math.inf
        assert row["files"] > 0 and row["bytes"] > 0
    assert "0 runs to compute in 0 tasks" in answers["plan of what is done"]


def test_what_plan_says_of_files_is_what_run_writes(answers, store):
    rows = {row["experiment"]: row for row in parsed(answers["plan in json"])["experiments"]}
    for name, node in sweep.open_study(store).children.items():
        internal = store / "_geosweep"
        places = store / name, internal / "references" / name, internal / f"ends.{name}"
        files = [file for place in places for file in place.rglob("*") if file.is_file()]
        assert abs(rows[name]["files"] - len(files)) <= 4  # scanned axes, groups
        values = sum(node[key].nbytes for key in node.data_vars if key != "initial_state")
        ends = zarr.open_array(store, path=f"_geosweep/ends.{name}/checkpoint", mode="r")[:]
        values += 8 * np.sum(~np.isnan(ends))
        assert values <= rows[name]["bytes"] * 1.2 and rows[name]["bytes"] <= values * 1.2


# --- a run -----------------------------------------------------------------------------------


def test_a_run_ends_with_tables_and_says_where_all_is(ran, place):
    # This is no terminal: there is no bar, and a line now and then where it takes long.
    assert without_progress(ran.stderr) == []
    lines = ran.stdout.splitlines()
    assert lines[0] == f"Store: {place / 'small.zarr'}"
    assert lines[1] == f"Study small: {RUNS} new runs, 0 kept"
    assert lines[-1] == f"Complete: {RUNS} runs in {place / 'small.zarr'}"
    assert lines[-3] == f"Plots: {place / 'small-plots'}"
    assert lines[-2] == f"All on one page: sweep report {place / 'small.zarr'}"
    orders = [
        line.split()
        for line in lines
        if re.match(r"(variational|rk4)  .*(confirmed|undecided) ", line)
    ]
    assert [(row[0], row[3]) for row in orders] == [("variational", "2"), ("rk4", "4")] * 2
    for row in orders:
        assert abs(float(row[1]) - float(row[3])) < 0.3
    assert ran.stdout.count("Drifts are not shown for a study of order. To see them") == 2
    drawn = {file.name for file in (place / "small-plots").iterdir()}
    names, kinds = ("pendulum", "three-bodies"), ("order", "energy")
    assert drawn == {f"{name}-{kind}.png" for name in names for kind in kinds}
    assert sorted(file.name for file in place.iterdir()) == [
        "small-plots", "small.toml", "small.zarr",
    ]  # fmt: skip


def test_a_run_on_a_terminal_has_a_progress_bar(command, tmp_path, monkeypatch):
    monkeypatch.setattr(OutputStream, "isatty", lambda self: True, raising=False)
    (tmp_path / "one.toml").write_text(one_experiment(integrators='"rk4"'))
    done = command(tmp_path, "run", "one.toml", "--no-summary")
    assert "running only: 6/6 runs" in done.stderr and "running" not in done.stdout


def test_a_run_of_what_is_done_computes_nothing(command, place, store):
    done = command(place, "run", "small.toml", "--no-summary")
    assert done.stdout.splitlines() == [
        f"Store: {store}",
        f"Study small: 0 new runs, {RUNS} kept",
        "Nothing to compute.",
        f"Complete: {RUNS} runs in {store}",
    ]


def test_a_run_of_what_is_done_says_the_same_again(command, place, store):
    first, again = (command(place, "run", "small.toml").stdout for _ in range(2))
    assert again == first and again.count("\nintegrator ") == 2


# --- after a run -----------------------------------------------------------------------------


def test_status(answers):
    assert re.search(r"^pendulum +32 +32 +0 +0 +0 ", answers["status"], re.M)
    assert "No run failed." in answers["status"]
    status = parsed(answers["status in json"])
    assert status["failures"] == []
    for row in status["experiments"]:
        assert (row["runs"], row["done"], row["pending"], row["failed"]) == (32, 32, 0, 0)
        assert row["cpu_seconds"] > 0
    assert [row["experiment"] for row in status["experiments"]] == ["pendulum", "three-bodies"]


def test_the_summary_is_what_ends_a_run(answers, ran):
    assert "\npendulum: " in answers["summary"] and answers["summary"] in ran.stdout


def test_order(answers, store):
    assert answers["order"].startswith("pendulum: order of global_error at t = 2\n")
    assert "three-bodies" not in answers["order"]
    tables = parsed(answers["order in json"])
    assert list(tables) == ["pendulum", "three-bodies"]
    for name, found in tables.items():
        rows = found["rows"]
        assert found["summary"] == sweep.order_table(store, experiment=name).summary
        assert [(row["integrator"], row["declared"]) for row in rows] == [
            ("variational", 2), ("rk4", 4),
        ]  # fmt: skip
        assert rows[0]["verdict"] == "confirmed" and rows[1]["verdict"] != "refuted"
    sup = parsed(answers["order in the sup norm"])
    assert {row["error"] for found in sup.values() for row in found["rows"]} == {"position_error"}
    assert all(abs(found["rows"][0]["order"] - 2) < 0.3 for found in sup.values())


def test_drift(answers, store):
    assert "energy error [J]" in answers["drift"] and "momentum" not in answers["drift"]
    said = "smallest step size of each integrator: 8 of 32 runs; sweep drift --all-steps shows all."
    assert said in answers["drift"] and "--all-steps" not in answers["drift of all steps"]
    tables = parsed(answers["drift in json"])
    pendulum = sweep.open_study(store)["pendulum"].to_dataset()
    steps = {row["step_size"] for row in tables["pendulum"]["rows"]}
    assert steps == set(pendulum.step_size.values.tolist())
    row = next(
        row
        for row in tables["pendulum"]["rows"]
        if (row["quantity"], row["integrator"]) == ("energy", "rk4") and row["step_size"] == 0.05
    )
    runs = pendulum.query(run="integrator == 'rk4' and step_size == 0.05")
    largest = runs.energy_error_abs_max.max("time").mean().item()
    assert row["max_abs"] == pytest.approx(largest)
    mean = runs.energy_error_abs_mean.mean("time").mean().item()
    assert row["mean_abs"] == pytest.approx(mean)


@pytest.mark.parametrize("question", ["order", "drift", "work"])
def test_answers_about_the_runs_for_which_an_expression_holds(answers, store, question):
    chosen = sweep.query(sweep.open_study(store), WHERE)
    for name, rows in parsed(answers[f"{question} where"]).items():
        assert rows["summary"]
        rows = rows["rows"]
        assert {row["integrator"] for row in rows} == {"rk4"}
        sizes = set(chosen[name].to_dataset().step_size.values.tolist())
        found = [point for row in rows for point in row.get("points", [row])]
        assert {point["step_size"] for point in found} <= sizes


def test_work(answers, store):
    assert answers["work"].startswith("pendulum\nIt is not known which integrator needs")
    assert "\nWork of a whole run, and size of the error, medians" in answers["work"]
    assert "Least evaluations by size of the global error and family" in answers["work"]
    tables = parsed(answers["work in json"])
    assert list(tables) == ["pendulum", "three-bodies"]
    for name, table in tables.items():
        assert {row["family"] for row in table["rows"]} == {"variational", "runge_kutta"}
        assert {one["against"] for one in table["least"]} == {"evaluations"}
        runs = sweep.query(sweep.open_study(store)[name], "integrator == 'rk4'")
        row = next(row for row in table["rows"] if row["integrator"] == "rk4")
        mine = runs.isel(run=runs.step_size.values == row["step_size"])
        assert row["evaluations"] == mine.evaluations.values[0] == 4 * row["steps"]
        assert row["value"] == mine.energy_error_abs_max.max("time").median()


def test_query(answers, store):
    first, shared, header, rule, *rows = answers["query"].splitlines()
    assert first == "pendulum: 8 of 32 runs"
    assert shared.startswith("all: integrator ")
    assert header.split()[:3] == ["step_size", "initial_condition", "status"]
    assert [row.split()[2] for row in rows[:8]] == ["complete"] * 8
    found = parsed(answers["query in json"])
    assert [len(rows) for rows in found.values()] == [32, 32]
    most = sweep.open_study(store)["pendulum"].evaluations.values.max()
    assert answers["query of columns"].splitlines()[3].split() == ["rk4", str(most)]
    assert "… and 31 more of 32 runs" in answers["query of columns"]


def test_export(command, store, tmp_path):
    said = command(tmp_path, "export", store, "runs.csv").stdout
    assert said == "Wrote runs.csv, runs.columns.csv: 64 runs of pendulum, three-bodies\n"
    where = ("--where", WHERE, "-e", "pendulum")
    said = command(tmp_path, "export", store, "rk4.parquet", *where, "--series").stdout
    assert said == "Wrote rk4.parquet: 8 runs of pendulum, 88 rows\n"
    assert len(pd.read_parquet(tmp_path / "rk4.parquet")) == 88


# --- what there is ---------------------------------------------------------------------------


def test_ls(answers):
    found = {kind: parsed(answers[f"ls {kind}"]) for kind in ("systems", "integrators")}
    assert [row["name"] for row in found["systems"]] == systems.names()
    methods = [method.name for method in integrators.ALL_INTEGRATORS]
    assert [row["name"] for row in found["integrators"]] == methods
    assert all(row["description"] for rows in found.values() for row in rows)


@pytest.mark.parametrize("kind", ["systems", "integrators", "plots", "studies"])
def test_lists_fit_a_terminal(command, tmp_path, kind):
    assert max(map(len, command(tmp_path, "ls", kind).stdout.splitlines())) <= 80


def test_ls_studies(command, tmp_path):
    found = parsed(command(tmp_path, "ls", "studies", "--json").stdout)
    assert sorted(row["name"] for row in found) == sorted(f.stem for f in STUDIES.glob("*.toml"))
    assert all(row["description"] for row in found)


@pytest.mark.parametrize("name", systems.names())
def test_show_system(answers, name):
    facts = parsed(answers[f"show system {name}"])
    system = systems.get(name)
    assert set(facts["parameters"]) == set(system.parameters)
    assert set(facts["starts"]) == set(system.starts)
    assert set(facts["record"]) == {quantity.name for quantity in system.quantities}
    assert facts.get("remarks", "") == "; ".join(system.remarks)
    assert facts["integrators"].split(", ") == [
        method.name
        for method in integrators.ALL_INTEGRATORS
        if _fits(integrators.get(method.name, **method.example), system)
    ]
    assert facts["TOML"] == f'system = "{name}"' and facts["references"]
    *_, study, _, _ = facts["shell"].split()  # sweep show study NAME > copy.toml
    assert facts["TOML"] in (STUDIES / f"{study}.toml").read_text()


def _fits(integrator, system):
    try:
        integrator.check(system)
    except InputError:
        return False
    return True


def test_show_system_explains_it(answers):
    text = answers["show system"]
    assert all(f"{key}: " in text for key in systems.get("spherical_pendulum_chain").parameters)
    assert "L = " in text and "Sources: " in text and "references   Taeyoung Lee, " in text


@pytest.mark.parametrize("name", SHOWN)
def test_show_integrator(answers, name):
    facts = parsed(answers[f"show integrator {name}"])
    made = integrators.get(name)
    assert (facts["integrator"], facts["order"]) == (name, made.order)
    assert facts["symmetric"] == ("yes" if made.symmetric else "no")
    assert set(facts["options"]) == set(made.options)
    plain = integrators.get(name.partition("+")[0])
    fitting = [own.name for own in systems.ALL_SYSTEMS if _fits(plain, own())]
    any_fits = len(fitting) == len(systems.ALL_SYSTEMS)
    assert facts["fits"] == ("every system" if any_fits else ", ".join(fitting))
    assert facts["TOML"].startswith("integrators = [") and facts["references"]


def test_show_study(answers):
    assert answers["show study"] == (STUDIES / "quickstart.toml").read_text()
    experiments = parsed(answers["show study in json"])
    assert [row["name"] for row in experiments] == ["pendulum", "three-bodies"]
    assert np.array(experiments[0]["step_sizes"]).size == 6


def test_output_into_a_pipe_that_closes():
    """As in ``sweep guide keys | head -1``."""
    pipe = subprocess.PIPE
    with subprocess.Popen([PROGRAM, "guide", "keys"], stdout=pipe, stderr=pipe) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode in (0, 1)

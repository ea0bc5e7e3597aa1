"""Input that cannot be used ends in one message, exit code 2, and leaves nothing behind."""

import re
import shutil

import pytest
import zarr
from study_text import one_experiment

import sweep

GIVEN = "{{ q = [{}], omega = [[0, 0, 0], [0, 0, 0]] }}"
UP, ASIDE = "[0, 0, 1]", "[0.6, 0, 0.7]"

# What a study of one experiment says instead, where the message says so, and its words.
STUDIES = {
    "unknown system": (
        {"system": '"spherical_pendulum"'},
        "5: experiment[0].system",
        "Did you mean 'spherical_pendulum_chain'?",
    ),
    "unknown integrator": (
        {"integrators": '["rk4", "variationl"]'},
        "6: experiment[0].integrators[1]",
        "unknown integrator 'variationl'. Did you mean 'variational'?",
    ),
    "unknown parameter": (
        {"parameters": "{ mas = 1.0 }"},
        "11: experiment[0].parameters.mas",
        "Did you mean 'mass'?",
    ),
    "unknown option": (
        {"integrators": '[\n  "rk4",\n  { name = "variational", solver_tolerence = 1e-9 },\n]'},
        "8: experiment[0].integrators[1].solver_tolerence",
        "Did you mean 'solver_tolerance'?",
    ),
    "unknown composition": (
        {"integrators": '["variational+suzuki"]'},
        "6: experiment[0].integrators[0]",
        "Did you mean 'suzuki4'?",
    ),
    "composition of a method that is not symmetric": (
        {"integrators": '["rk4+suzuki4"]'},
        "6: experiment[0].integrators[0]",
        "not symmetric",
    ),
    "unknown start": (
        {"initial_condition": '"leee"'},
        "8: experiment[0].initial_condition",
        "Did you mean 'lee'?",
    ),
    "a start of another system": (
        {"initial_condition": '"lee"', "parameters": "{ count = 3 }"},
        "8: experiment[0].initial_condition",
        "count = 3",
    ),
    "unknown key": (
        {"stepsize": "0.1"},
        "11: experiment[0].stepsize",
        "unknown key 'stepsize'. Did you mean 'step_size'?",
    ),
    "missing key": ({"duration": None}, "3: experiment[0]", "'duration' is missing"),
    "wrong type": ({"samples": '"many"'}, "10: experiment[0].samples", "expected an integer"),
    "wrong sign": (
        {"parameters": "{ mass = -1.0 }"},
        "11: experiment[0].parameters.mass",
        "expected a number > 0",
    ),
    "step size of zero": ({"step_size": "0.0"}, "7: experiment[0].step_size", "positive step size"),
    "step size larger than the sample interval": (
        {"step_size": "[0.1, 0.2]"},
        "7: experiment[0].step_size[1]",
        "0.2 is larger than the sample interval 0.1",
    ),
    "step size that does not divide the sample interval": (
        {"step_size": "0.03"},
        "7: experiment[0].step_size",
        "0.03333333333 (3 steps) and 0.025 (4 steps)",
    ),
    "tolerance of a fixed-step integrator": (
        {"integrators": '[{ name = "rk4", tolerance = 1e-6 }]'},
        "6: experiment[0].integrators[0].tolerance",
        "'rk4' has a fixed step",
    ),
    "state off the manifold": (
        {"initial_condition": GIVEN.format(f"{UP}, {ASIDE}")},
        "8: experiment[0].initial_condition",
        "body 1 is off the manifold",
    ),
    "state of the wrong shape": (
        {"initial_condition": GIVEN.format(UP)},
        "8: experiment[0].initial_condition.q",
        "expected 2 vectors, one for each body, got 1",
    ),
    "duplicate run": (
        {"integrators": '["rk4", { name = "rk4", label = "again" }]'},
        "6: experiment[0].integrators[1] ('again')",
        "give each run only once",
    ),
    "TOML that is none": ({"samples": "10 10"}, "10", "not valid TOML"),
}

# Found when all the rest of a study is valid; the others can be made in one.
ALONE = ("duplicate run", "TOML that is none")

WRITTEN = one_experiment()
BEFORE = ("file", "mine.toml", "other.toml", "taken", "test.zarr", "young.zarr", "zarr.zarr")

# The arguments, and words of the message.
COMMANDS = {
    "unknown subcommand": (["statsu"], "No such command 'statsu'. Did you mean 'status'?"),
    "unknown option": (["run", "mine.toml", "--worker", "1"], "--workers"),
    "no argument": (["run"], "Missing argument 'STUDY'"),
    "no kind": (["new"], "Missing argument 'KIND'. Choose from mechanical-system, spin-system, "),
    "no worker": (["run", "mine.toml", "--workers", "0"], "'--workers'"),
    "two kinds of workers": (
        ["run", "mine.toml", "--workers", "1", "--scheduler", "tcp://127.0.0.1:1"],
        "give it without --scheduler",
    ),
    "missing file": (["run", "mien.toml"], "Did you mean 'mine.toml'?"),
    "packaged study misspelt": (["run", "quikstart"], "Did you mean 'quickstart'?"),
    "a study without .toml": (["run", "mine"], "Did you mean 'mine.toml'?"),
    "a study that nothing is like": (["check", "zzz"], "name. `sweep ls studies` lists those"),
    "a directory as study": (["run", "taken"], "taken: is a directory"),
    "no text": (["check", "test.zarr/only/energy/c.0.0"], "is not UTF-8 text"),
    "store of another study": (
        ["run", "other.toml", "test.zarr", "--checkpoint-every", "3s"],
        "is the store of the study 'test', not of 'other'",
    ),
    "store from the future": (["run", "mine.toml", "young.zarr"], "Update Geosweep"),
    "a file as store": (["run", "mine.toml", "file"], "exists and is not a Geosweep store"),
    "a taken directory": (["run", "mine.toml", "taken"], "exists and is not a Geosweep store"),
    "a store below a file": (["run", "mine.toml", "file/far/below.zarr"], "is not a directory"),
    "a place where nothing can be made": (["run", "mine.toml", "/proc/a.zarr"], "cannot be"),
    "too long a name": (["run", "mine.toml", "n" * 300], "cannot be"),
    "an error that is none": (
        ["recommend", "mine.toml", "--energy-error", "0"],
        "--energy-error = 0.0; expected a number > 0",
    ),
    "no error to keep": (["recommend", "mine.toml"], "give --energy-error 1e-9, for example"),
    "no checkpoints": (["run", "mine.toml", "--checkpoint-every", "nan"], "'nan' is no time"),
    "a command in capitals": (["RUN"], "No such command 'RUN'. Did you mean 'run'?"),
    "digits": (
        ["extend", "test.zarr", "--integrator", f"{{ name = 'rk4', x = {'1' * 5000} }}"],
        "is no inline table of TOML",
    ),
    "an addition that is none": (
        ["extend", "test.zarr", "--integrator", "rk4", "--integrator", "rk5"],
        "Error: --integrator, experiment 'only': unknown integrator 'rk5'",
    ),
    "an addition that does not fit": (
        ["extend", "test.zarr", "--step-size", "0.07"],
        "Error: --step-size, experiment 'only': the step size 0.07 ",
    ),
    "nothing to cancel": (["cancel", "test.zarr"], "holds it, and no coordinator waits to begin"),
    "no store to cancel": (["cancel", "none.zarr"], "waits to begin. There is no such store"),
    "a reader of capitals": (["show", "integrator", "RK4"], "Did you mean 'rk4'?"),
    "no time to search": (
        ["recommend", "mine.toml", "--energy-error", "1", "--budget", "0s"],
        "'0s' is no time",
    ),
    "a picture that is none": (
        ["recommend", "mine.toml", "--energy-error", "1", "--plot", "answer.toml"],
        "a picture cannot end in .toml",
    ),
    "a study over another": (
        ["recommend", "mine.toml", "--energy-error", "1", "--study", "other.toml"],
        "other.toml exists",
    ),
    "status of no store": (["status", "none.zarr"], "none.zarr is not a store"),
    "a store misspelt": (["run", "tets.zarr"], "nothing of this name. Did you mean test.zarr?"),
    "a store without .zarr": (["order", "tests"], "nothing of this name. Did you mean test.zarr?"),
    "a study not run yet": (["order", "mine.zarr"], "`sweep run mine.toml mine.zarr` writes it"),
    "failures of no store": (["status", "none.zarr", "--failures"], "none.zarr is not a store"),
    "no store to verify": (["verify", "zarr.zarr"], "not one that `sweep run` wrote"),
    "no store to mend": (["verify", "none.zarr", "--repair"], "none.zarr is not a store"),
    "a newer store to mend": (["verify", "young.zarr", "--repair"], "Update Geosweep"),
    "a newer store to retry": (["retry", "young.zarr"], "Update Geosweep"),
    "status of a newer store": (["status", "young.zarr"], "Update Geosweep"),
    "watching failures": (["status", "test.zarr", "--watch", "--failures"], "--watch cannot be"),
    "orders of no store": (["order", "none.zarr"], "none.zarr is not a store"),
    "drifts of no store": (["drift", "none.zarr"], "none.zarr is not a store"),
    "chaos of no store": (["chaos", "none.zarr"], "none.zarr is not a store"),
    "chaos that was not recorded": (["chaos", "test.zarr"], 'record = ["lyapunov", "megno"]'),
    "plots of no store": (["plot", "none.zarr"], "none.zarr is not a store"),
    "status of another Zarr store": (["status", "zarr.zarr"], "not one that `sweep run` wrote"),
    "orders without a reference": (["order", "test.zarr"], "reference = {"),
    "unknown error": (["order", "test.zarr", "-e", "only", "--error", "eror"], "no 'eror'"),
    "an error over no time": (
        ["order", "test.zarr", "-e", "only", "--error", "initial_state"],
        "initial_state",
    ),
    "unknown experiment": (["drift", "test.zarr", "-e", "onyl"], "Did you mean 'only'?"),
    "unknown quantity": (["drift", "test.zarr", "-q", "enrgy"], "Did you mean 'energy"),
    "a study for its store": (["order", "test.toml"], "of this name. Did you mean test.zarr?"),
    "a store before the kind": (["plot", "test.zarr", "work"], "first: `sweep plot work test"),
    "no store to go on with": (["run", "none.zarr"], "none.zarr is not a store: there is nothing"),
    "no plugin for an atlas": (
        ["atlas", "test.zarr", "--integrator", "none.py"],
        "Error: --integrator none.py: there is no file 'none.py'",
    ),
    "a system of a plugin": (["show", "system", "mine"], "plugins need --study FILE."),
    "a store that is shown": (["show", "test.zarr"], "is no kind; expected study test.zarr"),
    "work of no store": (["work", "none.zarr"], "none.zarr is not a store"),
    "work without such an error": (
        ["work", "test.zarr", "--error", "global_error"],
        "has no 'global_error'. Errors against a reference need `reference = {",
    ),
    "query of no store": (["query", "none.zarr", "steps > 1"], "none.zarr is not a store"),
    "a query of nothing": (["query", "test.zarr", "step > 1"], "Did you mean 'steps'?"),
    "a query of no runs": (["query", "test.zarr", "steps > 1e9"], "There is steps: "),
    "an unknown column": (["query", "test.zarr", "-c", "stps"], "Did you mean 'steps'?"),
    "an unknown column to sort by": (
        ["query", "test.zarr", "--json", "--sort", "stps"], "Did you mean 'steps'?",
    ),
    "export of no store": (["export", "none.zarr", "new.nc"], "none.zarr is not a store"),
    "export over a file": (["export", "test.zarr", "file", "--format", "csv"], "file exists"),
    "export without a format": (["export", "test.zarr", "new"], "does not say its format"),
    "export of no runs": (["export", "test.zarr", "new.nc", "--where", "steps < 0"], "There is"),
    "a structure of a quantity": (
        ["drift", "test.zarr", "--structure", "-q", "energy"],
        "cannot be combined with --quantity",
    ),
    "two drift tables": (["drift", "test.zarr", "--arithmetic", "--structure"], "give one of them"),
    "orders across what is none": (
        ["order", "test.zarr", "--error", "energy_error", "--across", "siez"],
        "'siez' is no setting",
    ),
    "a budget of nothing": (["decide", "test.zarr", "--budget", "0"], "'0' is no time"),
    "decisions on no store": (["decide", "none.zarr"], "none.zarr is not a store"),
    "a drift of no runs": (["drift", "test.zarr", "--where", "steps < 0"], "There is"),
    "a report of no runs": (["report", "test.zarr", "--where", "steps < 0"], "There is"),
    "a report that is none": (["report", "test.zarr", "-o", "r.pdf"], "ends in .html"),
    "plots inside of the store": (["plot", "test.zarr", "-o", "test.zarr"], "is a store"),
    "plots where a file is": (["plot", "energy", "test.zarr", "-o", "file"], "file"),
    "plots below a file": (["plot", "energy", "test.zarr", "-o", "file/plots"], "file/plots"),
    "stores of a paper where a file is": (["reproduce", "lee", "--keep", "file"], "--keep file: "),
    "stores of a paper below a file": (["reproduce", "lee", "--keep", "file/a"], "file is a file"),
    "unknown file type": (["plot", "test.zarr", "--format", "gif"], "'--format'"),
    "a misspelt profile, with nothing to run": (
        ["run", "test.zarr", "--cluster", "slrum"],
        "unknown cluster profile 'slrum'. Did you mean 'slurm'?",
    ),
    "an option of other commands": (["query", "test.zarr", "--where", "x"], "Options: --exper"),
    "a short option of others": (["plot", "test.zarr", "-i", "rk4"], "'-i'. Options: --"),
    "a misspelt option": (["query", "test.zarr", "--experment", "x"], "mean --experiment?"),
    "a kind of system left out": (["new", "system", "mine"], "not one of 'mechanical-system'"),
    "unknown kind": (["ls", "system"], "systems"),
    "unknown system": (["show", "system", "nbody"], "Did you mean 'nbody_sphere'?"),
    "unknown integrator": (["show", "integrator", "rk4+projcted"], "Did you mean 'projected'?"),
    "unknown study": (["show", "study", "quikstart"], "Did you mean 'quickstart'?"),
    "a file that is there": (["init", "mine.toml"], "mine.toml exists"),
    "a file that cannot be written": (["init", "file/new.toml"], "file/new.toml cannot be written"),
}  # fmt: skip


@pytest.fixture(scope="module")
def messages(called, tmp_path_factory):
    """What a run says to each of `STUDIES`, with the line and key of a study of its own."""
    place, shared, first = tmp_path_factory.mktemp("studies"), 'format = 1\nname = "test"\n', {}
    for number, key in enumerate(key for key in STUDIES if key not in ALONE):
        text = one_experiment(**STUDIES[key][0], name=f'"mistake{number}"')
        first[number] = key, shared.count("\n") - 2
        shared += text[text.index("[[") :]
    (place / "shared.toml").write_text(shared)
    for number, key in enumerate(ALONE):
        (place / f"{number}.toml").write_text(one_experiment(**STUDIES[key][0]))
    before = sorted(place.iterdir())
    files = {"shared": "shared.toml"} | {key: f"{i}.toml" for i, key in enumerate(ALONE)}
    done = {key: called(place, "run", file) for key, file in files.items()}
    assert sorted(place.iterdir()) == before
    assert {process.returncode for process in done.values()} == {2}
    found = {key: [own_place(line, 0, 0) for line in lines(done[key])] for key in ALONE}
    for line in lines(done["shared"]):
        number = int(re.search(r"experiment\[(\d+)\]", line)[1])
        key, before = first[number]
        found.setdefault(key, []).append(own_place(line, number, before))
    return found


def lines(process):
    assert process.stderr.startswith("Error: ")
    return process.stderr.removeprefix("Error: ").splitlines()


def own_place(message, number, before):
    """The message without the file, as if its experiment were the only one."""
    _, line, text = message.split(":", 2)
    return f"{int(line) - before}:{text.replace(f'experiment[{number}]', 'experiment[0]')}"


@pytest.mark.parametrize("mistake", STUDIES)
def test_a_mistake_in_a_study(messages, mistake):
    _, where, words = STUDIES[mistake]
    (message,) = messages[mistake]
    assert message.startswith(f"{where}: ")
    assert words in message


@pytest.fixture(scope="module")
def place(cluster, tmp_path_factory):
    """A directory with studies, a store, and what is in the way."""
    place = tmp_path_factory.mktemp("mistakes")
    (place / "mine.toml").write_text(WRITTEN)
    (place / "other.toml").write_text(WRITTEN.replace('"test"', '"other"'))
    (place / "file").write_text("precious")
    (place / "taken").mkdir()
    (place / "taken" / "thesis.tex").write_text("precious")
    zarr.create_group(place / "zarr.zarr")
    sweep.run(place / "mine.toml", place / "test.zarr", cluster)
    shutil.copytree(place / "test.zarr", place / "young.zarr")
    zarr.open_group(place / "young.zarr").attrs["format_version"] = 4
    return place


@pytest.fixture(scope="module")
def refused(place, fingerprint, called):
    """What became of each of `COMMANDS`, and a hash of all files before and after."""
    before = fingerprint(place)
    done = {key: called(place, *arguments) for key, (arguments, _) in COMMANDS.items()}
    return done, before == fingerprint(place)


@pytest.mark.parametrize("mistake", COMMANDS)
def test_a_mistake_in_a_command(refused, mistake):
    done = refused[0][mistake]
    assert done.returncode == 2, done.stderr
    *usage, message = done.stderr.splitlines()
    assert message.startswith("Error: ")
    assert COMMANDS[mistake][1] in message
    assert not usage or usage[0].startswith("Usage: sweep")
    assert "Traceback" not in done.stdout


def test_no_mistake_left_anything_behind(refused, place):
    assert sorted(file.name for file in place.iterdir()) == sorted(BEFORE)
    assert refused[1]


def test_all_mistakes_of_a_study_come_at_once(command, tmp_path):
    """One message, a line for each; and `check` says what `run` says."""
    text = one_experiment(integrators='["rk5", "variationl"]', step_size="0.3", recrod="[]")
    (tmp_path / "study.toml").write_text(text)
    (tmp_path / "again").mkdir()
    checked = command(tmp_path, "check", "study.toml", code=2).stderr
    assert checked == command(tmp_path, "run", "study.toml", code=2).stderr
    assert [line.removeprefix("Error: ").split(": ")[1] for line in checked.splitlines()] == [
        "experiment[0].recrod",
        "experiment[0].step_size",
        "experiment[0].integrators[0]",
        "experiment[0].integrators[1]",
    ]

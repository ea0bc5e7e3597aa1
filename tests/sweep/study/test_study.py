"""Studies are read whole, and every mistake is found where it stands."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from study_text import FULL, one_experiment, problems

from sweep import errors, study
from sweep.store import studies
from sweep.study import model
from sweep.study.run_table import expand_experiment


def test_everything_of_format_1():
    found = studies.parse_study(FULL, "s.toml")
    assert found.name == "double-pendulum"
    assert found.toml() == FULL
    order, nbody = found.experiments
    assert order.name == "order"
    assert order.parameters == {"count": 2, "mass": (1.0, 1.0)}
    assert order.scan == (study.Axis("gravity", (1.0, 9.81)),)
    labels = ["variational", "variational+suzuki4", "loose solver", "rk4"]
    assert [entry.label for entry in order.integrators] == labels
    assert order.integrators[2].options == {"solver_tolerance": 1e-8}
    assert order.integrators[3].options == {"formulation": "q_qdot"}
    assert order.integrators[3].step_sizes == (0.02, 0.01)
    assert len(order.step_sizes) == 9 and order.step_sizes[4] == 0.01
    assert [start.label for start in order.initial_conditions] == ["lee", "lee-random", "state[2]"]
    assert order.record == ("energy", "momentum", "unit_length", "tangency")
    assert order.reference == study.Reference("dop853", 2.3e-14, 10.0)
    assert order.times[[0, 1, -1]].tolist() == [0.0, 0.1, 10.0]
    assert (nbody.record, nbody.statistics, nbody.reference) == (("energy", "state"), "none", None)
    assert nbody.size == 3


def test_defaults_hold_where_an_experiment_says_nothing():
    text = """\
format = 1
name = "a"
[defaults]
record = ["energy"]
statistics = "none"
samples = 2
duration = 1
step_size = 0.5
integrators = ["rk4"]
initial_condition = "lee"
reference = { integrator = "dop853" }
[[experiment]]
name = "plain"
system = "spherical_pendulum_chain"
[[experiment]]
name = "own"
system = "spherical_pendulum_chain"
samples = 4
step_size = 0.25
reference = false
"""
    plain, own = studies.parse_study(text).experiments
    assert (plain.samples, plain.step_sizes, plain.statistics) == (2, (0.5,), "none")
    assert plain.reference == study.Reference("dop853", 2.3e-14, 1.0)
    assert (own.samples, own.step_sizes, own.reference, own.duration) == (4, (0.25,), None, 1.0)


def test_what_is_recorded_when_nothing_is_said():
    experiment = studies.parse_study(one_experiment()).experiments[0]
    assert set(experiment.record) == {"energy", "momentum", "unit_length", "tangency"}
    assert experiment.statistics == "every_step"


def test_expanded_is_json_with_exact_step_sizes():
    experiment = studies.parse_study(FULL).experiments[0]
    expanded = experiment.expanded()
    assert json.loads(json.dumps(expanded)) == expanded
    assert tuple(expanded["step_sizes"]) == experiment.step_sizes
    assert expanded["initial_conditions"][1]["members"] == 64
    assert "where" not in json.dumps(expanded)


def test_integrators_without_an_axis_of_step_sizes():
    entry = '[{ name = "rk4", step_size = 0.1 }, "rk2_heun"]'
    found = problems(one_experiment(integrators=entry, step_size=None))
    assert found[0].startswith("s.toml:6: experiment[0].integrators[1]: there is no 'step_size'")
    entry = '[{ name = "rk4", step_size = 0.1 }]'
    text = one_experiment(integrators=entry, step_size=None)
    assert studies.parse_study(text).experiments[0].size == 3


def test_a_quantity_that_a_system_has_at_its_defaults_alone():
    text = one_experiment(
        system='"precession"',
        parameters="{ axis = [0.0, 0.6, 0.8] }",
        integrators='["rk4"]',
        initial_condition="{ random = 2, seed = 1 }",
        record='["momentum"]',
    )
    (found,) = problems(text)
    assert "no quantity of precession with these parameters: 'momentum' is one at its" in found


# what is written in FULL, what instead, and the message: its start and, after …, its other words
MISTAKES = [
    ("format = 1", "format = 2", "1: format: this version reads format 1, got 2"),
    ("format = 1", "format = true", "1: format: expected an integer, got a boolean: True"),
    ("plugins = []", 'plugins = ["a.py"]', "4: plugins[0]: there is no file 'a.py' in "),
    ("plugins = []", "plugin = []", "4: plugin: unknown key 'plugin'. Did you mean 'plugins'?"),
    ('"double-pendulum"', '"a/b"', "2: name: expected letters, digits, …got 'a/b'"),
    ("statistics", "statistic", "8: defaults.statistic: unknown key …'statistics'?"),
    ('"every_step"', '"every"', "8: defaults.statistics: unknown …Did you mean 'every_step'?"),
    ('"unit_length"', '"unit_lengh"', "7: defaults.record[2]: unknown quantity …'unit_length'?"),
    ('"unit_length"', '"energy"', "7: defaults.record[2]: …is also that of s.toml:7: defaults"),
    ('"order"', '"_order"', "11: experiment[0].name: …the first not '_', got '_order'"),
    ('"order"', '"a/b"', "11: experiment[0].name: expected letters, digits, …got 'a/b'"),
    ('"nbody"', '"order"', "35: experiment[1].name: …is also that of s.toml:11: experiment[0]"),
    ('name = "nbody"', "", "34: experiment[1]: the key 'name' is missing"),
    ("pendulum_chain", "chain", "12: experiment[0].system: unknown …'spherical_pendulum_chain'?"),
    ("mass =", "mas =", "13: experiment[0].parameters.mas: unknown parameter …'mass'?"),
    ("1.0, 1.0", "1.0, -1.0", "13: experiment[0].parameters.mass: …-1.0; expected"),
    ("1.0, 1.0", "1.0, nan", "13: experiment[0].parameters.mass[1]: expected a finite number"),
    ("scan = {", "scan = { mass = 1,", "14: experiment[0].scan.mass: …fixed by 'parameters'"),
    ("9.81", '"a"', "14: experiment[0].scan.gravity[1]: expected a number, got a string: 'a'"),
    ("9.81", "[1.0]", "14: experiment[0].scan.gravity[1]: a vector needs a label"),
    ("9.81", "1", "14: experiment[0].scan.gravity[1]: the value 1 is also that of s.toml:14"),
    ("gravity = [1.0, 9.81]", "length = [1, -1]", "14: experiment[0].scan.length[1]: length = -1"),
    (
        '"variational",',
        '"variationl",',
        "16: experiment[0].integrators[0]: unknown …'variational'?",
    ),
    ('"rk4", form', '"rk5", form', "18: experiment[0].integrators[3].name: unknown integrator"),
    ("+suzuki4", "+suzki4", "16: experiment[0].integrators[1]: …Did you mean 'suzuki4'?"),
    ("variational+", "rk4+", "16: experiment[0].integrators[1]: …not symmetric"),
    ('"variational",', '"rk45",', "16: experiment[0].integrators[0]: 'rk45' is adaptive…1e-6 }"),
    ('"rk4", f', '"rk45", f', "18: experiment[0].integrators[3].step_size: 'rk45' chooses its"),
    (
        '"variational",',
        '{ name = "rk45", tolerance = 1e-6, relative_tolerance = 1e-6 },',
        "16: experiment[0].integrators[0].relative_tolerance: means the same as 'tolerance'",
    ),
    (
        '"variational",',
        '{ name = "rk45", relative_tolerance = [1e-6, 1.0] },',
        "16: experiment[0].integrators[0].relative_tolerance[1]: …= 1.0; expected 2.3e-14 to 1",
    ),
    (
        '"variational",',
        '{ name = "dop853", relative_tolerance = [1e-6, 1e-6] },',
        "16: experiment[0].integrators[0].relative_tolerance[1]: …is also that of",
    ),
    (
        '"variational",',
        '{ name = "rk45", tolerance = { start = 1e-3, stop = -1e-3, count = 3 } },',
        "16: experiment[0].integrators[0].tolerance: tolerance = 0.0; expected 2.3e-14 to 1",
    ),
    (
        '"variational",',
        '{ name = "rk45", absolute_tolerance = -1, tolerance = 1e-3 },',
        "16: experiment[0].integrators[0].absolute_tolerance: …expected a number ≥ 0",
    ),
    ("solver_t", "t", "17: experiment[0].integrators[2].tolerance: 'variational' has a fixed step"),
    ("solver_t", "solver_", "17: experiment[0].integrators[2].solver_olerance: unknown option"),
    ("1e-8", "-1e-8", "17: experiment[0].integrators[2].solver_tolerance: …-1e-08; expected"),
    (', label = "loose solver"', "", "17: experiment[0].integrators[2]: …a label of its own"),
    ("[0.02", "[0.03", "18: experiment[0].integrators[3].step_size[0]: …and 0.025 (4 steps)"),
    ("[0.02", "[0.2", "18: experiment[0].integrators[3].step_size[0]: …0.2 is larger than"),
    ("[0.02", "[0", "18: experiment[0].integrators[3].step_size[0]: expected a positive"),
    ("[0.02", "[0.01", "18: experiment[0].integrators[3].step_size[1]: the step size 0.01 is also"),
    ("start = 0.1", "start = 0.2", "20: experiment[0].step_size: the step size 0.2 is larger"),
    ("start = 0.1, ", "", "20: experiment[0].step_size: the key 'start' is missing"),
    ("count = 9", "count = 1", "20: experiment[0].step_size.count: expected 2 to"),
    ("stop = 1e-3", "stop = 0", "20: experiment[0].step_size.stop: …needs positive ends, got 0"),
    ('"log"', '"logg"', "20: experiment[0].step_size.spacing: …Did you mean 'log'?"),
    ('"lee",', '"leee",', "22: experiment[0].initial_condition[0]: …Did you mean 'lee'?"),
    ('"lee",', "{ latice = 4 },", "22: experiment[0].initial_condition[0]: expected a start's"),
    ('"lee", random', '"le", random', "23: experiment[0].initial_condition[1].around: …'lee'?"),
    ("random = 64", "random = 0", "23: experiment[0].initial_condition[1].random: …at least 1"),
    ("seed = 7", "seed = -7", "23: experiment[0].initial_condition[1].seed: …at least 0"),
    ("spread = 1e-3, ", "", "23: experiment[0].initial_condition[1].around: …need a 'spread'"),
    ("normalize = true", "normalize = false", "24: experiment[0].initial_condition[2]: …manifold"),
    ("normalize", "normalise", "27: experiment[0].initial_condition[2].normalise: unknown key"),
    (", [0.0, 0.0, 1.0]", "", "24: experiment[0].initial_condition[2].q: expected 2 vectors"),
    ("[0.0, 0.0, 1.0]", "[1.0]", "24: experiment[0].initial_condition[2].q[1]: …of 3 numbers"),
    ("[0.0, 0.0, 1.0]", "[0, 0, 0]", "24: experiment[0].initial_condition[2].q: …no direction"),
    ("0.0],\n    ]", '"x"],]', "26: experiment[0].initial_condition[2].omega[1][2]: expected a n"),
    ("10.0\ns", "-1\ns", "29: experiment[0].duration: expected a positive number, got -1.0"),
    ("10.0\ns", "inf\ns", "29: experiment[0].duration: expected a finite number"),
    ("10.0\ns", "2020-02-02\ns", "29: experiment[0].duration: …got a date or time: 2020-02-02"),
    ("samples = 100", "samples = 1e2", "30: experiment[0].samples: expected an integer"),
    ("samples = 100", "samples = 0", "30: experiment[0].samples: expected at least 1 interval"),
    ("samples = 100", "samples = 100\ntolerance = 1", "31: experiment[0].tolerance: …2.3e-14 to 1"),
    (
        "samples = 100",
        "samples = 100\ntolerance = 0.1",
        "31: experiment[0].tolerance: a tolerance is for adaptive integrators…such as 'rk45'",
    ),
    (
        'integrators = "rk4"\nstep_size = 0.1',
        'integrators = ["rk45"]',
        "37: experiment[1].integrators[0]: 'rk45' is adaptive, and there is no 'tolerance'",
    ),
    (
        'integrators = "rk4"',
        'tolerance = 1e-3\nintegrators = "rk45"',
        "39: experiment[1].step_size: a step size is for integrators with a fixed step…'rk4'",
    ),
    ('"dop853"', '"rk4"', "31: experiment[0].reference.integrator: a reference is computed by"),
    ('"dop853"', '"rk45"', "31: experiment[0].reference.integrator: …'dop853', not by 'rk45'"),
    ("2.3e-14", "1e-16", "31: experiment[0].reference.tolerance: …from 2.3e-14 to 1"),
    ("until = 10.0", "until = 1e-3", "31: experiment[0].reference: …before the first sample, at "),
    ("until = 10.0", "until = 11", "31: experiment[0].reference: …beyond the duration 10.0"),
    ("until", "util", "31: experiment[0].reference.util: unknown key …'until'?"),
    ('"rk4", step_size = ">', '"rk5", step_size = ">', "32: experiment[0].exclude[0].integrator"),
    ('">= 0.02"', '">= x"', "32: experiment[0].exclude[0].step_size: expected a number or"),
    ('integrator = "rk4", step', "stop", "32: experiment[0].exclude[0].stop_size: unknown key"),
    ('"rk4", step_size = ">= 0.02"', '"> rk4"', "32: experiment[0].exclude[0].integrator: …'=='"),
]


@pytest.mark.parametrize(("written", "instead", "message"), MISTAKES)
def test_a_mistake_is_found_where_it_stands(written, instead, message):
    assert written in FULL
    found = problems(FULL.replace(written, instead, 1))[0]
    start, *words = message.split("…")
    assert found.startswith(f"s.toml:{start}")
    assert all(part in found for part in words)


@given(st.data())
@settings(max_examples=60)
def test_the_line_of_an_error_is_the_line_of_its_key(data):
    """Comments and blank lines between the keys move the line and nothing else."""
    text = one_experiment(duration='"long"')
    lines = text.splitlines()
    for _ in range(data.draw(st.integers(0, 5))):
        place = data.draw(st.integers(0, len(lines)))
        lines.insert(place, data.draw(st.sampled_from(["", "# duration = 1", "  # ]]"])))
    line = next(n for n, text in enumerate(lines, 1) if text.startswith("duration"))
    found = problems("\n".join(lines))
    assert found == [
        f"s.toml:{line}: experiment[0].duration: expected a number, got a string: 'long'"
    ]


def test_integrators_that_fit_are_listed_once():
    text = one_experiment(integrators='["splitting", "exact", "rk4"]')
    with pytest.raises(study.StudyError) as caught:
        studies.parse_study(text, "s.toml")
    first, second = str(caught.value).splitlines()
    assert "Integrators that would do: variational, " in first
    assert "'exact' needs" in second and second.endswith("that would do: those above.")
    assert "variational" in caught.value.problems[1]  # in full, where each is shown alone


def test_all_problems_are_reported_together():
    text = one_experiment(
        integrators='["rk5", "rk4", "variationl"]', step_size="0.3", statistics='"all"', recrod="1"
    )
    found = "\n".join(problems(text))
    for key in ("recrod", "step_size", "integrators[0]", "integrators[2]", "statistics"):
        assert f"experiment[0].{key}: " in found


def test_a_mistake_in_the_defaults_is_reported_once():
    assert (
        len(problems(FULL.replace('"every_step"', "1").replace('statistics = "none"\n', ""))) == 1
    )


def test_missing_keys():
    assert problems("") == [
        f"s.toml:1: the key '{key}' is missing" for key in ("format", "name", "experiment")
    ]
    assert problems(one_experiment(system=None))[0].endswith("the key 'system' is missing")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            FULL.replace("reference = { ", "reference = {\n"),
            "31: experiment[0].reference: the inline",
        ),
        (
            FULL.replace("{ count = 2,", "{ count = 2, # two\n"),
            "13: experiment[0].parameters: the i",
        ),
        (
            FULL.replace("samples = 100", "samples = 100.0.0"),
            "30: not valid TOML: Expected newline",
        ),
        (
            FULL.replace("    ],", "    ],\n", 1),
            "24: experiment[0].initial_condition[2]: the inline",
        ),
        ("a = {", " not valid TOML: "),
        ("a = 1\na = 2\n", "2: not valid TOML: Cannot overwrite a value"),
        ("a = " + "[" * 100_000, "1: arrays or tables are nested too deeply"),
        ("a = 1" + "0" * 5000, " not valid TOML: "),
    ],
)
def test_syntax_errors_are_explained(text, message):
    (found,) = problems(text)
    assert found.startswith(f"s.toml:{message}")


def test_an_integrator_that_does_not_fit_is_refused(monkeypatch):
    import integrators

    def refuse(integrator, system):
        raise integrators.InputError(f"{integrator.name!r} needs the form X")

    monkeypatch.setattr(integrators.Integrator, "check", refuse)
    found = problems(one_experiment())
    assert found[0] == "s.toml:6: experiment[0].integrators[0]: 'variational' needs the form X"


def test_load_a_file_or_a_packaged_study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.toml"
    file.write_bytes(b"\xef\xbb\xbf" + one_experiment().replace("\n", "\r\n").encode())
    assert studies.load_study_file(file).name == studies.load_study_file("mine.toml").name == "test"
    file.rename("here")
    monkeypatch.setattr(model, "_packaged_files", lambda: {"here": None, "quickstart": None})
    assert studies.load_study_file("here").name == "test"
    with pytest.raises(errors.StudyError, match="no packaged study of that name.*'quickstart'"):
        studies.load_study_file("quikstart")


def test_what_cannot_be_loaded(tmp_path, monkeypatch):
    with pytest.raises(errors.StudyError, match="is a directory"):
        studies.load_study_file(tmp_path)
    with pytest.raises(errors.StudyError, match="there is no such file"):
        studies.load_study_file(tmp_path / "none.toml")
    with pytest.raises(errors.StudyError, match="cannot be read"):
        studies.load_study_file("a" * 10_000)
    file = tmp_path / "latin.toml"
    file.write_bytes(b"format = 1\nname = '\xe9'\n")
    with pytest.raises(errors.StudyError, match=r"latin.toml:2: is not UTF-8 text"):
        studies.load_study_file(file)
    monkeypatch.setattr("os.open", _refuse)
    with pytest.raises(errors.StudyError, match="cannot be read: Permission denied"):
        studies.load_study_file(file)


def _refuse(path, flags):
    raise PermissionError(13, "Permission denied")


@pytest.mark.parametrize("name", study.packaged_study_names())
def test_packaged_studies_are_valid(name):
    found = studies.load_study_file(name)
    assert found.name == name and found.description
    for experiment in found.experiments:
        assert expand_experiment(experiment).size > 0

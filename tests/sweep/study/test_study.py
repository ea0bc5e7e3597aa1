"""Studies are read whole, and every mistake is found where it stands."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from study_runs import pairs, table_of, tables_of, write
from study_text import FULL, one_experiment, problems

import sweep
from sweep import errors


def test_everything_of_format_1():
    study = sweep.load_study(write(FULL))
    assert (study.name, study.toml()) == ("double-pendulum", FULL)
    assert study.description.startswith("Order and drift")
    order, nbody = tables_of(FULL)
    steps = [0.1, 0.05, 0.05 / 3, 0.01]
    assert order.columns[-1] == "gravity"
    assert set(order["gravity"]) == {1.0, 9.81}
    assert pairs(order[order["integrator"] == "rk4"], "step_size") == {(0.01,)}  # not 0.02
    generated = order[order["integrator"] == "variational"]["step_size"].drop_duplicates().tolist()
    assert len(generated) == 9 and generated[0] == 0.1 and generated[4] == 0.01
    assert generated[-1] == 0.001 and not set(steps) - {0.05, 0.05 / 3} - set(generated)
    labels = ["variational", "variational+suzuki4", "loose solver", "rk4"]
    assert order["integrator"].drop_duplicates().tolist() == labels
    starts = ["lee", *(f"lee-random[{i}]" for i in range(64)), "state[2]"]
    assert order["initial_condition"].drop_duplicates().tolist() == starts
    assert order["ensemble"][:66].tolist() == ["", *["lee-random"] * 64, ""]
    assert len(order) == 2 * (3 * 9 + 1) * 66
    assert nbody["initial_condition"].tolist() == ["random[0]", "random[1]", "random[2]"]


DEFAULTS = """\
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


def test_defaults_hold_where_an_experiment_says_nothing(cluster):
    assert sweep.run(write(DEFAULTS), "a.zarr", cluster).complete
    tree = sweep.open_study("a.zarr")
    plain, own = tree["plain"].to_dataset(), tree["own"].to_dataset()
    assert plain["time"].values.tolist() == [0.0, 0.5, 1.0]
    assert own["time"].values.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert pairs(own, "integrator", "step_size") == {("rk4", 0.25)}
    assert "global_error" in plain and "global_error" not in own
    for found in (plain, own):
        assert "energy" in found and "momentum" not in found and "energy_error_abs_max" not in found


def test_what_is_recorded_when_nothing_is_said(cluster):
    assert sweep.run(write(one_experiment(integrators='"rk4"')), "a.zarr", cluster).complete
    found = sweep.open_study("a.zarr")["only"].to_dataset()
    quantities = ("energy", "momentum", "unit_length", "tangency")
    recorded = {f"{quantity}_error" for quantity in quantities} | {"energy_error_abs_max"}
    assert recorded <= set(found.data_vars)
    assert "state" not in found and "global_error" not in found


def test_integrators_without_an_axis_of_step_sizes():
    entry = '[{ name = "rk4", step_size = 0.1 }, "rk2_heun"]'
    found = problems(one_experiment(integrators=entry, step_size=None))[0]
    assert found.startswith("s.toml:6: experiment[0].integrators[1]: ") and "'step_size'" in found
    entry = '[{ name = "rk4", step_size = 0.1 }]'
    assert len(table_of(integrators=entry, step_size=None)) == 3


def test_a_quantity_that_a_system_has_at_its_defaults_alone():
    text = one_experiment(
        system='"precession"',
        parameters="{ axis = [0.0, 0.6, 0.8] }",
        integrators='["rk4"]',
        initial_condition="{ random = 2, seed = 1 }",
        record='["momentum"]',
    )
    (found,) = problems(text)
    assert "precession" in found and "'momentum' is one at its" in found


# What is written in FULL, what instead, and the message: where, and after … its words.
MISTAKES = [
    ("format = 1", "format = 2", "1: format: …format 1…2"),
    ("format = 1", "format = true", "1: format: …integer…True"),
    ("plugins = []", 'plugins = ["a.py"]', "4: plugins[0]: …no file…'a.py'"),
    ("plugins = []", "plugin = []", "4: plugin: …'plugin'. Did you mean 'plugins'?"),
    ('"double-pendulum"', '"a/b"', "2: name: …letters, digits…'a/b'"),
    ("statistics", "statistic", "8: defaults.statistic: …Did you mean 'statistics'?"),
    ('"every_step"', '"every"', "8: defaults.statistics: …every_step…none…every N…'every'"),
    ('"every_step"', '"every 1"', "8: defaults.statistics: …every N…'every 1'"),
    ('"every_step"', "10", "8: defaults.statistics: …every_step…none…every N…10"),
    ('"unit_length"', '"unit_lengh"', "7: defaults.record[2]: …Did you mean 'unit_length'?"),
    ('"unit_length"', '"energy"', "7: defaults.record[2]: …'energy'…s.toml:7: defaults"),
    ('"order"', '"_order"', "11: experiment[0].name: …the first not '_'…'_order'"),
    ('"nbody"', '"order"', "35: experiment[1].name: …'order'…'gravity' is scanned in one and"),
    ('name = "nbody"', "", "34: experiment[1]: …'name'…missing"),
    ("pendulum_chain", "chain", "12: experiment[0].system: …'spherical_pendulum_chain'?"),
    ("mass =", "mas =", "13: experiment[0].parameters.mas: …Did you mean 'mass'?"),
    ("1.0, 1.0", "1.0, -1.0", "13: experiment[0].parameters.mass: …-1.0…expected"),
    ("1.0, 1.0", "1.0, nan", "13: experiment[0].parameters.mass[1]: …finite number…nan"),
    ("scan = {", "scan = { mass = [1, 2],", "14: experiment[0].scan.mass: …fixed by 'parameters'"),
    ("[1.0, 9.81]", '"1..9"', "14: experiment[0].scan.gravity: …array, or a range { start…1..9"),
    ("9.81", '"a"', "14: experiment[0].scan.gravity[1]: …number…'a'"),
    ("9.81", "[1.0]", "14: experiment[0].scan.gravity[1]: …label"),
    ("9.81", "1", "14: experiment[0].scan.gravity[1]: …1…s.toml:14"),
    ("gravity = [1.0, 9.81]", "length = [1, -1]", "14: experiment[0].scan.length[1]: …length = -1"),
    ('"variational",', '"variationl",', "16: experiment[0].integrators[0]: …'variational'?"),
    ('"rk4", form', '"rk5", form', "18: experiment[0].integrators[3].name: …'rk5'"),
    ("+suzuki4", "+suzki4", "16: experiment[0].integrators[1]: …Did you mean 'suzuki4'?"),
    ("variational+", "rk4+", "16: experiment[0].integrators[1]: …not symmetric"),
    ('"variational",', '"rk45",', "16: experiment[0].integrators[0]: …'rk45' is adaptive…1e-6 }"),
    ('"rk4", f', '"rk45", f', "18: experiment[0].integrators[3].step_size: …'rk45'"),
    (
        '"variational",',
        '{ name = "rk45", tolerance = 1e-6, relative_tolerance = 1e-6 },',
        "16: experiment[0].integrators[0].relative_tolerance: …the same as 'tolerance'",
    ),
    (
        '"variational",',
        '{ name = "rk45", relative_tolerance = [1e-6, 1.0] },',
        "16: experiment[0].integrators[0].relative_tolerance[1]: …1.0…2.3e-14 to 1",
    ),
    (
        '"variational",',
        '{ name = "dop853", relative_tolerance = [1e-6, 1e-6] },',
        "16: experiment[0].integrators[0].relative_tolerance[1]: …1e-06…is also that of",
    ),
    (
        '"variational",',
        '{ name = "rk45", tolerance = { start = 1e-3, stop = -1e-3, count = 3 } },',
        "16: experiment[0].integrators[0].tolerance: …0.0…2.3e-14 to 1",
    ),
    (
        '"variational",',
        '{ name = "rk45", absolute_tolerance = -1, tolerance = 1e-3 },',
        "16: experiment[0].integrators[0].absolute_tolerance: …-1…≥ 0",
    ),
    ("solver_t", "t", "17: experiment[0].integrators[2].tolerance: …'variational'…fixed step"),
    ("solver_t", "solver_", "17: experiment[0].integrators[2].solver_olerance: …solver_tolerance"),
    ("1e-8", "-1e-8", "17: experiment[0].integrators[2].solver_tolerance: …-1e-08"),
    (', label = "loose solver"', "", "17: experiment[0].integrators[2]: …a label of its own"),
    ("[0.02", "[0.03", "18: experiment[0].integrators[3].step_size[0]: …0.03…0.025 (4 steps)"),
    ("[0.02", "[0.2", "18: experiment[0].integrators[3].step_size[0]: …0.2 is larger than"),
    ("[0.02", "[0", "18: experiment[0].integrators[3].step_size[0]: …positive"),
    ("[0.02", "[0.01", "18: experiment[0].integrators[3].step_size[1]: …0.01…also"),
    ("start = 0.1", "start = 0.2", "20: experiment[0].step_size: …0.2 is larger"),
    ("start = 0.1, ", "", "20: experiment[0].step_size: …'start'…missing"),
    ("count = 9", "count = 1", "20: experiment[0].step_size.count: …at least 2…1"),
    ("stop = 1e-3", "stop = 0", "20: experiment[0].step_size.stop: …positive…0"),
    ('"log"', '"logg"', "20: experiment[0].step_size.spacing: …Did you mean 'log'?"),
    ('"lee",', '"leee",', "22: experiment[0].initial_condition[0]: …Did you mean 'lee'?"),
    ('"lee",', "{ latice = 4 },", "22: experiment[0].initial_condition[0]: …lattice"),
    ('"lee", random', '"le", random', "23: experiment[0].initial_condition[1].around: …'lee'?"),
    ("random = 64", "random = 0", "23: experiment[0].initial_condition[1].random: …at least 1…0"),
    ("seed = 7", "seed = -7", "23: experiment[0].initial_condition[1].seed: …at least 0…-7"),
    ("spread = 1e-3, ", "", "23: experiment[0].initial_condition[1].around: …'spread'"),
    ("normalize = true", "normalize = false", "24: experiment[0].initial_condition[2]: …manifold"),
    ("normalize", "normalise", "24: experiment[0].initial_condition[2].normalise: …'normalize'?"),
    (", [0.0, 0.0, 1.0]", "", "24: experiment[0].initial_condition[2].q: …2 vectors"),
    ("[0.0, 0.0, 1.0]", "[1.0]", "24: experiment[0].initial_condition[2].q[1]: …3 numbers"),
    ("[0.0, 0.0, 1.0]", "[0, 0, 0]", "24: experiment[0].initial_condition[2].q: …no direction"),
    ("0.0],\n    ]", '"x"],]', "24: experiment[0].initial_condition[2].omega[1][2]: …number…'x'"),
    ("10.0\ns", "-1\ns", "29: experiment[0].duration: …positive…-1"),
    ("10.0\ns", '"2 s"\ns', "29: experiment[0].duration: …number in the system's unit of time…2 s"),
    ("10.0\ns", "inf\ns", "29: experiment[0].duration: …finite number"),
    ("10.0\ns", "2020-02-02\ns", "29: experiment[0].duration: …2020-02-02"),
    ("samples = 100", "samples = 1e2", "30: experiment[0].samples: …integer…100.0"),
    ("samples = 100", "samples = 0", "30: experiment[0].samples: …at least 1…0"),
    ("samples = 100", "samples = 100\ntolerance = 1", "31: experiment[0].tolerance: …2.3e-14 to 1"),
    (
        "samples = 100",
        "samples = 100\ntolerance = 0.1",
        "31: experiment[0].tolerance: …adaptive integrators…such as 'rk45'",
    ),
    (
        'integrators = "rk4"\nstep_size = 0.1',
        'integrators = ["rk45"]',
        "37: experiment[1].integrators[0]: …'rk45' is adaptive…'tolerance'",
    ),
    (
        'integrators = "rk4"',
        'tolerance = 1e-3\nintegrators = "rk45"',
        "39: experiment[1].step_size: …fixed step…'rk4'",
    ),
    ('"dop853"', '"rk45"', "31: experiment[0].reference.integrator: …'dop853', not by 'rk45'"),
    ("2.3e-14", "1e-16", "31: experiment[0].reference.tolerance: …from 2.3e-14 to 1"),
    ("until = 10.0", "until = 1e-3", "31: experiment[0].reference: …before the first sample"),
    ("until = 10.0", "until = 11", "31: experiment[0].reference: …11…the duration 10.0"),
    ("until", "util", "31: experiment[0].reference.util: …Did you mean 'until'?"),
    ("step_size = 0.1", 'step_size = "0.1"', "38: …step_size: …a number…'0.1'; write 0.1, without"),
    ("reference = {", "reference = true #", "31: experiment[0].reference: …{ integrator = …True"),
    ('"rk4"\nstep', "[4]\nstep", "37: experiment[1].integrators[0]: …name of an integrator…4"),
    ('"rk4"\nstep', '"+rk4"\nstep', "37: experiment[1].integrators: '+rk4' begins with '+'"),
    ("random = 3,", "random = 3, lattice = 4,", "39: …'random', 'lattice'…a table for each"),
    ('"rk4", step_size = ">', '"rk5", step_size = ">', "32: experiment[0].exclude[0].integrator: "),
    ('">= 0.02"', '">= x"', "32: experiment[0].exclude[0].step_size: …number"),
    ('integrator = "rk4", step', "stop", "32: experiment[0].exclude[0].stop_size: …'step_size'?"),
    ('"rk4", step_size = ">= 0.02"', '"> rk4"', "32: experiment[0].exclude[0].integrator: …'=='"),
]


@pytest.mark.parametrize(("written", "instead", "message"), MISTAKES)
def test_a_mistake_is_found_where_it_stands(written, instead, message):
    assert written in FULL
    found = problems(FULL.replace(written, instead, 1))[0]
    start, *words = message.split("…")
    assert found.startswith(f"s.toml:{start}")
    assert all(part in found for part in words), found


@given(st.data())
@settings(max_examples=25)
def test_the_line_of_an_error_is_the_line_of_its_key(data):
    """Comments and blank lines between the keys move the line and nothing else."""
    text = one_experiment(duration='"long"')
    lines = text.splitlines()
    for _ in range(data.draw(st.integers(0, 5))):
        place = data.draw(st.integers(0, len(lines)))
        lines.insert(place, data.draw(st.sampled_from(["", "# duration = 1", "  # ]]"])))
    line = next(n for n, text in enumerate(lines, 1) if text.startswith("duration"))
    (found,) = problems("\n".join(lines))
    assert found.startswith(f"s.toml:{line}: experiment[0].duration: ") and "'long'" in found


LAID_OUT = '''\
format = 1
"name" = "a"   # a comment with ] and "
description = """
[[experiment]]
duration = "of no experiment\\""""

[defaults]   # [[experiment]]
statistics = 'none'
reference.integrator = "dop853"
reference.tolerance = 1e-9
[[ experiment ]]
'name' = "one"
system = "spherical_pendulum_chain"
parameters = { length = [
    1,  # ]
    2 ], "mass" = 1.0 }
integrators = [ "rk4",
    { name = "rk4", label = "[", formulation = "q_qdot" }, # }
    "variational" ]
initial_condition = "lee"
step_size = 1
duration = 1.0
samples = 1
[experiment.scan]
gravity = [ 1.0,

    2.5 ]
[[experiment]]
name = "two"
system = "precession"
duration = 2.0
samples = 2
step_size = 1
integrators = "rk4"
initial_condition = { random = 1, seed = 1 }
[experiment.parameters]
axis = [0.0, 0.0, 1.0]
'''


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("written", "instead", "where"),
    [
        ('"a"', '"a b"', "2: name"),
        ("'none'", "'every\\'", "8: defaults.statistics"),
        ("tolerance", "toleranse", "10: defaults.reference.toleranse"),
        ("    2 ]", "    nan ]", "14: experiment[0].parameters.length[1]"),
        ('"mass"', '"mas"', "14: experiment[0].parameters.mas"),
        ("q_qdot", "qdot", "18: experiment[0].integrators[1].formulation"),
        ('"variational" ]', '"variationl" ]', "19: experiment[0].integrators[2]"),
        ("2.5", '"["', "27: experiment[0].scan.gravity[1]"),
        ("samples = 2", "samples = 2e2", "32: experiment[1].samples"),
        ("[0.0, 0.0", "[0.0, inf", "37: experiment[1].parameters.axis[1]"),
    ],
)
def test_lines_of_keys_in_all_layouts(written, instead, where, newline):
    assert LAID_OUT.count(written) == 1
    assert [len(table) for table in tables_of(LAID_OUT)] == [6, 1]
    found = problems(LAID_OUT.replace(written, instead).replace("\n", newline))[0]
    assert found.startswith(f"s.toml:{where}: ")


def test_integrators_that_fit_are_listed_once():
    write(one_experiment(integrators='["splitting", "exact", "rk4"]'))
    with pytest.raises(errors.StudyError) as caught:
        sweep.load_study("s.toml")
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


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"step_sizes": "0.1", "step_size": None}, "Did you mean 'step_size'?"),
        ({"step_size": None}, "integrators[0]: there is no 'step_size'"),
        ({"integrators": '["rk45", "dop853"]', "step_size": "0.03"}, "step_size: …0.03 does not"),
        ({"integrators": '["rk45", "dop853"]', "tolerance": None}, "for integrators with a fixed"),
        (
            {"step_size": "[0.03, 0.1, 0.07, 0.031]", "duration": "1.0", "samples": "10"},
            ".step_size: …3 of 4 step sizes do not…are [0.03333333333, 0.1]",
        ),
        (
            {"step_size": "[0.03, 0.7, 0.1]", "duration": "2.0", "samples": "4"},
            ".step_size: …2 of 3 step sizes do not…are [0.02941176471, 0.5, 0.1]",
        ),
    ],
)
def test_one_wrong_step_size_gives_one_message(changes, said):
    (found,) = problems(one_experiment(**changes))
    assert all(part in found for part in said.split("…"))
    if "nearest that do are [" in found:  # advice that can be followed
        tables_of(one_experiment(**changes | {"step_size": found[found.rindex("[") :]}))


def test_a_step_size_of_the_defaults_is_told_once():
    text = one_experiment(step_size=None).replace("[[", "[defaults]\nstep_size = 0.03\n[[", 1)
    other = (
        text[text.index("[[") :].replace('"only"', '"other"').replace("duration = ", "duration = 1")
    )
    assert len(problems(text + other)) == 1


def test_a_mistake_in_the_defaults_is_reported_once():
    text = FULL.replace('"every_step"', "1").replace('statistics = "none"\n', "")
    assert len(problems(text)) == 1


def test_a_wrong_duration_is_not_told_of_the_reference_besides():
    changes = {"duration": "-1", "reference": '{ integrator = "dop853" }'}
    (found,) = problems(one_experiment(**changes))
    assert "experiment[0].duration: expected a positive" in found
    both = "\n".join(problems(one_experiment(samples='"ten"', **changes)))
    assert found in both and "experiment[0].samples: " in both and both.count("\n") == 1


def test_missing_keys():
    for key, found in zip(("format", "name", "experiment"), problems(""), strict=True):
        assert found.startswith("s.toml:1: ") and f"'{key}'" in found and "missing" in found
    assert "'system'" in problems(one_experiment(system=None))[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FULL.replace("reference = { ", "reference = {\n"), "31: experiment[0].reference: …inline"),
        (
            FULL.replace("{ count = 2,", "{ count = 2, # two\n"),
            "13: experiment[0].parameters: …inl",
        ),
        (FULL.replace("samples = 100", "samples = 100.0.0"), "30: …not valid TOML"),
        (FULL.replace("    ],", "    ],\n", 1), "24: experiment[0].initial_condition[2]: …inline"),
        ("a = {", "…not valid TOML"),
        ("b = 1\na = [1,\n2\n", "3: …at the end of file, where the '[' of line 2 is still open"),
        ("a = 1\na = 2\n", "2: …not valid TOML"),
        ("a = " + "[" * 100_000, "1: …nested too deeply"),
        ("a = 1" + "0" * 5000, "…not valid TOML"),
    ],
)
def test_syntax_errors_are_explained(text, message):
    (found,) = problems(text)
    start, word = message.split("…")
    assert found.startswith(f"s.toml:{start}") and word in found


def test_load_a_file_or_a_packaged_study(here):
    file = here / "mine.toml"
    file.write_bytes(b"\xef\xbb\xbf" + one_experiment().replace("\n", "\r\n").encode())
    assert sweep.load_study(file).name == sweep.load_study("mine.toml").name == "test"
    assert sweep.load_study("quickstart").name == "quickstart"
    file.rename("quickstart")
    assert sweep.load_study("quickstart").name == "test"
    with pytest.raises(errors.StudyError, match="no packaged study of that name.*'quickstart'"):
        sweep.load_study("quikstart")


def _refuse(*arguments):
    raise PermissionError(13, "Permission denied")


def test_what_cannot_be_loaded(here, monkeypatch):
    for name, said in (
        (None, "expected a study, the path of its file or the name of a packaged one, got None"),
        (here, "is a directory"),
        ("none.toml", "there is no such file"),
        ("a" * 10_000, "cannot be read"),
    ):
        with pytest.raises(errors.StudyError, match=said):
            sweep.load_study(name)
    (here / "latin.toml").write_bytes(b"format = 1\nname = '\xe9'\n")
    with pytest.raises(errors.StudyError, match=r"latin.toml:2: is not UTF-8 text"):
        sweep.load_study("latin.toml")
    monkeypatch.setattr("os.open", _refuse)
    with pytest.raises(errors.StudyError, match="cannot be read: Permission denied"):
        sweep.load_study("latin.toml")

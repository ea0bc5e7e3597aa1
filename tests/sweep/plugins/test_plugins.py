"""Plugins: what they add to a study, and what is refused of them."""

import hashlib
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from plugin_text import BEAD, DAMPED, DAMPED_STUDY, FORCE, INTEGRATORS, STUDY, edited, write
from scipy.integrate import simpson
from study_text import one_experiment

import integrators
import sweep
import systems
from integrators.plugin import LiePoissonHamiltonian, get, kernel, put, scale
from sweep import errors
from sweep.plugins import BUILT_IN
from sweep.plugins.system_checks import check_gradient

# The study with a built-in integrator, so that none of the plugin's own is measured.
SIMPLE = edited(INTEGRATORS, '"rk4"', STUDY)


def problems(directory, text=BEAD, study_text=SIMPLE):
    path = write(directory, text, study_text)
    with pytest.raises(errors.StudyError) as caught:
        sweep.load_study(path)
    return str(caught.value).replace(str(directory), "DIRECTORY").splitlines()


def library(directory, text=BEAD, study_text=None):
    """What a study can name that has the plugin, and does not use it unless its text is given."""
    plain = one_experiment(integrators='"rk4"').replace("[[exp", 'plugins = ["bead.py"]\n[[exp')
    return sweep.load_study(write(directory, text, study_text or plain)).library


PRECISE = edited('"rk4"', '{ name = "rk4", arithmetic = "double-double" }', SIMPLE)
UNLIKE = (
    ("[[1.0, 0, 0], [0, 0, 1.0]]", "[[0.6, 0, 0.8], [0, 1.0, 0]]"),
    ("out[0, 0] = y[0, 2]", "out[0, 0] = np.cosh(y[0, 2])"),
)


def test_numbers_in_doubles_only_are_refused_in_double_double(tmp_path):
    text = edited("np.array([self.stiffness])", "np.array([0.1 * self.stiffness])")
    (found,) = problems(tmp_path, text, PRECISE)
    assert "arithmetic: 'rk4' on 'bead' has numbers in double precision only: 0.1 " in found


@pytest.mark.slow
def test_what_has_doubles_only_is_refused_in_double_double(tmp_path):
    assert sweep.load_study(write(tmp_path, study=PRECISE)).name == "bead"
    text = BEAD
    for before, after in UNLIKE:
        text = edited(before, after, text)
    start, observable = problems(tmp_path, text, PRECISE)
    assert "start 'level' of bead is made in double precision only: 0.6 " in start
    assert "has 'height', which does not compile for double-double: line 33: TypingE" in observable


@pytest.mark.slow
def test_what_tangents_lack_is_refused_where_steps_are_taken_with_them(tmp_path):
    """Adaptive runs are in double precision alone, in which functions of NumPy compile too."""
    study = re.sub(r"(?m)^(scan|integrators|step_size|reference) = .*\n", "", STUDY).replace(
        ', "momentum", "height"]', ']\nintegrators = "rk45"\ntolerance = 1e-6'
    )
    before = "    out[0, 2] = -p[0] * (1.0 - q[0, 2])"
    text = edited(before, f"{before} / np.cosh(0.0 * q[0, 2])")
    assert sweep.load_study(write(tmp_path, text, study)).name == "bead"
    (found,) = problems(tmp_path, text, study.replace('"energy"', '"energy", "lyapunov"'))
    assert "has 'potential_gradient', which does not compile for tangents: line 28: " in found
    assert "there is no cosh(tangents); expected plain arithmetic" in found


def test_the_library_of_a_study(tmp_path, called):
    study = edited(INTEGRATORS, '"ralston"', STUDY)
    found = library(tmp_path, study_text=study)
    (facts,) = json.loads(called(tmp_path, "check", "bead.toml", "--json").stdout)
    (plugin,) = facts["plugins"]
    assert plugin["sha256"] == hashlib.sha256((tmp_path / "bead.py").read_bytes()).hexdigest()
    assert plugin["adds"] == ["system bead", "integrator ralston", "observable height"]
    bead = found.system("bead", {"stiffness": 4.0})
    names = [quantity.name for quantity in found.quantities(bead)]
    assert names == [
        "energy", "unit_length", "tangency", "conjugate_momentum", "momentum", "height",
    ]  # fmt: skip
    assert [quantity.name for quantity in BUILT_IN.quantities(bead)] == names[:-1]
    ralston = found.integrator("ralston+projected", {})
    assert ralston.order == 2
    ralston.check(bead)
    with pytest.raises(systems.InputError, match=r"unknown system 'bead'"):
        systems.get("bead")  # nothing is registered


def test_a_force_of_a_plugin_acts(tmp_path):
    """The energy falls by the work of the force, and their balance is constant."""
    air = library(tmp_path, FORCE)
    system = air.system("bodies_in_air", {"drag": 0.2})
    run = integrators.integrate(
        system, integrators.get("variational+kahan_li6"), system.start("lee"),
        step_size=5e-3, duration=1.0, samples=20,
    )  # fmt: skip
    n, work = system.bodies, run.states[:, -1, 0]
    speeds = np.linalg.norm(run.states[:, n : 2 * n], axis=2)
    power = -0.2 * np.sum(speeds**3, axis=1)
    assert work[-1] == pytest.approx(simpson(power, x=run.times), rel=1e-4)
    assert np.all(np.diff(work) < 0.0)
    with pytest.raises(systems.InputError, match="already, as where it has a damping"):
        _ = air.system("bodies_in_air", {"damping": 0.1}).form


AIR_STUDY = one_experiment(system='"bodies_in_air"').replace(
    "[[experiment]]", 'plugins = ["bead.py"]\n[[experiment]]'
)


def test_a_force_that_leaves_a_row_unwritten_is_refused(tmp_path):
    (line,) = problems(tmp_path, edited("range(q.shape[0])", "range(1)", FORCE), AIR_STUDY)
    assert "the force on 'bodies_in_air'" in line and "leaves a row unwritten" in line


@pytest.mark.slow
def test_a_controller_that_reads_beyond_its_values_is_refused(tmp_path):
    study = DAMPED_STUDY.replace("[14.0, 1.0, 0.1]", "[14.0, 1.0]").replace("damped.py", "bead.py")
    (line,) = problems(tmp_path, DAMPED, study)
    assert re.search(r"'moment_[12]' of 'damped_payload' is NaN at a start, or leaves", line)


@pytest.mark.slow
def test_a_controller_of_ones_own_steers_the_quadrotors(tmp_path, cluster):
    (tmp_path / "damped.py").write_text(DAMPED)
    (tmp_path / "damped.toml").write_text(DAMPED_STUDY)
    store = tmp_path / "damped.zarr"
    assert sweep.run(tmp_path / "damped.toml", store, cluster).complete
    runs = sweep.open_study(store)["brakes"].to_dataset()
    assert (runs["status"] == 0).all() and runs.sizes["run"] == 2
    speed = np.linalg.norm([runs[f"load_position_{x}"].diff("time") for x in "xyz"], axis=0)
    weak, strong = speed[:, -1]
    assert strong < 0.8 * weak
    force = np.stack([runs[f"force_1_{x}"].isel(time=0) for x in "xyz"], axis=-1)
    np.testing.assert_allclose(force, [[0.0, 0.0, -14.0]] * 2)  # the load is at rest
    moment = np.stack([runs[f"moment_1_{x}"].isel(time=0) for x in "xyz"], axis=-1)
    np.testing.assert_allclose(moment, -0.1 * np.array([[0.3, -0.2, 0.5]] * 2))
    assert abs(runs["energy_balance_error"]).max() < 1e-6 < 1.0 < abs(runs["energy"]).max()


def test_an_adaptive_integrator_of_a_plugin_counts_steps(tmp_path):
    text = """
import dataclasses
from integrators.plugin import named
INTEGRATORS = [dataclasses.replace(named("rkmk54")[0], name="mine54")]
"""
    mine = library(tmp_path, text)
    counting = mine.integrator("rkmk5", {"steps_of": "mine54"})
    assert counting.adaptive and counting.counted.name == "mine54"
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert mine.hashes(None, "rkmk5+x", {"steps_of": "mine54"}) == {"integrator mine54": digest}
    assert mine.hashes("bead", "rkmk5", {}) == {}
    with pytest.raises(systems.InputError, match=r"Did you mean 'mine54'\?"):
        mine.integrator("rkmk5", {"steps_of": "mine55"})


def test_runs_are_told_apart_by_the_source_of_what_they_use(tmp_path, cluster):
    """By its hash, whatever its file is called, and not those that use nothing of it."""
    plugin = """
import dataclasses
from integrators.plugin import named
INTEGRATORS = [dataclasses.replace(named("rk4")[0], name="mine")]
"""
    text = one_experiment(integrators='["mine", "rk4"]', initial_condition='"lee"')
    found = []
    for name, source in (("a", plugin), ("b", plugin + "# edited\n"), ("renamed", plugin)):
        (tmp_path / f"{name}.py").write_text(source)
        file = tmp_path / f"{name}.toml"
        file.write_text(text.replace("[[exp", f'plugins = ["{name}.py"]\n[[exp'))
        assert sweep.run(file, tmp_path / f"{name}.zarr", cluster).complete
        runs = sweep.open_study(tmp_path / f"{name}.zarr")["only"].to_dataset()
        found.append(
            [runs.query(run=f"integrator == '{of}'")["run_id"].values.tolist() for of in
             ("mine", "rk4")]
        )  # fmt: skip
    (mine, rk4), (edited_mine, same), renamed = found
    assert not {*mine} & {*edited_mine} and same == rk4 and renamed == [mine, rk4]


def test_an_edited_plugin_is_compiled_again_in_the_same_process(tmp_path):
    values = []
    for factor in ("0.5", "1.5", "0.5"):
        text = edited("0.5 * p[0]", f"{factor} * p[0]")
        bead = library(tmp_path, text).system("bead", {})
        state = np.array([[1.0, 0.0, 0.0]])
        values.append(bead.form.potential.scalar(0.0, state, np.ones(1)))
    assert values == [0.5, 1.5, 0.5]


def test_a_module_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "beads_of_mine.py").write_text(BEAD)
    monkeypatch.syspath_prepend(tmp_path / "library")
    named = one_experiment(integrators='"ralston"', step_size="0.1")
    named = named.replace("[[exp", 'plugins = ["beads_of_mine"]\n[[exp')
    (table,) = sweep.check(write(tmp_path, "", named))[1]
    assert set(table.to_dataframe()["integrator"]) == {"ralston"}


OWN = 'INTEGRATORS = (explicit_method("ralston", "Ralston\'s method", 2, RALSTON),)'


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("import numpy as np\n", "import numpy as np as\n", "cannot be imported: line 6: invalid"),
        ("import numpy as np\n", "import no_such\n", r"line 6: ModuleNotFoundError: No module nam"),
        ("RALSTON = ", "1 / 0\nRALSTON = ", "line 59: ZeroDivisionError: division by zero"),
        ("RALSTON = ", "raise SystemExit(3)\nRALSTON = ", "line 59: SystemExit: 3"),
        ("order=2", "order=3", "line 59: InputError: order = 3: the method with the weights b has"),
        ("SYSTEMS = (Bead,)", "SYSTEMS = Bead", "SYSTEMS = .*Bead'>; expected a tuple of classes"),
        ("SYSTEMS = (Bead,)", "SYSTEMS = (Bead(),)", r"has Bead\(.*; expected classes of systems"),
        (OWN, "INTEGRATORS = ('rk4',)", "INTEGRATORS has 'rk4'; expected methods, each an int"),
        ('"ralston", "R', '"ral+ston", "R', r"has the name 'ral\+ston'; expected a letter, then"),
        ('    name = "bead"\n', "", "the system Bead has no name; expected a text, name = …"),
        ("@dataclass(frozen=True)\n", "", "the system Bead is no dataclass; expected @dataclass"),
        ('{"stiffness": "1"}', '{"k": "1"}', "units = {'k': '1'}; expected a dict with keys of"),
        ("def form(self):", "def form_(self):", "the system Bead lacks form"),
        ("(self.form, self.units, mom", "(self.form, mom", "cannot make .* line 56: TypeE"),
        ('name = "bead"', 'name = "heavy_top"', "adds the system 'heavy_top', which is built in"),
        ('("ralston", ', '("rk4", ', "adds the integrator 'rk4', which is built in; expected a na"),
        ('systems=("bead", "sph', 'systems=("bed", "sph', r"unknown system .* Did you mean 'bead'"),
        ('name="height"', 'name="momentum"', "adds the observable 'momentum', and 'bead' has 'mo"),
        ('name="height"', 'name="stiffness"', "adds the observable 'stiffness', and 'bead' has"),
        ("-p[0]", "p[0]", "potential_gradient of 'bead' is .* along a direction in which the diff"),
        ("-p[0]", "-q", "fails with the system 'bead': line 28: TypingError"),
        (
            "-p[0]", "-math.sqrt(p[0])",
            r"line 28, in '\w+': TypingError: there is no math; expected plain arithmetic"
            r".*, and parameters as p\[0\], p",
        ),
        (
            "-p[0]", "(0.0 * np.tanh(q[0, 0]) - p[0])",
            r"has 'potential_gradient', which does not compile for lanes: line 28: .* there is no "
            r"tanh\(lane\); expected plain arithmetic",
        ),
        ("out[0, 1] = 0.0\n", "out[1, 1] = 0.0\n", "writes beyond the 3 numbers of its 'out'"),
        ("out[0, 0] = y[0, 2]", "out[0, 1] = y[0, 2]", "'height' of 'bead' is NaN at a start, or"),
    ],
)  # fmt: skip
def test_a_plugin_that_cannot_be_used(tmp_path, before, after, message):
    found = problems(tmp_path, edited(before, after))
    assert len(found) == 1
    assert re.search(message, found[0]), found[0]
    assert re.match(r"DIRECTORY/bead.toml:\d+: (plugins\[0\]|experiment\[0\]\.\w+): ", found[0])
    assert "bead" in found[0]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            '["away.py"]',
            "plugins[0]: there is no file 'away.py' in DIRECTORY; expected the path of",
        ),
        ('["bead"]', "plugins[0]: there is no module 'bead'; expected the name of an importable"),
        ('["sweep"]', "plugins[0]: 'sweep' is a package; expected a module of one file"),
        ('["./"]', "plugins[0]: './' cannot be read: Is a directory"),
        ('["bead.py", "bead.py"]', "plugins[1]: the plugin 'bead.py' is also that of DIRECTORY/be"),
        ('["bead.py", "copy.py"]', "adds the system 'bead', which is added by 'bead.py'; expected"),
        ('["empty.py"]', "plugins[0]: plugin 'empty.py' exports nothing; expected one of SYSTEMS"),
        ('["latin.py"]', "plugins[0]: 'latin.py' is no UTF-8 text, in line 2"),
        ('"bead.py"', "plugins: expected an array, got a string: 'bead.py'"),
        ("[3]", "plugins[0]: expected a string that is not empty, got an integer: 3"),
    ],
)
def test_plugins_that_cannot_be_read(tmp_path, value, message):
    (tmp_path / "copy.py").write_text(BEAD + "# another\n")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "latin.py").write_bytes("#\n# ä".encode("latin-1"))
    found = problems(tmp_path, study_text=STUDY.replace('["bead.py"]', value))
    assert len(found) == 1  # what depends on the plugins is not complained about
    assert found[0].startswith("DIRECTORY/bead.toml:3: plugins") and message in found[0]
    if value == '["bead"]':
        assert found[0].endswith("Did you mean 'bead.py'?")


@pytest.mark.parametrize("name", ["spherical_pendulum_chain", "free_rigid_body", "point_vortices"])
def test_the_check_of_gradients_finds_no_fault_with_built_in_systems(name):
    system = systems.get(name)
    off = check_gradient(system, system.ensemble(2, seed=0))
    assert off is None or off < 1e-9


def test_the_gradient_on_a_dual_algebra_is_compared_in_all_directions():
    top = systems.get("heavy_top", formulation="lie_poisson")
    states = top.ensemble(2, seed=0)
    assert check_gradient(top, states) < 1e-7
    wrong = LiePoissonHamiltonian(top.form.hamiltonian, nothing, top.form.parameters)
    with pytest.raises(errors.InputError, match="nothing of 'top' is 0 along a direction in which"):
        check_gradient(SimpleNamespace(form=wrong, name="top"), states)


@kernel()
def nothing(t, y, p, out, work):
    """Zeros."""
    for i in range(y.shape[0]):
        put(out, i, scale(0.0, get(y, i)))

"""What installed distributions add by entry points; and plots of plugins."""

import dataclasses
import hashlib
import json

import pytest
from distributions import INSTALLED, NAMED, PLOTS, POINTS, distribute
from plugin_text import INTEGRATORS, edited, write
from study_text import one_experiment

import sweep
from sweep import errors
from sweep.plots import picture
from sweep.plugins import BUILT_IN, Library, with_installed_plugins

SIMPLE = edited(INTEGRATORS, '"ralston"', INSTALLED)
BUILT_IN_STUDY = one_experiment(integrators='"rk4"')


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a distribution on the path: ``install(name, …)``, as `distribute`."""

    def put(name, *arguments, **options):
        directory = tmp_path / f"site-{name}"
        module = distribute(directory, name, *arguments, **options)
        monkeypatch.syspath_prepend(directory)
        return directory / f"{module}.py"

    return put


@pytest.fixture
def check(tmp_path):
    """The data frame of the first experiment of a study's text: ``check(text)``."""

    def read(text):
        (tmp_path / "installed.toml").write_text(text)
        return sweep.check(tmp_path / "installed.toml")[1][0].to_dataframe()

    return read


# --- studies ---------------------------------------------------------------------------------


def test_a_study_names_what_is_installed(install, check, called, tmp_path):
    file = install("beads")
    assert "ralston" in set(check(SIMPLE)["integrator"])
    facts = json.loads(called(tmp_path, "show", "system", "bead", "--json").stdout)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert facts["from"] == (
        f"the entry point 'bead' (geosweep.systems) of beads 1.0, sha256 {digest}"
    )


def test_of_a_package_all_source_counts(install, called, tmp_path):
    file = install("beads", points={"systems": "bead = PACKAGE.inner:Bead"}, module="unused")
    package = file.parent / "beads_in_a_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text(NAMED)
    points = file.parent / "beads-1.0.dist-info" / "entry_points.txt"
    points.write_text(points.read_text().replace("PACKAGE", package.name))
    facts = json.loads(called(tmp_path, "show", "system", "bead", "--json").stdout)
    assert len(facts["from"].partition("sha256 ")[2]) == 64
    assert hashlib.sha256(NAMED.encode()).hexdigest() not in facts["from"]


def test_built_in_names_load_nothing(install, check):
    install("broken", "1 / 0\n")
    install("clashing", points={"systems": "bead = MODULE:Bead"})
    assert len(check(BUILT_IN_STUDY)) == 6


def test_a_plugin_comes_before_what_is_installed(install, tmp_path):
    install("beads", "1 / 0\n")
    assert sweep.load_study(write(tmp_path)).name == "bead"


def test_observables_are_recorded_where_they_are_named(install, tmp_path, called):
    """A constant of the motion is, too, which built-in ones are where nothing is said."""
    text = edited(
        'long_name="height of the first body",', 'kind="casimir", long_name="one",', NAMED
    )
    squared = "= " + " + ".join(f"y[0, {c}] * y[0, {c}]" for c in range(3))
    install("beads", edited("= y[0, 2]", squared, text))
    named = one_experiment(integrators='"rk4"', record='["height"]', name='"first"')
    other = one_experiment(integrators='"rk4"', name='"other"').partition("[[")
    (tmp_path / "s.toml").write_text(named + "".join(other[1:]))
    first, second = json.loads(called(tmp_path, "show", "study", "s.toml", "--json").stdout)
    assert first["record"] == ["height"] and "height" not in second["record"]


@pytest.mark.parametrize(
    ("text", "points", "message"),
    [
        ("1 / 0\n", {}, r"\(geosweep.systems\) of mine 1.0 cannot be loaded: line 1: ZeroDivisio"),
        ("import no_such\n", {}, "cannot be loaded: line 1: ModuleNotFoundError: No module named"),
        ("", {}, "cannot be loaded: AttributeError: module .* has no attribute 'Bead'"),
        ("Bead = 3\n", {}, "of mine 1.0 has 3; expected classes of systems, subclasses of systems"),
        (edited('name = "bead"', 'name = "pearl"', NAMED), {}, "names 'pearl'; expected the same"),
        (edited("@dataclass(frozen=True)\n", "", NAMED), {}, "the system Bead is no dataclass"),
        (NAMED, {"systems": "heavy_top = MODULE:Bead"}, "'heavy_top' .* of mine 1.0 has the name "
         "of what is built in"),
        (NAMED, {"systems": "my-bead = MODULE:Bead"}, "has the name 'my-bead'; expected a letter"),
        (NAMED, {"integrators": "rk4 = MODULE:RALSTONS"}, "'rk4' .* has the name of what is built"),
        (NAMED, {"observables": "energy = MODULE:HEIGHT"}, "'energy' .* has the name of what is b"),
        (edited("-p[0]", "p[0]", NAMED), {}, "potential_gradient of 'bead' is .* along a direct"),
    ],
)  # fmt: skip
def test_what_cannot_be_used(install, check, text, points, message):
    install("mine", text, POINTS | points)
    with pytest.raises(errors.StudyError, match=message):
        check(SIMPLE)


def test_two_distributions_with_one_name(install, check):
    install("first")
    install("second")
    message = r"of (first|second) 1.0 has the name of the entry point 'bead' .* of (fi|se)"
    with pytest.raises(errors.StudyError, match=message):
        check(SIMPLE)


# --- workers ---------------------------------------------------------------------------------


def test_another_version_or_none_on_a_worker(install):
    file = install("beads")
    library = with_installed_plugins(BUILT_IN, "system", ["bead"])
    (one,) = library.installed
    assert library.system("bead", {"stiffness": 4.0}).stiffness == 4.0
    other = Library(installed=(dataclasses.replace(one, hash="0" * 64),))
    with pytest.raises(ValueError, match="of beads 1.0 has other source here, .* every worker"):
        other.system("bead", {})
    (file.parent / "beads-1.0.dist-info" / "entry_points.txt").unlink()
    gone = Library(installed=(dataclasses.replace(one, hash="1" * 64),))
    with pytest.raises(ValueError, match="of beads 1.0 is not installed here; expected it on eve"):
        gone.system("bead", {})


def test_built_in_things_are_listed_without_it(install, called, tmp_path):
    install("mine", "1 / 0\n")
    assert called(tmp_path, "show", "system", "heavy_top").returncode == 0
    for arguments in (("ls", "systems"), ("ls", "plots"), ("show", "system", "bead")):
        done = called(tmp_path, *arguments)
        assert done.returncode == 2 and "of mine 1.0 cannot be loaded: line 1" in done.stderr
    assert "unknown system 'bed'" in called(tmp_path, "show", "system", "bed").stderr


# --- plots -----------------------------------------------------------------------------------


DRAWING = PLOTS.replace('"height"', '"energy"')
DRAWN = one_experiment(integrators='"rk4"').replace("[[exp", 'plugins = ["draws.py"]\n[[exp')


def write_plots(home, text=DRAWING):
    (home / "draws.py").write_text(text)
    (home / "drawn.toml").write_text(DRAWN)
    return home / "drawn.toml"


@pytest.fixture
def drawn(cluster, tmp_path, monkeypatch):
    """A store whose plugin, which its user has not approved, brings a plot."""
    assert sweep.run(write_plots(tmp_path), tmp_path / "drawn.zarr", cluster).complete
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    return tmp_path / "drawn.zarr"


def test_plots_of_a_plugin_take_consent(drawn, called):
    home = drawn.parent
    done = called(home, "plot", "heights", drawn, "-o", "heights.svg")
    assert done.returncode == 2 and "unknown kind of plot 'heights'" in done.stderr
    assert called(home, "plan", drawn, "--trust-plugins").returncode == 0
    assert called(home, "plot", "heights", drawn, "-o", "heights.svg").returncode == 0
    assert "heights" in called(home, "ls", "plots", "--study", drawn).stdout


def test_a_plot_that_fails_says_in_which_line(tmp_path, drawn):
    failing = edited('dataset["energy"]', 'dataset["enrgy"]', DRAWING)
    (kind,) = sweep.load_study(write_plots(tmp_path, failing)).library.plots
    message = r"plugin 'draws.py' cannot draw 'heights': line \d+: KeyE"
    with pytest.raises(ValueError, match=message):
        picture(kind, sweep.open_study(drawn)["only"].to_dataset())


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('PlotKind("heights"', 'PlotKind("a b"', "PLOTS has the name 'a b'; expe"),
        ('(PlotKind("heights", heights),)', "(heights,)", "PLOTS has <function"),
        ('PlotKind("heights"', 'PlotKind("order"', "adds the plot 'order', which is built in"),
    ],
)
def test_plots_that_are_refused(tmp_path, called, before, after, message):
    write_plots(tmp_path, edited(before, after, DRAWING))
    done = called(tmp_path, "ls", "plots", "--study", "drawn.toml")
    assert done.returncode == 2 and "plugin 'draws.py'" in done.stderr and message in done.stderr

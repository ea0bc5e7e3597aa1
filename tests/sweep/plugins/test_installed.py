"""What installed distributions add by entry points; and plots of plugins."""

import dataclasses
import hashlib
import pickle

import pytest
from distributions import INSTALLED, NAMED, POINTS, distribute
from plugin_text import STUDY, edited, write

import sweep
from sweep import errors
from sweep.plots import KINDS, picture
from sweep.plugins import approvals
from sweep.plugins.loader import Plugin
from sweep.plugins.registry import BUILT_IN, Library, with_installed_plugins
from sweep.store import studies
from sweep.study.run_table import expand_experiment

BUILT_IN_STUDY = """format = 1
name = "plain"
[[experiment]]
name = "chain"
system = "spherical_pendulum_chain"
integrators = ["rk4"]
step_size = 0.1
initial_condition = "lee"
duration = 1.0
samples = 10
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a distribution on the path: ``install(name, …)``, as `distribute`."""

    def put(name, *arguments, **options):
        directory = tmp_path / f"site-{name}"
        module = distribute(directory, name, *arguments, **options)
        monkeypatch.syspath_prepend(directory)
        return directory / f"{module}.py"

    return put


def refused(text, match):
    with pytest.raises(errors.StudyError, match=match):
        studies.parse_study(text)


# --- studies ---------------------------------------------------------------------------------


def test_a_study_names_what_is_installed(install):
    file = install("beads")
    loaded = studies.parse_study(INSTALLED)
    assert loaded.library == BUILT_IN
    (spring,) = loaded.experiments
    assert [one.in_words for one in spring.library.installed] == [
        f"the entry point {name!r} (geosweep.{kind}s) of beads 1.0"
        for kind, name in (("system", "bead"), ("integrator", "ralston"), ("observable", "height"))
    ]
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert spring.plugin_hashes() == {"system bead": digest, "observable height": digest}
    assert pickle.loads(pickle.dumps(spring.library)) == spring.library


def test_ids_have_the_hash_of_the_source_in_them(install, tmp_path, monkeypatch):
    ids = []
    for text in (NAMED, NAMED, NAMED + "# edited\n"):
        with monkeypatch.context():
            file = install(f"beads{len(ids)}", text)
            ids.append(
                expand_experiment(studies.parse_study(INSTALLED).experiments[0]).run_id.tolist()
            )
            (file.parent / f"beads{len(ids) - 1}-1.0.dist-info" / "entry_points.txt").unlink()
    assert ids[0] == ids[1] and not set(ids[0]) & set(ids[2])
    plugin = studies.load_study_file(write(tmp_path, NAMED)).experiments[0]
    assert expand_experiment(plugin).run_id.tolist() == ids[0]  # the same source is the same run


def test_of_a_package_all_source_counts(install):
    file = install("beads", points={"systems": "bead = PACKAGE.inner:Bead"}, module="unused")
    package = file.parent / "beads_in_a_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text(NAMED)
    points = file.parent / "beads-1.0.dist-info" / "entry_points.txt"
    points.write_text(points.read_text().replace("PACKAGE", package.name))
    (one,) = with_installed_plugins(BUILT_IN, "system", ["bead"]).installed
    assert one.hash != hashlib.sha256(NAMED.encode()).hexdigest()
    assert one.systems[0].name == "bead"


def test_built_in_names_load_nothing(install):
    install("broken", "1 / 0\n")
    install("clashing", points={"systems": "bead = MODULE:Bead"})
    assert studies.parse_study(BUILT_IN_STUDY).experiments[0].library == BUILT_IN


def test_a_plugin_comes_before_what_is_installed(install, tmp_path):
    install("beads", "1 / 0\n")
    loaded = studies.load_study_file(write(tmp_path))
    assert loaded.experiments[0].library == loaded.library


def test_observables_are_recorded_where_they_are_named(install):
    install("beads", edited('long_name="height of the first body",', 'kind="casimir",\n'
                            '        long_name="height",', NAMED))  # fmt: skip
    text = BUILT_IN_STUDY + 'record = ["height"]\n' + BUILT_IN_STUDY[BUILT_IN_STUDY.index("[[") :]
    named, other = studies.parse_study(text.replace('"chain"', '"first"', 1)).experiments
    assert named.record == ("height",)
    assert "height" not in other.record and other.library == BUILT_IN


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
def test_what_cannot_be_used(install, text, points, message):
    install("mine", text, POINTS | points)
    refused(INSTALLED, message)


def test_two_distributions_with_one_name(install):
    install("first")
    install("second")
    refused(
        INSTALLED, r"of (first|second) 1.0 has the name of the entry point 'bead' .* of (fi|se)"
    )


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


@pytest.fixture
def plugged(cluster, tmp_path, monkeypatch):
    """A store whose plugin, which its user has not approved, brings a plot."""
    write(tmp_path, NAMED)
    assert sweep.run(tmp_path / "bead.toml", tmp_path / "bead.zarr", cluster).complete
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    return tmp_path / "bead.zarr"


def test_plots_of_a_plugin_take_consent(plugged, called):
    home = plugged.parent
    done = called(home, "plot", "heights", plugged, "-o", "heights.svg")
    assert done.returncode == 2 and "unknown kind of plot 'heights'" in done.stderr
    assert "heights" not in called(home, "plot", plugged, "-o", "before").stdout
    approvals.approve_plugins([Plugin("bead.py", NAMED)])
    assert called(home, "plot", "heights", plugged, "-o", "heights.svg").returncode == 0
    assert "spring-heights.png" in called(home, "plot", plugged, "-o", "after").stdout
    assert "heights" in called(home, "ls", "plots", "--study", plugged).stdout


def test_plots_that_cannot_be_drawn(plugged):
    failing = edited('dataset["height"]', 'dataset["heigth"]', NAMED)
    (kind,) = Library((Plugin("bead.py", failing, trusted=True),)).plots
    with pytest.raises(ValueError, match=r"plugin 'bead.py' cannot draw 'heights': line \d+: KeyE"):
        picture(kind, sweep.open_study(plugged)["spring"].to_dataset())
    for text, message in (
        (edited('PlotKind("heights"', 'PlotKind("a b"', NAMED), "PLOTS has the name 'a b'; expe"),
        (edited('(PlotKind("heights", heights),)', "(heights,)", NAMED), "PLOTS has <function"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            _ = Plugin("bead.py", text, trusted=True).plots


def test_a_plugin_has_no_plot_that_is_built_in(plugged, called):
    text = edited('PlotKind("heights"', 'PlotKind("order"', NAMED)
    (plugged.parent / "clash.py").write_text(text)
    study = STUDY.replace("bead.py", "clash.py")
    (plugged.parent / "clash.toml").write_text(study)
    done = called(plugged.parent, "ls", "plots", "--study", "clash.toml")
    assert "plugin 'clash.py' adds the plot 'order', which is built in" in done.stderr
    assert KINDS["order"].error == "global_error"

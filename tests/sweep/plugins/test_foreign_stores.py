"""Somebody else's store: looking at it runs nothing, and computing with it only after consent.

Its plugin writes a file when its source is run. The store is computed by another process, so that
this one has not run the source before.
"""

import ast
import contextlib
import hashlib
import json
import os
import pickle
import re
import shutil
import stat

import numcodecs
import pytest
import zarr
from study_text import one_experiment

import integrators
import sweep

SOURCE = """
import dataclasses, pathlib
from integrators.plugin import named
pathlib.Path({ran!r}).touch()
INTEGRATORS = [dataclasses.replace(named("rk4")[0], name="mine")]
"""
STUDY = one_experiment(
    integrators='["mine", "rk4"]', initial_condition='"lee"', record='["energy", "megno", "state"]'
).replace("[[experiment]]", 'plugins = ["mine.py"]\n[[experiment]]')
STARTS = """format = 1
name = "second"
[[experiment]]
name = "on"
system = "spherical_pendulum_chain"
integrators = ["rk4"]
step_size = 0.1
initial_condition = { store = "foreign.zarr", where = "integrator == 'mine'", normalize = true }
duration = 1.0
samples = 10
"""

# --- the stores ------------------------------------------------------------------------------


def write(home, comment=""):
    """A study and its plugin, whose source differs with a comment; the plugin's digest."""
    (home / "mine.py").write_text(SOURCE.format(ran=str(home / "ran")) + comment)
    (home / "study.toml").write_text(STUDY)
    return hashlib.sha256((home / "mine.py").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def made(program, tmp_path_factory):
    """A directory with a store that nobody may approve in this process, its study and plugin."""
    home = tmp_path_factory.mktemp("made")
    write(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(home / "configuration"))
        program(home, "run", "study.toml", "foreign.zarr", "--no-summary", "--workers", 1)
    (home / "ran").unlink()
    return home


@pytest.fixture(scope="module")
def approvable(cluster, tmp_path_factory):
    """A directory with another store, whose plugin this process has run."""
    home = tmp_path_factory.mktemp("approvable")
    write(home, "# approvable\n")
    assert sweep.run(home / "study.toml", home / "foreign.zarr", cluster).complete
    return home


@pytest.fixture
def configuration(tmp_path, monkeypatch):
    """The configuration of a user who has never seen a plugin."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    return tmp_path / "configuration" / "geosweep"


@pytest.fixture
def place(made, tmp_path, configuration):
    """A directory with a copy of the store, for that user."""
    return copied(made, tmp_path)


@pytest.fixture
def trusting(approvable, tmp_path, configuration):
    """A directory with a copy of the store whose plugin may run."""
    return copied(approvable, tmp_path)


def copied(home, place):
    shutil.copytree(home / STORE, place / STORE)
    (place / "second.toml").write_text(STARTS)
    return place


@pytest.fixture
def ran(made):
    """Whether the plugin has run."""
    yield (made / "ran").exists
    assert not (made / "ran").exists()


@pytest.fixture
def digest(made):
    return hashlib.sha256((made / "mine.py").read_bytes()).hexdigest()


# --- commands --------------------------------------------------------------------------------

STORE, OTHER, MINE = "foreign.zarr", "other.zarr", "integrator == 'mine'"
READING = {
    "show study": ["show", "study", STORE],
    "show study as JSON": ["show", "study", STORE, "--json"],
    "show plugins": ["show", "plugins", STORE],
    "show plugins as JSON": ["show", "plugins", STORE, "--json"],
    "show plugins as files": ["show", "plugins", STORE, "--output", "restored"],
    "status": ["status", STORE],
    "status of failed": ["status", STORE, "--failures"],
    "summary": ["summary", STORE],
    "verify": ["verify", STORE],
    "query": ["query", STORE, "step_size > 0.01"],
    "order of an error": ["order", STORE, "--error", "energy_error"],
    "drift": ["drift", STORE],
    "chaos": ["chaos", STORE],
    "work": ["work", STORE, "--error", "energy_error"],
    "plot": ["plot", "energy", STORE, "-o", "energy.svg"],
    "report": ["report", STORE, "-o", "report.html", "--where", f"{MINE} and step_size == 0.1"],
    "atlas": ["atlas", STORE, "-o", "atlas"],
    "export": ["export", STORE, "out.nc"],
    "export of a table": ["export", STORE, "out.csv"],
    "cancel": ["cancel", STORE],
    "check of a study that goes on from it": ["check", "second.toml"],
    "run of a study that goes on from it": ["run", "second.toml", "--no-summary"],
}
COMPUTING = {
    "run": ["run", STORE, "--no-summary"],
    "retry": ["retry", STORE],
    "extend": ["extend", STORE, "--no-summary", "--duration", "2"],
    "decide": ["decide", STORE],
    "plan": ["plan", STORE],
    "recommend": ["recommend", STORE, "--energy-error", "1e-2", "--until", "1"],
    "verify --repair": ["verify", STORE, "--repair"],
    "merge": ["merge", STORE, OTHER, "-o", "both.zarr"],
    "ls": ["ls", "integrators", "--study", STORE],
    "show": ["show", "integrator", "mine", "--study", STORE],
    "submit": ["submit", STORE, "--scheduler", "SCHEDULER"],
}
ENDS_WITH = {"submit": 2, "verify --repair": 3}  # it asks for encryption; something was found
NO_STORE = {"init", "new", "schema", "reproduce", "guide"}
SERVING = {"serve"}  # until it is ended
SLOW = pytest.param("recommend", marks=pytest.mark.slow)


def test_every_command_is_asked(called, tmp_path):
    _, _, listed = called(tmp_path, "--help").stdout.partition("Begin:\n")
    asked = {arguments[0] for arguments in (*READING.values(), *COMPUTING.values())}
    assert asked | NO_STORE | SERVING == set(re.findall(r"(?m)^  ([a-z]+)", listed))


@pytest.mark.parametrize("name", READING)
def test_looking_at_a_store_runs_nothing(place, configuration, ran, called, name):
    done = called(place, *READING[name])
    assert done.returncode in (0, 2 if name == "cancel" else 0), done.stderr
    assert not ran()
    assert not configuration.exists()  # nor is anything approved


def test_looking_from_python_runs_nothing(place, ran):
    only = sweep.open_study(place / STORE)["only"].to_dataset()
    assert sweep.grid(only).sizes["integrator"] == 2
    sweep.query(only, "step_size > 0.01")
    assert sweep.order_table(only, error="energy_error")
    sweep.export(only, place / "out.parquet")
    assert not ran()


def prepared(place, name, cluster):
    """What the command needs; its arguments."""
    if name == "merge":
        shutil.copytree(place / STORE, place / OTHER)
    if name == "verify --repair":  # what is gone is written again from the study
        (place / STORE / "only" / "step_size" / "c.0").unlink()
    plain = cluster.scheduler.address.replace("tls", "tcp")
    return [plain if one == "SCHEDULER" else one for one in COMPUTING[name]]


@pytest.mark.parametrize("name", COMPUTING)
def test_computing_with_a_store_takes_consent(
    place, ran, called, fingerprint, digest, name, cluster
):
    arguments = prepared(place, name, cluster)
    before = fingerprint(place / STORE)
    refused = called(place, *arguments)
    assert refused.returncode == 2, refused.stderr
    (line,) = refused.stderr.splitlines()
    assert f"'mine.py' (sha256 {digest})" in line and "--trust-plugins approves it" in line
    assert "`sweep show plugins " in line
    assert not ran() and fingerprint(place / STORE) == before


@pytest.mark.parametrize("name", [SLOW if name == "recommend" else name for name in COMPUTING])
def test_computing_with_a_store_after_consent(trusting, called, name, cluster, monkeypatch):
    few = ["rk4", "rk2_heun"]  # to recommend: kernels of all would take long to compile
    monkeypatch.setattr(integrators, "names", lambda also=(): [*few, *(one.name for one in also)])
    arguments = prepared(trusting, name, cluster)
    done = called(trusting, *arguments, "--trust-plugins")
    assert done.returncode == ENDS_WITH.get(name, 0), done.stderr
    assert "sha256" not in done.stderr


def test_computing_from_python_takes_consent(place, ran, cluster):
    path = place / STORE
    shutil.copytree(path, place / OTHER)
    for call in (
        lambda: sweep.run(path, client=cluster),
        lambda: sweep.retry(path, client=cluster),
        lambda: sweep.plan(path),
        lambda: sweep.extend(path, integrators=["rk4"], client=cluster),
        lambda: sweep.merge([path, place / OTHER], place / "both.zarr"),
    ):
        with pytest.raises(ValueError, match="sha256") as told:
            call()
        assert "trust_plugins=True" in str(told.value)
        assert not ran()


def test_consent_from_python_is_remembered(trusting, cluster):
    path = trusting / STORE
    assert sweep.run(path, client=cluster, trust_plugins=True).complete
    assert sweep.retry(path, client=cluster) is None


class Opened:
    """Opens a file, which is made, when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_arrays_of_pickles_are_not_read(place, monkeypatch, called):
    """Those of Zarr v2 may be; metadata that are consolidated name them in a store of v3."""
    monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    root = place / STORE / "zarr.json"
    metadata = json.loads(root.read_text())
    del metadata["consolidated_metadata"]["seals"]
    metadata["consolidated_metadata"]["metadata"]["only/cpu_time"] = {
        "zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "|O", "fill_value": None,
        "order": "C", "filters": [{"id": "vlen-utf8"}], "compressor": {"id": "pickle"},
        "attributes": {"_ARRAY_DIMENSIONS": ["run"]}, "dimension_separator": ".",
    }  # fmt: skip
    root.write_text(json.dumps(metadata))
    (place / STORE / "only" / "cpu_time" / "0").write_bytes(pickle.dumps(Opened(place / "opened")))
    for arguments in READING.values():
        called(place, *arguments)
    with pytest.raises(ValueError, match="'only/cpu_time' is not of Zarr v3, which `sweep run` wr"):
        sweep.open_study(place / STORE)
    assert not (place / "opened").exists()
    with contextlib.suppress(TypeError):
        zarr.open_group(place / STORE, mode="r")["only/cpu_time"][:]
    assert (place / "opened").exists()  # that is what is at stake


# --- what is approved ------------------------------------------------------------------------


def test_a_study_of_ones_own_is_approved_by_running_it(approvable, trusting, called):
    for file in ("study.toml", "mine.py"):
        shutil.copy(approvable / file, trusting)
    assert called(trusting, "check", "study.toml").returncode == 0
    assert called(trusting, "plan", STORE).returncode == 2
    assert called(trusting, "run", "study.toml", STORE, "--no-summary").returncode == 0
    assert called(trusting, "plan", STORE).returncode == 0


def test_other_source_of_the_same_name_is_not_approved(trusting, ran, called):
    assert called(trusting, "plan", STORE, "--trust-plugins").returncode == 0
    root = zarr.open_group(trusting / STORE, mode="r+")
    kept = dict(root.attrs["plugins"])
    evil = "import pathlib\npathlib.Path('evil').touch()\n"
    kept["mine.py"] = kept["mine.py"] | {"source": evil + kept["mine.py"]["source"]}
    root.attrs["plugins"] = kept  # the hash beside it stays, and is not believed
    assert called(trusting, "plan", STORE).returncode == 2
    assert not (trusting / "evil").exists()


def test_a_module_that_a_store_names_is_not_imported(trusting, called, monkeypatch):
    """Neither is one that is on this machine read, nor a file."""
    (trusting / "module_of_mine.py").write_text("raise SystemExit('imported')")
    (trusting / "package_of_mine").mkdir()
    (trusting / "package_of_mine" / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(trusting)
    for name in ("module_of_mine", "package_of_mine.inner", "module_of_mine.py", "/etc/passwd"):
        root = zarr.open_group(trusting / STORE, mode="r+")
        root.attrs["studies"] = [STUDY.replace("mine.py", name)]
        done = called(trusting, "plan", STORE, "--trust-plugins")
        assert done.returncode == 2
        assert f"the store does not keep the source of the plugin {name!r}" in done.stderr
        assert called(trusting, "show", "study", STORE).returncode == 0


def test_the_text_that_is_shown_is_the_one_that_runs(tmp_path):
    """A first line that chooses another encoding would hide code in a comment."""
    hidden = "# coding: utf-7\n#+AAo-raise SystemExit('hidden')\nINTEGRATORS = ()\n"
    assert isinstance(ast.parse(hidden.encode()).body[0], ast.Raise)  # that is what is at stake
    study = one_experiment().replace("[[exp", 'plugins = ["hidden.py"]\n[[exp')
    (tmp_path / "study.toml").write_text(study)
    for text in (hidden, "\ufeffINTEGRATORS = ()\n"):
        (tmp_path / "hidden.py").write_text(text)
        assert sweep.load_study(tmp_path / "study.toml").name == "test"


def test_source_that_would_hide_itself_on_a_terminal_is_spelled_out(place, called):
    root = zarr.open_group(place / STORE, mode="r+")
    source = "evil()\x1b[1A\x1b[2K\r# \u202eharmless\nINTEGRATORS = ()\n"
    root.attrs["plugins"] = {"mine\x1b[2K.py": {"sha256": "", "source": source}}
    shown = called(place, "show", "plugins", STORE).stdout
    assert "evil()\\x1b[1A\\x1b[2K\\r# \\u202eharmless\nINTEGRATORS" in shown
    assert "\x1b" not in shown + called(place, "plan", STORE).stderr


# --- where it is kept ------------------------------------------------------------------------


def test_approvals_are_this_users_alone(trusting, configuration, called):
    def plan(*options):
        return called(trusting, "plan", STORE, *options)

    def shown(*options):
        return called(trusting, "show", "plugins", STORE, *options).stdout

    assert plan("--trust-plugins").returncode == 0
    file = configuration / "approved-plugins"
    (plugin,) = json.loads(shown("--json"))
    assert plugin["approved"] and file.read_text() == f'{plugin["sha256"]}  "mine.py"\n'
    assert [stat.S_IMODE(os.stat(path).st_mode) for path in (file, file.parent)] == [0o600, 0o700]
    assert plan("--trust-plugins").returncode == plan().returncode == 0  # it is remembered
    assert file.read_text().count("\n") == 1
    for path, mode in ((file, 0o666), (file.parent, 0o777)):
        kept = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode)
        done = plan()
        assert done.returncode == 2
        assert f"{path} may be written by others (mode {mode:o})" in done.stderr
        assert "not approved" in shown()
        done = plan("--trust-plugins")
        assert done.returncode == 0
        assert "Warning: the approval of plugins is not remembered" in done.stderr
        path.chmod(kept)
    file.chmod(0o644)  # others may know what is approved
    assert plan().returncode == 0


@pytest.mark.parametrize("value", ["", "relative"])
def test_approvals_are_in_the_home_without_xdg(trusting, called, monkeypatch, value):
    monkeypatch.setenv("HOME", str(trusting / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", value)
    assert called(trusting, "plan", STORE).returncode == 2
    assert called(trusting, "plan", STORE, "--trust-plugins").returncode == 0
    assert called(trusting, "plan", STORE).returncode == 0
    assert (trusting / "home" / ".config" / "geosweep" / "approved-plugins").exists()


def ended(called, place):
    """Whether a coordinator that was submitted is done, with all runs."""
    done = called(place, "status", STORE, "--json")
    return done.returncode == 0 and json.loads(done.stdout)["submission"] is None


def test_a_submitted_coordinator_approves_nothing(configuration, tmp_path, cluster, called, until):
    """It computes what it was sent; who submitted it has approved that, with his own files."""
    digest = write(tmp_path, "# submitted\n")
    sweep.submit(tmp_path / "study.toml", tmp_path / STORE, cluster)
    until(lambda: ended(called, tmp_path))
    assert digest in (configuration / "approved-plugins").read_text()
    for folder in cluster.run(os.environ.get, "XDG_CONFIG_HOME").values():
        assert digest not in "".join(
            file.read_text() for file in os.scandir(folder) if file.is_file()
        )


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([], "foreign.zarr: the plugins that it keeps cannot be read"),
        ({"a": 3}, "foreign.zarr: the plugins that it keeps cannot be read"),
        ({"a": {}}, "foreign.zarr: the plugins that it keeps cannot be read"),
        ({"a": {"source": "\ud800"}}, "foreign.zarr: the plugins that it keeps cannot be read"),
        ({"a.py": {"source": "#" * 1_000_001}}, "1,000,001 bytes"),
    ],
)
def test_plugins_that_are_none(place, called, found, words):
    file = place / STORE / "zarr.json"
    metadata = json.loads(file.read_text())
    metadata["attributes"]["plugins"] = found
    del metadata["consolidated_metadata"]["seals"]
    file.write_text(json.dumps(metadata))
    for arguments in (["show", "plugins", STORE], ["plan", STORE]):
        done = called(place, *arguments)
        assert done.returncode == 2 and words in done.stderr


def test_what_a_store_keeps(place, made, called, digest):
    (plugin,) = json.loads(called(place, "show", "plugins", STORE, "--json").stdout)
    assert (plugin["sha256"], plugin["approved"]) == (digest, False)
    called(place, "show", "plugins", STORE, "--output", "restored")
    assert (place / "restored" / "mine.py").read_bytes() == (made / "mine.py").read_bytes()

"""Somebody else's store: looking at it runs nothing, and computing with it only after consent.

Its plugin writes a file when its source is run.
"""

import ast
import contextlib
import hashlib
import json
import os
import pickle
import shutil
import stat
import sys

import numcodecs
import pytest
import zarr
from study_text import one_experiment

import sweep
from sweep.campaign import coordinator, extend, retry
from sweep.campaign.merge import merge
from sweep.cli.main import COMMANDS
from sweep.plugins import approvals, loader
from sweep.plugins.loader import Plugin
from sweep.reports.live.stores import Choice, OpenedStore
from sweep.store import studies
from sweep.store.store import Store

SOURCE = """
import dataclasses, pathlib
from integrators.plugin import named
pathlib.Path({ran!r}).touch()
INTEGRATORS = [dataclasses.replace(named("rk4")[0], name="mine")]
"""
STUDY = one_experiment(
    integrators='["mine", "rk4"]', initial_condition='"lee"', record='["energy", "megno"]'
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

# --- the store -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(cluster, tmp_path_factory):
    """A directory with the store, its study and plugin, and where that leaves its mark."""
    home = tmp_path_factory.mktemp("made")
    (home / "mine.py").write_text(SOURCE.format(ran=str(home / "ran")))
    (home / "study.toml").write_text(STUDY)
    assert sweep.run(home / "study.toml", home / "foreign.zarr", cluster).complete
    return home


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    """A directory with a copy of the store, for a user who has never seen its plugin."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    shutil.copytree(made / "foreign.zarr", tmp_path / "foreign.zarr")
    (tmp_path / "second.toml").write_text(STARTS)
    return tmp_path


@pytest.fixture
def ran(made):
    """Whether the plugin has run since it was asked last."""

    def ask():
        was = (made / "ran").exists()
        (made / "ran").unlink(missing_ok=True)
        _forget()
        return was

    ask()
    return ask


def _forget():
    """Let this process not remember the modules that it made of plugins."""
    loader._load_plugin_module.cache_clear()
    loader._exports_of_plugin.cache_clear()
    for name in [name for name in sys.modules if name.startswith("geosweep_plugin_")]:
        del sys.modules[name]


@pytest.fixture
def digest(made):
    return hashlib.sha256((made / "mine.py").read_bytes()).hexdigest()


# --- commands --------------------------------------------------------------------------------

STORE, OTHER = "foreign.zarr", "other.zarr"
READING = {
    "show study": ["show", "study", STORE],
    "show study as JSON": ["show", "study", STORE, "--json"],
    "show plugins": ["show", "plugins", STORE],
    "show plugins as JSON": ["show", "plugins", STORE, "--json"],
    "show plugins as files": ["show", "plugins", STORE, "--output", "restored"],
    "status": ["status", STORE],
    "status of failed": ["status", STORE, "--failed"],
    "failures": ["failures", STORE],
    "verify": ["verify", STORE],
    "query": ["query", STORE, "step_size > 0.01"],
    "order of an error": ["order", STORE, "--error", "energy_error"],
    "drift": ["drift", STORE],
    "chaos": ["chaos", STORE],
    "work": ["work", STORE, "--error", "energy_error"],
    "plot": ["plot", STORE, "-o", "figures"],
    "report": ["report", STORE, "-o", "report.html"],
    "export": ["export", STORE, "out.nc"],
    "export of a table": ["export", STORE, "out.csv"],
    "cancel": ["cancel", STORE],
}
COMPUTING = {
    "run": ["run", STORE, "--no-summary"],
    "retry": ["retry", STORE],
    "extend": ["extend", STORE, "--duration", "2"],
    "decide": ["decide", STORE, "--keep-duration"],
    "plan": ["plan", STORE],
    "recommend": ["recommend", STORE, "--energy-error", "1e-2", "--until", "1"],
    "verify --repair": ["verify", STORE, "--repair"],
    "merge": ["merge", STORE, OTHER, "-o", "both.zarr"],
    "ls": ["ls", "integrators", "--study", STORE],
    "show": ["show", "integrator", "mine", "--study", STORE],
    "submit": ["submit", STORE, "--scheduler", "tcp://127.0.0.1:1"],
    "check of a study that goes on from it": ["check", "second.toml"],
    "run of a study that goes on from it": ["run", "second.toml", "--no-summary"],
}
ENDS_WITH = {"submit": 2, "verify --repair": 3}  # nobody answers there; something was found
NO_STORE = {"init", "new", "schema", "reproduce", "certificates", "guide"}
SERVING = {"serve"}  # until it is ended; what it does is asked from Python below


def test_every_command_is_asked():
    asked = {arguments[0] for arguments in (*READING.values(), *COMPUTING.values())}
    assert asked | NO_STORE | SERVING == set(COMMANDS)


@pytest.mark.parametrize("name", READING)
def test_looking_at_a_store_runs_nothing(place, ran, called, name):
    done = called(place, *READING[name])
    assert done.returncode in (0, 2 if name == "cancel" else 0), done.stderr
    assert not ran()
    assert not (place / "configuration" / "geosweep").exists()  # nor is anything approved


def test_looking_from_python_runs_nothing(place, ran):
    only = sweep.open_study(place / STORE)["only"].to_dataset()
    assert sweep.grid(only).sizes["integrator"] == 2
    sweep.query(only, "step_size > 0.01")
    assert sweep.order_table(only, error="energy_error")
    sweep.report(place / STORE, place / "report.html")
    sweep.export(only, place / "out.parquet")
    page = OpenedStore(str(place / STORE))
    assert page.choices() and page.figure(Choice("only", "drifts")).tables
    assert not ran()


@pytest.mark.parametrize("name", COMPUTING)
def test_computing_with_a_store_takes_consent(place, ran, called, fingerprint, digest, name):
    shutil.copytree(place / STORE, place / OTHER)
    if name == "verify --repair":  # what is gone is written again from the study
        (place / STORE / "only" / "step_size" / "c.0").unlink()
    before = fingerprint(place / STORE)
    refused = called(place, *COMPUTING[name])
    assert refused.returncode == 2, refused.stderr
    (line,) = refused.stderr.splitlines()
    assert f"'mine.py' (sha256 {digest})" in line and "--trust-plugins approves it" in line
    assert "`sweep show plugins " in line
    assert not ran() and fingerprint(place / STORE) == before
    trusting = called(place, *COMPUTING[name], "--trust-plugins")
    assert trusting.returncode == ENDS_WITH.get(name, 0), trusting.stderr
    assert ran() and "sha256" not in trusting.stderr
    again = called(place, "plan", STORE)  # it is remembered
    assert again.returncode == 0, again.stderr
    assert ran()


def test_computing_from_python_takes_consent(place, ran, cluster):
    def refused(call, *arguments, **options):
        with pytest.raises(ValueError, match="sha256") as told:
            call(*arguments, **options)
        assert "trust_plugins=True" in str(told.value)
        assert not ran()

    path = place / STORE
    refused(sweep.run, path, client=cluster)
    refused(sweep.run, place / "second.toml", client=cluster)
    refused(retry.retry, path, client=cluster)
    refused(studies.stored_study, path)
    refused(extend.study_with_additions, path, extend.Additions(integrators=("rk4",)))
    shutil.copytree(path, place / OTHER)
    refused(merge.merge, [path, place / OTHER], place / "both.zarr")
    refused(studies.load_study_file, place / "second.toml")
    assert sweep.run(path, client=cluster, trust_plugins=True).complete
    assert ran()
    assert retry.retry(path, client=cluster) is None
    assert ran()


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


def test_a_study_of_ones_own_is_approved_by_running_it(made, place, ran, called):
    for file in ("study.toml", "mine.py"):
        shutil.copy(made / file, place)
    assert called(place, "check", "study.toml").returncode == 0
    assert called(place, "retry", STORE).returncode == 2
    assert called(place, "run", "study.toml", STORE, "--no-summary").returncode == 0
    assert called(place, "retry", STORE).returncode == 0
    assert ran()


def test_other_source_of_the_same_name_is_not_approved(place, ran, called):
    assert called(place, "plan", STORE, "--trust-plugins").returncode == 0
    assert ran()
    root = zarr.open_group(place / STORE, mode="r+")
    kept = dict(root.attrs["plugins"])
    kept["mine.py"] = kept["mine.py"] | {"source": kept["mine.py"]["source"] + "# another\n"}
    root.attrs["plugins"] = kept  # the hash beside it stays, and is not believed
    assert called(place, "plan", STORE).returncode == 2
    assert not ran()


def test_a_module_that_a_store_names_is_not_imported(place, called, monkeypatch):
    """Neither is one that is on this machine read, nor a file."""
    (place / "module_of_mine.py").write_text("raise SystemExit('imported')")
    (place / "package_of_mine").mkdir()
    (place / "package_of_mine" / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(place)
    for name in ("module_of_mine", "package_of_mine.inner", "module_of_mine.py", "/etc/passwd"):
        root = zarr.open_group(place / STORE, mode="r+")
        root.attrs["studies"] = [STUDY.replace("mine.py", name)]
        done = called(place, "plan", STORE, "--trust-plugins")
        assert done.returncode == 2
        assert f"the store does not keep the source of the plugin {name!r}" in done.stderr
        assert called(place, "show", "study", STORE).returncode == 0


def test_the_text_that_is_shown_is_the_one_that_runs():
    """A first line that chooses another encoding would hide code in a comment."""
    hidden = "# coding: utf-7\n#+AAo-raise SystemExit('hidden')\nINTEGRATORS = ()\n"
    assert isinstance(ast.parse(hidden.encode()).body[0], ast.Raise)  # that is what is at stake
    assert Plugin("hidden.py", hidden, trusted=True).methods == ()
    assert Plugin("mark.py", "\ufeffINTEGRATORS = ()\n", trusted=True).methods == ()


def test_source_that_would_hide_itself_on_a_terminal_is_spelled_out(place, called):
    root = zarr.open_group(place / STORE, mode="r+")
    source = "evil()\x1b[1A\x1b[2K\r# \u202eharmless\nINTEGRATORS = ()\n"
    root.attrs["plugins"] = {"mine\x1b[2K.py": {"sha256": "", "source": source}}
    shown = called(place, "show", "plugins", STORE).stdout
    assert "evil()\\x1b[1A\\x1b[2K\\r# \\u202eharmless\nINTEGRATORS" in shown
    assert "\x1b" not in shown + called(place, "plan", STORE).stderr


def test_a_plugin_is_not_trusted_unless_somebody_says_so():
    with pytest.raises(ValueError, match="'a.py', sha256 .* is not approved to run"):
        _ = Plugin("a.py", "INTEGRATORS = ()").methods


# --- where it is kept ------------------------------------------------------------------------


def test_approvals_are_this_users_alone(place, ran, called, digest):
    assert called(place, "plan", STORE, "--trust-plugins").returncode == 0
    file = place / "configuration" / "geosweep" / "approved-plugins"
    assert file.read_text() == f'{digest}  "mine.py"\n'
    assert [stat.S_IMODE(os.stat(path).st_mode) for path in (file, file.parent)] == [0o600, 0o700]
    assert json.loads(called(place, "show", "plugins", STORE, "--json").stdout)[0]["approved"]
    called(place, "plan", STORE, "--trust-plugins")
    assert file.read_text().count("\n") == 1
    ran()
    for path, mode in ((file, 0o666), (file.parent, 0o777)):
        kept = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode)
        done = called(place, "plan", STORE)
        assert done.returncode == 2 and not ran()
        assert f"{path} may be written by others (mode {mode:o})" in done.stderr
        assert "not approved" in called(place, "show", "plugins", STORE).stdout
        trusting = called(place, "plan", STORE, "--trust-plugins")
        assert trusting.returncode == 0 and ran()
        assert "Warning: the approval of plugins is not remembered" in trusting.stderr
        path.chmod(kept)
    file.chmod(0o644)  # others may know what is approved
    assert called(place, "plan", STORE).returncode == 0


def test_approvals_are_in_the_home_without_xdg(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CONFIG_HOME", value)
        approvals.approve_plugins([Plugin("a.py", value)])
        assert hashlib.sha256(value.encode()).hexdigest() in approvals.approved_plugin_hashes()
    assert (tmp_path / ".config" / "geosweep" / "approved-plugins").exists()


def test_a_submitted_coordinator_approves_nothing(made, place, ran, monkeypatch, cluster):
    """It computes what it was sent; who submitted it has approved that, with his own files."""
    shutil.copy(made / "mine.py", place)
    loaded = studies.load_study_file(made / "study.toml")
    assert ran()
    monkeypatch.setattr(coordinator.sessions, "is_process_computing_tasks", lambda: True)
    assert coordinator.run(loaded, place / STORE, cluster).complete
    assert approvals.approved_plugin_hashes() == set()
    monkeypatch.undo()


@pytest.mark.parametrize("found", [[], {"a": 3}, {"a": {}}, {"a": {"source": "\ud800"}}])
def test_plugins_that_are_none(found):
    with pytest.raises(ValueError, match="s.zarr: the plugins that it keeps cannot be read"):
        loader.plugins_kept_in_store({"plugins": found}, "s.zarr")


def test_large_plugins_of_stores_are_refused():
    with pytest.raises(ValueError, match="1,000,001 bytes; expected at most"):
        loader.plugins_kept_in_store({"plugins": {"a.py": {"source": "#" * 1_000_001}}}, "s.zarr")


def test_what_a_store_keeps(made, digest):
    (plugin,) = loader.plugins_kept_in_store(Store.at(made / STORE).attributes, made / STORE)
    assert (plugin.hash, plugin.trusted) == (digest, False)

"""What other people wrote reaches the terminal as text: no control character but the newline."""

import json
import os
import pty
import re
import subprocess
import sys
import xml.dom.minidom
from pathlib import Path

import pytest
from run_tables import run_table, with_series

import sweep
from sweep import plots
from sweep.cli.streams import VisibleStream
from sweep.store.lease import holder, lease, local
from sweep.store.lease.holder import LeaseHolder, heartbeat_counter_line, lease_holder_line
from sweep.store.store import Store
from sweep.text import escape_control_characters, escape_controls_in_lines, format_table

NASTY = "\x1b[31m\x1b]0;title\x07\x9b2J\u202eevil\u2066\u2028\x7f\b\r"
LINES = "\nforged line"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
LABEL = json.dumps(f"own {NASTY}{LINES}")  # is TOML as well
STUDY = f"""\
format = 1
name = "nasty"
description = {LABEL}

[[experiment]]
name = "pendulum"
system = "spherical_pendulum_chain"
integrators = ["rk4", {{ name = "rk4", formulation = "q_qdot", label = {LABEL} }}]
step_size = [1.5, 0.1, 0.05, 0.025]
initial_condition = [
    {{ name = "lee", label = {LABEL} }}, {{ random = 2, seed = 1, label = {LABEL[:-1]}2" }},
]
duration = 3.0
samples = 2
record = ["energy", "state"]
reference = {{ integrator = "dop853" }}
"""
PLUGIN = f"SYSTEMS = ()\nraise ValueError({NASTY + LINES!r})\n"
FOLDER = f"folder {NASTY}"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("terminal") / FOLDER
    place.mkdir()
    (place / f"{NASTY}.toml").write_text(STUDY)
    (place / "plugged.toml").write_text(f'plugins = ["p.py"]\n{STUDY}')
    (place / "wrong.toml").write_text(STUDY.replace('system = "', f"system = {LABEL} #"))
    (place / "unknown.toml").write_text(STUDY.replace("duration", json.dumps(NASTY)))
    (place / "p.py").write_text(PLUGIN)
    return place


@pytest.fixture(scope="module")
def ran(place, called):
    done = called(place, "run", f"{NASTY}.toml", "nasty.zarr")
    assert done.returncode in (0, 3), done.stderr  # 1.5 is too large a step for some
    return done


def is_clean(done):
    said = done.stdout + done.stderr
    assert not CONTROL.search(said), done.args
    assert not re.search("^forged line", said, re.MULTILINE), said
    assert "Traceback" not in said, said
    return said


def test_a_run_says_labels_and_paths_so_that_they_are_seen(ran):
    said = is_clean(ran)
    assert r"own \x1b[31m\x1b]0;title\x07\u009b2J\u202eevil" in said and r"\nforged line" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", f"{NASTY}.toml"),
        ("plan", f"{NASTY}.toml", "new.zarr"),
        ("status", "nasty.zarr", "--failed"),
        ("failures", "nasty.zarr"),
        ("failures", "nasty.zarr", "--all"),
        ("order", "nasty.zarr"),
        ("order", "nasty.zarr", "--error", "self"),
        ("drift", "nasty.zarr", "-q", "energy"),
        ("drift", "nasty.zarr", "-q", "energy", "--growth"),
        ("work", "nasty.zarr"),
        ("decide", "nasty.zarr", "--dry-run"),
        ("query", "nasty.zarr"),
        ("query", "nasty.zarr", f"integrator == {NASTY + LINES!r}"),
        ("query", "nasty.zarr", f"integrator == '{NASTY}'"),
        ("query", "nasty.zarr", "integrator == 'rk5'"),
        ("query", "nasty.zarr", NASTY),
        ("query", "nasty.zarr", "-c", NASTY),
        ("export", "nasty.zarr", f"{NASTY}.csv"),
        ("export", "nasty.zarr", f"{NASTY}.csv"),
        ("plot", "nasty.zarr", "-o", f"plots {NASTY}"),
        ("plot", "energy", "nasty.zarr", "-o", "one.svg"),
        ("report", "nasty.zarr", "-o", f"{NASTY}.html"),
        ("verify", "nasty.zarr"),
        ("verify", f"{NASTY}.zarr"),
        ("show", "study", "nasty.zarr"),
        ("show", "system", NASTY),
        ("guide", NASTY),
        ("show", "plugins", f"{NASTY}.toml"),
        ("merge", "nasty.zarr", "nasty.zarr", "-o", f"{NASTY}.zarr"),
        ("run", "wrong.toml"),
        ("run", "unknown.toml"),
        ("run", "plugged.toml"),
        ("run", f"{NASTY}.toml", "nasty.zarr"),
        ("run", f"no {NASTY}.toml"),
        ("init", f"no/{NASTY}.toml"),
        (NASTY,),
        ("run", f"--{NASTY}"),
        ("query", "nasty.zarr", "--limit", NASTY),
        ("decide", "nasty.zarr", "--keep-duration"),
    ],
    ids=lambda arguments: "-".join(escape_control_characters(a)[:12] for a in arguments),
)
def test_every_command(ran, place, called, arguments):
    is_clean(called(place, *arguments))


def test_json_is_clean_and_says_all(ran, place, called):
    done = called(place, "query", "nasty.zarr", "--json")
    is_clean(done)
    rows = json.loads(done.stdout)["pendulum"]
    assert {row["integrator"] for row in rows} == {"rk4", f"own {NASTY}{LINES}"}
    is_clean(done := called(place, "failures", "nasty.zarr", "--json"))
    assert f"own {NASTY}{LINES}" in {
        row["integrator"] for row in json.loads(done.stdout)["failures"]
    }


def test_a_study_and_its_stored_copy_are_the_same_to_the_letter(ran, place, program):
    text = (place / f"{NASTY}.toml").read_text() + "\t# \u202e a comment\n"
    (place / "commented.toml").write_text(text)
    shown = program(place, "show", "study", "commented.toml").stdout
    assert shown == text


def on_a_terminal(place, *arguments):
    """What a command writes to a terminal, and its exit code."""
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        [Path(sys.executable).parent / "sweep", *arguments],
        cwd=place, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal,
    )  # fmt: skip
    os.close(terminal)
    parts = []
    try:
        while part := os.read(screen, 65536):
            parts.append(part)
    except OSError:  # it has ended
        pass
    os.close(screen)
    return b"".join(parts).decode().replace("\r\n", "\n"), process.wait()


def test_on_a_terminal_only_our_own_sequences_are_obeyed(ran, place):
    (place / "commented.toml").write_text(STUDY + "\t# \u202e a comment\r\n")
    for arguments in (("show", "study", "commented.toml"), ("status", f"{NASTY}.zarr"),
                      ("failures", "nasty.zarr"), (f"{NASTY}",)):  # fmt: skip
        said, _ = on_a_terminal(place, *arguments)
        assert not CONTROL.search(said), arguments
    said, code = on_a_terminal(place, "verify", "nasty.zarr")
    # The progress bar moves.
    assert code == 0 and "\x1b[?25l" in said and "\x1b[?25lReading" in said
    for ours in ("\x1b[?25l", "\x1b[?25h", "\x1b[K", "\r"):
        said = said.replace(ours, "")
    assert not CONTROL.search(said)


def test_tracebacks_and_warnings_too(tmp_path):
    code = (
        "import sys, warnings; from sweep.cli import streams; streams.show_control_characters();"
        f"warnings.warn({NASTY!r}); print({NASTY!r}); raise TypeError({NASTY!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and not CONTROL.search(done.stdout + done.stderr)
    assert done.stderr.count(r"\u202eevil") == 2 and r"\u202eevil" in done.stdout


def test_bytes_do_not_come_past(tmp_path):
    with (tmp_path / "out").open("w") as file:
        stream = VisibleStream(file)
        assert stream.write("a\x1b\n\udcff") == 4 and not hasattr(stream, "buffer")
        stream.writelines(["\t", "é\n"])
    assert (tmp_path / "out").read_text() == "a\\x1b\n\\udcff\\té\n"


def test_tables_keep_their_rows():
    assert format_table(["a\nb"], [["c\td\x9b"]]) == "a\\nb\n──────────\nc\\td\\u009b"
    assert (
        escape_controls_in_lines("a\nb") == "a\nb" and escape_control_characters("a\nb") == r"a\nb"
    )


# --- lock files ------------------------------------------------------------------------------


def lock_of(store, **changes):
    said = {name: value for name, value in vars(LeaseHolder.here()).items() if name != "beat"}
    return json.dumps(
        said | {"place": "elsewhere", "pid": 7} | changes
    ).encode() + heartbeat_counter_line(1)


@pytest.mark.parametrize("field", ["user", "host", "command", "since"])
def test_who_holds_a_store_is_said_in_one_line(ran, place, called, field):
    lock = place / "nasty.zarr.lock"
    found = LeaseHolder.here()
    said = {"place": "elsewhere", "pid": 7, field: NASTY + LINES + 1000 * "x"}
    lock.write_bytes(lease_holder_line(type("", (), vars(found) | said)()))
    content = json.dumps({k: v for k, v in (vars(found) | said).items() if k != "beat"})
    lock.write_bytes(content.encode() + b"\n" + heartbeat_counter_line(1))
    try:
        text = is_clean(called(place, "status", "nasty.zarr"))
        assert "Held by" in text and r"\u202eevil" in text and len(max(text.splitlines())) < 500
        is_clean(called(place, "status", "nasty.zarr", "--json"))
    finally:
        lock.unlink()


GARBAGE = {
    "nothing": b"",
    "binary": bytes(range(256)) * 100,
    "huge": b"x" * 10_000_000,
    "deep": b"[" * 100_000,
    "a list": b"[1, 2]\n1\n",
    "no token": b'{"pid": 1}\n1\n',
    "a path as token": b'{"token": "../../x", "pid": 1, "beat_seconds": 1}\n1\n',
    "a huge process": b'{"token": "ab", "pid": 1e400, "beat_seconds": 1}\n1\n',
    "a negative process": b'{"token": "ab", "pid": -1, "beat_seconds": 1}\n1\n',
    "no text": b'{"token": "ab", "pid": 1, "beat_seconds": 1, "user": 7}\n1\n',
    "a huge counter": b'{"token": "ab", "pid": 1, "beat_seconds": 1}\n' + b"9" * 60_000,
}


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE)
def test_a_lock_of_garbage_is_somebodys(place, ran, called, content):
    lock = place / "nasty.zarr.lock"
    lock.write_bytes(content)
    try:
        found = holder.read_lease_holder(lock)
        assert found.patience == holder.BEATS * holder.BEAT_SECONDS
        text = is_clean(called(place, "status", "nasty.zarr"))
        assert "Held by somebody, of whom its lease says no more" in text
    finally:
        lock.unlink()


@pytest.mark.parametrize(
    "seconds, believed",
    [(1e9, 3.0), (0.5, 0.5), (1e-9, 0.01), (-1, 3.0), (float("nan"), 3.0), (float("inf"), 3.0),
     ("1e9", 3.0), (None, 3.0), (True, 3.0), (10**400, 3.0), ([3.0], 3.0)],
    ids=lambda value: str(value)[:9],
)  # fmt: skip
def test_a_lock_asks_for_no_more_patience_than_ours(tmp_path, seconds, believed, monkeypatch):
    monkeypatch.setattr(holder, "BEAT_SECONDS", 3.0)
    said = {"token": "ab", "pid": 1, "host": "h", "beat_seconds": seconds}
    found = holder.parse_lease_holder(json.dumps(said).encode() + b"\n" + heartbeat_counter_line(1))
    assert found.patience == holder.BEATS * believed and found.host == "h"


def test_locks_that_are_no_files_or_succeed_themselves(tmp_path):
    lock = tmp_path / "a.zarr.lock"
    os.mkfifo(lock)
    found = lease.lease_holder_of_store(Store.at(tmp_path / "a.zarr"))
    assert found.host == holder.UNKNOWN  # and does not wait
    lock.unlink()
    lock.mkdir()
    assert lease.lease_holder_of_store(Store.at(tmp_path / "a.zarr")).host == holder.UNKNOWN
    lock.rmdir()
    for path, token in ((lock, "a"), (tmp_path / f"{lock.name}.a", "a")):
        said = {"token": token, "pid": 1, "beat_seconds": 3.0, "place": "elsewhere"}
        path.write_bytes(json.dumps(said).encode() + b"\n" + heartbeat_counter_line(1))
    assert len(local.chain_of_lease_successors(lock)) == 2


@pytest.mark.parametrize("content", [b"[" * 9000, b"[]", b'{"a": 1}', b'"x"', b"\xff", b"7"])
def test_what_stands_beside_a_store_may_be_garbage(place, ran, called, content):
    files = [place / "nasty.zarr.submitted", place / "nasty.zarr.cancel",
             place / "nasty.zarr/_geosweep/in-flight.json"]  # fmt: skip
    lock = place / "nasty.zarr.lock"
    lock.write_bytes(lease_holder_line(LeaseHolder.here()) + heartbeat_counter_line(1))
    for file in files:
        file.write_bytes(content)
    try:
        assert "pendulum" in is_clean(called(place, "status", "nasty.zarr"))
        assert (
            sweep.store.lease.requests.cancellation_reason(Store.at(place / "nasty.zarr"), "a")
            == ""
        )
    finally:
        for file in (*files, lock):
            file.unlink()


# --- pictures --------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["a\x1b[31m\x00b", r"$\frac$", "a$b$c_1^2", "\u202ea\nb", "<&--"])
def test_pictures_have_labels_as_text(tmp_path, label):
    table = run_table({label: 2, "rk4": 4}, starts=(label, "b"))
    table = with_series(table, "energy_error", table.global_error.values)
    figure = plots.picture("energy", table)
    for ending in (".png", ".pdf", ".svg"):
        plots.save(figure, tmp_path / f"picture{ending}")
    said = xml.dom.minidom.parse(str(tmp_path / "picture.svg")).toxml()
    assert not CONTROL.search(said.replace("\t", ""))

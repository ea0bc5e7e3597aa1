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

from sweep import plots
from sweep.cli.streams import OutputStream
from sweep.store.lease import holder

PROGRAM = Path(sys.executable).with_name("sweep")
NASTY = "\x1b[31m\x1b]0;title\x07\x9b2J\u202eevil\u2066\u2028\u200f\x7f\b\r"
LINES = "\nforged line"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
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
# What no command expects: it ends with a traceback.
ODD = f"""\
import sys, warnings
warnings.warn({NASTY!r})
print({NASTY!r} + "\\udcff")
sys.stdout.writelines([{NASTY!r}])
class Odd(BaseException):
    pass
raise Odd({NASTY!r})
"""
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
        ("status", "nasty.zarr", "--failures"),
        ("summary", "nasty.zarr"),
        ("order", "nasty.zarr"),
        ("order", "nasty.zarr", "--error", "self"),
        ("drift", "nasty.zarr", "-q", "energy"),
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
        ("plot", "energy", "nasty.zarr", "-o", f"{NASTY}.svg"),
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
        ("run", f"{NASTY}.toml", "nasty.zarr", "--no-summary"),
        ("run", f"no {NASTY}.toml"),
        ("init", f"no/{NASTY}.toml"),
        (NASTY,),
        ("run", f"--{NASTY}"),
        ("query", "nasty.zarr", "--limit", NASTY),
    ],
    ids=lambda arguments: ascii("-".join(word[:12] for word in arguments)),
)
def test_every_command(ran, place, called, arguments):
    is_clean(called(place, *arguments))


def test_json_is_clean_and_says_all(ran, place, called):
    done = called(place, "query", "nasty.zarr", "--json")
    is_clean(done)
    rows = json.loads(done.stdout)["pendulum"]
    assert {row["integrator"] for row in rows} == {"rk4", f"own {NASTY}{LINES}"}
    is_clean(done := called(place, "status", "nasty.zarr", "--failures", "--json"))
    assert f"own {NASTY}{LINES}" in {
        row["integrator"] for row in json.loads(done.stdout)["failures"]
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ("order", "nasty.zarr", "--error", "self", "--format", "csv"),
        ("order", "nasty.zarr", "--error", "self", "--format", "latex"),
        ("export", "nasty.zarr", "runs.csv"),
    ],
)
def test_tables_for_files_are_clean(ran, place, called, arguments):
    found = called(place, *arguments).stdout
    if arguments[0] == "export":
        found = (place / "runs.csv").read_text()
    shown = r"\texttt{U+202E}evil" if "latex" in arguments else r"\u202eevil"
    assert not CONTROL.search(found) and shown in found


def test_a_study_that_is_shown_to_a_file_is_the_same_to_the_letter(place, command):
    text = (place / f"{NASTY}.toml").read_text() + "\t# \u202e a comment\n"
    (place / "commented.toml").write_text(text)
    assert command(place, "show", "study", "commented.toml").stdout == text


def test_on_a_terminal_our_own_sequences_are_obeyed(ran, place):
    """The progress bar moves."""
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        [PROGRAM, "verify", "nasty.zarr"],
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
    said = b"".join(parts).decode().replace("\r\n", "\n")
    assert process.wait() == 0 and "\x1b[?25l" in said and "Reading" in said and "\x1b[2K" in said
    assert not CONTROL.search(re.sub("\x1b\\[[0-9;?]*[A-Za-z]|\r", "", said))


def test_on_a_terminal_no_sequence_of_a_study_is_obeyed(place, command, monkeypatch):
    monkeypatch.setattr(OutputStream, "isatty", lambda self: True, raising=False)
    (place / "commented.toml").write_text(STUDY + "\t# \u202e a comment\r\n")
    said = command(place, "show", "study", "commented.toml").stdout
    assert not CONTROL.search(said) and r"\u202e a comment" in said


def test_tracebacks_and_warnings_too(tmp_path):
    (tmp_path / "odd.py").write_text(ODD)
    (tmp_path / "odd.toml").write_text(f'plugins = ["odd.py"]\n{STUDY}')
    check = [PROGRAM, "check", "odd.toml"]
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and not CONTROL.search(done.stdout + done.stderr)
    assert "Traceback" in done.stderr and done.stderr.count(r"\u202eevil") >= 2
    assert done.stdout.count(r"\u202eevil") == 2 and r"\udcff" in done.stdout


# --- lock files ------------------------------------------------------------------------------


# A lease as its file has it: a line that says who holds it, and one that counts its heartbeats.
HOLDER = {
    "token": "ab", "user": "emmy", "host": "node7", "command": "sweep run", "pid": 7, "born": "1",
    "place": "elsewhere", "since": "2026-01-01 00:00:00", "beat_seconds": 3.0,
}  # fmt: skip


def lease_text(**changes):
    return json.dumps(HOLDER | changes) + "\n000000000001\n"


@pytest.fixture
def lock(ran, place):
    """The lock of the store, which is none after the test."""
    lock = place / "nasty.zarr.lock"
    yield lock
    if lock.is_dir():
        lock.rmdir()
    else:
        lock.unlink()


@pytest.mark.parametrize("field", ["user", "host", "command", "since"])
def test_who_holds_a_store_is_said_in_one_line(lock, place, called, field):
    lock.write_text(lease_text(**{field: NASTY + LINES + 1000 * "x"}))
    text = is_clean(called(place, "status", "nasty.zarr"))
    assert "Held by" in text and r"\u202eevil" in text and len(max(text.splitlines())) < 500
    is_clean(called(place, "status", "nasty.zarr", "--json"))


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


SOMEBODY = "Held by somebody, of whom its lease says no more"


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE)
def test_a_lock_of_garbage_is_somebodys(lock, place, called, content):
    lock.write_bytes(content)
    assert SOMEBODY in is_clean(called(place, "status", "nasty.zarr"))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_lock_that_is_no_file_is_somebodys(lock, place, called, make):
    make(lock)
    assert SOMEBODY in is_clean(called(place, "status", "nasty.zarr"))  # and it does not wait


def test_locks_that_succeed_themselves_come_to_an_end(lock, place, called):
    successor = place / f"{lock.name}.a"
    for file in (lock, successor):
        file.write_text(lease_text(token="a"))
    assert "Held by emmy" in is_clean(called(place, "status", "nasty.zarr"))
    successor.unlink()


@pytest.mark.parametrize(
    "seconds, believed",
    [(1e9, 1.0), (0.5, 0.5), (1e-9, 0.01), (-1, 1.0), (float("nan"), 1.0), ("1e9", 1.0),
     (None, 1.0), (True, 1.0), (10**400, 1.0), ([3.0], 1.0)],
    ids=lambda value: str(value)[:9],
)  # fmt: skip
def test_a_lock_asks_for_no_more_patience_than_ours(seconds, believed):
    """Of which a user would see nothing but that a run waits for hours."""
    ours = holder.BEAT_SECONDS if believed == 1.0 else 1.0
    found = holder.parse_lease_holder(lease_text(beat_seconds=seconds).encode())
    assert found.seconds_until_dead == holder.BEATS * believed * ours and found.host == "node7"


@pytest.mark.parametrize("content", [b"[" * 9000, b"[]", b'{"a": 1}', b'"x"', b"\xff", b"7"])
def test_what_stands_beside_a_store_may_be_garbage(lock, place, called, content):
    files = [place / "nasty.zarr.submitted", place / "nasty.zarr.cancel",
             place / "nasty.zarr/_geosweep/progress.json"]  # fmt: skip
    lock.write_text(lease_text())
    for file in files:
        file.write_bytes(content)
    try:
        assert "pendulum" in is_clean(called(place, "status", "nasty.zarr"))
    finally:
        for file in files:
            file.unlink()


# --- pictures --------------------------------------------------------------------------------


def test_pictures_have_labels_as_text(tmp_path):
    labels = ["a\x1b[31m\x00b", r"$\frac$", "a$b$c_1^2", "\u202ea\nb", "<&--"]
    table = run_table(dict.fromkeys(labels, 2), starts=labels)
    table = with_series(table, "energy_error", table.global_error.values)
    figure = plots.picture("energy", table)
    for ending in (".png", ".pdf", ".svg"):
        plots.save(figure, tmp_path / f"picture{ending}")
    said = xml.dom.minidom.parse(str(tmp_path / "picture.svg")).toxml()
    assert not CONTROL.search(said.replace("\t", ""))

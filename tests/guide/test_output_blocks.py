"""Outputs are shown as they are printed, and Python that is shown runs.

What takes longer is compared in the second stage, and the papers by .ci/run.
"""

import re
import subprocess
import sys

import distributed
import output_blocks
import pytest
from documents import DOCUMENTS, README, ROOT, fenced
from output_blocks import BLOCKS, differences, same
from study_text import one_experiment

import sweep

QUICK = ("quickstart-in-short", "quickstart", "work", "verify")
SLOW = ("check", "order", "chaos", "below-round-off", "whose-drift")
SHOWN = output_blocks.shown_blocks()
CI = (ROOT / ".ci" / "run").read_text()
PLUGINS = ("force", "observable")  # which their tests run
PYTHON = [path.stem for path in DOCUMENTS if fenced("python", [path]) and path.stem not in PLUGINS]
QUICKSTART = one_experiment(
    name='"pendulum"', step_size="[0.1, 0.05, 0.025, 0.01]", duration="2.0", samples="20",
    reference='{ integrator = "dop853" }',
)  # fmt: skip
LATER = ("trajectory", "python", "large")  # double-double and tangents, all of the library, Dask


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("blocks").resolve()


@pytest.fixture
def lines_called(called, monkeypatch):
    """Commands are called without the start of a process, on the shared cluster, and noted."""
    lines = []

    def call(folder, *arguments):
        lines.append(" ".join(("sweep", *arguments)).removesuffix(" --no-summary"))
        return called(folder, *arguments)

    monkeypatch.setattr(output_blocks, "called", call)
    return lines


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_what_is_shown_is_what_the_command_prints(name, folder, lines_called):
    found = differences(SHOWN[name], BLOCKS[name].make(folder), BLOCKS[name].tolerances)
    if found:
        pytest.fail("\n".join([*found, "python tests/guide/output_blocks.py --write mends it"]))
    told = output_blocks.lines_of_shown_studies()
    assert {line for line, study in told.items() if study == name} <= set(lines_called)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] if page in LATER else []) for page in PYTHON],
)
def test_python_that_is_shown_runs(page, cluster, lent, command, tmp_path, monkeypatch, capsys):
    """On the shared cluster, where it would start one; what is asked is a small quickstart."""
    (tmp_path / "study.toml").write_text(QUICKSTART)
    command(tmp_path, "run", "study.toml", "quickstart.zarr", "--no-summary")

    class Client(distributed.Client):
        def __init__(self, **workers):
            super().__init__(cluster.cluster)

    monkeypatch.setattr(distributed, "Client", Client)
    monkeypatch.chdir(tmp_path)
    blocks = [
        block.text for path in DOCUMENTS if path.stem == page for block in fenced("python", [path])
    ]
    with lent():
        exec("\n".join(blocks), {"__name__": "__main__", "sweep": sweep})
    assert capsys.readouterr().out


def test_the_others_are_compared_by_the_checks_of_everything():
    (arguments,) = re.findall(r"^python tests/guide/output_blocks.py (.*)$", CI, re.M)
    assert {*arguments.split(), *QUICK, *SLOW} == set(BLOCKS) == set(SHOWN)
    assert not re.search(r"output_blocks.py.*(\|\||&)", CI)  # its exit code counts
    assert re.search(r"^python -m pytest -m slow$", CI, re.M)


def test_a_command_that_fails_makes_no_block(tmp_path, lines_called):
    with pytest.raises(SystemExit, match="sweep reproduce leee ended with exit code 2, not 0"):
        output_blocks.run(tmp_path, "reproduce", "leee")


# --- what is shown -------------------------------------------------------------------------------

PRINTED = """\
part  figure   paper  here  agreement  setting
────  ──────  ──────  ────  ─────────  ───────
1     a            –  1.00  –          x
2     a            –  3.00  –          x y

3 of 4 hold
"""


def test_blocks_are_replaced_by_name_and_others_stay(tmp_path):
    texts = [path.read_text() for path in DOCUMENTS]
    assert [output_blocks.replaced(text, {}) for text in texts] == texts
    copies = [tmp_path / path.name for path in DOCUMENTS]
    for path, text in zip(copies, texts, strict=True):
        path.write_text(output_blocks.replaced(text, {"work": "new\n"}))
    assert output_blocks.shown_blocks(copies) == SHOWN | {"work": "new\n"}


@pytest.mark.parametrize(
    ("opening", "reason"),
    [
        ("```text", "copy.md has an output block without a name; known: quickstart-in-short, "),
        ("```text ls", "copy.md has an output block named 'ls'; known: quickstart-in-short, "),
        ("```text quickstart-in-short", "copy.md has a second output block 'quickstart-in-short'"),
    ],
)
def test_every_output_block_is_known(tmp_path, opening, reason):
    copy = tmp_path / "copy.md"
    copy.write_text(README.read_text() + f"\n{opening}\n$ ls\n```\n")
    with pytest.raises(SystemExit, match=reason):
        output_blocks.shown_blocks([copy])


def test_every_fence_has_a_language_that_something_reads():
    for path in DOCUMENTS:
        fences = [line for line in path.read_text().splitlines() if "```" in line]
        languages = ("sh", "text", "toml", "yaml", "python", "bash")  # that of start-up files
        known = sum(len(fenced(language, [path])) for language in languages)
        assert len(fences) == 2 * known, path.name


# --- what is compared ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("9 of 9  confirmed", "9 of 9 confirmed"),
        ("2.16409e-05 – 1", "2.16410e-05 – 1"),
        ("±0.01", "±0.02"),
        ("4.2e-15", "-9.9e-16"),
        ("1.78e-18", "0.00000e+00"),
        ("2.05105e-12", "2.11e-12"),
        ("1.8 s of CPU time, 2 workers", "12 s of CPU time, 64 workers"),
        ("in 16 tasks", "in 8 tasks"),
    ],
)
def test_what_agrees(one, other):
    assert same(one, other) and same(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("64 of 64", "60 of 64"),
        ("864 runs", "863 runs"),
        ("19,422,000", "19,422,001"),
        ("confirmed", "undecided"),
        ("rkmk3", "rkmk4"),
        ("2.16409e-05", "2.16411e-05"),
        ("4.99766e+00", "5.00519e+00"),
        ("4.2e-15", "4.3e-14"),
        ("2.2e-16", "2.7e-15"),
        ("8.54025e-10", "8.5e-09"),
        ("-1.1e-09", "1.1e-09"),
        ("over 500 s", "over 50 s"),
        ("1.0 2.0", "1.0"),
        ("nan", "1.0"),
    ],
)
def test_what_differs(one, other):
    assert not same(one, other) and not same(other, one)


def test_integers_may_differ_where_their_column_allows_it():
    assert same("29959*", "29960*", 1.0)
    assert not same("29959*", "29961*", 1.0) and not same("29959*", "29960*", 0.02)


def test_a_number_that_is_off_is_shown_with_what_is_printed():
    other = PRINTED.replace("3.00  –", "3.02  –").replace("3 of 4", "4 of 4")
    assert differences(PRINTED, PRINTED) == []
    lines, others = PRINTED.splitlines(), other.splitlines()
    expected = [f"-{lines[3]}", f"+{others[3]}", f"-{lines[5]}", f"+{others[5]}"]
    assert differences(PRINTED, other) == expected
    assert differences(PRINTED, other.replace("4 of 4", "3 of 4"), {"here": 0.1}) == []


def test_columns_may_become_wider_and_times_differ():
    one = "study  CPU time  files\n─────  ────────  ─────\na         1.8 s     16\n\nend\n"
    wide = "study   CPU time  files\n─────  ─────────  ─────\na      1 s – 2 s     16\n\nend\n"
    assert differences(one, wide) == []
    assert differences(one, wide.replace("16", "17"))
    assert differences(one, wide.replace("\n\nend", "\na\n\nend"))  # a line more


def test_the_command_says_which_blocks_there_are():
    script = ROOT / "tests" / "guide" / "output_blocks.py"
    done = subprocess.run([sys.executable, script, "le"], capture_output=True, text=True)
    assert (
        done.returncode == 2
        and "no block le; there are quickstart-in-short, quickstart"
        in " ".join(done.stderr.split())
    )

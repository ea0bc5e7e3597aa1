"""One sentence where `systems` or `integrators` are not Geosweep's, or the system is Windows."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import sweep

HOME = Path(sweep.__file__).parents[1]
IMPORTING = [sys.executable, "-c", "import sweep"]
COMMANDS = [[Path(sys.executable).parent / "sweep", "ls"], [sys.executable, "-m", "sweep", "ls"]]


def said(command, folder, searched=None):
    """The last line on standard error, and the exit code; the traceback of an import is above."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {} if searched is None else {"PYTHONPATH": str(searched)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.stderr.splitlines()[-1], len(done.stderr.splitlines()), done.returncode


def test_a_folder_of_that_name_where_python_was_started(tmp_path):
    (tmp_path / "systems").mkdir()
    line, _, _ = said(IMPORTING, tmp_path)
    assert line == (
        f"ImportError: `import systems` finds {tmp_path / 'systems'}, and not Geosweep's package "
        f"in {HOME / 'systems'}; rename it, or start Python in another folder"
    )


@pytest.mark.parametrize("command", COMMANDS, ids=["sweep", "-m"])
def test_a_module_in_pythonpath_and_the_command_line(tmp_path, command):
    (tmp_path / "integrators.py").touch()
    line, lines, code = said(command, Path.home(), tmp_path)
    assert line.startswith(f"Error: `import integrators` finds {tmp_path / 'integrators.py'}, and")
    assert line.endswith(f"rename it, or take {tmp_path} out of PYTHONPATH")
    assert (lines, code) == (1, 2)


def install(place, name):
    """What pip leaves in a folder of a distribution that has one package, of the same name."""
    information = place / f"{name}-0.1.dist-info"
    for folder in (place / name, information):
        folder.mkdir()
    (place / name / "__init__.py").touch()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    (information / "RECORD").write_text(f"{name}/__init__.py,,\n")


def test_a_distribution_that_has_a_package_of_that_name(tmp_path):
    install(tmp_path, "systems")
    line, _, _ = said(IMPORTING, Path.home(), tmp_path)
    assert f"finds that of the distribution 'systems' in {tmp_path}, and not" in line
    assert line.endswith("uninstall 'systems', or give Geosweep an environment of its own")


def test_a_distribution_that_was_installed_over_ours(tmp_path):
    for name in ("sweep", "integrators"):
        shutil.copytree(HOME / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    install(tmp_path, "systems")
    line, _, _ = said(IMPORTING, Path.home(), tmp_path)
    assert "finds that of the distribution 'systems'" in line
    assert line.endswith("uninstall that one, and install Geosweep again")


def test_windows_is_refused():
    elsewhere = "import os; os.name = 'not posix'; import sweep"
    line, _, _ = said([sys.executable, "-c", elsewhere], Path.home())
    assert line.startswith("ImportError: Geosweep does not run on Windows;") and "Linux" in line


def test_the_version_is_that_of_the_distribution():
    assert sweep.__version__ == version("geosweep")

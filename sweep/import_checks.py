"""What has to hold before anything of Geosweep is imported.

The system is one that it runs on, and `systems` and `integrators` are its own packages. Both are
names that a folder of the user's, or another distribution, may have too: Python takes the first.
Needs nothing but Python.
"""

import importlib
import importlib.util
import os
import sys
from pathlib import Path

PACKAGES = {"integrators": "ALL_INTEGRATORS", "systems": "ALL_SYSTEMS"}  # and a name in each
HOME = Path(__file__).resolve().parents[1]


def check_preconditions() -> None:
    """Refuse a system that Geosweep does not run on, and packages that are not its own.

    Raises
    ------
    ImportError
        One sentence that says what is wrong and what to do. In the command line that sentence is
        printed instead, and the exit code is 2.
    """
    try:
        _check_system()
        for name in PACKAGES:
            _check_package(name)
    except ImportError as error:
        if _is_command_line():
            print(f"Error: {error}", file=sys.stderr)
            raise SystemExit(2) from None
        raise


def _check_system() -> None:
    if os.name != "posix":
        raise ImportError(
            "Geosweep does not run on Windows; install and run it in the Windows Subsystem for "
            "Linux (`wsl --install`), or on a machine with Linux"
        )


def _check_package(name: str) -> None:
    """Refuse a package that Python finds under the name of ours."""
    found, own = _place_of_package(name), HOME / name
    if found == own and PACKAGES[name] in getattr(importlib.import_module(name), "__all__", ()):
        return
    if found is None:
        raise ImportError(f"Geosweep's package {name!r} is not in {HOME}; install Geosweep again")
    from importlib.metadata import packages_distributions  # takes a while, and is needed here alone

    owners = [owner for owner in packages_distributions().get(name, ()) if owner != "geosweep"]
    whose = f"that of the distribution {owners[0]!r} in {found.parent}" if owners else f"{found}"
    searched = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if found == own:  # one was installed over the other
        advice = "uninstall that one, and install Geosweep again"
    elif owners:
        advice = f"uninstall {owners[0]!r}, or give Geosweep an environment of its own"
    elif any(path and Path(path).resolve() == found.parent for path in searched):
        advice = f"rename it, or take {found.parent} out of PYTHONPATH"
    else:
        advice = "rename it, or start Python in another folder"
    raise ImportError(
        f"`import {name}` finds {whose}, and not Geosweep's package in {own}; {advice}"
    )


def _place_of_package(name: str) -> Path | None:
    """The folder, or the file, that Python takes for a package."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        return None
    places = spec.submodule_search_locations
    place = next(iter(places), None) if places is not None else spec.origin
    return None if place is None else Path(place).resolve()


def _is_command_line() -> bool:
    """Whether this process is the command `sweep`, or ``python -m sweep``."""
    told = sys.orig_argv
    return Path(sys.argv[0]).name == "sweep" or any(
        pair == ("-m", "sweep") for pair in zip(told, told[1:], strict=False)
    )

"""The lock files hold everything that pyproject.toml asks for, with hashes."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
MAKE_ANEW = "make it anew by deploy/lock/make"
EXTRAS = {
    "docs": {"docs"},
    "runtime": {"jobqueue", "live", "s3"},
    "kubernetes": {"jobqueue", "kubernetes", "live", "s3"},
    "test": {"test"},
}


def _text(name):
    return (ROOT / f"deploy/lock/{name}.txt").read_text()


def _locked(name):
    """The versions of a lock file by the distributions' names."""
    pins = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", _text(name), flags=re.MULTILINE)
    assert len(pins) == len(dict(pins)), "a distribution in two versions"
    return dict(pins)


def _required(extras):
    """What the project needs with some of its extras, and to be built."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    texts = config["project"]["dependencies"] + config["build-system"]["requires"]
    for extra in extras:
        texts = texts + config["project"]["optional-dependencies"][extra]
    for requirement in map(Requirement, texts):
        if requirement.name == "geosweep":
            yield from _required(requirement.extras)
        else:
            yield requirement


def _unmet(requirements, locked):
    for requirement in requirements:
        version = locked.get(canonicalize_name(requirement.name))
        if version is None or not requirement.specifier.contains(version):
            yield f"{requirement} (locked: {version})"


@pytest.mark.parametrize("name", EXTRAS)
def test_lock_satisfies_pyproject(name):
    assert not list(_unmet(_required(EXTRAS[name]), _locked(name))), MAKE_ANEW


def test_every_extra_is_locked():
    """But for a solver of others, which no image has."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    known = set().union(*EXTRAS.values(), {"heyoka"})
    assert known == set(config["project"]["optional-dependencies"])


def test_what_is_not_locked_is_seen():
    wanted = [Requirement("numpy>=999"), Requirement("not-there")]
    assert len(list(_unmet(wanted, _locked("runtime")))) == 2


@pytest.mark.parametrize("name", ["docs", "runtime", "kubernetes"])
def test_what_is_used_is_what_is_tested(name):
    used, tested = _locked(name), _locked("test")
    common = used.keys() & tested.keys()
    assert len(common) > 40
    assert {key: used[key] for key in common} == {key: tested[key] for key in common}


@pytest.mark.parametrize("name", EXTRAS)
def test_every_version_has_hashes_and_no_source(name):
    entries = re.split(r"\n(?! )", _text(name).strip())
    assert all(re.search(r"^    --hash=sha256:[0-9a-f]{64}", entry, re.M) for entry in entries)
    # From wherever pip is told to look: nothing here names an index, a file or a directory.
    assert not re.search(r"://|--(?!hash)|(^|\s)[/@]", _text(name))


def test_checks_install_from_the_lock():
    script = (ROOT / ".ci/run").read_text()
    assert "--require-hashes --requirement deploy/lock/test.txt" in script
    assert "--no-deps --no-build-isolation" in script

"""Paths that another user could write, or swap, are told from this user's own."""

import os

import pytest

from integrators.compiler import ownership
from integrators.compiler.ownership import make_private, why_shared

ANOTHER = 65534


@pytest.fixture
def of_another(monkeypatch):
    """Let paths seem to belong to another user: ``of_another(path, …)``."""
    others, seen = set(), os.lstat

    def lstat(path):
        status = seen(path)
        if os.fspath(path) not in others:
            return status
        fields = list(status)
        fields[4] = ANOTHER
        return os.stat_result(fields)

    monkeypatch.setattr(ownership.os, "lstat", lstat)
    return lambda *paths: others.update(map(os.fspath, paths))


@pytest.fixture
def place(tmp_path):
    make_private(tmp_path / "mine" / "kernels")
    return tmp_path / "mine" / "kernels"


def test_a_directory_of_ones_own(place):
    assert why_shared(place) == "" == why_shared(place / "not" / "there")
    assert [path.stat().st_mode & 0o777 for path in (place, place.parent)] == [0o700, 0o700]


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_one_that_others_may_write(place, mode):
    place.chmod(mode)
    assert why_shared(place) == f"{place} may be written by others (mode {mode:o})"
    file = place / "file"
    file.write_text("")
    if not mode & 0o1000:  # nobody can rename what is in a sticky one
        mode |= 0o002
        place.chmod(mode)
        assert why_shared(file) == f"{place} may be written by others (mode {mode:o})"
    else:
        assert why_shared(file) == ""
        file.chmod(0o666)
        assert why_shared(file) == f"{file} may be written by others (mode 666)"


def test_one_on_the_way_that_others_may_write(place):
    place.parent.chmod(0o707)
    assert why_shared(place) == f"{place.parent} may be written by others (mode 707)"
    place.parent.chmod(0o1777)  # as /tmp
    assert why_shared(place) == ""


def test_a_group_that_is_the_users_own(place, monkeypatch):
    """Where each user has a group, a home may be writable by it; the directory itself not."""
    place.parent.chmod(0o770)
    monkeypatch.setattr(ownership, "_is_own_group", lambda gid: False)
    assert "mode 770" in why_shared(place)
    monkeypatch.setattr(ownership, "_is_own_group", lambda gid: True)
    assert why_shared(place) == ""
    assert "mode 770" in why_shared(place.parent)


def test_those_of_another_user(place, of_another):
    of_another(place)
    assert why_shared(place) == f"{place} belongs to user {ANOTHER}"
    assert why_shared(place / "file") == f"{place} belongs to user {ANOTHER}"


def test_one_on_the_way_of_another_user(place, of_another):
    of_another(place.parent)
    assert why_shared(place) == f"{place.parent} belongs to user {ANOTHER}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give directories away")
def test_one_that_was_given_away(place):
    os.chown(place, ANOTHER, ANOTHER)
    assert why_shared(place) == f"{place} belongs to user {ANOTHER}"


def test_symbolic_links_are_followed(place, tmp_path, of_another):
    (tmp_path / "far").mkdir()
    link, relative = tmp_path / "link", tmp_path / "far" / "relative"
    link.symlink_to(place)
    relative.symlink_to("../mine/kernels")
    assert why_shared(link) == "" == why_shared(relative / "file")
    place.chmod(0o777)
    for path in (link, relative, tmp_path / "far" / ".." / "link"):
        assert why_shared(path) == f"{place} may be written by others (mode 777)"
    of_another(link)
    assert why_shared(link) == f"{link} is a symbolic link of user {ANOTHER}"
    circle = tmp_path / "circle"
    circle.symlink_to("circle")
    assert "is a symbolic link" in why_shared(circle)

"""README is short, the house is drawn as it is, and links lead somewhere."""

import re

import pytest
from documents import DOCUMENTS, GUIDE, README, ROOT

MOST_LINES, MOST_BYTES = 100, 60_000
TEXT = README.read_text()
PACKAGES = ("integrators", "systems", "sweep", "tests")


def test_readme_is_short():
    assert len(TEXT.splitlines()) <= MOST_LINES


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_relative_links_lead_to_files(path):
    for link in re.findall(r"\]\(([^)]+)\)", path.read_text()):
        if "://" not in link:
            assert (path.parent / link.partition("#")[0]).exists(), link


def test_readme_leads_to_the_guide():
    assert "(sweep/guide/tutorial.md)" in TEXT and "(sweep/guide/)" in TEXT


def test_readme_has_two_small_pictures():
    pictures = re.findall(r"^!\[.+\]\((.+)\)$", TEXT, re.MULTILINE)
    assert len(pictures) == 2
    assert all((ROOT / picture).stat().st_size <= MOST_BYTES for picture in pictures)


def test_the_house_has_every_folder_and_no_other():
    """In the drawing of its page, below each package."""
    shown, package = set(), ""
    drawing = (GUIDE / "contributing.md").read_text().partition("The way of the data")[0]
    for indent, folders in re.findall(r"^    ( *)((?:\w+/ ?)+)", drawing, re.MULTILINE):
        names = folders.replace("/", "").split()
        package = package if indent else names[0]
        shown |= {f"{package}/{name}" for name in names} if indent else set()
    assert shown == {
        f"{package}/{path.name}"
        for package in PACKAGES
        for path in (ROOT / package).iterdir()
        if path.is_dir() and path.name[0] not in "._"  # no caches
    }

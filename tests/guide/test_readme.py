"""README is short, its map is that of the house, and links lead somewhere."""

import re
from pathlib import Path

import pytest
from documents import DOCUMENTS, README, ROOT

MOST_LINES = 150
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


def test_the_map_has_every_folder_and_no_other():
    rows = re.findall(r"^\| (`.*?) \|", TEXT[TEXT.index("\n## Map\n") :], re.MULTILINE)
    shown = set()
    for row in rows:
        first, *others = re.findall(r"`([\w/]+)/`", row)
        beside = Path(first).parent
        shown |= {first} | {other if "/" in other else f"{beside}/{other}" for other in others}
    folders = {
        f"{package}/{path.name}"
        for package in PACKAGES
        for path in (ROOT / package).iterdir()
        if path.is_dir() and path.name[0] not in "._"  # no caches
    }
    assert shown == folders | {"integrators", "sweep"}

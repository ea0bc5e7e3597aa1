"""Each test of studies has a current directory of its own, where its files are."""

import pytest


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """The current directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path

"""What tests of clusters share: a batch system, and what a store says of who writes to it."""

import json

import pytest
from batch_system import BatchSystem
from dask_processes import await_scheduler


@pytest.fixture
def batch(tmp_path, monkeypatch):
    """A batch system whose commands are first on the PATH."""
    return BatchSystem(tmp_path / "batch", monkeypatch)


@pytest.fixture
def told(called):
    """The answer of ``sweep status --json`` about a store; empty if there is none yet."""

    def ask(store):
        done = called(store.parent, "status", store.name, "--json")
        return json.loads(done.stdout) if done.returncode == 0 else {}

    return ask


@pytest.fixture
def holder(told):
    """The process that writes to a store, or None."""
    return lambda store: told(store).get("holder")


@pytest.fixture
def submission(told):
    """The state of what was submitted: ``queued``, ``running``, ``ended``; "" once complete."""

    def ask(store):
        found = told(store).get("submission")
        return found["state"] if found else ""

    return ask


@pytest.fixture
def scheduling(start, until, tmp_path_factory):
    """A scheduler's process and its address."""
    return await_scheduler(start, until, tmp_path_factory.mktemp("scheduler"))


@pytest.fixture
def scheduler(scheduling):
    """Address of a scheduler."""
    return scheduling[1]

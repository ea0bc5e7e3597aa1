"""A distribution in a run: workers that have it installed, and those that have not."""

import json

import pytest
from distributions import INSTALLED, distribute
from plugin_text import write
from service_fixtures import local_cluster

import sweep
from sweep.errors import TaskFailed


@pytest.fixture(scope="module")
def site(cluster, tmp_path_factory):
    """A directory on the path with the distribution, of which workers of the cluster know nothing.

    They have started before. Its module has one name, so that its kernels are compiled once.
    """
    with pytest.MonkeyPatch.context() as patch:
        directory = tmp_path_factory.mktemp("site")
        distribute(directory, "beads", module="beads_of_service")
        patch.syspath_prepend(directory)
        patch.setenv("PYTHONPATH", str(directory))
        yield directory


def test_workers_without_it(site, cluster, tmp_path):
    (tmp_path / "bead.toml").write_text(INSTALLED)
    with pytest.raises(TaskFailed, match="of beads 1.0 is not installed here; expected"):
        sweep.run(tmp_path / "bead.toml", tmp_path / "bead.zarr", cluster)


@pytest.fixture(scope="module")
def store(site, tmp_path_factory):
    """The store of a study that names what is installed."""
    home = tmp_path_factory.mktemp("installed")
    (home / "bead.toml").write_text(INSTALLED)
    with local_cluster(1) as own:
        assert sweep.run(home / "bead.toml", home / "bead.zarr", own).complete
    return home / "bead.zarr"


@pytest.mark.slow
def test_it_is_computed_as_by_a_plugin(store, cluster, tmp_path, arrays):
    path = tmp_path / "plugin.zarr"
    assert sweep.run(write(tmp_path), path, cluster).complete
    here, there = arrays(store, "spring"), arrays(path, "spring")
    for name in ("run_id", "energy", "height", "global_error"):
        assert here[name].tobytes() == there[name].tobytes()


@pytest.mark.slow
def test_commands_know_it(store, called):
    def answer(*arguments):
        done = called(store.parent, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    for kind, name in (("systems", "bead"), ("integrators", "ralston"), ("plots", "heights")):
        assert name in [row["name"] for row in json.loads(answer("ls", kind, "--json"))]
    (row,) = json.loads(answer("ls", "observables", "--json"))
    assert (row["name"], row["of"]) == ("height", ["bead", "spherical_pendulum_chain"])
    assert "the entry point 'bead' (geosweep.systems) of beads 1.0, sha" in answer(
        "show", "system", "bead"
    )
    assert "ralston+projected" in answer("show", "integrator", "ralston+projected")
    assert "heights.svg" in answer("plot", "heights", store, "-o", "heights.svg")
    drawn = answer("plot", store, "-o", "all", "--format", "svg").split()
    kinds = ("heights", "energy", "drift", "work")
    assert {f"all/spring-{kind}.svg" for kind in kinds} <= set(drawn)
    assert "Nothing to compute" in answer("run", store, "--no-summary")

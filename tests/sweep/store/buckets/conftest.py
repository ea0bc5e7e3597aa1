"""A bucket on an S3 server on loopback, and stores in it."""

import time

import pytest
from s3_server import Server
from studies_in_buckets import BUCKET, FEW, run, set_on_workers

from sweep.store.backends.places import place_of_store_name
from sweep.store.backends.trees import copy_tree, remove_tree


@pytest.fixture(scope="module")
def server(cluster):
    made = Server()
    made.client().create_bucket(Bucket="studies")
    set_on_workers(cluster, made.environment)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment.items():
            patch.setenv(name, value)
        yield made
    made.stop()


@pytest.fixture
def bucket(server):
    """Names a place of the test's own, of which nothing stays."""
    place = place_of_store_name(f"{BUCKET}/{time.monotonic_ns()}")
    yield place
    remove_tree(place)


@pytest.fixture(scope="module")
def local(cluster, tmp_path_factory):
    path = tmp_path_factory.mktemp("local") / "few.zarr"
    run(FEW, path, cluster)
    return path


@pytest.fixture(scope="module")
def base(server, cluster):
    """The same in the bucket; tests copy it."""
    run(FEW, f"{BUCKET}/base.zarr", cluster)
    return place_of_store_name(f"{BUCKET}/base.zarr")


@pytest.fixture
def store(base, bucket):
    copy_tree(base, bucket / "few.zarr")
    return bucket / "few.zarr"


@pytest.fixture
def assert_like(assert_same_runs, tmp_path):
    """Assert that a store in the bucket has the runs of a local one, bit for bit."""

    def check(path, place, name="only"):
        fetched = tmp_path / f"{time.monotonic_ns()}.zarr"
        copy_tree(place, fetched)
        assert_same_runs(path, fetched, name)
        return fetched

    return check

"""A bucket on an S3 server on loopback, and stores in it."""

import contextlib
import time

import pytest
from s3_server import Server
from studies_in_buckets import BUCKET, PATIENCE, TEXT, path_of, set_on_workers
from written_stores import run


@pytest.fixture(scope="module")
def server(cluster):
    made = Server()
    made.write("studies")
    set_on_workers(cluster, made.environment)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment.items():
            patch.setenv(name, value)
        yield made
    made.stop()


@pytest.fixture
def bucket(server):
    """Names a place of the test's own."""
    return f"{BUCKET}/{time.monotonic_ns()}"


@pytest.fixture
def impatient(server, cluster):
    """Within ``with impatient():`` nobody waits long for an answer."""

    @contextlib.contextmanager
    def within():
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(PATIENCE, "0.5")
            set_on_workers(cluster, {PATIENCE: "0.5"})
            try:
                yield
            finally:
                set_on_workers(cluster, {PATIENCE: "60"})

    yield within
    server.have()


@pytest.fixture(scope="module")
def local(cluster, tmp_path_factory):
    path = tmp_path_factory.mktemp("local") / "few.zarr"
    run(TEXT, path, cluster)
    return path


@pytest.fixture(scope="module")
def made(server, cluster):
    """The same in the bucket, and how many objects were changed on the way."""
    server.have()
    run(TEXT, f"{BUCKET}/base.zarr", cluster)
    return f"{BUCKET}/base.zarr", server.have()


@pytest.fixture(scope="module")
def base(made):
    """Its address; tests copy it."""
    return made[0]


@pytest.fixture
def store(base, bucket, server):
    server.copy(path_of(base), f"{path_of(bucket)}/few.zarr")
    return f"{bucket}/few.zarr"


@pytest.fixture
def assert_like(assert_same_runs, server, tmp_path):
    """Assert that a store in the bucket has the runs of a local one, bit for bit."""

    def check(path, store, name="only"):
        fetched = tmp_path / f"{time.monotonic_ns()}.zarr"
        server.fetch(path_of(store), fetched)
        assert_same_runs(path, fetched, name)
        return fetched

    return check

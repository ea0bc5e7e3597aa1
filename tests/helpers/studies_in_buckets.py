"""What the tests of stores in buckets share: a small study, and its workers' environment."""

import os

from study_text import one_experiment

FEW = {"record": '["energy", "state"]', "reference": '{ integrator = "dop853", tolerance = 1e-6 }'}
TEXT = one_experiment(**FEW)
BUCKET = "s3://studies"
PATIENCE = "GEOSWEEP_OBJECT_PATIENCE"


def path_of(address):
    """The path of an address, as the server names it."""
    return address.removeprefix("s3://")


def set_on_workers(cluster, environment):
    cluster.run(lambda: os.environ.update(environment))

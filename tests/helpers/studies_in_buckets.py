"""What the tests of stores in buckets share: a small study, and what lies in a place."""

import os

from study_text import one_experiment

import sweep
from sweep.store import studies

FEW = {"record": '["energy", "state"]', "reference": '{ integrator = "dop853", tolerance = 1e-6 }'}
BUCKET = "s3://studies"


def run(written, store, cluster):
    outcome = sweep.run(studies.parse_study(one_experiment(**written)), store, cluster)
    assert outcome.complete
    return outcome


def keys(place):
    return {str(found.relative_to(place)) for found in place.walk()}


def set_on_workers(cluster, environment):
    cluster.run(lambda: os.environ.update(environment))

"""The JSON Schema of studies takes what the reader takes, and refuses mistakes in a value."""

import json
import tomllib

import jsonschema
import pytest
from study_runs import PACKAGED
from study_text import FULL, one_experiment, problems

import integrators
import sweep
import systems


@pytest.fixture(scope="module")
def schema(called, tmp_path_factory):
    made = json.loads(called(tmp_path_factory.mktemp("schema"), "schema").stdout)
    jsonschema.Draft7Validator.check_schema(made)
    return jsonschema.Draft7Validator(made)


def fits(schema, text):
    return schema.is_valid(tomllib.loads(text))


@pytest.mark.parametrize("name", PACKAGED)
def test_packaged_studies_are_valid_and_fit(schema, name):
    if name != "all-orders":  # seconds, for all methods; the tests of ids and of small ones load it
        study = sweep.load_study(name)
        assert study.name == name and study.description and study.toml() == PACKAGED[name]
    found = jsonschema.exceptions.best_match(schema.iter_errors(tomllib.loads(PACKAGED[name])))
    assert found is None, found.json_path


RIGHT = {
    "everything of format 1": FULL,
    "defaults that have what experiments lack": """\
format = 1
name = "a"
[defaults]
integrators = "all"
step_size = "declared"
samples = 2
duration = "declared"
initial_condition = "lee"
[[experiment]]
name = "own"
system = "spherical_pendulum_chain"
""",
    "all integrators of an order": one_experiment(
        integrators='[{ name = "all", order = "< 3" }, "rk4"]'
    ),
    "a counted quantity": one_experiment(record='[{ name = "lyapunov", count = 2 }]'),
    "no reference": one_experiment(reference="false"),
    "a method that its options make": one_experiment(
        integrators='{ name = "rkmk", tableau = { a = [[], [0.5]], b = [0, 1], order = 2 } }'
    ),
    "starts of a family": one_experiment(
        system='"point_vortices"',
        integrators='"spherical_midpoint"',
        initial_condition='{ name = "invariant_manifold", theta = [0.7, 0.9], phi = 0.4 }',
    ),
    "axes that advance together": one_experiment(
        scan="{ gravity = [1, 2], length = { start = 1, stop = 2, count = 2 } }",
        zip='[["gravity", "length"]]',
    ),
    "labelled values": one_experiment(scan='{ mass = [{ label = "light", value = [1, 2] }] }'),
    "samples that thin out": one_experiment(samples="{ per_decade = 3 }"),
}


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_what_the_reader_takes_fits(schema, text, here):
    (here / "s.toml").write_text(text)
    assert sweep.load_study("s.toml").toml() == text
    assert fits(schema, text)


WRONG = {
    "another format": FULL.replace("format = 1", "format = 2"),
    "no name": FULL.replace('name = "double-pendulum"\n', ""),
    "a name with a blank": FULL.replace('"double-pendulum"', '"double pendulum"'),
    "a key of the study": FULL.replace("plugins = []", "plugin = []"),
    "a key of the defaults": FULL.replace("statistics =", "statistic =", 1),
    "a key of an experiment": one_experiment(steps="3"),
    "no integrators anywhere": one_experiment(integrators=None),
    "no duration": one_experiment(duration=None),
    "a system": one_experiment(system='"pendulum"'),
    "a parameter": one_experiment(parameters="{ masses = 1 }"),
    "a parameter of another system": one_experiment(parameters="{ coupling = 1.0 }"),
    "a scanned parameter": one_experiment(scan="{ masses = [1, 2] }"),
    "a number as a scan": one_experiment(scan="{ gravity = 1 }"),
    "a range without its end": one_experiment(scan="{ gravity = { start = 1, count = 3 } }"),
    "a spacing": one_experiment(
        step_size='{ start = 0.1, stop = 0.01, count = 3, spacing = "ln" }'
    ),
    "an integrator": one_experiment(integrators='["variation"]'),
    "a modifier": one_experiment(integrators='"variational+suzuki5"'),
    "an option": one_experiment(integrators='[{ name = "rk4", form = "q_omega" }]'),
    "a value of an option": one_experiment(integrators='[{ name = "rk4", formulation = "omega" }]'),
    "an order in the place of a number": one_experiment(
        integrators='[{ name = "all", order = ["2"] }]'
    ),
    "a start": one_experiment(initial_condition='["lea"]'),
    "a start of another system": one_experiment(initial_condition='"ring"'),
    "an ensemble without its seed": one_experiment(initial_condition="{ random = 3 }"),
    "half a member": one_experiment(initial_condition="{ random = 3.5, seed = 1 }"),
    "a vector of two numbers": one_experiment(
        initial_condition="{ q = [[0.0, 1.0]], omega = [[0.0, 0.0, 0.0]] }"
    ),
    "a duration in words": one_experiment(duration='"long"'),
    "half a sample": one_experiment(samples="2.5"),
    "samples in a table": one_experiment(samples="{ decade = 3 }"),
    "statistics": one_experiment(statistics='"each_step"'),
    "a reference that is true": one_experiment(reference="true"),
    "a reference without integrator": one_experiment(reference="{ tolerance = 1e-12 }"),
    "a quantity with a count": one_experiment(record='[{ name = "energy", count = 2 }]'),
    "a zip of names": one_experiment(scan="{ gravity = [1, 2] }", zip='["gravity"]'),
    "an empty rule": one_experiment(exclude="[{}]"),
    "repeats in words": one_experiment(repeat='"twice"'),
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_mistakes_of_a_value_are_found_by_both(schema, text):
    assert problems(text)
    assert not fits(schema, text)


def test_a_study_with_plugins_may_name_what_they_add(schema):
    own = one_experiment(system='"bead"', integrators='["ralston", { name = "rk9", stages = 3 }]')
    assert not fits(schema, own)
    assert fits(schema, f'plugins = ["bead.py"]\n{own}')


def test_every_system_and_integrator_is_offered(schema):
    experiment = schema.schema["properties"]["experiment"]["items"]["properties"]
    offered = [experiment[key]["anyOf"][0]["enum"] for key in ("system", "integrators")]
    known = {*offered[0], *offered[1]}
    assert known == {*systems.names(), *integrators.names(), "all", "rkmk"}


def test_it_has_the_keys_of_an_experiment(schema):
    properties = schema.schema["properties"]
    assert set(properties) == {"format", "name", "description", "plugins", "defaults", "experiment"}
    keys = set(sweep.Experiment.model_fields)
    assert set(properties["experiment"]["items"]["properties"]) == keys
    assert set(properties["defaults"]["properties"]) < keys

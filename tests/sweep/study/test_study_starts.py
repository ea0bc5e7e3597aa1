"""Starts from files and over lattices, as a study asks for them."""

import json

import numpy as np
import pytest
from study_text import one_experiment, problems

import systems
from sweep import errors
from sweep.store import studies
from sweep.study.run_table import expand_experiment

CHAIN = systems.get("spherical_pendulum_chain")
MEMBERS = CHAIN.ensemble(5, seed=3)


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def start_of(written, **changes):
    (experiment,) = studies.parse_study(
        one_experiment(initial_condition=written, **changes)
    ).experiments
    (start,) = experiment.initial_conditions
    return start, expand_experiment(experiment)


# --- files ------------------------------------------------------------------------------------


def test_a_single_state_and_an_ensemble():
    np.save("one.npy", MEMBERS[0])
    start, table = start_of('{ file = "one.npy" }')
    assert (start.size, start.labels, start.ensemble) == (1, ("one",), "")
    np.testing.assert_array_equal(table.starts[0], MEMBERS[:1])
    np.savez("many.npz", states=MEMBERS)
    start, table = start_of('{ file = "many.npz", label = "measured" }')
    assert (start.size, start.labels[4], start.ensemble) == (5, "measured[4]", "measured")
    np.testing.assert_array_equal(table.starts[0], MEMBERS)
    np.save("member.npy", MEMBERS[:1])
    assert start_of('{ file = "member.npy" }')[0].labels == ("member[0]",)


def test_the_run_is_that_of_the_state_wherever_it_comes_from():
    np.save("lee.npy", CHAIN.start("lee"))
    _, table = start_of('{ file = "lee.npy" }')
    assert table.run_id.tolist() == start_of('"lee"')[1].run_id.tolist()


def test_a_growing_file_keeps_its_members():
    np.save("states.npy", MEMBERS[:3])
    _, few = start_of('{ file = "states.npy" }')
    np.save("states.npy", MEMBERS)
    _, many = start_of('{ file = "states.npy" }')
    kept = many.start_index < 3
    assert many.run_id[kept].tolist() == few.run_id.tolist()
    assert many.initial_condition[kept].tolist() == few.initial_condition.tolist()


def test_a_path_is_relative_to_the_file_of_the_study(tmp_path, monkeypatch):
    folder = tmp_path / "elsewhere"
    (folder / "data").mkdir(parents=True)
    np.save(folder / "data" / "states.npy", MEMBERS)
    text = one_experiment(initial_condition='{ file = "data/states.npy" }')
    (folder / "mine.toml").write_text(text)
    for path in (folder / "mine.toml", "elsewhere/mine.toml"):
        assert studies.load_study_file(path).experiments[0].initial_conditions[0].size == 5
    with pytest.raises(errors.StudyError, match=f"there is no file {tmp_path}/data/states.npy"):
        studies.parse_study(text)
    monkeypatch.chdir(folder)
    assert studies.parse_study(text).experiments[0].initial_conditions[0].size == 5


def test_the_expanded_study_says_what_was_in_the_file_and_not_its_numbers():
    np.save("states.npy", MEMBERS)
    (experiment,) = studies.parse_study(
        one_experiment(initial_condition='{ file = "states.npy" }')
    ).experiments
    (written,) = json.loads(json.dumps(experiment.expanded()))["initial_conditions"]
    digest = written.pop("digest")
    assert written == {"file": "states.npy", "normalize": False, "label": "states"}
    np.save("states.npy", MEMBERS[::-1])
    assert start_of('{ file = "states.npy" }')[0].digest != digest


def test_states_off_the_manifold_can_be_normalized():
    np.save("states.npy", 1.5 * MEMBERS)
    _, table = start_of('{ file = "states.npy", normalize = true }')
    q, omega = np.split(table.starts[0], 2, axis=1)
    np.testing.assert_allclose(q, MEMBERS[:, :2], atol=1e-15)
    np.testing.assert_allclose(omega, 1.5 * MEMBERS[:, 2:], atol=1e-14)


def test_the_row_of_the_work_may_be_left_out():
    forced = systems.get("forced_pendulum_chain")
    np.save("states.npy", MEMBERS)
    _, table = start_of('{ file = "states.npy" }', system=f'"{forced.name}"')
    assert table.starts[0].shape == (5, forced.rows, 3)
    np.testing.assert_array_equal(table.starts[0][:, :4], MEMBERS)
    assert not table.starts[0][:, 4:].any()


def spoilt(member, value):
    states = MEMBERS.copy()
    states[member, 1, 0] = value
    return states


BAD = {
    "off.npy": (spoilt(3, 2.0), "member 3: body 1 is off the manifold: … normalize = true"),
    "nan.npy": (spoilt(2, np.nan), "member 2: the state has a number that is not finite"),
    "three.npy": (np.zeros((6, 3)), "'three.npy' holds an array of shape (6, 3); …expects (4, 3)"),
    "flat.npy": (np.zeros(12), "flat.npy holds an array of shape (12,); expected (rows, 3) or"),
    "wide.npy": (np.zeros((5, 4, 4)), "wide.npy holds an array of shape (5, 4, 4); expected"),
    "none.npy": (np.zeros((0, 4, 3)), "none.npy holds an array of shape (0, 4, 3); expected"),
    "words.npy": (np.array([["a", "b", "c"]]), "words.npy holds <U1; expected real numbers"),
    "complex.npy": (MEMBERS + 0j, "complex.npy holds complex128; expected real numbers"),
    "objects.npy": (np.array([None]), "objects.npy is no array of numbers: "),
}


@pytest.mark.parametrize("name", BAD)
def test_arrays_that_are_no_states(name):
    values, message = BAD[name]
    np.save(name, values)
    assert_refused(f'{{ file = "{name}" }}', message)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "states.csv",
            "expected a file of numpy.save or numpy.savez, .npy or .npz, got 'states.csv'",
        ),
        ("lost.npy", "there is no file …/lost.npy; a path is relative to the study's directory"),
        ("folder.npy", "folder.npy cannot be read: Is a directory"),
        ("text.npy", "text.npy is no array of numbers"),
        ("short.npy", "short.npy is no array of numbers"),
        ("text.npz", "text.npz is no array of numbers"),
        ("two.npz", "two.npz holds 2 arrays (a, b); expected one"),
    ],
)
def test_files_that_are_refused(tmp_path, name, message):
    (tmp_path / "folder.npy").mkdir()
    (tmp_path / "text.npy").write_text("1 2 3\n")
    (tmp_path / "text.npz").write_text("1 2 3\n")
    np.save("whole.npy", MEMBERS)
    (tmp_path / "short.npy").write_bytes((tmp_path / "whole.npy").read_bytes()[:200])
    np.savez("two.npz", a=MEMBERS, b=MEMBERS)
    assert_refused(f'{{ file = "{name}" }}', message)


def assert_refused(written, message, **changes):
    found = problems(one_experiment(initial_condition=written, **changes))[0]
    assert found.startswith("s.toml:8: experiment[0].initial_condition")
    assert all(part in found for part in message.split("…")), found


# --- ensembles about a state -------------------------------------------------------------------


def test_an_ensemble_is_drawn_about_any_one_state():
    named, table = start_of('{ around = "lee", random = 3, spread = 0.1, seed = 1 }')
    given = f"q = {MEMBERS[0][:2].tolist()}, omega = {MEMBERS[0][2:].tolist()}, normalize = true"
    start, other = start_of(f"{{ around = {{ {given} }}, random = 3, spread = 0.1, seed = 1 }}")
    assert (start.size, start.label) == (3, "state-random")
    drawn = CHAIN.ensemble(3, seed=1, around=CHAIN.normalized(MEMBERS[0]), spread=0.1)
    np.testing.assert_array_equal(other.starts[0], drawn)
    assert start.content != named.content and not (table.starts[0] == other.starts[0]).all()
    again, same = start_of('{ around = { name = "lee" }, random = 3, spread = 0.1, seed = 1 }')
    np.testing.assert_array_equal(same.starts[0], table.starts[0])
    assert again.labels == named.labels


@pytest.mark.parametrize(
    ("around", "message"),
    [
        ("7", ".around: expected a table"),
        ('{ name = "le" }', ".around.name: unknown start …Did you mean 'lee'?"),
        ("{ lattice = 9 }", ".around: an ensemble is about one state, and this gives 9"),
    ],
)
def test_what_an_ensemble_cannot_be_drawn_about(around, message):
    written = f"{{ around = {around}, random = 3, spread = 0.1, seed = 1 }}"
    assert_refused(written, message)


# --- lattices ---------------------------------------------------------------------------------


def test_a_lattice():
    start, table = start_of('{ lattice = 12, body = 1, around = "lee" }')
    assert (start.size, start.labels[11], start.ensemble) == (12, "lattice[11]", "lattice")
    np.testing.assert_array_equal(table.starts[0], CHAIN.lattice(12, body=1, around="lee"))
    plain, table = start_of("{ lattice = 12 }")
    np.testing.assert_array_equal(table.starts[0], CHAIN.lattice(12, body=0, around="lee"))
    assert studies.parse_study(one_experiment(initial_condition="{ lattice = 12 }")).experiments[
        0
    ].expanded()["initial_conditions"] == [
        {"count": 12, "body": 0, "around": None, "label": "lattice"}
    ]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("{ lattice = 0 }", ".lattice: expected 1 to 50,000 directions, got 0"),
        ("{ lattice = 1000000 }", ".lattice: expected 1 to 50,000 directions, got 1,000,000"),
        ("{ lattice = 1.5 }", ".lattice: expected an integer"),
        ("{ lattice = 9, body = 2 }", ".body: body = 2; spherical_pendulum_chain has 2 bodies"),
        ("{ lattice = 9, body = -1 }", ".body: body = -1; expected a whole number"),
        ('{ lattice = 9, around = "le" }', ".around: unknown start …Did you mean 'lee'?"),
        ("{ lattice = 9, spread = 1.0 }", ".spread: unknown key 'spread'"),
        ("{ latice = 9 }", ": expected a start's name, …{ lattice, … }"),
    ],
)
def test_lattices_that_are_refused(written, message):
    assert_refused(written, message)


def test_a_lattice_around_a_start_that_does_not_suit():
    text = one_experiment(initial_condition="{ lattice = 9 }", parameters="{ count = 3 }")
    assert "start 'lee' is a double pendulum" in problems(text)[0]


# --- states of spins --------------------------------------------------------------------------

VORTICES = {"system": '"point_vortices"', "integrators": '"rk4"'}
SPIN = {"system": '"free_rigid_body"', "integrators": '"rk4"'}
FOUR = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [-1.0, 0.0, 0.0]]


def with_zero(spin):
    return [[0.0] * 3 if i == spin else w for i, w in enumerate(FOUR)]


def test_a_state_of_spins_that_is_spelt_out():
    _, table = start_of(f"{{ w = {FOUR} }}", **VORTICES)
    np.testing.assert_array_equal(table.starts[0], [FOUR])
    longer = [[3.0 * x for x in w] for w in FOUR]
    _, same = start_of(f"{{ w = {longer}, normalize = true }}", **VORTICES)
    assert same.run_id.tolist() == table.run_id.tolist()


def test_a_lattice_of_one_spin_covers_the_sphere():
    _, table = start_of("{ lattice = 400 }", **SPIN)
    body = systems.get("free_rigid_body")
    states = table.starts[0]
    assert states.shape == (400, 1, 3)
    lengths = np.linalg.norm(states[:, 0], axis=1)
    np.testing.assert_allclose(lengths, np.linalg.norm(body.start(body.starts[0])), rtol=4e-16)
    directions = states[:, 0] / lengths[:, None]
    cosines = directions @ directions.T - 2 * np.eye(400)
    # each has a sphere's 400th to itself, a disc of radius 0.1
    assert np.all(np.arccos(cosines.max(axis=1)) > 0.15)
    assert np.all(np.arccos(cosines.max(axis=1)) < 0.2)


def test_a_file_of_spins():
    np.save("spins.npy", np.stack([FOUR, FOUR[::-1]]))
    _, table = start_of('{ file = "spins.npy" }', **VORTICES)
    np.testing.assert_array_equal(table.starts[0], [FOUR, FOUR[::-1]])


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (
            f"{{ q = {FOUR}, omega = {FOUR} }}",
            ".q: a state of point_vortices is given by w, not by q and omega",
        ),
        (f"{{ q = {FOUR} }}", ".q: a state of point_vortices is given by w, not by q"),
        (f"{{ w = {FOUR}, omega = {FOUR} }}", ".omega: …is given by w, not by omega"),
        (f"{{ w = {FOUR[:3]} }}", ".w: expected 4 vectors, one for each body, got 3"),
        (f"{{ w = {FOUR[0]} }}", ".w[0]: expected a vector of 3 numbers, got a number: 1.0"),
        (f"{{ w = {with_zero(2)} }}", ".w: spin 2 is the zero vector, which has no direction"),
        (
            f"{{ w = {with_zero(0)}, normalize = true }}",
            ".w: spin 0 is the zero vector, which has no direction",
        ),
        (
            f"{{ w = {with_zero(1)} }}".replace("[0.0, 0.0, 0.0]", "[0.0, 1.1, 0.0]"),
            ": body 1 is off the manifold: |w·w − 1| = 0.21; …or normalize = true",
        ),
        ('{ file = "pendula.npy" }', ".file: …point_vortices with 4 bodies …): w of each body"),
        ('{ file = "zero.npy", normalize = true }', ": member 1: spin 3 is the zero vector"),
        ('{ file = "nan.npy", normalize = true }', ": member 0: the state has a number that is no"),
        ('{ lattice = 9, around = "lee" }', ".around: unknown start of point_vortices 'lee'"),
    ],
)
def test_states_of_spins_that_are_refused(written, message):
    np.save("pendula.npy", np.zeros((6, 3)))
    np.save("zero.npy", np.stack([FOUR, with_zero(3)]))
    np.save("nan.npy", np.full((1, 4, 3), np.nan))
    assert_refused(written, message, **VORTICES)


def test_states_of_pendula_in_the_words_of_spins_are_refused():
    assert_refused(
        f"{{ w = {FOUR} }}",
        ".w: a state of spherical_pendulum_chain is given by q and omega, not by w",
    )
    still = [[0.0, 0.0, 0.0]] * 2
    for normalize in ("true", "false"):
        assert_refused(
            f"{{ q = {with_zero(1)[:2]}, omega = {still}, normalize = {normalize} }}",
            ".q: q of body 1 is the zero vector, which has no direction",
        )

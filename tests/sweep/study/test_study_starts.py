"""Starts from files and over lattices, about a state or spelt out: as a study asks for them."""

import numpy as np
import pytest
from study_runs import many_experiments, runs_to_compute, stored, table_of
from study_text import one_experiment, problems

import sweep
import systems
from sweep import errors

CHAIN = systems.get("spherical_pendulum_chain")
MEMBERS = CHAIN.ensemble(5, seed=3)
FOUR = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [-1.0, 0.0, 0.0]]
SPELT = f"q = {MEMBERS[0][:2].tolist()}, omega = {MEMBERS[0][2:].tolist()}, normalize = true"
ABOUT = "random = 3, spread = 0.1, seed = 1"
STARTS = {  # what is written, by the label of its first state, and the states
    "one": ('{ file = "one.npy" }', MEMBERS[:1]),
    "measured[0]": ('{ file = "many.npz", label = "measured" }', MEMBERS[1:]),
    "long[0]": ('{ file = "long.npy", normalize = true }', None),
    "lee-random[0]": (
        f'{{ around = "lee", {ABOUT} }}',
        CHAIN.ensemble(3, seed=1, around=CHAIN.start("lee"), spread=0.1),
    ),
    "state-random[0]": (
        f"{{ around = {{ {SPELT} }}, {ABOUT} }}",
        CHAIN.ensemble(3, seed=1, around=CHAIN.normalized(MEMBERS[0]), spread=0.1),
    ),
    "lattice[0]": (
        '{ lattice = 12, body = 1, around = "lee" }',
        CHAIN.lattice(12, body=1, around="lee"),
    ),
    "plain[0]": (
        '{ lattice = 12, label = "plain" }',
        CHAIN.lattice(12, body=0, around="lee"),
    ),
}
SPIN = {"system": '"free_rigid_body"', "integrators": '"splitting"'}
VORTICES = {"system": '"point_vortices"', "integrators": '"rk4"'}
FORCED = {"system": '"forced_pendulum_chain"', "integrators": '"rk4"'}
SETTINGS = {
    "chain": {"initial_condition": f"[{', '.join(text for text, _ in STARTS.values())}]"},
    "spin": SPIN | {"initial_condition": "{ lattice = 400 }"},
    "vortices": VORTICES | {"initial_condition": f'[{{ w = {FOUR} }}, {{ file = "spins.npy" }}]'},
    "forced": FORCED | {"initial_condition": '{ file = "many.npz" }'},
}
SHARED = {"integrators": '"rk4"', "step_size": "0.1", "duration": "0.1", "samples": "1"}


def write_files(folder):
    np.save(folder / "one.npy", MEMBERS[0])
    np.savez(folder / "many.npz", states=MEMBERS[1:])
    np.save(folder / "long.npy", 1.5 * MEMBERS)
    np.save(folder / "spins.npy", np.stack([FOUR[::-1], FOUR[1:] + FOUR[:1]]))


@pytest.fixture(scope="module")
def place(cluster, tmp_path_factory):
    """A directory with files of states, and a store of the runs that begin there."""
    place = tmp_path_factory.mktemp("starts")
    write_files(place)
    stored(many_experiments(SETTINGS, **SHARED), cluster, place)
    return place


@pytest.fixture(scope="module")
def found(place):
    """Datasets of the store by name."""
    tree = sweep.open_study(place / "s.zarr")
    return {name: group.to_dataset() for name, group in tree.children.items()}


# --- in a store -------------------------------------------------------------------------------


@pytest.mark.parametrize("label", STARTS)
def test_states_are_those_that_are_asked_for(found, label):
    _, states = STARTS[label]
    ensemble = label.partition("[")[0]
    own = found["chain"].query(run=f"ensemble == '{ensemble}' or initial_condition == '{label}'")
    assert own["initial_condition"].values[0] == label
    if states is None:  # off the manifold, and normalized
        q, omega = np.split(own["initial_state"].values, 2, axis=1)
        np.testing.assert_allclose(q, MEMBERS[:, :2], atol=1e-15)
        np.testing.assert_allclose(omega, 1.5 * MEMBERS[:, 2:], atol=1e-14)
    else:
        np.testing.assert_array_equal(own["initial_state"], states)
    if len(own["run"]) > 1:
        labels = [f"{ensemble}[{i}]" for i in range(len(own["run"]))]
        assert own["initial_condition"].values.tolist() == labels
        assert set(own["ensemble"].values) == {ensemble}
    else:
        assert own["ensemble"].values.tolist() == [""]


def test_the_run_is_that_of_the_state_wherever_it_comes_from(place, here):
    np.save("member.npy", MEMBERS[:1])
    np.save("more.npy", np.concatenate([MEMBERS[1:], MEMBERS[:1]]))
    written = '{ around = { name = "lee" }, random = 3, spread = 0.1, seed = 1 }'
    for start, new in (
        ('{ file = "member.npy" }', 0),
        (f"{{ {SPELT} }}", 0),
        (written, 0),
        ('{ file = "more.npy", label = "measured" }', 0),  # that has grown
        ('"lee"', 1),
    ):
        text = many_experiments({"chain": {"initial_condition": start}}, **SHARED)
        assert runs_to_compute(text, place / "s.zarr")["chain"] == new


def test_the_row_of_the_work_may_be_left_out(found):
    states = found["forced"]["initial_state"].values
    np.testing.assert_array_equal(states[:, :4], MEMBERS[1:])
    assert states.shape == (4, systems.get("forced_pendulum_chain").rows, 3)
    assert not states[:, 4:].any()


def test_states_of_spins(found):
    states = found["vortices"]["initial_state"].values
    np.testing.assert_array_equal(states, [FOUR, FOUR[::-1], FOUR[1:] + FOUR[:1]])


def test_a_lattice_of_one_spin_covers_the_sphere(found):
    body = systems.get("free_rigid_body")
    states = found["spin"]["initial_state"].values
    assert states.shape == (400, 1, 3)
    lengths = np.linalg.norm(states[:, 0], axis=1)
    np.testing.assert_allclose(lengths, np.linalg.norm(body.start(body.starts[0])), rtol=4e-16)
    directions = states[:, 0] / lengths[:, None]
    cosines = directions @ directions.T - 2 * np.eye(400)
    # each has a sphere's 400th to itself, a disc of radius 0.1
    assert np.all(np.arccos(cosines.max(axis=1)) > 0.15)
    assert np.all(np.arccos(cosines.max(axis=1)) < 0.2)


def test_what_was_in_a_file_is_noted_without_its_numbers(found):
    noted = found["chain"].attrs["experiment"]
    assert '"file": "one.npy"' in noted and "digest" in noted
    assert repr(MEMBERS[0][0][0]) not in noted


# --- files ------------------------------------------------------------------------------------


def test_labels_of_files():
    np.save("one.npy", MEMBERS[0])
    np.save("member.npy", MEMBERS[:1])
    for name, labels in (("one", ["one"]), ("member", ["member[0]"])):
        table = table_of(initial_condition=f'{{ file = "{name}.npy" }}', **SHARED)
        assert table["initial_condition"].tolist() == labels


def test_a_path_is_relative_to_the_file_of_the_study(here, monkeypatch):
    folder = here / "elsewhere"
    (folder / "data").mkdir(parents=True)
    np.save(folder / "data" / "states.npy", MEMBERS)
    text = one_experiment(initial_condition='{ file = "data/states.npy" }', **SHARED)
    for path in (folder / "mine.toml", here / "here.toml"):
        path.write_text(text)
    for path in (folder / "mine.toml", "elsewhere/mine.toml"):
        (table,) = sweep.check(path)[1]
        assert len(table.to_dataframe()) == 5
    with pytest.raises(errors.StudyError, match=f"there is no file {here}/data/states.npy"):
        sweep.check("here.toml")


def spoilt(member, value):
    states = MEMBERS.copy()
    states[member, 1, 0] = value
    return states


BAD = {
    "off.npy": (spoilt(3, 2.0), "member 3: body 1 is off the manifold: …normalize = true"),
    "nan.npy": (spoilt(2, np.nan), "member 2: …not finite"),
    "three.npy": (np.zeros((6, 3)), "'three.npy'…shape (6, 3)…(4, 3)"),
    "flat.npy": (np.zeros(12), "flat.npy…shape (12,)…(rows, 3)"),
    "wide.npy": (np.zeros((5, 4, 4)), "wide.npy…shape (5, 4, 4)"),
    "none.npy": (np.zeros((0, 4, 3)), "none.npy…shape (0, 4, 3)"),
    "words.npy": (np.array([["a", "b", "c"]]), "words.npy…<U1…real numbers"),
    "complex.npy": (MEMBERS + 0j, "complex.npy…complex128…real numbers"),
    "objects.npy": (np.array([None]), "objects.npy is no array of numbers"),
}


@pytest.mark.parametrize("name", BAD)
def test_arrays_that_are_no_states(name):
    values, message = BAD[name]
    np.save(name, values)
    assert_refused(f'{{ file = "{name}" }}', message)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("states.csv", ".npy…'states.csv'"),
        ("lost.npy", "there is no file …/lost.npy; a path is relative to the study's directory"),
        ("folder.npy", "folder.npy cannot be read: Is a directory"),
        ("text.npy", "text.npy is no array of numbers"),
        ("short.npy", "short.npy is no array of numbers"),
        ("text.npz", "text.npz is no array of numbers"),
        ("two.npz", "two.npz holds 2 arrays (a, b)"),
    ],
)
def test_files_that_are_refused(here, name, message):
    (here / "folder.npy").mkdir()
    (here / "text.npy").write_text("1 2 3\n")
    (here / "text.npz").write_text("1 2 3\n")
    np.save("whole.npy", MEMBERS)
    (here / "short.npy").write_bytes((here / "whole.npy").read_bytes()[:200])
    np.savez("two.npz", a=MEMBERS, b=MEMBERS)
    assert_refused(f'{{ file = "{name}" }}', message)


def assert_refused(written, message, **changes):
    found = problems(one_experiment(initial_condition=written, **changes), ".")[0]
    assert found.startswith("s.toml:8: experiment[0].initial_condition")
    assert all(part in found for part in message.split("…")), found


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (f"{{ around = 7, {ABOUT} }}", ".around: …string…7"),
        (f'{{ around = {{ name = "le" }}, {ABOUT} }}', ".around.name: …Did you mean 'lee'?"),
        (f"{{ around = {{ lattice = 9 }}, {ABOUT} }}", ".around: …one state…9"),
        ("{ lattice = 0 }", ".lattice: …at least 1…0"),
        ("{ lattice = 1000000 }", ".lattice: …at most 50,000…1000000"),
        ("{ lattice = 1.5 }", ".lattice: …integer"),
        ("{ lattice = 9, body = 2 }", ".body: …body = 2; spherical_pendulum_chain has 2 bodies"),
        ("{ lattice = 9, body = -1 }", ".body: …-1"),
        ('{ lattice = 9, around = "le" }', ".around: …Did you mean 'lee'?"),
        ("{ lattice = 9, spread = 1.0 }", ".spread: …'spread'"),
        ("{ latice = 9 }", ": …start's name, …{ lattice, … }"),
    ],
)
def test_ensembles_and_lattices_that_are_refused(written, message):
    assert_refused(written, message)


def test_a_lattice_around_a_start_that_does_not_suit():
    text = one_experiment(initial_condition="{ lattice = 9 }", parameters="{ count = 3 }")
    assert "start 'lee' is a double pendulum" in problems(text)[0]


def with_zero(spin):
    return [[0.0] * 3 if i == spin else w for i, w in enumerate(FOUR)]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (f"{{ q = {FOUR}, omega = {FOUR} }}", ".q: …point_vortices is given by w, not by q and om"),
        (f"{{ q = {FOUR} }}", ".q: …point_vortices is given by w, not by q"),
        (f"{{ w = {FOUR}, omega = {FOUR} }}", ".omega: …is given by w, not by omega"),
        (f"{{ w = {FOUR[:3]} }}", ".w: …4 vectors…3"),
        (f"{{ w = {FOUR[0]} }}", ".w[0]: …3 numbers…1.0"),
        (f"{{ w = {with_zero(2)} }}", ".w: spin 2 is the zero vector, which has no direction"),
        (f"{{ w = {with_zero(0)}, normalize = true }}", ".w: spin 0 is the zero vector"),
        (
            f"{{ w = {with_zero(1)} }}".replace("[0.0, 0.0, 0.0]", "[0.0, 1.1, 0.0]"),
            ": body 1 is off the manifold: |w·w − 1| = 0.21; …or normalize = true",
        ),
        ('{ file = "pendula.npy" }', ".file: …point_vortices with 4 bodies …): w of each body"),
        ('{ file = "zero.npy", normalize = true }', ": member 1: spin 3 is the zero vector"),
        ('{ file = "nan.npy", normalize = true }', ": member 0: the state has a number that is no"),
        ('{ lattice = 9, around = "lee" }', ".around: …point_vortices…'lee'"),
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
        ".w: …spherical_pendulum_chain is given by q and omega, not by w",
    )
    still = [[0.0, 0.0, 0.0]] * 2
    for normalize in ("true", "false"):
        assert_refused(
            f"{{ q = {with_zero(1)[:2]}, omega = {still}, normalize = {normalize} }}",
            ".q: q of body 1 is the zero vector, which has no direction",
        )

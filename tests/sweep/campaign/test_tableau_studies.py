"""Integrators that a study makes of a Butcher tableau."""

import json

import pytest
import zarr
from study_runs import write
from study_text import one_experiment, problems

import integrators
import sweep
import systems

MIDPOINT = "a = [[], [0.5]], b = [0.0, 1.0], order = 2"
PAIR = f"{MIDPOINT}, embedded = [1.0, 0.0], embedded_order = 1"


def entry(tableau, label, name="rkmk", more=""):
    return f'{{ name = "{name}", tableau = {{ {tableau} }}, label = "{label}"{more} }}'


def test_a_study_makes_its_own_integrators_and_keeps_them(tmp_path, cluster):
    """With a fixed step, and adaptive; the same command goes on with the same runs."""
    text = one_experiment(
        integrators=f"""[
    {entry(MIDPOINT, "midpoint on the group")},
    {entry(PAIR, "2(1)", more=", tolerance = 1e-3")},
    {entry(PAIR, "main", "rkmk+fixed")},
]""",
        initial_condition='"lee"',
        record='["energy", "state"]',
    )
    file, store = write(text, tmp_path), tmp_path / "own.zarr"
    _, (table,) = sweep.check(file)
    assert sweep.run(file, store, cluster).complete
    data = sweep.open_study(store)["only"].to_dataset()
    ids = data.run_id.values.tolist()
    assert ids == table.run_id.tolist() and len(set(ids)) == 5
    assert data.adaptive.values.tolist() == [False, False, True, False, False]
    assert (data.status == 0).all()
    fixed = {name: data.energy.sel(run=data.integrator == name).values for name in
             ("midpoint on the group", "main")}  # fmt: skip
    assert (fixed["midpoint on the group"] == fixed["main"]).all()
    began = data.wall_time.values.tolist()
    assert sweep.run(file, store, cluster).complete
    assert sweep.open_study(store)["only"].wall_time.values.tolist() == began
    attributes = zarr.open_group(store, path="only", mode="r", use_consolidated=False).attrs
    kept = json.loads(attributes["integrators"])
    assert kept["2(1)"]["adaptive"] and kept["2(1)"]["order"] == 2
    options = kept["midpoint on the group"]["options"]
    assert options["tableau"] == {
        "a": [[], [0.5]], "b": [0.0, 1.0], "embedded": [], "order": 2, "embedded_order": 0,
    }  # fmt: skip
    expanded = json.loads(attributes["experiment"])["integrators"][0]["options"]["tableau"]
    assert expanded == options["tableau"]
    alone = integrators.integrate(
        systems.get("spherical_pendulum_chain"), integrators.get("rkmk", **options),
        data.initial_state.values[0], duration=1.0, samples=10, step_size=0.1,
    )  # fmt: skip
    assert (alone.states == data.state.values[0]).all()


def test_a_tableau_is_part_of_what_a_run_is(tmp_path):
    heun = "a = [[], [1.0]], b = [0.5, 0.5], order = 2"
    both = f"[{entry(MIDPOINT, 'one')}, {entry(heun, 'two')}]"
    _, (table,) = sweep.check(write(one_experiment(integrators=both), tmp_path))
    assert len(set(table.run_id.tolist())) == table.size == 12
    same = "a = [[0, 0], [0.5]], b = [0, 1], order = 2"
    (said,) = problems(
        one_experiment(integrators=f"[{entry(MIDPOINT, 'one')}, {entry(same, 'two')}]")
    )
    assert "gives a run of step size 0.1 that" in said


@pytest.mark.parametrize(
    ("tableau", "message"),
    [
        ("a = [[], [0.5, 0.5]], b = [0.0, 1.0], order = 2", ".a[1][1]: a[1][1] = 0.5: stage 1 dep"),
        ("a = [[], [0.5]], b = [0.0, true], order = 2", ".b[1]: expected a number, got a boolean"),
        ("a = [[], [0.5]], b = [0.0, 'x'], order = 2", ".b[1]: b[1] = 'x'; expected a number"),
        ("a = [[], [0.5]], b = [0.0, 0.9], order = 2", ".b: the weights b sum to 0.9"),
        ("a = [[], [0.5]], b = [0.0, 1.0], order = 3", ".order: order = 3: the method with the"),
        ("a = [[], [0.5]], b = [0.0, 1.0]", ": tableau has no order; expected one such as { a"),
        ("a = [[], [0.5]], b = [0.0, 1.0], ordr = 2", ".ordr: unknown key 'ordr' of tableau. Did"),
        ("a = [[]], b = [0.0, 1.0], order = 2", ".a: a = ((),); expected 2 rows"),
    ],
)
def test_a_wrong_tableau_is_told_by_line_and_key(tableau, message):
    (problem,) = problems(one_experiment(integrators=f"[\n    'rk4',\n{entry(tableau, 'x')}]"))
    assert problem.startswith(f"s.toml:8: experiment[0].integrators[1].tableau{message}")


def test_what_to_give_is_told():
    (problem,) = problems(one_experiment(integrators='["rk4", "rkmk"]'))
    assert problem.startswith("s.toml:6: experiment[0].integrators[1]: 'rkmk' is made of a Butcher")
    (problem,) = problems(one_experiment(integrators=f"[{entry(PAIR, 'x')}]", step_size=None))
    assert "'rkmk' is adaptive, and there is no 'tolerance'" in problem


@pytest.mark.parametrize("name", ["rkmk", "rkmk+fixed"])
def test_it_is_shown_without_a_tableau(name, command, tmp_path):
    facts = json.loads(command(tmp_path, "show", "integrator", name, "--json").stdout)
    assert (facts["integrator"], facts["order"]) == (name, "depends on its options")
    assert facts["adaptive"] == ("depends on its options" if name == "rkmk" else "no")
    assert facts["options"]["tableau"].startswith("required: Butcher tableau")

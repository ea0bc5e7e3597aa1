"""What studies leave to the systems and registries, and a small version of `all-orders`."""

import numpy as np
import pytest

import integrators
import sweep
import systems
from sweep import errors
from sweep.analysis import order_table
from sweep.store import studies

SMALL = """\
format = 1
name = "some-orders"

[defaults]
duration = "declared"
step_size = "declared"
samples = 1
record = []
statistics = "none"
reference = { integrator = "dop853" }

[[experiment]]
name = "springs"
system = "spring_pendula"
integrators = ["variational", "variational+kahan_li6", "lie_euler", "rkmk4", "rk45+fixed"]
initial_condition = { around = "lee", random = 8, spread = 0.1, seed = 7 }

[[experiment]]
name = "precession"
system = "precession"
integrators = ["splitting", "exact", "cf4", "spherical_midpoint+suzuki4", { name = "rk4", step_size = [0.5, 0.4, 0.2, 0.1, 0.05] }]
initial_condition = { around = "equator", random = 8, spread = 0.1, seed = 7 }

[[experiment]]
name = "precession-high"
system = "precession"
integrators = [
    { name = "splitting+kahan_li8", arithmetic = "double-double" },
    { name = "implicit_midpoint+kahan_li8", arithmetic = "double-double" },
]
initial_condition = { around = "equator", random = 2, spread = 0.1, seed = 7 }
reference = { integrator = "implicit_midpoint+sofroniou_spaletta10", arithmetic = "double-double", tolerance = 1e-25 }
"""  # noqa: E501

ONE = """\
format = 1
name = "one"
[[experiment]]
name = "one"
system = "SYSTEM"
integrators = INTEGRATORS
initial_condition = { random = 2, seed = 1 }
duration = "declared"
samples = 1
"""


@pytest.fixture(scope="module")
def tree(cluster, tmp_path_factory):
    path = tmp_path_factory.mktemp("orders") / "some-orders.zarr"
    assert sweep.run(studies.parse_study(SMALL), path, cluster).complete
    return sweep.open_study(path)


def test_the_orders_of_a_small_version_are_the_declared_ones(tree):
    for name in ("springs", "precession"):
        rows = order_table(tree[name])
        assert {row.verdict for row in rows} == {"confirmed"}, rows
        for row in rows:
            if np.isfinite(row.order):
                assert row.declared - 0.1 <= row.low <= row.high <= row.declared + 0.1
    exact = {row.integrator for row in rows if not np.isfinite(row.order)}
    assert exact == {"splitting", "exact", "cf4"}  # rotations about a fixed axis


def test_steps_are_exact_in_double_double_by_what_it_resolves(tree):
    exact, other = order_table(tree["precession-high"])
    assert exact.verdict == "confirmed" and not np.isfinite(exact.order)
    (why,) = exact.why
    assert why.tested == "exact steps"
    assert why.value >= why.threshold == pytest.approx(1e-10 * 2**-52)
    assert exact.floor < 1e-24
    assert other.verdict == "confirmed" and other.order == pytest.approx(8.0, abs=0.1)


def test_step_sizes_suit_the_order(tree):
    springs = tree["springs"].to_dataset()
    declared = systems.named("spring_pendula").convergence
    assert springs["time"].values[-1] == declared.duration
    for label, order in (("lie_euler", 1), ("rkmk4", 4), ("variational+kahan_li6", 6)):
        sizes = np.unique(springs["step_size"].values[springs["integrator"].values == label])
        longest, shortest, count = declared.steps(order)
        assert count - 2 <= len(sizes) <= count
        assert sizes[0] == pytest.approx(shortest, rel=0.1)
        assert sizes[-1] == pytest.approx(longest, rel=0.2)
    precession = tree["precession"].to_dataset().query(run="integrator == 'rk4'")
    assert set(precession["step_size"].values) == {0.5, 0.4, 0.2, 0.1, 0.05}


def all_orders():
    return {e.name: e for e in studies.load_study_file("all-orders").experiments}


def test_high_orders_have_fourteen_decades_in_double_double():
    declared = systems.named("spherical_pendulum_chain").convergence
    entries = all_orders()["pendulum-high"].integrators
    assert {entry.integrator().order for entry in entries} == {5, 8, 10}
    for entry in entries:
        order = entry.integrator().order
        assert entry.is_precise and len(entry.step_sizes) == 12
        assert max(entry.step_sizes) == pytest.approx(declared.longest_step / 2, rel=0.05)
        decades = order * np.log10(max(entry.step_sizes) / min(entry.step_sizes))
        assert decades == pytest.approx(14.0 if order >= 8 else 9.5, abs=0.3)


def test_the_packaged_study_has_every_integrator_on_every_system_that_it_fits():
    experiments = all_orders()
    pairs = [
        (e, experiments[f"{name}-high"]) for name, e in experiments.items() if "-high" not in name
    ]
    assert [low.system for low, _ in pairs] == [system.name for system in systems.ALL_SYSTEMS]
    assert len(experiments) == 2 * len(pairs)
    for parts in pairs:
        (system,) = parts[0].make_systems()
        assert parts[1].make_systems() == (system,)
        names = [entry.name for part in parts for entry in part.integrators]
        assert len(names) == len(set(names))  # each in one of the two
        for method in integrators.ALL_INTEGRATORS:
            if method.made_of is not None or method.name == "dop853":
                continue  # one that its options make, and the reference
            fixed = method.name if method.fixed is None else f"{method.name}+fixed"
            assert (fixed in names) == method.fits(system.form), (fixed, system.name)
        for chosen in names:
            integrators.get(chosen).check(system)


def text(system="free_rigid_body", chosen='"all"', more='step_size = "declared"'):
    return ONE.replace("SYSTEM", system).replace("INTEGRATORS", chosen) + more


def test_all_stands_beside_others_and_has_the_steps_that_are_given():
    chosen = '["all", { name = "rk4", step_size = 0.5 }, { name = "cf4", label = "again" }]'
    (experiment,) = studies.parse_study(
        text(chosen=chosen, more="step_size = [1.0, 0.5]")
    ).experiments
    labels = [entry.label for entry in experiment.integrators]
    assert labels[-2:] == ["rk4", "again"] and {"moser_veselov+kahan_li8", "cf4"} <= set(labels)
    assert labels.count("rk4") == 1 and experiment.integrators[-2].step_sizes == (0.5,)
    assert experiment.step_sizes == (1.0, 0.5)


def labels_of(chosen, system="precession"):
    (experiment,) = studies.parse_study(text(system, chosen)).experiments
    return [entry.label for entry in experiment.integrators]


def test_all_of_some_orders_in_an_arithmetic():
    every = labels_of('"all"')
    low = labels_of('{ name = "all", order = "< 5" }')
    high = labels_of('{ name = "all", order = ">= 5", arithmetic = "double-double" }')
    assert labels_of('{ name = "all", order = "exact" }') == ["exact"]
    assert all(label.endswith(" (double-double)") for label in high)
    plain = [label.removesuffix(" (double-double)") for label in high]
    assert sorted([*low, *plain, "exact"]) == sorted(every)
    assert {integrators.get(label).order for label in low} == {1, 2, 3, 4}
    assert {integrators.get(label).order for label in plain} == {5, 6, 8, 10}


def test_what_stands_for_all_leaves_out_what_others_have():
    chosen = """[{ name = "all", order = 8 }, { name = "all", order = "> 6" },
        { name = "rkmk4", arithmetic = "double-double" }, "cf4", { name = "all", order = 4 }]"""
    labels = labels_of(chosen)
    assert len(labels) == len(set(labels))
    assert labels.index("cf4") < labels.index("rkmk4")  # in double it is another one


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"chosen": '["all", "all"]'},
            "integrators[1]: all that it stands for are among the others: leave it out",
        ),
        (
            {"chosen": '{ name = "all", order = 11 }'},
            "no integrator with a fixed step and order 11 fits 'free_rigid_body'",
        ),
        (
            {"chosen": '{ name = "all", order = "five" }'},
            """expected an order, a comparison such as "< 5", or "exact", got a string: 'five'""",
        ),
        ({"chosen": '{ name = "all", label = "x" }'}, "unknown key 'label'"),
        ({"chosen": '{ name = "all", arithmetic = "quad" }'}, "unknown arithmetic 'quad'"),
        (
            {"more": 'step_size = "declard"'},
            "expected a number, got a string",
        ),
        ({"more": 'step_size = "declared"\ntime_unit = 2.0'}, "in its own unit of time"),
        ({"chosen": '["rk4", "al"]'}, "'al'"),
    ],
)
def test_mistakes_are_said(changed, message):
    with pytest.raises(errors.StudyError) as error:
        studies.parse_study(text(**changed))
    assert message in str(error.value)


def test_a_system_that_declares_nothing_is_said(monkeypatch):
    monkeypatch.setattr(systems.named("free_rigid_body"), "convergence", None)
    with pytest.raises(errors.StudyError, match="'free_rigid_body' declares none: give a number"):
        studies.parse_study(text())

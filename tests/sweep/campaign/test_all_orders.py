"""What studies leave to the systems and registries, and a small version of `all-orders`."""

import numpy as np
import pytest
from study_runs import stored, tables_of
from study_text import problems

import integrators
import sweep
import systems
from sweep.analysis import order_table

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
name = "pendula"
system = "spherical_pendulum_chain"
integrators = ["variational", "variational+kahan_li6", "lie_euler", "rkmk4"]
initial_condition = { around = "lee", random = 4, spread = 0.1, seed = 7 }

[[experiment]]
name = "precession"
system = "precession"
integrators = ["splitting", "exact", "cf4", "spherical_midpoint+suzuki4", { name = "rk4", step_size = [0.5, 0.4, 0.2, 0.1, 0.05] }]
initial_condition = { around = "equator", random = 8, spread = 0.1, seed = 7 }

[[experiment]]
name = "precession-high"
system = "precession"
integrators = [
    { name = "exact", arithmetic = "double-double" },
    { name = "spherical_midpoint+kahan_li8", arithmetic = "double-double" },
]
initial_condition = { around = "equator", random = 2, spread = 0.1, seed = 7 }
reference = { integrator = "spherical_midpoint+sofroniou_spaletta10", arithmetic = "double-double", tolerance = 1e-25 }
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


# --- a small version -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tree(cluster, tmp_path_factory):
    return stored(SMALL, cluster, tmp_path_factory.mktemp("orders"))


@pytest.mark.slow
def test_the_orders_of_a_small_version_are_the_declared_ones(tree):
    for name in ("pendula", "precession"):
        rows = order_table(tree[name])
        assert {row.verdict for row in rows} == {"confirmed"}, rows
        for row in rows:
            if np.isfinite(row.order):
                assert row.declared - 0.1 <= row.low <= row.high <= row.declared + 0.1
    exact = {row.integrator for row in rows if not np.isfinite(row.order)}
    assert exact == {"splitting", "exact", "cf4"}  # rotations about a fixed axis


@pytest.mark.slow
def test_steps_are_exact_in_double_double_by_what_it_resolves(tree):
    exact, other = order_table(tree["precession-high"])
    assert exact.verdict == "confirmed" and not np.isfinite(exact.order)
    assert "exact to round-off, even in " in exact.reason
    assert other.verdict == "confirmed" and other.order == pytest.approx(8.0, abs=0.1)


def sizes_of(table, label):
    return np.unique(table.step_size[table.integrator == label])


def test_step_sizes_suit_the_order(tmp_path):
    pendula, precession, _ = tables_of(SMALL, tmp_path)
    declared = systems.named("spherical_pendulum_chain").convergence
    for label, order in (("lie_euler", 1), ("rkmk4", 4), ("variational+kahan_li6", 6)):
        sizes = sizes_of(pendula, label)
        longest, shortest, count = declared.steps(order)
        assert count - 2 <= len(sizes) <= count
        assert sizes[0] == pytest.approx(shortest, rel=0.1)
        assert sizes[-1] == pytest.approx(longest, rel=0.2)
        steps = declared.duration / sizes
        np.testing.assert_allclose(steps, np.round(steps), rtol=1e-9)  # the declared duration
    assert set(sizes_of(precession, "rk4")) == {0.5, 0.4, 0.2, 0.1, 0.05}


# --- the packaged study --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def all_orders():
    """System and runs of each experiment of the packaged study, by name."""
    _, tables = sweep.check("all-orders")
    return {table.experiment.name: (table.experiment.system, table.to_dataframe())
            for table in tables}  # fmt: skip


@pytest.mark.slow
def test_high_orders_have_fourteen_decades_in_double_double(all_orders):
    declared = systems.named("spherical_pendulum_chain").convergence
    _, table = all_orders["pendulum-high"]
    found = set()
    for label in table.integrator.unique():
        assert label.endswith(" (double-double)")
        order = integrators.get(label.removesuffix(" (double-double)")).order
        found.add(order)
        sizes = sizes_of(table, label)
        assert len(sizes) == 12
        assert max(sizes) == pytest.approx(declared.longest_step / 2, rel=0.05)
        decades = order * np.log10(max(sizes) / min(sizes))
        assert decades == pytest.approx(14.0 if order >= 8 else 9.5, abs=0.3)
    assert found == {5, 8, 9, 10}


@pytest.mark.slow
def test_the_packaged_study_has_every_integrator_on_every_system_that_it_fits(all_orders):
    pairs = [(name, f"{name}-high") for name in all_orders if "-high" not in name]
    assert [all_orders[low][0] for low, _ in pairs] == [s.name for s in systems.ALL_SYSTEMS]
    assert len(all_orders) == 2 * len(pairs)
    for parts in pairs:
        (name,) = {all_orders[part][0] for part in parts}
        system = systems.get(name)
        labels = [label for part in parts for label in all_orders[part][1].integrator.unique()]
        names = [label.removesuffix(" (double-double)") for label in labels]
        assert len(names) == len(set(names))  # each in one of the two
        for method in integrators.ALL_INTEGRATORS:
            if method.made_of is not None or (method.adaptive and method.fixed is None):
                continue  # one that its options make, and those without a fixed step
            fixed = method.name if method.fixed is None else f"{method.name}+fixed"
            assert (fixed in names) == method.fits(system.form), (fixed, name)
        for chosen in names:
            integrators.get(chosen).check(system)


# --- all that fit, and what is declared ----------------------------------------------------------


def text(system="free_rigid_body", chosen='"all"', more='step_size = "declared"'):
    return ONE.replace("SYSTEM", system).replace("INTEGRATORS", chosen) + more


@pytest.fixture
def labels_of(tmp_path):
    """The labels of chosen integrators on a system, in the order of the runs."""

    def of(chosen, system="precession", **changes):
        (table,) = tables_of(text(system, chosen, **changes), tmp_path)
        return table.integrator.unique().tolist()

    return of


def test_all_stands_beside_others_and_has_the_steps_that_are_given(tmp_path):
    """What has a label or steps of its own is another one."""
    chosen = """["all", { name = "rk4", step_size = 0.5 },
        { name = "cf4", label = "again", step_size = 0.25 }]"""
    (table,) = tables_of(text(chosen=chosen, more="step_size = [1.0, 0.5]"), tmp_path)
    own = {"rk4": {0.5}, "again": {0.25}}
    labels = set(table.integrator)
    assert {"moser_veselov+kahan_li8", "cf4", *own} <= labels
    for label in labels:
        assert set(sizes_of(table, label)) == own.get(label, {1.0, 0.5})


def test_all_of_some_orders_in_an_arithmetic(labels_of):
    every = labels_of('"all"')
    low = labels_of('{ name = "all", order = "< 5" }')
    high = labels_of('{ name = "all", order = ">= 5", arithmetic = "double-double" }')
    assert labels_of('{ name = "all", order = "exact" }') == ["exact"]
    assert all(label.endswith(" (double-double)") for label in high)
    plain = [label.removesuffix(" (double-double)") for label in high]
    assert sorted([*low, *plain, "exact"]) == sorted(every)
    assert {integrators.get(label).order for label in low} == {1, 2, 3, 4}
    assert {integrators.get(label).order for label in plain} == {5, 6, 8, 9, 10}


def test_all_in_double_double_are_those_that_compute_in_it(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from integrators.plugin import python_method\n"
        "def step(f, t, y, h):\n    return y + h * f(t, y)\n"
        "INTEGRATORS = [python_method('mine', step, order=1)]\n"
    )
    chosen = '["mine", { name = "all", order = 1, arithmetic = "double-double" }]'
    written = text("precession", chosen).replace("[[", 'plugins = ["mine.py"]\n[[')
    (table,) = tables_of(written, tmp_path)
    assert [label for label in table.integrator.unique() if "mine" in label] == ["mine"]


def test_what_stands_for_all_leaves_out_what_others_have(labels_of):
    labels = labels_of("""[{ name = "all", order = 8 }, { name = "all", order = "> 6" },
        { name = "rkmk4", arithmetic = "double-double" }, "cf4", { name = "all", order = 4 }]""")
    assert labels.count("cf4") == 1
    assert {"rkmk4 (double-double)", "rkmk4"} <= set(labels)  # in double it is another one


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"chosen": '["all", "all"]'},
            "integrators[1]: all integrators that it stands for are listed already: leave it out",
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
            "unknown step_size 'declard'. Did you mean 'declared'?",
        ),
        ({"more": 'step_size = "declared"\ntime_unit = 2.0'}, "in its own unit of time"),
        ({"chosen": '["rk4", "al"]'}, "'al'"),
    ],
)
def test_mistakes_are_said(changed, message):
    assert any(message in line for line in problems(text(**changed)))


def test_a_system_that_declares_nothing_is_said(monkeypatch):
    monkeypatch.setattr(systems.named("free_rigid_body"), "convergence", None)
    of_step_size, of_duration = problems(text())
    assert "step_size: 'free_rigid_body' declares none: give a number" in of_step_size
    assert "duration: 'free_rigid_body' declares none: give a number" in of_duration

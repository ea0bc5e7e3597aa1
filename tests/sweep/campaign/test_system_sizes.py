"""Systems of different size in one experiment give what each gives in one of its own."""

import dataclasses

import numpy as np
import pytest
from study_runs import stored

from sweep import tables
from sweep.analysis import order_table, tolerance_table, work_table

pytestmark = pytest.mark.slow

PENDULA = """
system = "spherical_pendulum_chain"
integrators = ["variational", "rk4", "rk45"]
step_size = [0.04, 0.02, 0.01, 0.005]
tolerance = [1e-5, 1e-7]
initial_condition = { random = 2, seed = 3 }
duration = 1.0
samples = 5
record = ["energy", "state", "conjugate_momentum"]
reference = { integrator = "dop853" }
"""
TOPS = """
system = "heavy_top"
integrators = ["rk4", "cf4"]
step_size = [4e-4, 2e-4, 1e-4, 5e-5]
initial_condition = "celledoni"
duration = 0.04
samples = 4
record = ["energy", "state"]
reference = { integrator = "dop853" }
"""
COUNTS, FORMULATIONS = [1, 2], ["lie_poisson", "quadratic", "cotangent"]
STATE_ERRORS = {  # a system's own errors against a reference
    "pendula": ["position_error", "velocity_error"],
    "tops": [],
}


def experiments(kind, keys, axis, values):
    """One that scans the axis, and one for each value."""
    settings = {"scan": f"scan = {{ {axis} = {values!r} }}\n"}
    settings |= {
        f"{i}": f"parameters = {{ {axis} = {value!r} }}\n" for i, value in enumerate(values)
    }
    return "".join(
        f'[[experiment]]\nname = "{kind}-{name}"{keys}{setting}'
        for name, setting in settings.items()
    )


@pytest.fixture(scope="module")
def pendula(tmp_path_factory, cluster):
    text = 'format = 1\nname = "sizes"\n' + experiments("pendula", PENDULA, "count", COUNTS)
    return stored(text, cluster, tmp_path_factory.mktemp("pendula"))


@pytest.fixture
def free(pendula):
    """The same without a reference."""
    measured = ["global_error", "reference_error", *STATE_ERRORS["pendula"]]
    return {name: table.drop_vars(measured) for name, table in pendula.items()}


@pytest.fixture(scope="module")
def tops(tmp_path_factory, cluster):
    text = 'format = 1\nname = "tops"\n'
    text += experiments("tops", TOPS, "formulation", FORMULATIONS)
    return stored(text, cluster, tmp_path_factory.mktemp("tops"))


@pytest.fixture
def tree(kind, request):
    return request.getfixturevalue(kind)


def told(estimate):
    """All that an estimate says but for its scanned value, and what a clock says."""
    fields = {field.name: getattr(estimate, field.name) for field in dataclasses.fields(estimate)}
    fields.pop("parameters")
    fields = {name: value for name, value in fields.items() if not name.startswith("cpu_time")}
    fields["best"] = [work for work in fields.get("best", ()) if work != "cpu_time"]
    return repr(fields)  # NaN is like NaN


CASES = [("pendula", "count", COUNTS), ("tops", "formulation", FORMULATIONS)]


def in_both(tree, kind, axis, values, measure):
    """What is measured of each value: in the scan, and alone."""
    scanned = measure(tree[f"{kind}-scan"])
    for i, value in enumerate(values):
        own = [told(row) for row in scanned if row.parameters[axis] == value]
        yield own, [told(row) for row in measure(tree[f"{kind}-{i}"])]


@pytest.mark.parametrize(
    ("kind", "axis", "values", "at"),
    [(*CASES[0], "end"), (*CASES[0], "sup"), (*CASES[1], "end")],
)
def test_orders_of_each_size_are_those_of_the_size_alone(tree, kind, axis, values, at):
    for error in ["global_error", "self", *STATE_ERRORS[kind]]:
        for own, alone in in_both(
            tree, kind, axis, values, lambda data, e=error: order_table(data, e, at)
        ):
            assert own == alone
        for row in order_table(tree[f"{kind}-scan"], error, at):
            assert row.order == pytest.approx(row.declared, abs=0.2), (error, row.parameters)
            assert row.left_out == row.absent == 0


def test_without_a_reference_orders_come_from_differences(free):
    for measure in (order_table, work_table):
        for own, alone in in_both(free, "pendula", "count", COUNTS, measure):
            assert own == alone
    for row in order_table(free["pendula-scan"]):
        assert row.error == "self"
        assert row.order == pytest.approx(row.declared, abs=0.2)


def test_errors_by_tolerance_are_those_of_the_size_alone(pendula):
    for error in ("global_error", *STATE_ERRORS["pendula"]):
        for own, alone in in_both(
            pendula, "pendula", "count", COUNTS, lambda data, e=error: tolerance_table(data, e)
        ):
            assert own == alone and len(own) == 2


@pytest.mark.parametrize(("kind", "axis", "values"), CASES)
def test_work_of_each_size_is_that_of_the_size_alone(tree, kind, axis, values):
    for own, alone in in_both(tree, kind, axis, values, work_table):
        assert own == alone
    rows = work_table(tree[f"{kind}-scan"], "global_error")
    assert all(np.isfinite(row.floor) for row in rows)
    assert all(any(row.resolved for row in rows if row.parameters[axis] == v) for v in values)


def test_momenta_are_stored_in_the_rows_of_their_directions(pendula):
    """p = M q̇ without what lies along q, of links of unit mass and length."""
    table = pendula["pendula-scan"]
    for count in COUNTS:
        runs = table.isel(run=(table["count"] == count).values)
        state = runs["state"].transpose("run", "time", "row", "component").values
        q, omega = state[:, :, :count], state[:, :, count : 2 * count]
        coupling = np.array(
            [[count - max(i, j) for j in range(count)] for i in range(count)], dtype=float
        )
        whole = coupling @ np.cross(omega, q)
        expected = whole - np.sum(whole * q, axis=-1, keepdims=True) * q
        found = runs["conjugate_momentum"].transpose("run", "time", "row", "component").values
        np.testing.assert_allclose(found[:, :, :count], expected, atol=1e-9)
        assert np.isnan(found[:, :, count:]).all()
    assert table["conjugate_momentum"].attrs["units"] == "kg m2 s-1"


def test_rows_that_a_system_lacks_are_no_data_and_a_failure_is_none_of_these(pendula):
    table = pendula["pendula-scan"].load().copy(deep=True)
    small = (table["count"] == 1).values
    table["state"].values[small, -1, 1, 0] = np.nan  # in a row that the smallest system has
    rows = order_table(table, "self")
    assert {row.starts for row in rows if row.parameters["count"] == 1} == {0}
    assert {row.starts for row in rows if row.parameters["count"] != 1} == {2}


def test_a_run_that_failed_is_left_out_and_not_of_another_size(pendula):
    table = pendula["pendula-scan"].load().copy(deep=True)
    failed = ((table["count"] == 1) & (table["step_size"] == 0.01)).values
    table["status"][failed] = 2
    table["sample_count"][failed] = 3
    for name in ("state", "global_error", "reference_error"):
        table[name].values[failed, 3:] = np.nan
    for error in ("global_error", "self"):
        rows = [row for row in order_table(table, error) if row.parameters["count"] == 1]
        assert [row.left_out for row in rows] == [2, 2]
        others = [row for row in order_table(table, error) if row.parameters["count"] != 1]
        assert not any(row.left_out for row in others)


def test_an_error_that_only_another_system_has_is_no_failure(tops):
    table = tops["tops-scan"]
    rows = order_table(table, "attitude_error")
    for row in rows:
        if row.parameters["formulation"] == "lie_poisson":
            assert "none of 4 complete runs has attitude_error" in row.reason
        else:
            assert row.order == pytest.approx(4, abs=0.2)
    alone = work_table(table.isel(run=table["formulation"] == "lie_poisson"),
                       "attitude_error")  # fmt: skip
    said = tables.tables_as_text(tables.work_as_tables(alone))
    assert "No least evaluations: no complete run has the error attitude_error" in said

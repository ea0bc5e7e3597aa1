"""``ds.geosweep``, and functions that take a path, a tree or a dataset."""

import inspect
import pydoc
import subprocess
import sys

import pytest
import xarray as xr
from run_tables import run_table

import sweep
from integrators.errors import InputError

ORDERS = {"rk4": 4, "rk2": 2}


@pytest.fixture(scope="module")
def tree():
    return xr.DataTree.from_dict({"one": run_table(ORDERS), "two": run_table({"rk4": 4})})


XARRAY_LAST = "import sys, sweep; assert 'xarray' not in sys.modules; import xarray; "


@pytest.mark.parametrize(
    "imports", [XARRAY_LAST, pytest.param("import sys, xarray, sweep; ", marks=pytest.mark.slow)]
)
def test_importing_both_registers_and_imports_neither_xarray_nor_matplotlib(imports):
    code = f"{imports} assert not {{'matplotlib', 'zarr', 'scipy', 'numba'}} & {{*sys.modules}}; "
    code += "print(xarray.Dataset.geosweep.__name__, xarray.DataTree.geosweep.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("Accessor Accessor\n", "")


def test_answers_of_a_dataset_are_those_of_the_functions(tree):
    one = tree["one"].to_dataset()
    assert one.geosweep.order() == sweep.order_table(one) == sweep.order_table(tree["one"])
    assert [row.integrator for row in one.geosweep.order()] == ["rk4", "rk2"]
    assert str(one.geosweep.work(error="global_error")) == str(sweep.work_table(one))
    chosen = one.geosweep.query("integrator == 'rk4'").geosweep
    assert set(chosen.results(["steps"])["integrator"].values) == {"rk4"}
    assert chosen.grid()["global_error"].sizes["integrator"] == 1
    assert chosen.units()["time"] == "s"


def test_variables_are_attributes_where_xarray_has_methods(tree):
    one = tree["one"].to_dataset()
    counted = one.assign_coords(count=("run", [2, 3] * (one.sizes["run"] // 2))).geosweep
    assert counted.count.values.tolist()[:2] == [2, 3] and "count" in dir(counted)
    assert tree.geosweep.two["integrator"].equals(tree["two"]["integrator"])
    with pytest.raises(AttributeError, match="no answer and no variable is called 'counts'"):
        _ = counted.counts


def test_answers_of_a_tree_say_of_which_experiment(tree):
    rows = tree.geosweep.order()
    assert rows.to_dataframe()["experiment"].tolist() == ["one", "one", "two"]
    assert tree.geosweep.order(experiment="two") == rows[2:]
    assert str(rows).startswith("one\nrk4 and rk2 have their declared order.\nintegrator")


def test_experiments_without_an_answer_are_noted_and_refused_where_none_has(tree):
    more = xr.DataTree.from_dict(
        {
            "one": tree["one"].to_dataset(),
            "bare": tree["one"].to_dataset().drop_vars("global_error"),
        }
    )
    rows = more.geosweep.order()
    assert set(rows.experiments) == {"one"} and rows.notes[0].startswith("bare: ")
    with pytest.raises(InputError, match="no 'energy_error'"):
        sweep.order_table(more, "energy_error")


def test_functions_take_the_path_of_a_store(undisturbed):
    opened = sweep.open_study(undisturbed)["pendulum"].to_dataset()
    for path in (undisturbed, str(undisturbed)):
        of_path = sweep.order_table(path, "energy_error")
        assert repr(list(of_path)) == repr(list(sweep.order_table(opened, "energy_error")))
    assert sweep.grid(undisturbed).identical(sweep.grid(opened))
    assert list(sweep.query(undisturbed, "step_size < 1.0").children) == ["pendulum"]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda tree: sweep.grid(tree), "experiments one, two: choose one, experiment = 'one'"),
        (lambda tree: sweep.order_table(tree, experiment="on"), "Did you mean 'one'"),
        (lambda tree: sweep.order_table(tree["one"], experiment="one"), "a single experiment"),
        (lambda tree: sweep.order_table(5), "5 is no study; expected the path of a store"),
        (lambda tree: sweep.order_table("no.zarr"), "no.zarr"),
    ],
)
def test_bad_input_is_refused(tree, call, text):
    with pytest.raises(InputError, match=text):
        call(tree)


def help_of(plots):
    return pydoc.plain(pydoc.render_doc(plots.order))


def test_pictures(tree):
    plots = tree["one"].to_dataset().geosweep.plot
    assert "order" in dir(plots) and "unit_length" in dir(plots)
    assert "order(), " in repr(plots) and repr(plots) in repr(tree.geosweep)
    assert plots.order.__doc__.startswith("Draw errors against step size")
    options = ["error", "at", "x", "experiment", "width", "font", "heading"]
    assert [*inspect.signature(plots.order).parameters] == options and "width=" in help_of(plots)
    with pytest.raises(InputError, match="unknown kind of plot ''. Valid: order, drift, work"):
        plots()
    assert plots.order()._repr_png_()[:4] == b"\x89PNG"
    assert plots("order").get_size_inches().tolist() == plots.order().get_size_inches().tolist()
    assert sweep.plots.picture("order", tree, experiment="two")._repr_svg_().startswith("<?xml")
    with pytest.raises(AttributeError, match="no kind of picture is called 'orders'; "):
        plots.orders()

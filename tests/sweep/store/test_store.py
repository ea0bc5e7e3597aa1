"""`sweep.Store`: a store by whatever it is called, as one value."""

import pickle
from pathlib import Path

import pytest
from study_text import one_experiment
from written_stores import held, run

import sweep
from sweep.errors import InputError, StoreError


@pytest.fixture(scope="module")
def store(tmp_path_factory, cluster):
    path = tmp_path_factory.mktemp("named") / "a.zarr"
    run(one_experiment(integrators='"rk4"', record="[]"), path, cluster)
    return sweep.Store.at(path)


def test_whatever_a_store_is_called_by_it_is_one_value(store):
    named = {store, sweep.Store.at(store), sweep.Store.at(Path(str(store)))}
    assert named == {sweep.Store.at(str(store))}
    assert sweep.Store.at("s3://studies/a.zarr/") == sweep.Store.at("s3://studies/a.zarr")
    assert str(sweep.Store.at("s3://studies/a.zarr")) == "s3://studies/a.zarr"
    assert pickle.loads(pickle.dumps(store)) == store
    with pytest.raises(InputError, match="not an address of a store"):
        sweep.Store.at("gs://studies/a.zarr")


def test_public_functions_take_a_store(store):
    assert sweep.verify(store) == [] and len(sweep.failures(store)) == 0
    assert sweep.open_study(store)["only"].sizes["run"] == 6
    with pytest.raises(InputError, match="is not a store"):
        sweep.open_study(sweep.Store.at(f"{store}/none.zarr"))


def test_a_store_is_held_whatever_it_is_called(store):
    path = Path(str(store))
    link = path.with_name("link.zarr")
    link.symlink_to(path)
    with held(store), pytest.raises(StoreError, match="link.zarr is held by"):
        sweep.repair(link)
    with held(link), pytest.raises(StoreError, match="a.zarr is held by"):
        sweep.repair(path.parent / "." / path.name)
    assert sorted(file.name for file in path.parent.iterdir()) == ["a.zarr", "link.zarr"]

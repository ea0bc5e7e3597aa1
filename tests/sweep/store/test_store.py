"""`sweep.Store`: a store by whatever it is called, as one value."""

import json
import pickle
from pathlib import Path

import pytest

import sweep
from sweep.errors import InputError


@pytest.fixture
def store(tmp_path):
    """A store without results."""
    path = tmp_path / "a.zarr"
    (path / "left").mkdir(parents=True)
    (path / "left" / "zarr.json").write_text("{}")
    write(path, ["second", "first"])
    return sweep.Store.at(str(path))


def write(path, experiments):
    attributes = {"format_version": 2, "experiments": experiments}
    described = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    (path / "zarr.json").write_text(json.dumps(described))


def test_whatever_a_store_is_called_by_it_is_one_value(store):
    assert sweep.Store.at(store) is store
    assert (
        sweep.Store.at(Path(str(store))) == store and len({store, sweep.Store.at(store.place)}) == 1
    )
    assert sweep.Store.at("s3://studies/a.zarr/") == sweep.Store.at("s3://studies/a.zarr")
    assert str(sweep.Store.at("s3://studies/a.zarr")) == "s3://studies/a.zarr"
    with pytest.raises(InputError, match="no address of a store"):
        sweep.Store.at("gs://studies/a.zarr")


def test_a_store_travels_without_what_was_read_of_it(store):
    store.check()
    other = pickle.loads(pickle.dumps(store))
    assert other == store and list(vars(other)) == ["place"]


def test_attributes_are_read_once_and_anew_when_asked(store):
    assert store.experiments == ["second", "first", "left"]
    write(store.place, ["third"])
    assert store.attributes["experiments"] == ["second", "first"]
    assert store.anew().experiments == ["third", "left"]


def test_the_lease_file_is_one_whatever_the_store_is_called(store, tmp_path):
    (tmp_path / "link.zarr").symlink_to(store.place)
    linked = sweep.Store.at(tmp_path / "link.zarr")
    assert linked != store and linked.lease_file == store.lease_file == tmp_path / "a.zarr.lock"


def test_products_are_beside_a_store_and_here_of_one_in_a_bucket(store, tmp_path):
    assert store.product("-plots") == tmp_path / "a-plots"
    assert sweep.Store.at("s3://studies/deep/a.zarr").product("-plots") == Path("a-plots")


def test_public_functions_take_a_store(store):
    with pytest.raises(InputError, match="lacks or garbles|cannot be read"):
        sweep.failures(store)
    with pytest.raises(InputError, match="is not a store"):
        sweep.open_study(sweep.Store.at(store.place.with_name("none.zarr")))

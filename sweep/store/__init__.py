"""Stores: run tables in Zarr, in a directory or in a bucket."""

from integrators.lazy import lazy

_HOMES = {
    "Store": "sweep.store.store",
    "names_existing_store": "sweep.store.stored_studies",
    "load": "sweep.store.stored_studies:load_study_file",
    "open_experiment": "sweep.store.open",
    "open_experiments": "sweep.store.open",
    "open_study": "sweep.store.open",
    "open_tree": "sweep.store.open",
    "stored_study": "sweep.store.stored_studies",
    "stored_study_text": "sweep.store.stored_studies",
    "resolve_study_and_store": "sweep.store.stored_studies",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)

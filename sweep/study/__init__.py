"""What a study asks for: its text as experiments, initial conditions, time axes and runs.

>>> from sweep import study
>>> [experiment.name for experiment in study.load("study.toml").experiments]  # doctest: +SKIP
['order', 'drift']
"""

import importlib

_MODEL = "sweep.study.model"
_HOMES = dict.fromkeys(("Study", "load", "of_store", "packaged", "parse", "plugins_of"), _MODEL) | {
    "Axis": "sweep.study.experiment",
    "Experiment": "sweep.study.experiment",
    "FamilyStarts": "sweep.study.initial_conditions.families",
    "FileStarts": "sweep.study.initial_conditions.base",
    "GivenStart": "sweep.study.initial_conditions.base",
    "IntegratorEntry": "sweep.study.experiment",
    "LatticeStarts": "sweep.study.initial_conditions.base",
    "NamedStart": "sweep.study.initial_conditions.base",
    "RandomStarts": "sweep.study.initial_conditions.base",
    "Reference": "sweep.study.experiment",
    "StudyError": "sweep.study.toml",
}
__all__ = list(_HOMES)


def __getattr__(name):
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return __all__

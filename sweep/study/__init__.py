"""Read studies: their text, experiments, initial conditions, time axes and runs."""

from integrators.lazy import lazy

_HOMES = {
    "Study": "sweep.study.study",
    "remarks_on_parameters": "sweep.study.warnings",
    "steps_beyond_stability_limit": "sweep.study.warnings",
    "parse_study": "sweep.study.study",
    "plugins_of_study": "sweep.study.study",
    "fitting_methods": "sweep.study.resolve",
    "fitting_systems": "sweep.study.resolve",
    "packaged_study_names": "sweep.study.study",
    "study_schema": "sweep.study.model",
    "write_study_text": "sweep.study.toml",
    "Experiment": "sweep.study.model",
    "IntegratorEntry": "sweep.study.experiment",
    "Reference": "sweep.study.experiment",
    "ResolvedExperiment": "sweep.study.experiment",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)

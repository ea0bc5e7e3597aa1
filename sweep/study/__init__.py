"""What a study asks for: its text as experiments, initial conditions, time axes and runs."""

from integrators.lazy import lazy

_HOMES = {
    "Study": "sweep.study.model",
    "remarks_on_parameters": "sweep.study.warnings",
    "steps_beyond_stability_limit": "sweep.study.warnings",
    "plugins_of_study": "sweep.study.model",
    "fitting_methods": "sweep.study.resolve",
    "packaged_study_names": "sweep.study.model",
    "study_schema": "sweep.study.format",
    "Experiment": "sweep.study.format",
    "IntegratorEntry": "sweep.study.experiment",
    "Reference": "sweep.study.experiment",
    "ResolvedExperiment": "sweep.study.experiment",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)

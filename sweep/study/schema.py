"""The run table's variables: names, dimensions, types, units. What the store is made from."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from integrators.status import STATUS

if TYPE_CHECKING:
    from sweep.study.experiment import Reference, ResolvedExperiment
    from systems import Quantity, System
    from systems.base import StateError

PENDING = -1
STATUS_FLAGS = {"flag_values": [PENDING, *range(len(STATUS))]} | {
    "flag_meanings": " ".join(("pending", *STATUS))
}
ENERGY_STATISTICS = {  # behind the error of the quantity of kind energy, whose name fills {}
    "mean": "mean of the signed {} error over the steps of an interval",
    "min": "least signed {} error over the steps of an interval",
    "max": "largest signed {} error over the steps of an interval",
    "abs_mean": "mean of |{} error| over the steps of an interval",
    "abs_max": "largest |{} error| over the steps of an interval",
}
AXIS_OF = (
    "axis_of"  # attribute of a coordinate along `run` that says which other one it tells apart
)
CURRENT_STEP_SIZE = "current_step_size"  # `step_size` is a coordinate of the runs
REJECTED_SO_FAR = "rejected_so_far"  # `rejected_steps` are those of the whole run
GLOBAL_ERROR, REFERENCE_ERROR = "global_error", "reference_error"
REFERENCE_ERRORS = {  # of every system, besides its own `state_errors`
    GLOBAL_ERROR: "Euclidean norm of the error of the stacked state",
    REFERENCE_ERROR: "the reference against itself at ten times the tolerance",
}
PRECISE_REFERENCE_ERROR = "the reference against itself at twice the step size"
STATE_ERROR = {"kind": "state_error"}  # attributes of errors against a reference
STATE_DIMS = ("run", "time", "row", "component")
LYAPUNOV, MEGNO = "lyapunov", "megno"
MOST_EXPONENTS = 8


RUN_COORDINATES: tuple[str, ...] = (
    "run",
    "run_id",
    "in_study",
    "integrator",
    "step_size",
    "tolerance",
    "adaptive",
)
RUN_COORDINATES += ("initial_condition", "ensemble", "repeat")


@dataclass(frozen=True)
class Variable:
    """A variable of the run table.

    Parameters
    ----------
    name : str
    dims : tuple of str
    units, long_name : str
    dtype : str
    fill : float or int
        What reads as never written.
    attributes : dict
        Further attributes.
    """

    name: str
    dims: tuple[str, ...]
    units: str
    long_name: str
    dtype: str = "float64"
    fill: float = np.nan
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def all_attributes(self) -> dict[str, Any]:
        """Units, long name and the others."""
        return {"units": self.units, "long_name": self.long_name, **self.attributes}


def sampled_variables(
    experiment: "ResolvedExperiment", systems: "Sequence[System]"
) -> list[Variable]:
    """The variables over ``(run, time)`` of an experiment.

    Parameters
    ----------
    experiment : sweep.study.Experiment
    systems : sequence of systems.System
        The experiment's. They share what is recorded; of errors against a reference some may have
        ones that others do not.

    Returns
    -------
    list of Variable
    """
    variables, system = [], systems[0]
    for quantity in experiment.library.quantities(system):
        if quantity.name in experiment.record:
            variables += _variables_of_quantity(quantity, experiment.statistics == "every_step")
    if experiment.reference is not None:
        variables += _state_error_variables(systems)
        own = reference_error_text(experiment.reference)
        texts = REFERENCE_ERRORS | {REFERENCE_ERROR: own}
        kinds = {REFERENCE_ERROR: STATE_ERROR | experiment.reference.options}
        variables += [
            _sampled_variable(name, "1", text, kinds.get(name, STATE_ERROR))
            for name, text in texts.items()
        ]
    if "step_size" in experiment.record:
        text = "size of the step that covers the sample time"
        variables.append(_sampled_variable(CURRENT_STEP_SIZE, system.time_units, text))
    if "rejected_steps" in experiment.record:
        text = "steps rejected until the end of the one that covers the sample time"
        variables.append(_sampled_variable(REJECTED_SO_FAR, "1", text))
    variables += [
        _sampled_variable(name, units, text, {"kind": "chaos"})
        for name, units, text in _chaos_variables(system.time_units)
        if name in experiment.record
    ]
    if "state" in experiment.record:
        variables.append(Variable("state", STATE_DIMS, "1", system.state_text))
    return variables


def lyapunov_names(count: int | None = None) -> tuple[str, ...]:
    """The variables of the largest Lyapunov exponent, or of so many of them."""
    return (LYAPUNOV,) if count is None else tuple(f"{LYAPUNOV}_{k + 1}" for k in range(count))


def _chaos_variables(time_units: str) -> list[tuple[str, str, str]]:
    """Name, units and text of each variable that tells how nearby trajectories part."""
    numbered = enumerate(lyapunov_names(MOST_EXPONENTS), 1)
    over = "1" if time_units == "1" else f"{time_units}-1"
    return [
        (LYAPUNOV, over, "largest Lyapunov exponent of the steps until then"),
        *((name, over, f"Lyapunov exponent {k} of the steps until then") for k, name in numbered),
        (MEGNO, "1", "mean exponential growth of nearby orbits until then"),
    ]


CHAOS = tuple(name for name, *_ in _chaos_variables("1"))
"""What a record may ask for of how nearby trajectories part, over ``(run, time)``."""


def reference_error_text(reference: "Reference") -> str:
    """Long name of a reference's own error."""
    return PRECISE_REFERENCE_ERROR if reference.is_precise else REFERENCE_ERRORS[REFERENCE_ERROR]


def _state_error_variables(systems: "Sequence[System]") -> list[Variable]:
    """The errors of states that any of the systems has, each once, with what it is in all."""
    own: dict[str, list[StateError]] = {}
    for error in (error for made in systems for error in made.state_errors):
        own.setdefault(error.name, []).append(error)
    return [
        _sampled_variable(
            name,
            errors[0].units,
            "; ".join(dict.fromkeys(e.long_name for e in errors)),
            STATE_ERROR,
        )
        for name, errors in own.items()
    ]


def reference_error_names(system: "System") -> tuple[str, ...]:
    """Names of a system's errors against a reference."""
    return (*(error.name for error in system.state_errors), *REFERENCE_ERRORS)


def taken_variable_names(system: "System") -> set[str]:
    """Names that variables and coordinates of an experiment may have, whatever it records or scans.

    Parameters
    ----------
    system : systems.System

    Returns
    -------
    set of str
    """
    names = {"time", "row", "component", "state", CURRENT_STEP_SIZE, REJECTED_SO_FAR}
    names |= {*CHAOS}
    names |= {*RUN_COORDINATES, *reference_error_names(system), *system.parameter_names()}
    names |= {variable.name for variable in (*ALL_RUN_VARIABLES, INITIAL_STATE)}
    return names.union(*(variable_names_of_quantity(quantity) for quantity in system.quantities))


def variable_names_of_quantity(quantity: "Quantity") -> set[str]:
    """Names of the variables that a `systems.Quantity` gives, as a set."""
    return {variable.name for variable in _variables_of_quantity(quantity, True)}


def _variables_of_quantity(quantity: "Quantity", statistics: bool) -> list[Variable]:
    name, units, text = quantity.name, quantity.units, quantity.long_name
    kind = {"kind": quantity.kind}
    if quantity.each_row:
        return [Variable(name, STATE_DIMS, units, text)]
    if quantity.kind == "constraint":
        variables = [_sampled_variable(f"{name}_error", units, text, kind)]
        if statistics and name == "unit_length":
            mean = "mean of |q·q − 1| over bodies and the steps of an interval"
            variables.append(_sampled_variable("unit_length_error_mean", units, mean))
        return variables
    if quantity.components:
        variables = [
            _sampled_variable(f"{name}_{axis}", units, f"{text}, {axis} component")
            for axis in quantity.components
        ]
        error = f"norm of the change of the {text}"
    else:
        variables = [_sampled_variable(name, units, text)]
        error = f"change of the {text}"
    if quantity.kind == "observable":  # which changes: that is no error
        return variables
    variables.append(_sampled_variable(f"{name}_error", units, error, kind))
    if statistics and quantity.kind == "energy":
        words = name.replace("_", " ")
        variables += [
            _sampled_variable(f"{name}_error_{of}", units, text.format(words))
            for of, text in ENERGY_STATISTICS.items()
        ]
    return variables


def _sampled_variable(
    name: str, units: str, long_name: str, attributes: dict[str, Any] | None = None
) -> Variable:
    return Variable(name, ("run", "time"), units, long_name, attributes=attributes or {})


def _count_variable(
    name: str, long_name: str, fill: int = 0, dtype: str = "int64", **attributes: Any
) -> Variable:
    return Variable(name, ("run",), "1", long_name, dtype, fill, attributes)


STOP_TIME, ENVIRONMENT, CPU_TIME = "stop_time", "environment", "cpu_time"
RUN_VARIABLES = (  # times of a run are in the system's unit: `run_variables`
    _count_variable("steps", "steps taken"),
    _count_variable("rejected_steps", "steps rejected by the step control"),
    _count_variable("evaluations", "evaluations of the system's gradient or field"),
    _count_variable("iterations_max", "most solver iterations in a stage"),
    Variable("iterations_mean", ("run",), "1", "mean solver iterations in a stage"),
    Variable(CPU_TIME, ("run",), "s", "CPU time of the integration; a lane's share of its batch"),
    Variable("wall_time", ("run",), "s", "time of the integration; a lane's share of its batch"),
    _count_variable("stop_step", "step at which the run failed; -1 if it did not", fill=-1),
    Variable("stop_residual", ("run",), "1", "residual with which the run failed"),
    Variable(STOP_TIME, ("run",), "1", "time at which the run failed; NaN if it did not"),
    _count_variable(
        ENVIRONMENT,
        "what computed the run, by its number in the attribute environments of the root; 0: "
        "not known",
        dtype="int32",
    ),
    _count_variable("status", "how the run ended", PENDING, "int8", **STATUS_FLAGS),
)
SYMPLECTIC_DEFECT, REVERSAL_ERROR = "symplectic_defect", "reversal_error"
STRUCTURE = {  # what a study's record may ask for besides, each with its variables over runs
    SYMPLECTIC_DEFECT: (
        Variable(
            SYMPLECTIC_DEFECT,
            ("run",),
            "1",
            "max |JᵀΩJ − Ω| / max |Ω|, with J the Jacobian of the first step (adaptive: of the "
            "first sample interval) and Ω the symplectic form",
        ),
        Variable(
            "symplectic_resolution",
            ("run",),
            "1",
            "error of rounding, or of difference quotients, in the symplectic defect",
        ),
    ),
    REVERSAL_ERROR: (
        Variable(
            REVERSAL_ERROR,
            ("run",),
            "1",
            "Euclidean distance of the stacked state from the start, after as many steps back",
        ),
    ),
}
MEASURED = (*STRUCTURE, *CHAOS)  # of a run, by steps that are taken once more
REFERENCE_ENDS = (
    "complete", "not_finite", "step_too_small", "no_step_size", "rounding", "too_many_steps",
    "not_conserved",
)  # fmt: skip
"""How references end: at their last sample, or why before it."""

REFERENCE_END, HELD_SAMPLES = "end", "held_samples"
STOPS = (  # of one in double precision the first and the last, in double-double all but the first
    Variable(STOP_TIME, ("run",), "1", "time at which the reference ended, in the system's unit"),
    Variable("step_size", ("run",), "1", "step size that was tried last where it ends"),
    Variable(
        "difference",
        ("run",),
        "1",
        "by which states of that and of half of it differ there, of the size of the initial one",
    ),
    Variable(
        "steps",
        ("run",),
        "1",
        "if too many are needed, about how many until there; in double precision those it took",
    ),
)
OF_REFERENCE_ENDS = (  # over references, along ``run`` in their group
    _count_variable(
        REFERENCE_END,
        "how the reference ended; pending: not known",
        PENDING,
        "int8",
        flag_values=[PENDING, *range(len(REFERENCE_ENDS))],
        flag_meanings=" ".join(("pending", *REFERENCE_ENDS)),
    ),
    _count_variable(HELD_SAMPLES, "samples at which the reference holds, the first ones"),
    *STOPS,
)
SAMPLE_COUNT = _count_variable("sample_count", "valid samples; 0: not computed yet")
"""The count of samples, the commit marker: samples beyond it do not exist."""

ALL_RUN_VARIABLES = (*RUN_VARIABLES, *sum(STRUCTURE.values(), ()), SAMPLE_COUNT)
"""Whatever a run table may have over ``(run)`` that workers write, the marker last."""

INITIAL_STATE = Variable("initial_state", ("run", "row", "component"), "1", "state at time 0")


def run_variables(record: Collection[str], system: "System") -> list[Variable]:
    """The variables over ``(run)`` of an experiment that workers write, the marker last.

    Parameters
    ----------
    record : tuple of str
    system : systems.System
        Any of the experiment's; only its unit of time is read.

    Returns
    -------
    list of Variable
    """
    measured = [variable for name in STRUCTURE if name in record for variable in STRUCTURE[name]]
    own = [
        replace(variable, units=system.time_units) if variable.name == STOP_TIME else variable
        for variable in RUN_VARIABLES
    ]
    return [*own, *measured, SAMPLE_COUNT]

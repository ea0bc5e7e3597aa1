"""The variables of the run table, from which stores are made: names, dimensions, types, units."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from integrators.status import STATUS
from sweep.text import steps_in_words

if TYPE_CHECKING:
    from systems import Quantity, System

Experiment: TypeAlias = Any  # a `ResolvedExperiment`, whose module imports this one
Reference: TypeAlias = Any  # a `Reference` of that module
PENDING = -1
AXIS_OF = "axis_of"  # attribute of a coordinate along `run`: the one whose values it tells apart
STATE_DIMS = ("run", "time", "row", "component")
STATE_ERROR = {"kind": "state_error"}  # attributes of errors against a reference
RUN_COORDINATES = (
    "run", "run_id", "in_study", "integrator", "step_size", "tolerance", "adaptive",
    "initial_condition", "ensemble", "repeat",
)  # fmt: skip
ENERGY_STATISTICS = {  # suffixes of the energy's error, and long names: {} name, {} steps
    "mean": "mean of the signed {} error over {}",
    "min": "least signed {} error over {}",
    "max": "largest signed {} error over {}",
    "abs_mean": "mean of |{} error| over {}",
    "abs_max": "largest |{} error| over {}",
}
EVERY_STEP, NO_STATISTICS = "every_step", "none"
EVERY = "every"  # attribute of statistics of one step in so many; without it, of every step
CURRENT_STEP_SIZE = "current_step_size"  # `step_size` is a coordinate of the runs
REJECTED_SO_FAR = "rejected_so_far"  # `rejected_steps` are those of the whole run
GLOBAL_ERROR, REFERENCE_ERROR = "global_error", "reference_error"
REFERENCE_ERRORS = {  # of every system, besides its own `state_errors`
    GLOBAL_ERROR: "Euclidean norm of the error of the stacked state",
    REFERENCE_ERROR: "the reference against itself at ten times the tolerance",
}
PRECISE_REFERENCE_ERROR = "the reference against itself at twice the step size"
LYAPUNOV, MEGNO = "lyapunov", "megno"
MOST_EXPONENTS = 8
MOST_BODIES = 128  # for a symplectic defect, whose time and memory grow at least as the square


@dataclass(frozen=True)
class Variable:
    """A variable of the run table.

    Parameters
    ----------
    name : str
    dims : tuple of str
    units, long_name : str
    dtype : str
    fill : float, int or str
        Value that stands for never written.
    attributes : dict
        Further attributes.
    """

    name: str
    dims: tuple[str, ...]
    units: str
    long_name: str
    dtype: str = "float64"
    fill: float | str = np.nan
    attributes: dict[str, Any] = field(default_factory=dict)


# --- over (run, time) -------------------------------------------------------------------------


def _sampled(name: str, units: str, long_name: str, **attributes: Any) -> Variable:
    return Variable(name, ("run", "time"), units, long_name, attributes=attributes)


def sampled_variables(experiment: Experiment, systems: "Sequence[System]") -> list[Variable]:
    """The variables over ``(run, time)`` of an experiment.

    Parameters
    ----------
    experiment : sweep.study.Experiment
    systems : sequence of systems.System
        The experiment's systems. They have the same recorded quantities, but may differ in their
        errors against a reference.

    Returns
    -------
    list of Variable
    """
    variables, system, record = [], systems[0], experiment.record
    for quantity in experiment.library.quantities(system):
        if quantity.name in record:
            variables += _variables_of_quantity(quantity, steps_between(experiment.statistics))
    if experiment.reference is not None:
        variables += _reference_errors(experiment.reference, systems)
    found = _measured_along(system.time_units)
    variables += [variable for name, variable in found.items() if name in record]
    if "state" in record:
        variables.append(Variable("state", STATE_DIMS, "1", system.state_text))
    return variables


def steps_between(statistics: str) -> int:
    """Of how many steps one is in the statistics of an experiment; 0 without any.

    Parameters
    ----------
    statistics : str
        ``every_step``, ``every 10`` or ``none``.
    """
    known = {EVERY_STEP: 1, NO_STATISTICS: 0}
    return known[statistics] if statistics in known else int(statistics.removeprefix("every "))


def lyapunov_names(count: int | None = None) -> tuple[str, ...]:
    """Names of the variables for the largest Lyapunov exponent, or for `count` exponents."""
    return (LYAPUNOV,) if count is None else tuple(f"{LYAPUNOV}_{k + 1}" for k in range(count))


def _measured_along(time_units: str) -> dict[str, Variable]:
    """The variables that are measured along the steps of a run, by their names in a record."""
    over, chaos = "1" if time_units == "1" else f"{time_units}-1", {"kind": "chaos"}
    exponents = {LYAPUNOV: "largest Lyapunov exponent"} | {
        name: f"Lyapunov exponent {k}" for k, name in enumerate(lyapunov_names(MOST_EXPONENTS), 1)
    }
    growth = "mean exponential growth of nearby orbits until then"
    size = "size of the step that covers the sample time"
    rejected = "steps rejected until the end of the one that covers the sample time"
    return {
        "step_size": _sampled(CURRENT_STEP_SIZE, time_units, size),
        "rejected_steps": _sampled(REJECTED_SO_FAR, "1", rejected),
        **{
            name: _sampled(name, over, f"{text} of the steps until then", **chaos)
            for name, text in exponents.items()
        },
        MEGNO: _sampled(MEGNO, "1", growth, **chaos),
    }


CHAOS = tuple(name for name, made in _measured_along("1").items() if made.attributes)
"""Indicators of chaos that a record may ask for, over ``(run, time)``."""


def reference_error_text(reference: Reference) -> str:
    """Long name of a reference's own error."""
    return PRECISE_REFERENCE_ERROR if reference.is_precise else REFERENCE_ERRORS[REFERENCE_ERROR]


def _reference_errors(reference: Reference, systems: "Sequence[System]") -> list[Variable]:
    """Errors against a reference that any of the systems has, with common long names."""
    errors = [error for made in systems for error in made.state_errors]
    units = {error.name: error.units for error in reversed(errors)}
    texts = {
        name: "; ".join(dict.fromkeys(own.long_name for own in errors if own.name == name))
        for name in dict.fromkeys(error.name for error in errors)
    }
    texts |= REFERENCE_ERRORS | {REFERENCE_ERROR: reference_error_text(reference)}
    kinds = {REFERENCE_ERROR: STATE_ERROR | reference.options}
    return [
        _sampled(name, units.get(name, "1"), text, **kinds.get(name, STATE_ERROR))
        for name, text in texts.items()
    ]


def reference_error_names(system: "System") -> tuple[str, ...]:
    """Names of a system's errors against a reference."""
    return (*(error.name for error in system.state_errors), *REFERENCE_ERRORS)


def _variables_of_quantity(quantity: "Quantity", every: int) -> list[Variable]:
    name, text, error = quantity.name, quantity.long_name, f"{quantity.name}_error"
    # The last step of an interval, at the sample, always counts.
    last = " and its last" if every > 1 else ""
    steps = f"{steps_in_words(every) if every > 1 else 'the steps'} of an interval{last}"
    kinds: dict[str, dict[str, Any]] = {error: {"kind": quantity.kind}}
    if quantity.each_row:
        return [Variable(name, STATE_DIMS, quantity.units, text)]
    texts = {f"{name}_{axis}": f"{text}, {axis} component" for axis in quantity.components}
    match quantity.kind:
        case "constraint":
            texts = {error: text}
            if every and name == "unit_length":
                texts[f"{error}_mean"] = f"mean of |q·q − 1| over bodies and {steps}"
        case "observable":  # its change is not an error
            texts = texts or {name: text}
        case _:
            change = f"norm of the change of the {text}" if texts else f"change of the {text}"
            texts = (texts or {name: text}) | {error: change}
    if every and quantity.kind == "energy":
        words = name.replace("_", " "), steps
        texts |= {f"{error}_{of}": said.format(*words) for of, said in ENERGY_STATISTICS.items()}
    if every > 1:
        kinds |= {of: {EVERY: every} for of in texts if of.startswith(f"{error}_")}
    return [_sampled(of, quantity.units, said, **kinds.get(of, {})) for of, said in texts.items()]


def variable_names_of_quantity(quantity: "Quantity") -> set[str]:
    """The set of names of the variables for a `systems.Quantity`."""
    return {variable.name for variable in _variables_of_quantity(quantity, 1)}


# --- over (run) -------------------------------------------------------------------------------


def _number(name: str, long_name: str, units: str = "1") -> Variable:
    return Variable(name, ("run",), units, long_name)


def _count(
    name: str, long_name: str, fill: int = 0, dtype: str = "int64", **attributes: Any
) -> Variable:
    return Variable(name, ("run",), "1", long_name, dtype, fill, attributes)


def _status(name: str, long_name: str, meanings: Sequence[str]) -> Variable:
    """A status variable: an index into the meanings, or pending."""
    values, words = [PENDING, *range(len(meanings))], " ".join(("pending", *meanings))
    return _count(name, long_name, PENDING, "int8", flag_values=values, flag_meanings=words)


STOP_TIME, ENVIRONMENT, CPU_TIME = "stop_time", "environment", "cpu_time"
RUN_VARIABLES = (  # times of a run are in the system's unit: `run_variables`
    _count("steps", "steps taken"),
    _count("rejected_steps", "steps rejected by the step control"),
    _count("evaluations", "evaluations of the system's gradient or field"),
    _count("iterations_max", "most solver iterations in a stage"),
    _number("iterations_mean", "mean solver iterations in a stage"),
    _number(CPU_TIME, "CPU time of the integration; a lane's share of its batch", "s"),
    _number("wall_time", "time of the integration; a lane's share of its batch", "s"),
    _count("stop_step", "step at which the run failed; -1 if it did not", fill=-1),
    _number("stop_residual", "residual with which the run failed"),
    _number(STOP_TIME, "time at which the run failed; NaN if it did not"),
    _count(
        ENVIRONMENT,
        "what computed the run, by its number in the attribute environments of the root; 0: "
        "not known",
        dtype="int32",
    ),
    _status("status", "how the run ended", STATUS),
)
STATUS_FLAGS = RUN_VARIABLES[-1].attributes
SYMPLECTIC_DEFECT, REVERSAL_ERROR = "symplectic_defect", "reversal_error"
STRUCTURE = {  # defects and reversal errors that a record may ask for, with their variables
    SYMPLECTIC_DEFECT: (
        _number(
            SYMPLECTIC_DEFECT,
            "max |JᵀΩJ − Ω| / max |Ω|, with J the Jacobian of the first step (adaptive: of the "
            "first sample interval) and Ω the symplectic form",
        ),
        _number(
            "symplectic_resolution",
            "error of rounding, or of difference quotients, in the symplectic defect",
        ),
    ),
    REVERSAL_ERROR: (
        _number(
            REVERSAL_ERROR,
            "Euclidean distance of the stacked state from the start, after as many steps back",
        ),
    ),
}
MEASURED = (*STRUCTURE, *CHAOS)  # all that is measured by taking steps of a run again
REFERENCE_ENDS = (
    "complete", "not_finite", "step_too_small", "no_step_size", "rounding", "too_many_steps",
    "not_conserved",
)  # fmt: skip
"""How references end: at their last sample, or earlier with a reason."""

REFERENCE_END, HELD_SAMPLES = "end", "held_samples"
STOPS = (  # in double precision only the first and the last, in double-double all but the first
    _number(STOP_TIME, "time at which the reference ended, in the system's unit"),
    _number("step_size", "step size that was tried last where it ends"),
    _number(
        "difference",
        "by which states of that and of half of it differ there, of the size of the initial one",
    ),
    _number(
        "steps",
        "if too many are needed, about how many until there; in double precision those it took",
    ),
)
OF_REFERENCE_ENDS = (  # over references, along ``run`` in their group
    _status(REFERENCE_END, "how the reference ended; pending: not known", REFERENCE_ENDS),
    _count(HELD_SAMPLES, "samples at which the reference holds, the first ones"),
    *STOPS,
)
SAMPLE_COUNT = _count("sample_count", "valid samples; 0: not computed yet")
"""The number of valid samples, which is the commit marker: samples beyond it do not exist."""

ALL_RUN_VARIABLES = (*RUN_VARIABLES, *sum(STRUCTURE.values(), ()), SAMPLE_COUNT)
"""All variables over ``(run)`` that workers write, with the commit marker last."""

INITIAL_STATE = Variable("initial_state", ("run", "row", "component"), "1", "state at time 0")


def run_variables(record: Collection[str], system: "System") -> list[Variable]:
    """The variables over ``(run)`` that workers write, with the commit marker last.

    Parameters
    ----------
    record : tuple of str
    system : systems.System
        Any system of the experiment; only its unit of time is used.

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


def taken_variable_names(system: "System") -> set[str]:
    """All names of variables and coordinates that an experiment with a system could have.

    Parameters
    ----------
    system : systems.System

    Returns
    -------
    set of str
    """
    along = _measured_along("1").values()
    names = {variable.name for variable in (*along, *ALL_RUN_VARIABLES, INITIAL_STATE)}
    names |= {"time", "row", "component", "state", *RUN_COORDINATES}
    names |= {*reference_error_names(system), *system.parameter_names()}
    return names.union(*(variable_names_of_quantity(quantity) for quantity in system.quantities))


def exponents_of_record(record: Collection[str]) -> list[str]:
    """Names of the Lyapunov exponents in a record, in order."""
    return [name for name in record if name in CHAOS and name != MEGNO]

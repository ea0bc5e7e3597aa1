"""Kernels as plain Python on precise numbers: what double-double is to come to, to 45 digits.

A constant in a kernel that is exact in no double raises `LostDigits`.

    NUMBA_DISABLE_JIT=1 python tests/helpers/precise_kernels.py

prints, as JSON, how far steps of ``variational`` are off the reference states by name, and, as
``lost``, the systems whose vector field loses digits.
"""

import json
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np

import integrators
import systems
from integrators.compiler import lanes
from integrators.forms.forms import form_in_precise_numbers
from integrators.precision import (
    DOUBLE_DOUBLE,
    PRECISE,
    LostDigits,
    is_precise,
    require_precise,
    to_double_doubles,
)

REFERENCES = Path(__file__).parents[1] / "reference.json"
SMALL = {"lennard_jones_sphere": {"level": 0}, "heisenberg_chain": {"count": 5}}


def take_precise():
    """Let the functions of `lanes`, wherever they are imported, take precise numbers."""
    methods = {name: (lambda x, name=name: getattr(x, name)()) for name in ("sqrt", "sin", "cos")}
    methods |= {"log": lambda x: x.log(), "fma": lambda a, b, c: a * b + c}
    for name, precisely in methods.items():
        usual = getattr(lanes, name)
        made = _either(usual, precisely)
        for module in list(sys.modules.values()):
            if getattr(module, name, None) is usual:
                setattr(module, name, made)


def _either(usual, precisely):
    def function(*numbers):
        return (precisely if any(map(is_precise, numbers)) else usual)(*numbers)

    return function


def steps(system, name, step_size, count):
    """The state after some steps from the first start, of precise numbers."""
    twin = system.in_arithmetic(DOUBLE_DOUBLE)
    start = next(start for start in twin.named_starts if _suits(system, start.name))
    y = require_precise(twin.form.completed(start.make(twin)))
    integrator = replace(integrators.get(name), arithmetic=DOUBLE_DOUBLE)
    problem = integrator.method.bind(
        form_in_precise_numbers(twin.form, require_precise), integrator
    )
    memory, work, report = (
        require_precise(np.zeros(size)) for size in (problem.memory, problem.work, 6)
    )
    made = (problem.function, problem.move, problem.pull)
    problem.advance.function(
        *((kernel or problem.function).function for kernel in made), PRECISE.number(0.0),
        PRECISE.number(step_size), 0, count, require_precise(problem.constants), problem.options, y,
        memory, problem.parameters, work, report,
    )  # fmt: skip
    return y


def _suits(system, start):
    try:
        system.start(start)
    except integrators.InputError:
        return False
    return True


def errors():
    """Names of cases with the least numbers of steps, and the largest error of a component."""
    for name, case in json.loads(REFERENCES.read_text())["cases"].items():
        for entry in case.get("variational", [])[:1]:
            system = systems.get(name.partition("/")[0])
            y = steps(system, "variational", entry["step_size"], entry["steps"])
            rows = np.ravel(entry["q"] + entry["omega"])
            own = [sum(map(Fraction, pair)) for pair in to_double_doubles(y.ravel()).tolist()]
            off = [abs(x - Fraction(digits)) for x, digits in zip(own, rows, strict=True)]
            yield f"{name}-{entry['steps']}", float(max(off))


def losing():
    """The systems whose vector field has a constant that is exact in no double."""
    for kind in systems.ALL_SYSTEMS:
        try:
            steps(kind(**SMALL.get(kind.name, {})), "rk4", 0.01, 1)
        except LostDigits:
            yield kind.name


if __name__ == "__main__":
    take_precise()
    print(json.dumps(dict(errors()) | {"lost": list(losing())}))

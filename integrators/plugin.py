"""What plugins import: forms, kernels, methods; `systems.plugin` has what those of systems do.

The names of these two modules are stable. The modules that define them are not: these move, and
what imports from them works with one version alone.

>>> from integrators.plugin import SpheresLagrangian, explicit_method, kernel, state_value

- forms: `SpheresLagrangian`, `SpinHamiltonian` with `SplitFlow`, `ExactFlow`, `NambuHamiltonian`,
  `CotangentHamiltonian`, `LiePoissonHamiltonian`, `HomogeneousFlow`, and of the latter `Action`,
  `product` and the factors;
- kernels: `kernel`, `inlined`, the signatures `whole_state`, `state_value`, `generalized_force`
  and `split_flow`, and what kernels can call: functions of numbers of every element type (`sqrt`,
  `fma`, `sin`, `cos`, `exp`, `log`, `select`), and of 3-vectors, rows of a stack (`get`, `put`, …);
- methods: `explicit_method` with a `Tableau`; `simple_method` with a function that takes a step of
  a `VectorField`, a `SpheresLagrangian` or along an action; for it `rows_of` and `tail`, which view
  scratch, `turning` and `turning_unit`, what a rotation changes a vector by, and `moved`;
  `python_method` with a step in plain Python on arrays of NumPy; `Method` with `Option`, `named`
  for built-in ones;
- checks: `InputError`, and what raises it.
"""

from integrators.compiler.kernels import (
    Kernel,
    generalized_force,
    inlined,
    kernel,
    split_flow,
    state_value,
    whole_state,
)
from integrators.compiler.lanes import cos, exp, fma, log, select, sin, sqrt
from integrators.compiler.vectors import (
    accumulate,
    add,
    axpy,
    cross,
    dot,
    get,
    increment,
    put,
    scale,
    sub,
    summed,
)
from integrators.compiler.views import rows_of, tail
from integrators.errors import InputError, check_array, check_known, check_number, check_whole
from integrators.forms.cotangent import CotangentHamiltonian
from integrators.forms.flows import ExactFlow, HomogeneousFlow, SplitFlow, VectorField
from integrators.forms.forms import SpheresLagrangian
from integrators.forms.hamiltonians import NambuHamiltonian, SpinHamiltonian
from integrators.forms.lie_poisson import LiePoissonHamiltonian
from integrators.lie_groups.actions import Action, product
from integrators.lie_groups.factors import (
    COADJOINT_SE3,
    RIGHT_ROTATION,
    ROTATION,
    SEMIDIRECT,
    SEMIDIRECT_R3,
    SPHERE,
    TANGENT_SPHERE,
    TRANSLATION,
    Factor,
)
from integrators.lie_groups.rotations import turning, turning_unit
from integrators.method import Method
from integrators.methods.munthe_kaas import moved
from integrators.methods.runge_kutta import explicit_method
from integrators.options import Option
from integrators.python_methods import python_method
from integrators.registry import named
from integrators.simple import simple_method
from integrators.tableaux.butcher import Tableau

__all__ = [
    "Action",
    "COADJOINT_SE3",
    "CotangentHamiltonian",
    "ExactFlow",
    "Factor",
    "HomogeneousFlow",
    "InputError",
    "Kernel",
    "LiePoissonHamiltonian",
    "Method",
    "NambuHamiltonian",
    "Option",
    "RIGHT_ROTATION",
    "ROTATION",
    "SEMIDIRECT",
    "SEMIDIRECT_R3",
    "SPHERE",
    "SpheresLagrangian",
    "SpinHamiltonian",
    "SplitFlow",
    "TANGENT_SPHERE",
    "TRANSLATION",
    "Tableau",
    "VectorField",
    "accumulate",
    "add",
    "axpy",
    "check_array",
    "check_known",
    "check_number",
    "check_whole",
    "cos",
    "cross",
    "dot",
    "exp",
    "explicit_method",
    "fma",
    "generalized_force",
    "get",
    "increment",
    "inlined",
    "kernel",
    "log",
    "moved",
    "named",
    "product",
    "put",
    "python_method",
    "rows_of",
    "scale",
    "select",
    "simple_method",
    "sin",
    "split_flow",
    "sqrt",
    "state_value",
    "sub",
    "summed",
    "tail",
    "turning",
    "turning_unit",
    "whole_state",
]

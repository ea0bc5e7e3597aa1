"""Methods, and the integrators that users ask for by name.

A method is one file with its kernels and a `Method`; `integrators.registry` lists them.
An `Integrator` is a method with its modifiers (``+suzuki4``, ``+projected``) and options; bound
to a system's form it becomes a `stepping.problem.Problem`, which the stepping loop runs.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Protocol, cast

import numpy as np

from integrators.errors import InputError, check_known
from integrators.forms.cotangent import ACTIONS, CotangentHamiltonian
from integrators.forms.flows import Form, SystemOrForm
from integrators.forms.forms import (
    FORMULATIONS,
    SpheresLagrangian,
    form_in_precise_numbers,
    form_of,
    system_name,
)
from integrators.html import html_facts
from integrators.options import Option
from integrators.precision import (
    ARITHMETIC,
    ARITHMETICS,
    DOUBLE,
    DOUBLE_DOUBLE,
    LostDigits,
    precise_from_doubles,
    require_precise,
    simplest_fraction,
    to_double_doubles,
)
from integrators.stepping.adaptive import AdaptiveProblem
from integrators.stepping.equal_steps import equal_steps
from integrators.stepping.problem import Constants, Problem
from integrators.tableaux.compositions import (
    ADJOINT_COMPOSITIONS,
    COMPOSITIONS,
    PROCESSED_COMPOSITIONS,
    AdjointComposition,
    Composition,
    ProcessedComposition,
)

ALL_DEGREES = ("linear", "quadratic", "other")
EXACT = "exact"  # the order of a method whose steps are the flow itself
TOLERANCES = ("tolerance", "relative_tolerance")  # given with the step sizes, not as options
BASE = np.ones(1)  # the γ of a method that is not composed
BASE_SHARES = np.array([0.5, 0.5])  # of a map and its adjoint in such a step
OF_ADJOINTS = ADJOINT_COMPOSITIONS | PROCESSED_COMPOSITIONS  # of methods with `adjoint`
FIXED = "fixed"  # modifier of an adaptive method: its main one, with a constant step
STEPS_OF = "steps_of"  # option of every method with a fixed step

FORMULATION = Option(
    "q_omega", "variables of the vector field: (q, ω) or (q, q̇)", choices=FORMULATIONS
)
ACTION = Option(
    "product",
    "group that acts on T*G, on attitude and momentum: G × g* (product) or G ⋉ g*",
    choices=ACTIONS,
    later=True,
)


AnyComposition = Composition | AdjointComposition | ProcessedComposition


class Table(Protocol):
    """A `Tableau`, or what else has the constants of a method."""

    @property
    def constants(self) -> np.ndarray:
        """As kernels read them."""

    @property
    def exact_constants(self) -> np.ndarray:
        """The same as `Fraction`."""


@dataclass(frozen=True)
class Method:
    """A numerical method and its declared properties.

    Parameters
    ----------
    name, description : str
        The name by which it is asked for, and one line on it.
    order : int, "exact" or None
        Order of convergence; `EXACT` if a step is the exact flow up to round-off, which is not
        composed; None if it depends on the options.
    symmetric : bool
        Whether a step of −h undoes a step of h, with the default options; such a method of order 2
        can be composed.
    forms : tuple of type
        The forms of which a system must offer one.
    preserves : mapping of str to tuple of str
        Quantities preserved to round-off, with the degrees of the invariants: by kind (``energy``,
        ``momentum_map``, ``casimir``) or constraint (``unit_length``, ``tangency``). The key
        ``symplectic_form`` has no degree.
    bind : callable
        ``bind(form, integrator)`` gives the `Problem`; None for a method of another library.
    evaluations : int
        Evaluations of the system's function in a step.
    options : mapping of str to Option
    projections : mapping of str to tuple of str
        The modifiers that project, and the constraints that each enforces.
    adaptive : bool
        Whether it chooses its steps by a tolerance.
    suits : callable
        ``suits(form)`` tests whether a form of the right type meets further conditions.
    condition : str
        These conditions in words.
    stability_limit : float
        Largest product of step size and frequency for which a rotation has a solution.
    adjoint : bool
        Whether a step is a map of order 1 and then its adjoint, of any shares of h each:
        `Integrator.shares`.
    order_of : callable
        ``order_of(order, options)`` gives the order with some options, where those lower it.
    symmetric_with : callable
        ``symmetric_with(options)`` says whether a symmetric method is so with some options.
    precise : bool
        Whether it computes in double-double too.
    tangents : bool
        Whether tangent vectors can go along with its steps.
    fixed : Method, optional
        Main method of an adaptive method, with a constant step: the modifier ``+fixed``.
    made_of : callable, optional
        ``made_of(given)`` returns the method that options define, or raises `InputError`.
    example : mapping of str to object
        Example of such options.
    family : str
        Name of the construction, within which methods are compared; by default its own name.
    sources : tuple of str
        Its sources: keys of `bibliography.entries`, or whole BibTeX entries.
    extra : str
        Package that it needs, which the extra of that name installs.
    """

    name: str
    description: str
    order: int | str | None
    symmetric: bool
    forms: tuple[type, ...]
    preserves: Mapping[str, tuple[str, ...]]
    bind: "Callable[[Any, Integrator], Problem | AdaptiveProblem] | None"
    evaluations: int
    options: Mapping[str, Option] = field(default_factory=lambda: MappingProxyType({}))
    projections: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    adaptive: bool = False
    suits: Callable[[Any], bool] = lambda form: True
    condition: str = ""
    stability_limit: float = np.inf
    adjoint: bool = False
    order_of: Callable[[Any, Mapping[str, Any]], Any] = lambda order, options: order
    symmetric_with: Callable[[Mapping[str, Any]], bool] = lambda options: True
    precise: bool = True
    tangents: bool = True
    fixed: "Method | None" = None
    made_of: "Callable[[Mapping[str, Any]], Method] | None" = None
    example: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    family: str = ""
    sources: tuple[str, ...] = ()
    extra: str = ""

    @property
    def is_installed(self) -> bool:
        """Whether the package is here that it needs."""
        return not self.extra or find_spec(self.extra) is not None

    def fits(self, form: Form) -> bool:
        """Whether `form` is, or yields, one that the method takes, and suits it."""
        return (
            self.is_installed
            and any(_offers_form(form, wanted) for wanted in self.forms)
            and self.suits(form)
        )

    @property
    def compositions(self) -> dict[str, AnyComposition]:
        """The compositions that it takes, by name."""
        symmetric = COMPOSITIONS if self.symmetric and self.order == 2 else {}
        return symmetric | (OF_ADJOINTS if self.adjoint else {})

    @property
    def modifiers(self) -> list[str]:
        """The names that may follow ``+``."""
        return [*self.compositions, *self.projections, *([FIXED] if self.fixed else [])]


@dataclass(frozen=True)
class Integrator:
    """A method with its modifier and options; made by `integrators.get`.

    Besides the options of the method there is, with a fixed step, ``steps_of``: the name of an
    adaptive integrator. It takes as many equal steps over the duration as that one, with its
    default options, takes at the tolerance; so it has a tolerance, and no step size.

    Parameters
    ----------
    method : Method
    modifier : str
        A composition or a projection, or empty.
    given : mapping of str to object
        Options of the method.
    known : tuple of Method
        Methods that ``steps_of`` may name, and that messages offer.
    arithmetic : {"double", "double-double"}
        Also given by an option ``arithmetic``.

    Raises
    ------
    InputError
        For a modifier that the method does not take, an unknown or wrong option or arithmetic, and
        in double-double of an adaptive integrator.
    """

    method: Method
    modifier: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    known: tuple[Method, ...] = field(default=(), compare=False, repr=False)
    arithmetic: str = field(default=DOUBLE, repr=False)

    def _repr_html_(self) -> str:
        facts = self.facts()
        names = ("order", "family", "symmetric", "adaptive", "arithmetic", "needs", "preserves")
        own = {
            "arithmetic": self.arithmetic,
            "options": {
                key: f"{self.given[key]!r}"
                if key in self.given
                else f"{option.default!r}, the default"
                for key, option in self.method.options.items()
            },
        }
        shown = {name: facts[name] for name in names} | own
        return html_facts(f"{self.name}: {self.method.description}", shown)

    def facts(self) -> dict[str, Any]:
        """What the integrator is, by headings: text, or lines of text by name."""
        made = self.method
        facts: dict[str, Any] = {
            "integrator": self.name,
            "description": made.description,
            "family": self.family,
            "order": self.order,
            "symmetric": "yes" if self.symmetric else "no",
            "adaptive": "yes, takes a tolerance" if self.adaptive else "no",
            "arithmetic": " or ".join(ARITHMETICS) if made.precise else DOUBLE,
            "needs": " or ".join(form.__name__ for form in made.forms)
            + (f", and {made.condition}" if made.condition else ""),
            "evaluations": self._evaluations_in_words(),
            "preserves": {key: ", ".join(of) or "yes" for key, of in self.preserves.items()},
            "options": {
                key: f"{'required' if option.read else repr(option.default)}: {option.description}"
                for key, option in made.options.items()
            },
            "modifiers": " ".join(f"+{name}" for name in made.modifiers if not self.modifier)
            or "none",
        }
        if made.stability_limit < float("inf"):
            composed = " × largest |γ|" if self.composition else ""
            facts["stable"] = f"for step size × frequency{composed} < {made.stability_limit:g}"
        if self.composition:
            facts["composition"] = f"{self.composition.stages} stages; {self.composition.source}"
        return facts

    def _evaluations_in_words(self) -> str:
        """How many evaluations of the system's function a step takes, and more a sample."""
        per_sample = "a sample, or a step of which statistics are kept"
        if isinstance(self.order, str):  # exact
            return f"1 {per_sample}"
        counted = "as many as the solver takes" if self.method.tangents else "as many as it takes"
        per_step = f"{self.evaluations or counted} a step"
        processor = getattr(self.composition, "processor_stages", 0)
        return f"{per_step}, and {processor} {per_sample}" if processor else per_step

    @classmethod
    def of(cls, name: str, options: Mapping[str, Any], known: tuple[Method, ...]) -> "Integrator":
        """The integrator of a name such as ``variational+suzuki4``, of the methods `known`."""
        own = dict(options)
        arithmetic = own.pop(ARITHMETIC, DOUBLE)
        return cls(*method_and_modifier(name, known), own, known, arithmetic)

    def __post_init__(self) -> None:
        self._check_modifier()
        if self.method.made_of is not None:
            object.__setattr__(self, "method", self.method.made_of(self.given))
            self._check_modifier()
        if self.modifier == FIXED:  # a method of its own
            object.__setattr__(self, "method", self.method.fixed)
            object.__setattr__(self, "modifier", "")
        if STEPS_OF in self.given:
            self._check_steps_of()
        for key, value in self._own_options.items():
            if self.adaptive and key in TOLERANCES:
                raise InputError(
                    f"{key!r} is no option of {self.name!r}: give integrate(…, tolerance=…)",
                    key=key,
                )
            known = [*self.method.options, *([] if self.method.adaptive else [STEPS_OF])]
            check_known("option", key, known, key, f"of {self.method.name}")
            self.method.options[key].check(key, value)
        if self.modifier in COMPOSITIONS and not self.symmetric:
            self._refuse_modifier()
        self._check_arithmetic()

    def _check_arithmetic(self) -> None:
        check_known(ARITHMETIC, self.arithmetic, ARITHMETICS, key=ARITHMETIC)
        if self.arithmetic != DOUBLE_DOUBLE:
            return
        if self.counted is not None:
            raise InputError(
                f"{self.label!r} takes as many steps as an adaptive run in double precision: in "
                f"{DOUBLE_DOUBLE} give it a step size in the place of {STEPS_OF}",
                key=ARITHMETIC,
            )
        if not self.method.precise:
            others = ", ".join(m.name for m in self.known if m.adaptive and m.precise)
            raise InputError(
                f"{self.name!r} computes in double precision only; adaptive ones that compute in "
                f"{DOUBLE_DOUBLE}: {others}",
                key=ARITHMETIC,
            )

    def _check_modifier(self) -> None:
        if not self.modifier or self.modifier in self.method.modifiers:
            return
        if self.modifier == FIXED and not self.method.adaptive:
            raise InputError(f"{self.method.name!r} has a fixed step already: leave '+{FIXED}' out")
        self._refuse_modifier()

    def _check_steps_of(self) -> None:
        name = self.given[STEPS_OF]
        if self.method.adaptive:
            raise InputError(
                f"{self.name!r} is adaptive and chooses its own steps: {STEPS_OF} is for "
                "integrators with a fixed step",
                key=STEPS_OF,
            )
        if not isinstance(name, str):
            raise InputError(
                f"{STEPS_OF} = {name!r}; expected the name of an adaptive integrator", key=STEPS_OF
            )
        try:
            adaptive = Integrator.of(name, {}, self.known).adaptive
        except InputError:
            check_known("adaptive integrator", name, self._adaptive_names(), key=STEPS_OF)
            raise
        if not adaptive:
            known = ", ".join(self._adaptive_names())
            raise InputError(
                f"{STEPS_OF} = {name!r}, which has a fixed step; expected an adaptive integrator: "
                f"{known}",
                key=STEPS_OF,
            )

    def _refuse_modifier(self) -> None:
        name, modifier = self.method.name, self.modifier
        if self.method.order == EXACT:
            raise InputError(
                f"{name!r} takes no modifier, and nothing would be gained by {modifier!r}: its "
                f"steps are the flow itself. Leave '+{modifier}' out."
            )
        if modifier in self.method.compositions:
            given = ", ".join(f"{key} = {value!r}" for key, value in self.given.items())
            raise InputError(
                f"{name!r} with {given} cannot be composed by {modifier!r}: it is not symmetric, "
                "and only symmetric integrators compose. Leave the option or the composition out."
            )
        if modifier in COMPOSITIONS and self.method.symmetric:
            raise InputError(
                f"{name!r} cannot be composed by {modifier!r}, which raises order 2: it has order "
                f"{self.method.order} already. Leave '+{modifier}' out."
            )
        if modifier in COMPOSITIONS:
            raise InputError(
                f"{name!r} cannot be composed by {modifier!r}: it is not symmetric, and only "
                "symmetric integrators compose. Compose one, such as 'variational' or "
                "'spherical_midpoint', or leave it out."
            )
        if modifier in OF_ADJOINTS:
            raise InputError(
                f"{name!r} cannot be composed by {modifier!r}, which takes a map and its adjoint. "
                "Compose 'splitting', or leave it out."
            )
        known = self.method.modifiers
        if not known:
            raise InputError(f"{name!r} takes no modifier; got {modifier!r}")
        check_known("composition or projection", modifier, known, where=f"of {name!r}")

    def _adaptive_names(self) -> list[str]:
        return [method.name for method in self.known if method.adaptive]

    @property
    def name(self) -> str:
        """Name with the modifier: ``variational+suzuki4``."""
        return f"{self.method.name}+{self.modifier}" if self.modifier else self.method.name

    @property
    def label(self) -> str:
        """The name, and whose steps are counted for it: ``rkmk5 (steps of rkmk54)``.

        Or in which arithmetic it computes: ``rk4 (double-double)``.
        """
        if self.arithmetic != DOUBLE:
            return f"{self.name} ({self.arithmetic})"
        counted = self.given.get(STEPS_OF)
        return self.name if counted is None else f"{self.name} (steps of {counted})"

    @property
    def counted(self) -> "Integrator | None":
        """The adaptive `Integrator` whose steps are counted for this one, or None."""
        name = self.given.get(STEPS_OF)
        return None if name is None else Integrator.of(name, {}, self.known)

    @property
    def main(self) -> "Integrator | None":
        """The `Integrator` that steps as an adaptive one does, with a fixed step; None without."""
        if self.method.fixed is None:
            return None
        own = {key: value for key, value in self.given.items() if key in self.method.fixed.options}
        return replace(self, modifier=FIXED, given=own)

    @property
    def _own_options(self) -> dict[str, Any]:
        """The given options of the method itself, without ``steps_of``."""
        return {key: value for key, value in self.given.items() if key != STEPS_OF}

    @property
    def family(self) -> str:
        """`Method.family`, the method's own name where it declares none."""
        return self.method.family or self.method.name

    @property
    def composition(self) -> AnyComposition | None:
        """The composition, of a class of `tableaux.compositions`, or None."""
        return self.method.compositions.get(self.modifier)

    @property
    def stages(self) -> Constants:
        """The γ of the symmetric composition, shape ``(stages,)``; [1] without one.

        Exact ones, as `Fraction`, where they are for double-double; `shares` alike.
        """
        if not self.composition:
            return BASE
        composition = cast(Composition, self.composition)
        exact = self.arithmetic == DOUBLE_DOUBLE
        return composition.exact_coefficients if exact else composition.coefficients

    @property
    def shares(self) -> Constants:
        """Parts of h that a map and its adjoint take in turn, shape ``(2 stages,)``.

        Those of a processor follow, where a composition has one.
        """
        if not self.composition:
            return BASE_SHARES
        exact = self.arithmetic == DOUBLE_DOUBLE
        return self.composition.refined_shares if exact else self.composition.shares

    def constants_of(self, table: Table) -> np.ndarray:
        """The constants of a tableau or scheme, as `Fraction` where they are for double-double."""
        return table.exact_constants if self.arithmetic == DOUBLE_DOUBLE else table.constants

    def constant(self, value: float) -> float | Fraction:
        """An option that is a constant of the method; its simplest fraction in double-double."""
        return simplest_fraction(value) if self.arithmetic == DOUBLE_DOUBLE else value

    @property
    def order(self) -> int | str:
        """Order of convergence, or `EXACT`."""
        if self.composition:
            return self.composition.order
        return self.method.order_of(self.method.order, self.options)

    @property
    def symmetric(self) -> bool:
        """Whether a step of −h undoes a step of h."""
        if self.modifier in PROCESSED_COMPOSITIONS:
            return False
        return self.method.symmetric and self.method.symmetric_with(self.options)

    @property
    def adaptive(self) -> bool:
        """Whether it has a tolerance, by which it chooses its steps or their number."""
        return self.method.adaptive or STEPS_OF in self.given

    @property
    def options(self) -> dict[str, Any]:
        """All options, defaults filled in; ``steps_of`` only if it is given.

        And ``arithmetic`` only if it is not double.
        """
        defaults = {key: option.default for key, option in self.method.options.items()}
        own = {key: self.method.options[key].check(key, v) for key, v in self._own_options.items()}
        shared = {k: v for k, v in self.given.items() if k == STEPS_OF}
        if self.arithmetic != DOUBLE:
            shared[ARITHMETIC] = self.arithmetic
        return defaults | own | shared

    @property
    def identity(self) -> dict[str, Any]:
        """The options by which runs are identified: without `later` ones at their defaults."""
        known = self.method.options
        return {
            key: value
            for key, value in self.options.items()
            if key not in known or not known[key].later or value != known[key].default
        }

    def keeps(self, name: str, kind: str, degree: str) -> bool:
        """Whether it is declared to preserve a quantity of this name, kind and degree."""
        return degree in self.preserves.get(name if kind == "constraint" else kind, ())

    @property
    def preserves(self) -> Mapping[str, tuple[str, ...]]:
        """As `Method.preserves`; a projection keeps what it enforces, and nothing else."""
        if self.modifier in self.method.projections:
            return dict.fromkeys(self.method.projections[self.modifier], ALL_DEGREES)
        return self.method.preserves

    @property
    def evaluations(self) -> int:
        """Evaluations of the system's function in a step."""
        stages = self.composition.stages if self.composition else 1
        return self.method.evaluations * stages

    def check(self, system: SystemOrForm) -> None:
        """Raise `InputError` unless `system` offers a form that the method takes."""
        if not self.method.is_installed:
            extra = self.method.extra
            raise InputError(
                f"{self.name!r} needs the package {extra}, which is not here: "
                f"pip install 'geosweep[{extra}]'"
            )
        form, name = form_of(system), system_name(system)
        if self.method.fits(form):
            self._check_formulation(form, name)
            if self.counted is not None:
                self.counted.check(system)
            return
        if any(_offers_form(form, wanted) for wanted in self.method.forms):
            reason = f"needs {self.method.condition}, unlike {name}"
        else:
            wanted = " or ".join(wanted.__name__ for wanted in self.method.forms)
            reason = f"needs the form {wanted}, which {name} does not offer"
        fitting = ", ".join(m.name for m in self.known if m.fits(form)) or "none"
        raise InputError(f"{self.name!r} {reason}. Integrators that would do: {fitting}.")

    def _check_formulation(self, form: Form, name: str) -> None:
        if self.modifier in self.method.projections:
            known = form.vector_field().projections
            if self.modifier not in known:
                offered = " or ".join(repr(f"{self.method.name}+{key}") for key in known)
                raise InputError(
                    f"{self.name!r} projects what {name} does not have; "
                    f"use {offered or repr(self.method.name)}"
                )
        formulation = self.given.get("formulation", FORMULATION.default)
        if formulation != FORMULATION.default and not isinstance(form, SpheresLagrangian):
            raise InputError(
                f"formulation = {formulation!r} is for mechanical systems; {name} has one "
                "formulation only: leave it out",
                key="formulation",
            )
        action = self.given.get("action", ACTION.default)
        if action != ACTION.default and not isinstance(form, CotangentHamiltonian):
            raise InputError(
                f"action = {action!r} is for Hamiltonians on T*G, such as 'heavy_top' with "
                f"formulation = 'cotangent'; {name} has one action only: leave it out",
                key="action",
            )

    def bind(
        self, system: SystemOrForm, arithmetic: str | None = None
    ) -> Problem | AdaptiveProblem:
        """The `Problem` of this integrator on `system`, or `AdaptiveProblem`.

        Parameters
        ----------
        system : System or form
            In double-double a system's parameters are what their floats stand for, see
            `precision.to_precise`; those of a form alone are exact as they are.
        arithmetic : {"double", "double-double"}, optional
            Arithmetic of the numbers that kernels are given, by default the integrator's: in
            double-double constants and parameters have the shape (k, 2), high and low doubles.

        Raises
        ------
        InputError
            If they do not fit, or in double-double where numbers cannot be had with so many
            digits.
        """
        if arithmetic not in (None, self.arithmetic):
            return replace(self, arithmetic=arithmetic).bind(system)
        self.check(system)
        if self.arithmetic == DOUBLE_DOUBLE:
            return self._bind_precisely(system)
        problem = self._bind_form(form_of(system))
        if self.counted is None:
            return problem
        counted = cast(AdaptiveProblem, self.counted.bind(system))
        return equal_steps(self, cast(Problem, problem), counted)

    def _bind_form(self, form: Form) -> Problem | AdaptiveProblem:
        assert self.method.bind is not None  # only of methods that options make others of
        return self.method.bind(form, self)

    def _bind_precisely(self, system: SystemOrForm) -> Problem | AdaptiveProblem:
        twin = getattr(system, "in_arithmetic", None)
        try:
            if twin:
                form = form_in_precise_numbers(twin(DOUBLE_DOUBLE).form, require_precise)
            else:
                form = form_in_precise_numbers(system, precise_from_doubles)
            problem = self._bind_form(form)
            return replace(
                problem,
                constants=to_double_doubles(problem.constants),
                parameters=to_double_doubles(problem.parameters),
            )
        except LostDigits as error:
            raise InputError(
                f"{self.name!r} on {system_name(system)} has numbers in double precision only: "
                f"{error}"
            ) from error


def _offers_form(form: Form, wanted: type) -> bool:
    return isinstance(form, wanted) or wanted in getattr(form, "yields", ())


def method_and_modifier(name: object, known: Sequence[Method]) -> tuple[Method, str]:
    """The `Method` of those that are `known` and the modifier or "" of a name; or `InputError`."""
    base, plus, modifier = str(name).partition("+")
    methods = {method.name: method for method in known}
    if plus and not base:
        raise InputError(
            f"{name!r} begins with '+'; expected a method before it, as in 'variational+suzuki4'"
        )
    check_known("integrator", base, methods)
    if plus and not modifier:
        raise InputError(f"{name!r} ends with '+'; expected a composition or projection after it")
    return methods[base], modifier

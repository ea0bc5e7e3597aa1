"""Format 1 of studies: the tables of a study, their keys, and the values of each key.

The same models read files and studies built in Python, and give the JSON Schema. They check each
value by itself; `sweep.study.resolve` checks what depends on systems and integrators. In locations
reported by pydantic, a part in ``<…>`` is not a key, but the kind of a value that has several.
"""

import inspect
import itertools
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Annotated, Any, Literal, Required, TypeAlias, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    PrivateAttr,
    Strict,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    WrapValidator,
    create_model,
)
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypeAliasType

import integrators
import systems
from integrators.errors import InputError, check_known, suggest_nearest
from integrators.method import STEPS_OF, Method
from integrators.options import Option
from integrators.precision import ARITHMETIC, ARITHMETICS
from integrators.stepping.adaptive import MOST_STEPS
from integrators.stepping.python_step import Declaration
from sweep.errors import (
    MOST_PROBLEMS,
    KeyPath,
    Problem,
    StudyError,
    WrongValues,
    check_distinct,
    read_each,
)
from sweep.guide import keys_of_tables
from sweep.plugins.loader import Plugin
from sweep.plugins.registry import BUILT_IN, Library, with_installed_plugins
from sweep.plugins.written import plugin_of_declaration
from sweep.study.study_limits import (
    MOST_EXPERIMENTS,
    MOST_LABEL,
    MOST_PER_DECADE,
    MOST_STATES,
    MOST_STRING,
    MOST_VALUES,
)
from sweep.study.time_axis import spaced_values
from sweep.study.toml import as_written, format_key_path
from sweep.study.variables import EVERY_STEP, LYAPUNOV, MEGNO, STRUCTURE

if TYPE_CHECKING:
    from integrators.python_methods import PythonMethod
    from systems.rigid.python_system import PythonSystem

FORMAT = 1
STUDY_NAME = "[A-Za-z0-9][A-Za-z0-9_.-]*"  # also valid as a file name
GROUP_NAME = "[A-Za-z0-9-][A-Za-z0-9_-]*"  # name of an experiment, which is a group of the store
ALL, DECLARED = "all", "declared"
STEPS = ("step_size", "rejected_steps")  # records of the step control along a run
BESIDES = ("state", *STEPS, *STRUCTURE, LYAPUNOV, MEGNO)  # can be recorded besides quantities
DIALECT = "http://json-schema.org/draft-07/schema#"  # the version that TOML editors support
Shape = dict[str, Any]


# --- values -----------------------------------------------------------------------------------

_TYPES: dict[type, str] = {bool: "a boolean", int: "an integer", float: "a number", str: "a string"}
_TYPES |= {list: "an array", dict: "a table"}
_TYPES |= dict.fromkeys((date, datetime, time), "a date or time")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def expected(what: str, value: object) -> InputError:
    """The error for a value of the wrong type or size."""
    kind = _TYPES.get(type(value), type(value).__name__)
    shown = value if isinstance(value, date | time) else reprlib.repr(value)
    wants_number = "number" in what or "integer" in what
    quoted = wants_number and isinstance(value, str) and _NUMBER.fullmatch(value)
    mended = f"; write {value}, without quotes" if quoted else ""
    return InputError(f"expected {what}, got {kind}: {shown}{mended}")


def _is_misspelt(value: str) -> bool:
    return "Did you mean" in suggest_nearest(value, [DECLARED])


def _must_be(what: str, holds: Callable[[Any], object]) -> Callable[[Any], Any]:
    """A validator that refuses values for which `holds` is false; `what` describes valid ones."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise expected(what, value)
        return value

    return check


_within_64_bits = _must_be(  # the range that TOML guarantees
    "an integer of at most 64 bits", lambda value: abs(value) < 2**63
)
_without_null = _must_be("a string without null characters", lambda value: "\0" not in value)


def _as_written(value: Any, check: Callable[[Any], float]) -> float:
    """A checked number; an integer stays an integer."""
    check(value)
    return int(_within_64_bits(value)) if isinstance(value, int) else float(value)


Number = Annotated[float, Strict(), AllowInfNan(False), WrapValidator(_as_written)]
Integer = Annotated[int, Strict(), AfterValidator(_within_64_bits)]
String = Annotated[
    str, Strict(), Field(min_length=1, max_length=MOST_STRING), AfterValidator(_without_null)
]
Label = Annotated[  # a name for runs, files or directories
    str, Strict(), Field(min_length=1, max_length=MOST_LABEL), AfterValidator(_without_null)
]
Boolean = Annotated[bool, Strict()]


def _name(pattern: str, what: str) -> Any:
    """The type of a label that matches a pattern; `what` describes the pattern in messages."""
    check = _must_be(what, lambda value: re.fullmatch(pattern, value))
    shape = {"type": "string", "pattern": f"^{pattern}$"}
    return Annotated[Label, AfterValidator(check), WithJsonSchema(shape)]


SomeNumbers = Annotated[list[Number], Field(min_length=1)]
Vector = Annotated[
    list[Number],
    BeforeValidator(
        _must_be("a vector of 3 numbers", lambda value: type(value) is list and len(value) == 3)
    ),
    Field(min_length=3, max_length=3),
]
Vectors = Annotated[list[Vector], Field(min_length=1)]


class OneOf:
    """Annotation for a value of one of several kinds.

    Parameters
    ----------
    kind : callable, optional
        Returns the name of a value's kind. By default the kind follows from the type: ``text``,
        ``many`` for a list, ``table``, or the first kind for any other type.
    **kinds
        Types by the names of kinds.
    """

    def __init__(self, kind: Callable[[Any], str] | None = None, **kinds: Any) -> None:
        self._kind, self.kinds = kind or self._by_type, kinds

    def _by_type(self, value: object) -> str:
        names = {"text": str, "many": list, "table": dict}
        found = (name for name in self.kinds if type(value) is names.get(name))
        return next(found, next(iter(self.kinds)))

    def _tag(self, name: str) -> str:
        """The tag of a kind in locations: for a table its class, which gives the valid keys."""
        kind = self.kinds[name]
        return f"<{kind.__name__ if isinstance(kind, type) else name}>"

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        made = {self._tag(name): handler.generate_schema(kind) for name, kind in self.kinds.items()}
        return core_schema.tagged_union_schema(made, lambda value: self._tag(self._kind(value)))


def _one_or_many(one: Any) -> OneOf:
    """Annotation for a value or a list of such values."""
    return OneOf(one=one, many=Annotated[list[one], Field(min_length=1)])


def _kind_of_scan(value: object) -> str:
    """The kind of a parameter's scanned values, which is that of the first."""
    if type(value) is not list or not value:
        return "table" if type(value) is dict else "many"
    first = type(value[0])
    return "texts" if first is str else "Labelled" if first is dict else "many"


_KINDS_OF_STARTS = ("name", "random", "lattice", "file", "store")


def _kind_of_start(value: object) -> str:
    if type(value) is not dict:
        return "text"
    return next((kind for kind in _KINDS_OF_STARTS if kind in value), "given")


def _of_one_kind(value: Any) -> Any:
    """Refuse a start that has the keys of two kinds."""
    kinds = [kind for kind in _KINDS_OF_STARTS if type(value) is dict and kind in value]
    if len(kinds) > 1:
        apart = ", ".join(f"{{ {kind} = … }}" for kind in kinds)
        raise InputError(
            f"a start has one of the keys {', '.join(map(repr, kinds))}, and this has all of them: "
            f"write a table for each, [{apart}]"
        )
    return value


def _kind_of_entry(value: object) -> str:
    if type(value) is not dict:
        return "text"
    return "all" if value.get("name") == ALL else "table"


_no_vector = _must_be(
    'a number; a vector needs a label, { label = "…", value = […] }',
    lambda value: type(value) is not list,
)
Scalar = Annotated[Any, OneOf(one=Number, text=String)]
_setting, _option = OneOf(one=Number, text=String), OneOf(one=Number, text=String)
Setting = TypeAliasType("Setting", Annotated[Any, _setting])  # value of a system's parameter
OptionValue = TypeAliasType("OptionValue", Annotated[Any, _option])  # of an integrator's option
_setting.kinds["many"] = Annotated[list[Setting], Field(min_length=1)]
_option.kinds |= {"many": list[OptionValue], "table": dict[str, OptionValue]}


# --- tables within an experiment --------------------------------------------------------------


class Table(BaseModel):
    """Base of all tables; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid")


class Range(Table):
    """A range of numbers."""

    start: Number
    stop: Number
    count: Annotated[Integer, Field(ge=2, le=MOST_VALUES)]
    spacing: Literal["linear", "log"] = "linear"

    def numbers(self) -> tuple[float, ...]:
        """The numbers of the range; `InputError` if the range is not valid."""
        return spaced_values(self.start, self.stop, self.count, self.spacing)


class PerDecadeTable(Table):
    """Samples that become sparser with time."""

    per_decade: Annotated[Integer, Field(ge=1, le=MOST_PER_DECADE)]
    first: Number | None = None


class Labelled(Table):
    """A value of a scanned parameter with its label."""

    label: Label
    value: Setting


Declarable = Annotated[Any, OneOf(one=Annotated[Number, Field(gt=0)], text=Literal[DECLARED])]
Values = Annotated[Any, OneOf(one=Number, many=SomeNumbers, table=Range)]
StepSizes = Annotated[Any, OneOf(one=Number, text=Literal[DECLARED], many=SomeNumbers, table=Range)]
Scanned = Annotated[
    Any,
    OneOf(
        _kind_of_scan,
        table=Range,
        many=Annotated[list[Annotated[Number, BeforeValidator(_no_vector)]], Field(min_length=1)],
        texts=list[Label],
        Labelled=list[Labelled],
    ),
]


class Entry(Table):
    """An integrator; unnamed keys are options of its method."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, OptionValue] = Field(init=False)

    name: Annotated[String, Field(json_schema_extra={"not": {"const": ALL}})]
    label: Label | None = None
    step_size: StepSizes | None = None
    tolerance: Values | None = None
    relative_tolerance: Values | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Options of the method, with tuples for lists."""
        return {key: as_tuples(value) for key, value in (self.model_extra or {}).items()}


class AllEntries(Table):
    """A table that stands for all integrators that fit the system."""

    name: Literal["all"]
    order: Scalar | None = None
    arithmetic: Literal["double", "double-double"] | None = None


class NameStart(Table):
    """A named start, or a family of starts, with axes as further keys."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"additionalProperties": {"type": ["number", "array", "object"]}},
    )

    name: String
    label: Label | None = None


class RandomStart(Table):
    """Random states; the state that they lie around is read once the system is known."""

    random: Annotated[Integer, Field(ge=1)]
    seed: Annotated[Integer, Field(ge=0)]
    around: Annotated[Any, OneOf(text=String, table=dict[str, Any])] = None
    spread: Annotated[Number, Field(gt=0)] | None = None
    label: Label | None = None


class LatticeStart(Table):
    """States on a lattice."""

    lattice: Annotated[Integer, Field(ge=1, le=MOST_STATES)]
    body: Integer = 0
    around: String | None = None
    label: Label | None = None


class FileStart(Table):
    """States from a file."""

    file: String
    normalize: Boolean = False
    label: Label | None = None


class StoreStart(Table):
    """End states of the runs in a store."""

    store: String
    experiment: String = ""
    where: String = ""
    normalize: Boolean = False
    label: Label | None = None


class GivenStartTable(Table):
    """A state that is written out; the names of its parts are further keys."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "additionalProperties": TypeAdapter(Vector | Vectors).json_schema(),
            "minProperties": 1,
        },
    )

    normalize: Boolean = False
    label: Label | None = None


class Counted(Table):
    """A recorded quantity with a count, such as Lyapunov exponents."""

    name: Literal["lyapunov"]
    count: Annotated[Integer, Field(ge=1)]


class ReferenceTable(Table):
    """The trajectory that errors are measured against."""

    integrator: String
    arithmetic: Literal["double", "double-double"] | None = None
    tolerance: Number | None = None
    until: Annotated[Number, Field(gt=0)] | None = None


AnyEntry = Annotated[Any, OneOf(_kind_of_entry, text=String, table=Entry, all=AllEntries)]
AnyStart = Annotated[
    Any,
    OneOf(
        _kind_of_start,
        text=String,
        name=NameStart,
        random=RandomStart,
        lattice=LatticeStart,
        file=FileStart,
        store=StoreStart,
        given=GivenStartTable,
    ),
    BeforeValidator(_of_one_kind),
]


_group_of_axes = _must_be(
    'an array of the names of at least two axes: zip = [["a", "b"]]',
    lambda value: type(value) is list and len(value) > 1,
)


_SPARSE = "every ([2-9]|[1-9][0-9]{1,8})"
_statistics = _must_be(
    '"every_step", "none", or "every N" for one step in N, from 2',
    lambda value: type(value) is str and re.fullmatch(f"every_step|none|{_SPARSE}", value),
)
Statistics = Annotated[
    str,
    BeforeValidator(_statistics),
    WithJsonSchema(
        {"anyOf": [{"enum": ["every_step", "none"]}, {"type": "string", "pattern": f"^{_SPARSE}$"}]}
    ),
]


# --- tables of a study ------------------------------------------------------------------------


class ExperimentTable(Table):
    """An ``[[experiment]]`` table together with the defaults."""

    name: _name(GROUP_NAME, "letters, digits, '_' and '-', the first not '_'")  # type: ignore[valid-type]
    system: String
    parameters: dict[str, Setting] = {}
    scan: dict[str, Scanned] = {}
    zip: Annotated[
        list[Annotated[list[String], BeforeValidator(_group_of_axes), Field(min_length=2)]],
        Field(min_length=1),
    ] = []
    exclude: list[Annotated[dict[str, Scalar], Field(min_length=1)]] = []
    integrators: Annotated[Any, _one_or_many(AnyEntry)]
    step_size: StepSizes | None = None
    tolerance: Values | None = None
    initial_condition: Annotated[Any, _one_or_many(AnyStart)]
    duration: Declarable
    samples: Annotated[Any, OneOf(one=Annotated[Integer, Field(ge=1)], table=PerDecadeTable)]
    record: list[Annotated[Any, OneOf(text=String, table=Counted)]] | None = None
    statistics: Statistics = EVERY_STEP
    reference: Annotated[Any, OneOf(one=Literal[False], table=ReferenceTable)] = None
    repeat: Annotated[Integer, Field(ge=1)] = 1
    max_steps: Annotated[Integer, Field(ge=1, le=2**53)] = MOST_STEPS
    time_unit: Annotated[Number, Field(gt=0)] = 1.0


_NO_DEFAULTS = ("name", "system", "parameters", "scan", "zip", "exclude")
_defaults: dict[str, Any] = {
    key: (kind | None, None)
    for key, kind in ExperimentTable.__annotations__.items()
    if key not in _NO_DEFAULTS
}
Defaults = create_model("Defaults", __base__=Table, **_defaults)  # for all experiments


# --- in Python --------------------------------------------------------------------------------

Of: TypeAlias = Mapping[str, Any]  # a table
Numbers: TypeAlias = float | Sequence[float] | NDArray[np.floating[Any]] | Of
Given: TypeAlias = "str | PythonMethod | Of"  # an integrator


class ExperimentKeys(TypedDict, total=False):
    """The keys of an experiment but its name, as Python gives them; ``sweep guide keys``."""

    system: Required["str | type[PythonSystem]"]
    parameters: Of
    scan: Mapping[str, Sequence[float | str | Of] | NDArray[np.floating[Any]] | Of]
    zip: Sequence[Sequence[str]]
    exclude: Sequence[Of]
    integrators: Required["Given | Sequence[Given]"]
    step_size: Numbers | Literal["declared"]
    tolerance: Numbers
    initial_condition: Required[str | Of | Sequence[str | Of]]
    duration: Required[float | Literal["declared"]]
    samples: Required[int | Of]
    record: Sequence[str | Of]
    statistics: str
    reference: Of | Literal[False]
    repeat: int
    max_steps: int
    time_unit: float


class NamedExperimentKeys(ExperimentKeys):
    """All keys of an experiment."""

    name: Required[str]


def plugin_of(value: object) -> Plugin | None:
    """The plugin of a system or an integrator from a Python function; None of anything else."""
    declared = getattr(value, "declaration", None)
    return plugin_of_declaration(declared) if isinstance(declared, Declaration) else None


def _by_names(value: Any, found: list[Plugin]) -> Any:
    """A value with names for what is from Python functions, whose plugins are found."""
    if (plugin := plugin_of(value)) is not None:
        found.append(plugin)
        return value.name
    if isinstance(value, Method):
        raise StudyError(
            f"sweep.Experiment: integrators: got the method {value.name!r}; expected a name, or "
            "what sweep.python_method gives. Methods of kernels are defined in a plugin's file"
        )
    if isinstance(value, list | tuple):
        return [_by_names(one, found) for one in value]
    if isinstance(value, dict):
        return {key: _by_names(one, found) for key, one in value.items()}
    return value


class Experiment(ExperimentTable):
    """An experiment built in Python, with the keys of an ``[[experiment]]`` table.

    Values are those of a study's file, with dicts for tables; NumPy arrays can stand for lists. The
    `sweep.Study` that gets the experiment checks it against systems and integrators.

    Parameters
    ----------
    name : str
    system : str or what `sweep.python_system` gives
    integrators : list of (str, dict or what `sweep.python_method` gives)
    initial_condition : str, list or dict
    duration : float or str
    samples : int or dict
    step_size, tolerance, parameters, scan, zip, exclude, record, statistics, reference, repeat, \
max_steps, time_unit : optional
        ``sweep guide keys`` explains each key.

    Raises
    ------
    StudyError
        If keys are unknown or missing, or values have a wrong type. The message lists all of them.
    """

    model_config = ConfigDict(frozen=True)
    _plugins: tuple[Plugin, ...] = PrivateAttr(())  # of what is given as a value of Python

    def __init__(self, **given: Unpack[NamedExperimentKeys]) -> None:
        plugins: list[Plugin] = []
        named = {k: _by_names(value, plugins) for k, value in given.items() if value is not None}
        written = {key: as_written(value) for key, value in named.items()}
        try:
            super().__init__(**written)
            super().__setattr__("_plugins", tuple(plugins))
        except ValidationError as error:
            found = problems_of_table(ExperimentTable, error)
            shown = (f"{format_key_path(path)}: {said}".removeprefix(": ") for path, said in found)
            raise StudyError(*(f"sweep.Experiment: {problem}" for problem in shown)) from None

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:  # of `repr`: what is given
        return iter(self.model_dump(exclude_unset=True, warnings=False).items())

    def __setattr__(self, name: str, value: object) -> None:
        raise StudyError(
            f"sweep.Experiment: {name} = {reprlib.repr(value)} cannot be set, since experiments "
            f"stay as they are; make another: experiment.model_copy(update={{{name!r}: …}})"
        )


def _as_parameter(key: str) -> inspect.Parameter:
    of = Experiment.model_fields[key]
    default = inspect.Parameter.empty if of.is_required() else of.get_default()
    return inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default)


_experiment: Any = Experiment  # whose signature is for readers: without pydantic's annotations
_experiment.__signature__ = inspect.Signature(list(map(_as_parameter, Experiment.model_fields)))


class StudyTable(Table):
    """The top-level table of a study; its experiments are read one by one."""

    format: Annotated[
        Integer,
        AfterValidator(_must_be("1: this version reads format 1", lambda value: value == FORMAT)),
        WithJsonSchema({"const": FORMAT}),
    ]
    name: _name(STUDY_NAME, "letters, digits, '_', '-' and '.', as for a file")  # type: ignore[valid-type]
    description: Annotated[str, Strict(), Field(max_length=MOST_STRING)] = ""
    plugins: list[Label] = []
    defaults: dict[str, Any] = {}
    experiment: Annotated[
        list[dict[str, Any]],
        BeforeValidator(
            _must_be("an array of tables, [[experiment]]", lambda value: type(value) is not dict)
        ),
        Field(min_length=1, max_length=MOST_EXPERIMENTS),
    ]


def as_list(value: Any) -> list[Any]:
    """A value as a list: itself if it is a list, else a list of one."""
    return value if isinstance(value, list) else [value]


def as_tuples(value: Any) -> Any:
    """A value with tuples in place of lists."""
    if isinstance(value, dict):
        return {key: as_tuples(item) for key, item in value.items()}
    return tuple(map(as_tuples, value)) if isinstance(value, list) else value


# --- reading ----------------------------------------------------------------------------------

_EXPECTED = {
    "int_type": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "greater_than": "a positive number",
    "string_type": "a string that is not empty",
    "string_too_short": "a string that is not empty",
    "bool_type": "true or false",
    "list_type": "an array",
    "too_short": "an array that is not empty",
}
_NAMED: dict[object, str] = {
    "integrators": "an integrator",
    "initial_condition": "a start",
    "record": "a quantity",
}
_TABLES = {f"<{kind.__name__}>": kind for kind in Table.__subclasses__()}


def problems_of_table(kind: type[Table], error: ValidationError) -> Iterator[tuple[KeyPath, str]]:
    """Key paths and messages for the errors that pydantic found; first those of keys."""
    order = {"extra_forbidden": 0, "missing": 1}
    for found in sorted(error.errors(), key=lambda found: order.get(found["type"], 2)):
        path = tuple(part for part in found["loc"] if not str(part).startswith("<"))
        if found["type"] == "missing":
            yield path[:-1], f"the key {path[-1]!r} is missing"
            continue
        try:
            _raise_problem(kind, found["type"], found["loc"], found["input"], found.get("ctx", {}))
        except ValueError as problem:
            yield path, str(problem)


def _raise_problem(
    table: type[Table], kind: str, location: KeyPath, value: Any, about: dict[str, Any]
) -> None:
    key = next((part for part in reversed(location) if not str(part).startswith("<")), "")
    match kind:
        case "value_error":
            raise about["error"]
        case "extra_forbidden":
            kinds = (_TABLES[part] for part in reversed(location) if part in _TABLES)
            check_known("key", key, next(kinds, table).model_fields)
        case "literal_error" if DECLARED in about["expected"] and not _is_misspelt(value):
            raise expected(f'a number in the system\'s unit of time, or "{DECLARED}"', value)
        case "literal_error" if about["expected"] == "False":
            raise expected('a table, { integrator = "dop853" }, or false for none', value)
        case "literal_error":
            what = "quantity with a count" if "<Counted>" in location else str(key)
            check_known(what, value, re.findall("'([^']*)'", about["expected"]))
        case "greater_than_equal":
            raise expected(f"at least {about['ge']:,}", value)
        case "less_than_equal":
            raise expected(f"at most {about['le']:,}", value)
        case "string_too_long":
            raise expected(f"at most {about['max_length']:,} characters, not {len(value):,}", value)
        case "string_type" if location[-1] == "<text>" and location[0] in _NAMED:
            table_of = ', { file = "states.npy" } for an array of states' * isinstance(value, list)
            raise expected(
                f"a string, the name of {_NAMED[location[0]]}, or a table{table_of}", value
            )
        case "list_type" if location[:1] == ("scan",):
            raise expected("an array, or a range { start = 1, stop = 2, count = 5 }", value)
        case "too_short" if value == {}:
            raise expected("a table of conditions", value)
        case "too_long":
            most = f"at most {about['max_length']:,} are possible"
            raise InputError(f"has {len(value):,} elements; {most}")
        case _:
            raise expected(_EXPECTED.get(kind, "a table"), value)


FAILED = object()  # stands for a wrong value, which is reported already


def read_table(kind: type[Table], table: Any) -> tuple[dict[str, Any], list[Problem]]:
    """Read a table.

    Parameters
    ----------
    kind : type of Table
    table : dict
        The table as written, with the defaults.

    Returns
    -------
    values : dict
        The values of all keys; `FAILED` for wrong ones.
    problems : list of Problem
    """
    try:
        return dict(kind.model_validate(table)), []
    except ValidationError as error:
        problems = _problems(kind, error)
        wrong = {found["loc"][0] for found in error.errors() if found["loc"]}
    right = kind.model_construct()
    for key in (kind.model_fields.keys() & table.keys()) - wrong:
        kind.__pydantic_validator__.validate_assignment(right, key, table[key])
    values = {
        key: FAILED if key in wrong else getattr(right, key, FAILED) for key in kind.model_fields
    }
    return values, problems


def read_value(kind: Any, value: object) -> Any:
    """Read a value by a type of this module; `WrongValues` has all its problems."""
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        raise WrongValues(*_problems(Table, error)) from None


def read_numbers(given: Any, what: str, read: Callable[[float], float]) -> tuple[float, ...]:
    """Read the numbers of a range, a list or a single number; refuse duplicates in a list.

    Parameters
    ----------
    given : Range, list or number
    what : str
        What the numbers are, for messages.
    read : callable
        Checks and converts a number.

    Returns
    -------
    tuple of float

    Raises
    ------
    InputError
        If a number is not valid, or occurs twice.
    """
    if isinstance(given, Range):
        return tuple(map(read, given.numbers()))
    found = read_each(read, as_list(given))
    check_distinct(found, what)
    return found


def _problems(kind: type[Table], error: ValidationError) -> list[Problem]:
    found = itertools.islice(problems_of_table(kind, error), MOST_PROBLEMS + 1)
    return list(itertools.starmap(Problem, found))


# --- JSON Schema ------------------------------------------------------------------------------


def study_schema() -> Shape:
    """The JSON Schema of study files, with the names that are built in or installed.

    In a study with plugins any name is valid, since plugins may add it.

    Returns
    -------
    dict
        A schema that `json.dump` can write.
    """
    library = with_installed_plugins(BUILT_IN, "system")
    library = with_installed_plugins(library, "integrator")
    kinds: list[type[systems.System]] = [*systems.ALL_SYSTEMS, *library.systems]
    known_systems = _choice_of(kind.name for kind in kinds)
    made = [method.name for method in integrators.ALL_INTEGRATORS if method.made_of is not None]
    known_integrators = _choice_of([ALL, *integrators.names(library.methods), *made])
    top, defaults, experiment = (
        table.model_json_schema(ref_template="#/definitions/{model}")
        for table in (StudyTable, Defaults, ExperimentTable)
    )
    definitions = defaults.pop("$defs") | experiment.pop("$defs")
    _describe({"StudyTable": top, "ExperimentTable": experiment} | definitions)
    _describe({"ExperimentTable": defaults})
    offered = experiment["properties"]  # values that editors offer
    offered["system"] = _any_of(known_systems, offered["system"])
    offered["integrators"] = _any_of(known_integrators, offered["integrators"])
    required = experiment["required"]  # these keys may also stand in the defaults
    experiment["required"] = [key for key in required if key not in Defaults.model_fields]
    experiment["allOf"] = [_experiment_shape_of_system(kind, library) for kind in kinds]
    top["properties"] |= {"defaults": defaults, "experiment": _list_of(experiment, 1)}
    methods = map(_entry_shape_of_method, (*integrators.ALL_INTEGRATORS, *library.methods))
    entry = _shape_of_one_or_list(
        known_integrators, {"properties": {"name": known_integrators}, "allOf": list(methods)}
    )
    named = {
        "defaults": {"properties": {"integrators": entry}},
        "experiment": {"items": {"properties": {"system": known_systems, "integrators": entry}}},
    }
    without_plugins = {"properties": {"plugins": {"maxItems": 0}}}
    return {
        **top,
        "$schema": DIALECT,
        "title": "A study of Geosweep",
        "definitions": definitions,
        "allOf": [
            *map(_required_key_shape, required),
            {"if": without_plugins, "then": {"properties": named}},
        ],
    }


def _describe(tables: dict[str, Shape]) -> None:
    """Add descriptions to the keys of tables, which editors show."""
    for name, meanings in keys_of_tables().items():
        for key, shape in tables.get(name, {}).get("properties", {}).items():
            shape["description"] = meanings[key]


def _list_of(shape: Shape, least: int = 0) -> Shape:
    return {"type": "array", "items": shape, "minItems": least}


def _any_of(*shapes: Shape) -> Shape:
    return {"anyOf": list(shapes)}


def _choice_of(names: Iterable[str]) -> Shape:
    return {"enum": list(names)}


def _required_key_shape(key: str) -> Shape:
    """Shape of a study in which each experiment, or the defaults table, has a required key."""
    in_each = {"properties": {"experiment": {"items": {"required": [key]}}}}
    if key not in Defaults.model_fields:
        return in_each
    in_defaults = {"required": ["defaults"], "properties": {"defaults": {"required": [key]}}}
    return _any_of(in_defaults, in_each)


def _shape_of_one_or_list(word: Shape, table: Shape) -> Shape:
    """Shape of a word, a table, or an array of words and tables."""
    one = {"if": {"type": "string"}, "then": word, "else": table}
    return {"if": {"type": "array"}, "then": {"items": one}, "else": one}


def _entry_shape_of_method(method: integrators.Method) -> Shape:
    """Shape of an integrator's entry, if its name is that of this method."""
    options = {key: _option_shape(option) for key, option in method.options.items()}
    options |= {STEPS_OF: {"type": "string"}, ARITHMETIC: _choice_of(ARITHMETICS)}
    known = {"propertyNames": _choice_of([*Entry.model_fields, *options])}
    if method.made_of is not None:  # its options are those of the method that it makes
        options, known = {}, {}
    return {
        "if": {"properties": {"name": {"pattern": f"^{method.name}(\\+|$)"}}},
        "then": {"properties": options} | known,
    }


def _option_shape(option: Option) -> Shape:
    if option.read is not None:
        return {}
    if option.choices:
        return _choice_of(option.choices)
    shape: Shape = {"type": "integer" if option.whole else "number"}
    if not option.positive and np.isfinite(option.least):
        shape["minimum"] = option.least
    if option.positive:
        shape["exclusiveMinimum"] = 0
    if np.isfinite(option.most):
        shape["maximum"] = option.most
    return shape


def _experiment_shape_of_system(kind: type[systems.System], library: Library) -> Shape:
    """Shape of an experiment, if its system is of this kind."""
    parameters: dict[str, Shape] = dict.fromkeys(kind.parameter_names(), {})
    of_parameters = {"properties": parameters, "additionalProperties": False}
    starts = [start.name for start in kind.named_starts]
    starts += [family.name for family in kind.families]
    try:
        recorded = [quantity.name for quantity in library.quantities(kind())]
    except InputError:  # the default parameters make no valid system
        recorded = []
    known = _any_of(_choice_of([*recorded, *BESIDES]), {})  # parameters and plugins may add others
    return {
        "if": {"properties": {"system": {"const": kind.name}}},
        "then": {
            "properties": {
                "parameters": of_parameters,
                "scan": of_parameters,
                "initial_condition": _shape_of_one_or_list(_choice_of(starts), {}),
                "record": _list_of(known),
            }
        },
    }

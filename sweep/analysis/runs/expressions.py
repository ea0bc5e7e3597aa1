"""Conditions on runs, such as ``integrator == 'rk4' and step_size < 0.05``.

Expressions are evaluated safely, even if they come from an untrusted study or a web page. Only a
short list of tokens and of nodes of the syntax tree is allowed, and only a few operators are
applied to arrays. An expression cannot call anything, nor access anything except the columns that
it names.

::

    condition = condition "or" condition | condition "and" condition | "not" condition
              | value (("==" | "!=" | "<" | "<=" | ">" | ">=") value)+
              | value ["not"] "in" "[" [value ("," value)*] "]"     (or a tuple in brackets)
              | NAME | "True" | "False" | "(" condition ")"
    value     = value ("+" | "-" | "*" | "/") value | ("-" | "+") value
              | NAME | NAME "@" (NAME | NUMBER) | constant | "(" value ")"
    constant  = NUMBER | TEXT | "True" | "False"

Precedence, chains (``0 < a <= b``), numbers and the escapes in ``'text'`` or ``"text"`` are as in
Python; ``and``, ``or`` and ``not`` apply to each run. Text is compared with text, and numbers with
numbers; ``True`` is equal to 1. Arithmetic is in double precision. A missing number or text (NaN,
None) differs from every value: only ``!=`` and ``not in`` are true. An expression has at most
`LONGEST` characters and `DEEPEST` levels.
"""

import ast
import functools
import keyword
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from integrators.errors import InputError, short_repr, suggest_nearest
from sweep.analysis.runs.blocks import Booleans

EXAMPLE = "integrator == 'rk4' and step_size < 0.05"
LONGEST = 10_000  # characters
DEEPEST = 50  # levels of nested parentheses and operators

NUMBER = r"(?:[0-9][0-9_]*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?(?![\w.])"
NAME = r"[^\W\d]\w*"
TOKEN = re.compile(  # tokens outside of the groups are not allowed
    rf"""(?P<space>\s+)
    |(?P<name>{NAME}(?:@(?:{NUMBER}|{NAME}))?)
    |(?P<constant>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|{NUMBER})
    |\*\*|//|<<|>>|&&|\|\|
    |(?P<sign>==|!=|<=|>=|[-+*/<>()\[\],])
    |.""",
    re.VERBOSE | re.DOTALL,
)
WORDS = ("and", "or", "not", "in", "True", "False")
INSTEAD = {
    "=": "equality is written ==",
    "is": "write '==' for 'is'",
    "@": "write '@' without spaces between a series and its reduction: energy_error@max",
    ".": "attributes, such as 'a.b', are not allowed",
    **dict.fromkeys("'\"", "a quote is not closed"),
    **{sign: f"write 'and' for {sign!r}" for sign in ("&", "&&")},
    **{sign: f"write 'or' for {sign!r}" for sign in ("|", "||")},
    **{sign: f"write 'not' for {sign!r}" for sign in ("~", "!")},
}
ALLOWED = (
    "use names, numbers, text in quotes, ==, !=, <, <=, >, >=, and, or, not, in [...], "
    "+, -, *, / and parentheses"
)

CONDITION, NUMERIC, TEXT = "a condition", "a number", "text"
CONDITIONS, NUMBERS, ANY = (CONDITION,), (NUMERIC, CONDITION), (NUMERIC, CONDITION, TEXT)
# Operations by node of the syntax tree, with the kinds of values that they accept.
OPERATIONS: dict[type[ast.AST], tuple[Callable[..., Any], tuple[str, ...]]] = {
    ast.Eq: (np.equal, ANY),
    ast.NotEq: (lambda one, other: ~np.equal(one, other), ANY),  # true for missing text too
    ast.Lt: (np.less, ANY),
    ast.LtE: (np.less_equal, ANY),
    ast.Gt: (np.greater, ANY),
    ast.GtE: (np.greater_equal, ANY),
    ast.And: (np.logical_and, CONDITIONS),
    ast.Or: (np.logical_or, CONDITIONS),
    ast.Not: (np.logical_not, CONDITIONS),
    ast.Add: (np.add, NUMBERS),
    ast.Sub: (np.subtract, NUMBERS),
    ast.Mult: (np.multiply, NUMBERS),
    ast.Div: (np.divide, NUMBERS),
    ast.USub: (np.negative, NUMBERS),
    ast.UAdd: (np.positive, NUMBERS),
}
AMONG, LISTS = (ast.In, ast.NotIn), (ast.List, ast.Tuple)
NODES = (*OPERATIONS, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, *AMONG, *LISTS, ast.Name,
         ast.Load, ast.Constant)  # fmt: skip
TEXTS = np.dtypes.StringDType(na_object=np.nan)
Operand = tuple[ast.expr, NDArray[Any]]  # a node and its value


class Refusal(Exception):
    """Raised with the reason why an expression cannot be evaluated."""


def evaluate_expression(
    text: str,
    runs: int,
    read: Callable[[list[str]], dict[str, NDArray[Any]]],
    named: Mapping[str, Mapping[str, int]],
) -> tuple[Booleans, dict[str, NDArray[Any]]]:
    """Evaluate a condition for each run.

    Parameters
    ----------
    text : str
        An expression in the grammar of this module.
    runs : int
        Number of runs.
    read : callable
        Returns columns by names such as ``step_size`` and ``energy_error@max``. Columns have a
        number, text or boolean for each run. It may raise `Refusal`.
    named : dict of str to (dict of str to int)
        By column, names that may be written for values in comparisons.

    Returns
    -------
    held : ndarray of bool, shape ``(runs,)``
        Whether the condition is true.
    columns : dict of str to ndarray
        The columns that were read.

    Raises
    ------
    InputError
        If the text is not in the grammar, too long or nested too deeply; if text is compared with
        a number; or if the result is not true or false. The message says what to write instead.
    """
    if not isinstance(text, str):
        raise InputError(f"expected an expression as text, got {text!r}", key="where")
    text = text.strip()
    try:
        tree, names = _parse(text)
        columns = read(names)
        values = {name: _numbers_or_text(name, columns[name]) for name in names}
        with np.errstate(all="ignore"):
            held = _Evaluation(values, named).value_of(tree)
        if held.dtype != bool:
            raise Refusal("it is not a condition, true or false for each run")
    except (Refusal, UnicodeError) as refusal:
        reason = str(refusal).rstrip(".")
        end = "" if reason.endswith("?") else "."
        raise InputError(
            f'{short_repr(text)} cannot be evaluated: {reason}{end} Write it like "{EXAMPLE}".',
            key="where",
        ) from None
    return np.array(np.broadcast_to(held, (runs,))), columns


def _parse(text: str) -> tuple[ast.expr, list[str]]:
    """Syntax tree of an expression, and the names in it, each once, in order of appearance."""
    if len(text) > LONGEST:
        raise Refusal(f"it has {len(text):,} characters; expected {LONGEST:,} at most")
    if not text:
        raise Refusal("it is empty")
    parts, names = [], []  # the tree has n0, n1, … instead of the names
    for token in TOKEN.finditer(text):
        found, kind = token.group(), token.lastgroup
        if kind is None or (keyword.iskeyword(found) and found not in WORDS):
            raise Refusal(INSTEAD.get(found, f"{found!r} is not allowed: {ALLOWED}"))
        if kind == "name" and found not in WORDS:
            names.append(found)
            found = f"n{len(names) - 1}"
        parts.append(" " if kind == "space" else found)
    too_deep = Refusal(f"it is nested too deeply; expected {DEEPEST} levels at most")
    try:
        with warnings.catch_warnings():  # Python warns of text such as '\d'
            warnings.simplefilter("ignore")
            tree = ast.parse("".join(parts), mode="eval").body
    except (MemoryError, RecursionError):
        raise too_deep from None
    except (SyntaxError, ValueError) as error:
        reason = getattr(error, "msg", str(error))
        raise (too_deep if "too many nested" in reason else Refusal(reason)) from None
    level: list[ast.AST] = [tree]
    for _ in range(DEEPEST + 1):  # one more level, for the operators of the deepest
        for node in level:
            match node:
                case ast.Name():
                    node.id = names[int(node.id[1:])]
                case ast.Constant(value=int() as number) if abs(number) >= 2**1023:
                    raise Refusal("a number in it is too large")
                case ast.Call():
                    raise Refusal(f"functions cannot be called: {ALLOWED}")
                case _ if not isinstance(node, NODES):
                    raise Refusal(ALLOWED)
        level = [part for node in level for part in ast.iter_child_nodes(node)]
    if level:
        raise too_deep
    return tree, list(dict.fromkeys(names))


def _numbers_or_text(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Convert a column to numbers, booleans, or text, in which values may be missing."""
    if array.dtype.kind in "biuf":
        return array
    values = [np.nan if value is None or value != value else value for value in array.tolist()]
    if all(isinstance(value, str) or value != value for value in values):
        return np.array(values, dtype=TEXTS)
    try:
        return np.array(values, dtype=float)
    except (TypeError, ValueError):
        raise Refusal(f"{name!r} has neither numbers nor text") from None


class _Evaluation:
    """Evaluates a tree of `NODES` to arrays over the runs, or to arrays without dimension."""

    def __init__(
        self, columns: Mapping[str, NDArray[Any]], named: Mapping[str, Mapping[str, int]]
    ) -> None:
        self._columns, self._named = columns, named

    def value_of(self, node: ast.expr) -> NDArray[Any]:
        match node:
            case ast.Name():
                return self._columns[node.id]
            case ast.Constant(value=str() as text):
                return np.asarray(text, dtype=TEXTS)
            case ast.Constant():
                return np.asarray(node.value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
                return np.asarray(-number)  # exactly
            case ast.BoolOp() | ast.BinOp() | ast.UnaryOp():
                first, *rest = (part for part in ast.iter_child_nodes(node)
                                if isinstance(part, ast.expr))  # fmt: skip
                value, op = self.value_of(first), type(node.op)
                for part in rest:
                    value = _apply(op, (first, value), (part, self.value_of(part)))
                return value if rest else _apply(op, (first, value))
            case ast.Compare():
                return self._compare(node)
        raise Refusal("a list is allowed only after 'in'")

    def _compare(self, node: ast.Compare) -> NDArray[Any]:
        """A chain of comparisons: ``a < b < c`` is ``a < b and b < c``."""
        columns = (side.id for side in (node.left, *node.comparators) if isinstance(side, ast.Name))
        column = next((name for name in columns if name in self._named), "")
        left, held = self._side(node.left, column), np.asarray(True)
        for op, right in zip(node.ops, node.comparators, strict=True):
            if not isinstance(op, AMONG):
                side = self._side(right, column)
                held = held & _apply(type(op), left, side)
                left = side
            elif not isinstance(right, LISTS) or right is not node.comparators[-1]:
                raise Refusal("after 'in' expected a list, such as ['rk4', 'rk45'], and no more")
            else:
                found = _is_among(left, [self._side(item, column) for item in right.elts])
                held = held & (found == isinstance(op, ast.In))
        return held

    def _side(self, node: ast.expr, column: str) -> Operand:
        """Evaluate one side of a comparison; names of values of `column` stand for the values."""
        if not (column and isinstance(node, ast.Constant) and isinstance(node.value, str)):
            return node, self.value_of(node)
        known = self._named[column]
        if node.value not in known:
            close = suggest_nearest(node.value, known)
            raise Refusal(f"unknown {column} {node.value!r}.{close}")
        return node, np.asarray(known[node.value])


def _is_among(left: Operand, items: list[Operand]) -> Booleans:
    """Where a value equals an item; constants are looked up at once, since lists may be long."""
    node, values = left
    constants = [item for item in items if not item[1].ndim]
    for item in constants:
        _apply(ast.Eq, (node, values.ravel()[:0]), item)  # raises `Refusal` if the kinds differ
    wanted = {value.item() for _, value in constants}
    held = np.array([value in wanted for value in values.ravel().tolist()], dtype=bool)
    others = (_apply(ast.Eq, left, item) for item in items if item[1].ndim)
    return functools.reduce(np.logical_or, others, held.reshape(values.shape))


def _apply(op: type[ast.AST], *operands: Operand) -> NDArray[Any]:
    """Apply an operation; raise `Refusal` if operands are of the wrong kind."""
    operation, expected = OPERATIONS[op]
    values = [value for _, value in operands]
    kinds = [{"T": TEXT, "b": CONDITION}.get(value.dtype.kind, NUMERIC) for value in values]
    for (node, _), kind in zip(operands, kinds, strict=True):
        if kind not in expected:
            raise Refusal(f"{ast.unparse(node)} is {kind} where {expected[0]} is expected")
    if kinds.count(TEXT) == 1:
        one, other = (
            f"{ast.unparse(node)} is {kind}"
            for (node, _), kind in zip(operands, kinds, strict=True)
        )
        raise Refusal(
            f"{one} and {other}: compare numbers with numbers, and text with text in quotes"
        )
    if expected == NUMBERS:
        values = [value.astype(float) for value in values]
    return np.asarray(operation(*values))

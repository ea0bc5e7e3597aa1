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
`LONGEST` characters.
"""

import ast
import functools
import itertools
import keyword
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from integrators.errors import InputError, short_repr, suggest_nearest
from sweep.analysis.runs.blocks import Booleans

EXAMPLE = "integrator == 'rk4' and step_size < 0.05"
LONGEST = 10_000  # characters

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

AFTER_IN = "after 'in' expected a list, such as ['rk4', 'rk45'], and no more"

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
Columns = Mapping[str, NDArray[Any]]


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
        tree, names = _parse(text, named)
        columns = read(names)
        values = {name: _numbers_or_text(name, columns[name]) for name in names}
        with np.errstate(all="ignore"):
            held = _evaluate(tree, values)
        if held.dtype != bool:
            raise Refusal("it is not a condition, true or false for each run")
    except (Refusal, UnicodeError, MemoryError, RecursionError) as error:
        deep = isinstance(error, MemoryError | RecursionError)
        reason = "it is nested too deeply" if deep else str(error).rstrip(".")
        end = "" if reason.endswith("?") else "."
        raise InputError(
            f'{short_repr(text)} cannot be evaluated: {reason}{end} Write it like "{EXAMPLE}".',
            key="where",
        ) from None
    return np.array(np.broadcast_to(held, (runs,))), columns


def _parse(text: str, named: Mapping[str, Mapping[str, int]]) -> tuple[ast.expr, list[str]]:
    """Syntax tree of an expression, and the names in it, each once, in order of appearance."""
    if len(text) > LONGEST:
        raise Refusal(f"it has {len(text):,} characters; expected {LONGEST:,} at most")
    if not text:
        raise Refusal("it is empty")
    parts, names = [], []  # Python parses n0, n1, … instead of the names
    for token in TOKEN.finditer(text):
        found, kind = token.group(), token.lastgroup
        if kind is None or (keyword.iskeyword(found) and found not in WORDS):
            raise Refusal(INSTEAD.get(found, f"{found!r} is not allowed: {ALLOWED}"))
        if kind == "name" and found not in WORDS:
            names.append(found)
            found = f"n{len(names) - 1}"
        parts.append(" " if kind == "space" else found)
    try:
        with warnings.catch_warnings():  # Python warns of text such as '\d'
            warnings.simplefilter("ignore")
            tree = ast.parse("".join(parts), mode="eval").body
    except (SyntaxError, ValueError) as error:
        reason = getattr(error, "msg", str(error))
        raise (RecursionError if "too many nested" in reason else Refusal(reason)) from None
    for node in (nodes := list(ast.walk(tree))):
        match node:
            case ast.Name():
                node.id = names[int(node.id[1:])]
            case ast.Constant(value=int() as number) if abs(number) >= 2**1023:
                raise Refusal("a number in it is too large")
            case ast.Call():
                raise Refusal(f"functions cannot be called: {ALLOWED}")
            case _ if not isinstance(node, NODES):
                raise Refusal(ALLOWED)
    for node in nodes:
        if isinstance(node, ast.Compare):
            _replace_names_of_values([node.left, *node.comparators], named)
    return tree, list(dict.fromkeys(names))


def _replace_names_of_values(
    sides: Sequence[ast.expr], named: Mapping[str, Mapping[str, int]]
) -> None:
    """Replace text that a column such as ``status`` is compared with by the value of that name."""
    columns = [side.id for side in sides if isinstance(side, ast.Name) and side.id in named]
    for item in (item for side in sides for item in getattr(side, "elts", [side])):
        if columns and isinstance(item, ast.Constant) and isinstance(item.value, str):
            if item.value not in (known := named[columns[0]]):
                close = suggest_nearest(item.value, known)
                raise Refusal(f"unknown {columns[0]} {item.value!r}.{close}")
            item.value = known[item.value]


def _numbers_or_text(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Convert a column to numbers, booleans, or text, in which values may be missing."""
    if array.dtype.kind in "biuf":
        return array
    values = [np.nan if value is None or value != value else value for value in array.tolist()]
    try:
        is_text = all(isinstance(value, str) or value != value for value in values)
        return np.array(values, dtype=TEXTS if is_text else float)
    except (TypeError, ValueError):
        raise Refusal(f"{name!r} has neither numbers nor text") from None


def _evaluate(node: ast.expr, columns: Columns) -> NDArray[Any]:
    """The value of a tree of `NODES` for each run, or without dimension if it is constant."""
    match node:
        case ast.Name():
            return columns[node.id]
        case ast.Constant():
            return np.asarray(node.value, dtype=TEXTS if isinstance(node.value, str) else None)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
            return np.asarray(-number)  # exactly
        case ast.UnaryOp():
            return _apply(node.op, [node.operand], columns)
        case ast.BinOp():
            return _apply(node.op, [node.left, node.right], columns)
        case ast.BoolOp():
            return _apply(node.op, node.values, columns)
        case ast.Compare():  # of a chain: ``a < b < c`` is ``a < b and b < c``
            if any(isinstance(op, AMONG) for op in node.ops[:-1]):
                raise Refusal(AFTER_IN)
            pairs = zip(node.ops, itertools.pairwise([node.left, *node.comparators]), strict=True)
            held = [
                _is_among(op, *pair, columns)
                if isinstance(op, AMONG)
                else _apply(op, pair, columns)
                for op, pair in pairs
            ]
            return np.asarray(functools.reduce(np.logical_and, held))
    raise Refusal("a list is allowed only after 'in'")


def _is_among(op: ast.cmpop, left: ast.expr, right: ast.expr, columns: Columns) -> Booleans:
    """Where a value equals an item; constants are looked up at once, since lists may be long."""
    if not isinstance(right, LISTS):
        raise Refusal(AFTER_IN)
    values, items = _evaluate(left, columns), [_evaluate(item, columns) for item in right.elts]
    for item, value in zip(right.elts, items, strict=True):
        _check_kinds([left, item], [values, value], ANY)
    wanted = {item.item() for item in items if not item.ndim}
    held = np.array([value in wanted for value in values.ravel().tolist()], dtype=bool)
    others = (np.equal(values, item) for item in items if item.ndim)
    among = functools.reduce(np.logical_or, others, held.reshape(values.shape))
    return np.asarray(among == isinstance(op, ast.In))


def _apply(op: ast.AST, nodes: Sequence[ast.expr], columns: Columns) -> NDArray[Any]:
    """Apply an operation to the values of nodes, one after the other."""
    operation, accepted = OPERATIONS[type(op)]
    values = [_evaluate(node, columns) for node in nodes]
    _check_kinds(nodes, values, accepted)
    if accepted == NUMBERS:
        values = [value.astype(float) for value in values]
    return np.asarray(
        functools.reduce(operation, values) if len(values) > 1 else operation(*values)
    )


def _check_kinds(
    nodes: Sequence[ast.expr], values: Sequence[NDArray[Any]], accepted: tuple[str, ...]
) -> None:
    """Raise `Refusal` if a value is of the wrong kind, or text is compared with a number."""
    kinds = [{"T": TEXT, "b": CONDITION}.get(value.dtype.kind, NUMERIC) for value in values]
    for node, kind in zip(nodes, kinds, strict=True):
        if kind not in accepted:
            raise Refusal(f"{ast.unparse(node)} is {kind} where {accepted[0]} is expected")
    if 0 < kinds.count(TEXT) < len(kinds):
        said = " and ".join(
            f"{ast.unparse(node)} is {kind}" for node, kind in zip(nodes, kinds, strict=True)
        )
        raise Refusal(f"{said}: compare numbers with numbers, and text with text in quotes")

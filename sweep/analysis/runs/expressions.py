"""Conditions on runs, as people write them: ``integrator == 'rk4' and step_size < 0.05``.

An expression is data: it is parsed, every part of it is one of the grammar below, and it is
evaluated on arrays by the few operators that it may have. It calls nothing and reaches nothing but
the columns that it names, so that one from a stranger's study or a web page may be evaluated.

::

    condition = condition "or" condition | condition "and" condition | "not" condition
              | value (("==" | "!=" | "<" | "<=" | ">" | ">=") value)+
              | value ["not"] "in" "[" [constant ("," constant)*] "]"     (or a tuple in brackets)
              | NAME | "True" | "False" | "(" condition ")"
    value     = value ("+" | "-" | "*" | "/") value | ("-" | "+") value
              | NAME | NAME "@" (NAME | NUMBER) | constant | "(" value ")"
    constant  = ["-" | "+"] NUMBER | TEXT | "True" | "False"

Precedence, chains (``0 < a <= b``), numbers and the escapes in ``'text'`` or ``"text"`` are
Python's; ``and``, ``or`` and ``not`` are those of each run. Text is compared with text, numbers
with numbers, and ``True`` counts as 1. Arithmetic is in double precision. A number or text that a
run does not have (NaN, None) differs from everything: of the comparisons only ``!=`` and ``not in``
hold. An expression has at most `LONGEST` characters and `DEEPEST` levels.
"""

import ast
import functools
import keyword
import operator
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from integrators.errors import InputError, suggest_nearest
from sweep.analysis.runs.blocks import Booleans

EXAMPLE = "integrator == 'rk4' and step_size < 0.05"
LONGEST = 10_000  # characters
DEEPEST = 50  # brackets within brackets, and operators within operators
SHOWN = 200  # characters of an expression in a message

NAME = r"[^\W\d]\w*"
NUMBER = r"(?:[0-9][0-9_]*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?(?![\w.])"
TOKEN = re.compile(
    rf"""(?P<space>\s+)
    |(?P<text>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
    |(?P<number>{NUMBER})
    |(?P<name>{NAME}(?:@(?:{NUMBER}|{NAME}))?)
    |(?P<foreign>\*\*|//|<<|>>|&&|\|\|)
    |(?P<sign>==|!=|<=|>=|[-+*/<>()\[\],])
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
WORDS = ("and", "or", "not", "in", "True", "False")
INSTEAD = {
    "=": "equality is written ==",
    "&": "write 'and' for '&'",
    "&&": "write 'and' for '&&'",
    "|": "write 'or' for '|'",
    "||": "write 'or' for '||'",
    "~": "write 'not' for '~'",
    "!": "write 'not' for '!'",
    "is": "write '==' for 'is'",
    "@": "'@' stands without spaces between a series and what is asked of it: energy_error@max",
    ".": "attributes, as of 'a.b', cannot be asked for",
    "'": "a quote is not closed",
    '"': "a quote is not closed",
}
ALLOWED = (
    "there may be names, numbers, text in quotes, ==, !=, <, <=, >, >=, and, or, not, in [...], "
    "+, -, *, / and brackets"
)

COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
SIGNS: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
Values = NDArray[Any]  # numbers, booleans, or objects that are text or missing
CONDITION, NUMERIC, TEXT = "a condition", "a number", "text"


class Expression:
    """A parsed condition on runs, not evaluated yet.

    Parameters
    ----------
    text : str
        In the grammar of this module.

    Attributes
    ----------
    names : tuple of str
        Names of the columns that it needs, each once, in the order of the text, such as
        ``step_size`` and ``energy_error@max``.

    Raises
    ------
    InputError
        If the text is not in the grammar, too long or nested too deeply, with what to write
        instead.
    """

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise InputError(f"expected an expression as text, got {text!r}", key="where")
        self._text = text.strip()
        if len(self._text) > LONGEST:
            raise self.error_of_expression(
                f"it has {len(self._text):,} characters; expected {LONGEST:,} at most"
            )
        if not self._text:
            raise self.error_of_expression("it is empty")
        plain, names = self._scan_names()
        self._tree = self._parse_as_python(plain)
        self._check_grammar(names)
        self.names = tuple(dict.fromkeys(names))

    def error_of_expression(self, reason: object) -> InputError:
        """Make the `InputError` for an expression that cannot be evaluated, with the reason."""
        shown = self._text if len(self._text) <= SHOWN else f"{self._text[:SHOWN]}…"
        reason = str(reason).rstrip(".")
        end = "" if reason.endswith("?") else "."
        return InputError(
            f'{shown!r} cannot be evaluated: {reason}{end} Write it like "{EXAMPLE}".', key="where"
        )

    def runs_where_it_holds(
        self,
        columns: Mapping[str, NDArray[Any]],
        runs: int,
        named: Mapping[str, Mapping[str, int]] | None = None,
    ) -> Booleans:
        """Evaluate the condition for each run.

        Parameters
        ----------
        columns : dict of str to ndarray, shape ``(runs,)``
            Numbers, text or booleans of each of `names`.
        runs : int
            Number of runs.
        named : dict of str to (dict of str to int), optional
            By column, names of its values: in comparisons they may stand for the values.

        Returns
        -------
        ndarray of bool, shape ``(runs,)``

        Raises
        ------
        InputError
            If text is compared with a number, or the result is not true or false.
        """
        values = {name: self._column_as_numbers_or_text(name, columns[name]) for name in self.names}
        with np.errstate(all="ignore"):
            held = _Evaluation(self, values, named or {}).evaluate_node(self._tree)
        if _kind_of_value(held) != CONDITION:
            raise self.error_of_expression("it is no condition that holds or not for each run")
        return np.array(np.broadcast_to(held, (runs,)))

    # --- reading --------------------------------------------------------------------------------

    def _scan_names(self) -> tuple[str, list[str]]:
        """Replace each name of the text by an identifier n0, n1, …, and list the names in order."""
        parts, names, depth = [], [], 0
        for token in TOKEN.finditer(self._text):
            found, kind = token.group(), token.lastgroup
            foreign = kind in ("foreign", "other")
            if foreign or (kind == "name" and keyword.iskeyword(found) and found not in WORDS):
                raise self.error_of_expression(
                    INSTEAD.get(found, f"{found!r} cannot stand in it: {ALLOWED}")
                )
            depth += (found in "([") - (found in ")]") if kind == "sign" else 0
            if depth > DEEPEST:
                raise self._error_of_nesting()
            if kind == "name" and found not in WORDS:
                names.append(found)
                found = f"n{len(names) - 1}"
            parts.append(" " if kind == "space" else found)
        return "".join(parts), names

    def _parse_as_python(self, plain: str) -> ast.expr:
        try:
            with warnings.catch_warnings():  # Python warns of text such as '\d'
                warnings.simplefilter("ignore")
                return ast.parse(plain, mode="eval").body
        except (MemoryError, RecursionError):
            raise self._error_of_nesting() from None
        except (SyntaxError, ValueError) as error:
            raise self.error_of_expression(getattr(error, "msg", str(error))) from None

    def _error_of_nesting(self) -> InputError:
        return self.error_of_expression(
            f"it is nested too deeply; expected {DEEPEST} levels at most"
        )

    def _check_grammar(self, names: list[str]) -> None:
        """Refuse what is not in the grammar, and put the names back into the tree."""
        waiting: list[tuple[ast.AST, int]] = [(self._tree, 1)]
        while waiting:
            node, depth = waiting.pop()
            if depth > DEEPEST:
                raise self._error_of_nesting()
            parts: list[ast.expr] = []
            match node:
                case ast.Name():
                    node.id = names[int(node.id[1:])]
                case ast.Constant(value=str() | bool() | float()):
                    pass
                case ast.Constant(value=int() as number) if abs(number) < 2**1023:
                    pass
                case ast.Constant(value=int()):
                    raise self.error_of_expression("a number in it is too large")
                case ast.BoolOp():
                    parts = node.values
                case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.UAdd()):
                    parts = [node.operand]
                case ast.BinOp() if type(node.op) in ARITHMETIC:
                    parts = [node.left, node.right]
                case ast.Compare():
                    parts = [node.left, *self._operands_of_comparison(node)]
                case ast.List() | ast.Tuple():
                    raise self.error_of_expression("a list stands only behind 'in'")
                case ast.Call():
                    raise self.error_of_expression(f"functions cannot be called: {ALLOWED}")
                case _:
                    raise self.error_of_expression(ALLOWED)
            waiting += [(part, depth + 1) for part in parts]

    def _operands_of_comparison(self, node: ast.Compare) -> Iterator[ast.expr]:
        """The right operands of a comparison chain; of lists, which are checked, the items."""
        for op, right in zip(node.ops, node.comparators, strict=True):
            if not isinstance(op, (ast.In, ast.NotIn)):
                yield right
            elif not isinstance(right, (ast.List, ast.Tuple)):
                raise self.error_of_expression("behind 'in' stands a list, such as ['rk4', 'rk45']")
            elif not all(map(_is_constant_node, right.elts)):
                raise self.error_of_expression(
                    "a list has numbers or text in quotes, and nothing else"
                )
            else:
                yield from right.elts

    def _column_as_numbers_or_text(self, name: str, array: NDArray[Any]) -> Values:
        """A column as numbers, booleans, or objects that are text or missing."""
        array = np.asarray(array)
        if array.dtype.kind in "biuf":
            return array
        objects = array.astype(object)
        if all(isinstance(v, str) or v is None or (isinstance(v, float) and v != v)
               for v in objects):  # fmt: skip
            return objects
        try:
            return objects.astype(float)
        except (TypeError, ValueError):
            raise self.error_of_expression(f"{name!r} has neither numbers nor text") from None


def _is_constant_node(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and type(node.op) in SIGNS:
        return isinstance(node.operand, ast.Constant) and not isinstance(node.operand.value, str)
    return isinstance(node, ast.Constant)


def _kind_of_value(value: Any) -> str:
    if isinstance(value, str) or (isinstance(value, np.ndarray) and value.dtype == object):
        return TEXT
    return CONDITION if np.asarray(value).dtype.kind == "b" else NUMERIC


class _Evaluation:
    """Evaluator of the parts of an `Expression`, to Python constants or arrays over the runs."""

    def __init__(
        self,
        expression: Expression,
        columns: dict[str, Values],
        named: Mapping[str, Mapping[str, int]],
    ) -> None:
        self._error_of_expression, self._columns, self._named = (
            expression.error_of_expression,
            columns,
            named,
        )

    def evaluate_node(self, node: ast.expr) -> Any:
        match node:
            case ast.Name():
                return self._columns[node.id]
            case ast.Constant():
                return node.value
            case ast.BoolOp():
                join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
                return functools.reduce(join, map(self._evaluate_condition, node.values))
            case ast.UnaryOp(op=ast.Not()):
                return np.logical_not(self._evaluate_condition(node.operand))
            case ast.UnaryOp():
                return SIGNS[type(node.op)](self._evaluate_number(node.operand))
            case ast.BinOp():
                sides = map(self._evaluate_number, (node.left, node.right))
                return ARITHMETIC[type(node.op)](*(np.asarray(side, float) for side in sides))
            case ast.Compare():
                return self._evaluate_comparison_chain(node)

    def _evaluate_condition(self, node: ast.expr) -> Any:
        found = self.evaluate_node(node)
        if _kind_of_value(found) != CONDITION:
            raise self._error_of_expression(
                f"{ast.unparse(node)} is {_kind_of_value(found)} where a condition is expected: "
                "compare it"
            )
        return found

    def _evaluate_number(self, node: ast.expr) -> Any:
        """Evaluate a number: exactly if it is a constant, otherwise in double precision."""
        found = self.evaluate_node(node)
        if _kind_of_value(found) == TEXT:
            raise self._error_of_expression(
                f"{ast.unparse(node)} is text, which cannot be calculated with"
            )
        return found if isinstance(found, (bool, int, float)) else np.asarray(found, dtype=float)

    def _evaluate_comparison_chain(self, node: ast.Compare) -> Any:
        """Evaluate a chain of comparisons: ``a < b < c`` is ``a < b and b < c``."""
        sides = [node.left, *node.comparators]
        columns = (side.id for side in sides if isinstance(side, ast.Name))
        column = next((name for name in columns if name in self._named), None)
        values = [self._evaluate_comparison_side(side, column) for side in sides]
        held = True
        for i, op in enumerate(node.ops):
            if isinstance(op, (ast.In, ast.NotIn)):
                found = self._evaluate_membership(sides[i], values[i], values[i + 1])
                found = found if isinstance(op, ast.In) else np.logical_not(found)
            else:
                self._check_kinds_are_comparable(sides[i], values[i], sides[i + 1], values[i + 1])
                found = _compare_numbers_or_texts(COMPARISONS[type(op)], values[i], values[i + 1])
            held = np.logical_and(held, found)
        return held

    def _evaluate_comparison_side(self, node: ast.expr, column: str | None) -> Any:
        """Evaluate one side, or each item of a list; names of values of `column` become values."""
        if isinstance(node, (ast.List, ast.Tuple)):
            return [self._evaluate_comparison_side(item, column) for item in node.elts]
        found = self.evaluate_node(node)
        if column is None or not isinstance(found, str):
            return found
        if found not in self._named[column]:
            close = suggest_nearest(found, self._named[column])
            raise self._error_of_expression(f"unknown {column} {found!r}.{close}")
        return self._named[column][found]

    def _evaluate_membership(self, node: ast.expr, value: Any, items: Sequence[Any]) -> Any:
        for item in items:
            self._check_kinds_are_comparable(node, value, None, item)
        if _kind_of_value(value) == TEXT:
            known = frozenset(items)
            if isinstance(value, str):
                return value in known
            return np.fromiter((v in known for v in value), dtype=bool, count=len(value))
        held = False
        for item in dict.fromkeys(items):
            held = np.logical_or(held, value == item)
        return held

    def _check_kinds_are_comparable(
        self, left: ast.expr, one: Any, right: ast.expr | None, other: Any
    ) -> None:
        if (_kind_of_value(one) == TEXT) == (_kind_of_value(other) == TEXT):
            return
        text = repr(other) if right is None else ast.unparse(right)
        raise self._error_of_expression(
            f"{ast.unparse(left)} is {_kind_of_value(one)} and {text} is {_kind_of_value(other)}: "
            "compare numbers with numbers, and text with text in quotes"
        )


def _compare_numbers_or_texts(compared: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Compare two numbers, or two texts of which some may be missing."""
    if _kind_of_value(left) != TEXT:
        return compared(left, right)
    left, right = np.broadcast_arrays(*(np.array(side, dtype=object, ndmin=1)
                                        for side in (left, right)))  # fmt: skip
    there = _text_mask(left) & _text_mask(right)
    held = np.full(left.shape, compared is operator.ne)
    held[there] = compared(left[there], right[there])
    return held


def _text_mask(objects: Values) -> Booleans:
    return np.fromiter((isinstance(v, str) for v in objects), dtype=bool, count=len(objects))

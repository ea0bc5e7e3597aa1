"""The JSON Schema of values: each function that reads one carries the schema of what it takes."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

Shape = dict[str, Any]
Reader = Callable[..., Any]
Marked = TypeVar("Marked", bound=Reader)

ANYTHING: Shape = {}
NUMBER: Shape = {"type": "number"}
INTEGER: Shape = {"type": "integer"}
BOOLEAN: Shape = {"type": "boolean"}
STRING: Shape = {"type": "string", "minLength": 1}


def shaped(shape: Shape) -> Callable[[Marked], Marked]:
    """Mark a reader with the schema of what it takes; a decorator."""

    def marked(read: Marked) -> Marked:
        read.shape = shape  # type: ignore[attr-defined]
        return read

    return marked


def shape_of(read: Any) -> Shape:
    """The schema of what a reader, or a table of `Fields`, takes."""
    return read.shape  # type: ignore[no-any-return]


class Fields(dict[str, Reader]):
    """The keys of a table, each with the function that reads its value.

    Parameters
    ----------
    readers : mapping of str to callable
        Each is marked by `shaped`.
    required : iterable of str
        The keys that must be there.
    """

    def __init__(self, readers: Mapping[str, Reader], required: Iterable[str] = ()) -> None:
        super().__init__(readers)
        self.required = tuple(required)

    @property
    def shape(self) -> Shape:
        """The schema of the table."""
        return table_of({key: shape_of(read) for key, read in self.items()}, self.required)


def table_of(
    properties: Mapping[str, Shape], required: Iterable[str] = (), others: Shape | bool = False
) -> Shape:
    """The schema of a table with these keys; of `others`, if it may have any."""
    shape = {"type": "object", "properties": dict(properties), "additionalProperties": others}
    return shape | ({"required": list(required)} if required else {})


def list_of(shape: Shape, least: int = 1) -> Shape:
    """The schema of an array of at least so many values."""
    return {"type": "array", "items": shape, "minItems": least}


def one_or_more(shape: Shape) -> Shape:
    """The schema of a value, or of an array of them that is not empty."""
    return any_of(shape, list_of(shape))


def any_of(*shapes: Shape) -> Shape:
    """The schema of what has one of these schemas."""
    return {"anyOf": list(shapes)}


def choice_of(names: Iterable[str]) -> Shape:
    """The schema of one of some words."""
    return {"enum": list(names)}

"""What installed distributions add, by the entry points that their metadata name.

Each names a class of systems, an `integrators.Method`, a `systems.Observable` or a `PlotKind`, in
one of `GROUPS` and under the name that the thing has itself::

    [project.entry-points."geosweep.systems"]
    bead = "beads.sphere:Bead"

So names are known before anything is loaded, and an entry point is loaded only if a study or a
command names it and it is neither built in nor a plugin's. It is sent to workers by its name, with
the hash of its source: a worker without the same distribution refuses it.
"""

import contextlib
import functools
import hashlib
import sys
from collections.abc import Container
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from integrators.errors import InputError
from sweep.plugins.exports import EXPORTS, Source, check_export_name, check_plugin_export

GROUPS = {kind: f"geosweep.{kind}s" for kind in EXPORTS}


@dataclass(frozen=True)
class Installed(Source):
    """An entry point.

    Parameters
    ----------
    kind : str
        Of what it names, a key of `GROUPS`.
    name, value : str
        As in its metadata.
    distribution : str
        Whose they are, with its version.
    hash : str
        SHA-256 of the source, once `with_source_hash` has loaded that.
    """

    kind: str
    name: str
    value: str
    distribution: str
    hash: str = ""

    @property
    def in_words(self) -> str:
        """The entry point, for messages."""
        return f"the entry point {self.name!r} ({GROUPS[self.kind]}) of {self.distribution}"

    @property
    def file(self) -> str:
        """The name of its module in tracebacks."""
        with contextlib.suppress(Exception):  # which are told when it is loaded
            spec = find_spec(self.entry_point.module)
            if spec is not None and spec.origin is not None:
                return spec.origin
        return self.value

    @property
    def entry_point(self) -> EntryPoint:
        """As the metadata have it."""
        return EntryPoint(self.name, self.value, GROUPS[self.kind])

    def exports_of_kind(self, kind: str) -> tuple[Any, ...]:
        """The tuple of what it adds of a kind; loaded when it is asked for."""
        return (_installed_with_same_hash(self),) if kind == self.kind else ()

    @property
    def exported_names(self) -> tuple[tuple[str, str], ...]:
        """What it adds, as pairs of a kind and a name; it is not loaded."""
        return ((self.kind, self.name),)

    def with_source_hash(self) -> "Installed":
        """The same with the hash of the source that is installed here."""
        return replace(self, hash=_load_entry_point(self)[1])


def offered_entry_points(kind: str, taken: Container[str]) -> dict[str, Installed]:
    """The entry points of a kind that distributions offer, not loaded.

    Parameters
    ----------
    kind : str
    taken : container of str
        Names that are built in.

    Returns
    -------
    dict of str to Installed
        By name.

    Raises
    ------
    InputError
        If a name is taken, or is no name.
    """
    found: dict[str, Installed] = {}
    for one in map(_installed_of_entry_point, entry_points(group=GROUPS[kind])):
        check_export_name(kind, one.in_words, one.name)
        if one.name in taken or one.name in found:
            other = found[one.name].in_words if one.name in found else "what is built in"
            raise InputError(
                f"{one.in_words} has the name of {other}; expected a name of its own: uninstall "
                "one of them"
            )
        found[one.name] = one
    return found


def _installed_of_entry_point(point: EntryPoint) -> Installed:
    kind = next(kind for kind, group in GROUPS.items() if group == point.group)
    dist = point.dist
    owner = "" if dist is None else f"{dist.name} {dist.version}"  # all that are found have one
    return Installed(kind, point.name, point.value, owner)


@functools.cache
def _installed_with_same_hash(one: Installed) -> Any:
    """The installed thing of a name, if its source has the expected hash."""
    points = entry_points(group=GROUPS[one.kind], name=one.name)
    here = next(map(_installed_of_entry_point, points), None)
    if here is None:
        raise InputError(f"{one.in_words} is not installed here; expected it on every worker")
    item, digest = _load_entry_point(here)
    if digest != one.hash:
        raise InputError(
            f"{one.in_words} has other source here, of {here.distribution}: its hash is "
            f"{digest[:16]}…, and {one.hash[:16]}… is asked for; install the same version on "
            "every worker"
        )
    return item


@functools.cache
def _load_entry_point(one: Installed) -> tuple[Any, str]:
    """What an entry point names, checked, and the hash of its source when it was loaded."""
    with one.blame_plugin_for_errors("cannot be loaded", kept=()):
        item = one.entry_point.load()
        digest = _hash_of_module_source(sys.modules[one.entry_point.module])
    check_plugin_export(one, one.kind, item, one.in_words)
    if item.name != one.name:
        raise InputError(f"{one.in_words} names {item.name!r}; expected the same name")
    return item, digest


@functools.cache
def _hash_of_module_source(module: ModuleType) -> str:
    """SHA-256 of a module's source; of a package's module, of all that the package has.

    As it was when the module was loaded, whatever becomes of the files.
    """
    package = sys.modules[module.__name__.partition(".")[0]]
    file = Path(getattr(package, "__file__", None) or module.__file__ or "")
    if file.name != "__init__.py":
        return hashlib.sha256(file.read_bytes()).hexdigest()
    digest = hashlib.sha256()
    for path in sorted(file.parent.rglob("*.py")):
        digest.update(f"{path.relative_to(file.parent).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()

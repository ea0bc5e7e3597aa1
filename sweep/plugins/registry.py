"""The names that a study can use: built-in ones, those of its plugins, and installed ones."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import integrators
import systems
from integrators.errors import InputError, check_known
from integrators.method import STEPS_OF, Integrator, Method
from sweep.errors import CannotUnite, check_distinct, read_each, under
from sweep.plugins.loader import (
    Installed,
    Plugin,
    Source,
    blame_source,
    offered_entry_points,
    read_plugin_source,
)
from sweep.plugins.plots import PlotKind
from systems import Observable, Quantity, System


@dataclass(frozen=True)
class Library:
    """The built-in systems and integrators, with those of some plugins and distributions.

    Tasks carry it to workers, which load the plugins from its text. Distributions must be installed
    on the workers.

    Parameters
    ----------
    plugins : tuple of sweep.plugins.loader.Plugin
    installed : tuple of sweep.plugins.loader.Installed
        The entry points in use; see `with_installed_plugins`.
    """

    plugins: tuple[Plugin, ...] = ()
    installed: tuple[Installed, ...] = ()

    @property
    def sources(self) -> tuple[Source, ...]:
        """Plugins and entry points: each a `sweep.plugins.loader.Source`."""
        return (*self.plugins, *self.installed)

    def _added(self, kind: str) -> tuple[Any, ...]:
        return tuple(item for source in self.sources for item in source.exports_of_kind(kind))

    @property
    def systems(self) -> tuple[type[System], ...]:
        """The classes of systems that plugins and entry points add."""
        return self._added("system")

    @property
    def methods(self) -> tuple[Method, ...]:
        """The `integrators.Method`s that plugins and entry points add."""
        return self._added("integrator")

    @property
    def observables(self) -> tuple[Observable, ...]:
        """The `systems.Observable`s that plugins and entry points add."""
        return self._added("observable")

    @property
    def plots(self) -> tuple[PlotKind, ...]:
        """The `PlotKind`s that plugins and entry points add; exceptions become `InputError`."""
        return tuple(
            _plot_kind_blaming_plugin(source, kind)
            for source in self.sources
            for kind in source.exports_of_kind("plot")
        )

    def system_class(self, name: str) -> type[System]:
        """The class of a system by name; `InputError` if there is none."""
        return systems.named(name, self.systems)

    def system(self, name: str, parameters: Mapping[str, Any]) -> System:
        """Make a system from its name and parameters.

        Parameters
        ----------
        name : str
        parameters : dict

        Returns
        -------
        systems.System

        Raises
        ------
        InputError
            As `systems.get`; also if a plugin's code raises any exception.
        """
        cls, source = self.system_class(name), self.origin("system", name)
        if source is None:
            return systems.made(cls, parameters)
        with blame_source(source, f"cannot make {name!r}"):
            made = systems.made(cls, parameters)
            _ = made.form, made.quantities  # made on first access, which may fail
        return made

    def integrator(self, name: str, options: Mapping[str, Any]) -> Integrator:
        """Make an `integrators.Integrator` from its name and options; may raise `InputError`."""
        return integrators.made(name, options, self.methods)

    def quantities(self, system: System) -> tuple[Quantity, ...]:
        """The quantities that can be recorded of a system: its own, then observables of plugins."""
        own = (item for item in self.observables if item.belongs_to(system))
        return (*system.quantities, *own)

    def origin(self, kind: str, name: str) -> Source | None:
        """The plugin or entry point that adds a name of a kind; None if it is built in."""
        return next(
            (source for source in self.sources if (kind, name) in source.exported_names), None
        )

    def hashes(
        self,
        system: str | None = None,
        integrator: str | None = None,
        options: Mapping[str, Any] | None = None,
        observables: Iterable[str] = (),
    ) -> dict[str, str]:
        """Hashes of the sources that add a system, an integrator and observables.

        Parameters
        ----------
        system, integrator : str, optional
            Names; that of the integrator may have a modifier.
        options : dict, optional
            Options of the integrator, which may name another integrator.
        observables : iterable of str

        Returns
        -------
        dict of str to str
            Hashes by ``system NAME``, ``integrator NAME`` and so on, without built-in names.
        """
        named = [("system", system)]
        for name in (integrator, (options or {}).get(STEPS_OF)):
            named.append(("integrator", name and name.partition("+")[0]))
        named += [("observable", name) for name in observables]
        found = {f"{kind} {name}": self.origin(kind, name) for kind, name in named if name}
        return {key: source.hash for key, source in found.items() if source}


BUILT_IN = Library()


def unite_libraries(libraries: Iterable[Library]) -> Library:
    """The union of libraries; `CannotUnite` if plugins of the same name differ."""
    libraries, plugins = list(libraries), dict[str, Plugin]()
    for plugin in (plugin for library in libraries for plugin in library.plugins):
        if plugins.setdefault(plugin.name, plugin).hash != plugin.hash:
            raise CannotUnite(f"the plugin {plugin.name!r} is not the same in both")
    found = dict.fromkeys(one for library in libraries for one in library.installed)
    return Library(tuple(plugins.values()), tuple(found))


def _plot_kind_blaming_plugin(source: Source, kind: PlotKind) -> PlotKind:
    """A `PlotKind` whose exceptions become `InputError`s that name the source."""

    @functools.wraps(kind.draw)
    def draw(*arguments: Any, **options: Any) -> Any:
        with blame_source(source, f"cannot draw {kind.name!r}"):
            return kind.draw(*arguments, **options)

    return replace(kind, draw=draw)


def with_installed_plugins(
    library: Library, kind: str, names: Iterable[str] | None = None, taken: Iterable[str] = ()
) -> Library:
    """A library with the installed entry points of a kind that it does not have yet.

    Installed distributions are not searched if all names are known.

    Parameters
    ----------
    library : Library
    kind : {"system", "integrator", "observable", "plot"}
    names : iterable of str, optional
        The names in use; all installed ones unless given.
    taken : container of str
        Built-in names besides those of systems and integrators.

    Returns
    -------
    Library

    Raises
    ------
    InputError
        If an entry point has a name that is taken, or one in use cannot be loaded.
    """
    built_in = {*_built_in_names(kind), *taken}
    there = {name for source in library.sources for of, name in source.exported_names if of == kind}
    if names is not None and (names := {*names} - built_in - there) == set():
        return library
    offered = offered_entry_points(kind, built_in)
    wanted = offered.keys() - there if names is None else offered.keys() & names
    new = tuple(one.with_source_hash() for name, one in offered.items() if name in wanted)
    return replace(library, installed=(*library.installed, *new))


def _built_in_names(kind: str) -> list[str]:
    if kind == "system":
        return systems.names()
    return [m.name for m in integrators.ALL_INTEGRATORS] if kind == "integrator" else []


def read_plugin_library(
    names: Sequence[str], directory: Path, kept: Mapping[str, Plugin] | None = None
) -> Library:
    """The `Library` with the plugins that a study names.

    Parameters
    ----------
    names, directory, kept
        As in `read_plugins_of_study`.

    Returns
    -------
    Library

    Raises
    ------
    InputError
        If a plugin cannot be loaded, or adds a name that is taken. Its key is the plugin's number.
    """
    read = read_each(lambda name: _read_plugin(name, directory, kept, runs=True), names)
    check_distinct(names, "plugin")
    kinds = ("system", "integrator")
    taken = {(kind, name): "is built in" for kind in kinds for name in _built_in_names(kind)}
    for index, plugin in enumerate(read):
        for kind, name in plugin.exported_names:
            if (kind, name) in taken:
                with under(index):
                    raise InputError(
                        f"plugin {plugin.name!r} adds the {kind} {name!r}, which "
                        f"{taken[kind, name]}; expected a name of its own"
                    )
            taken[kind, name] = f"is added by {plugin.name!r}"
    known = [name for kind, name in taken if kind == "system"]
    read_each(lambda plugin: _check_systems_of_observables(plugin, known), read)
    return Library(read)


def read_plugins_of_study(
    names: Sequence[str], directory: Path, kept: Mapping[str, Plugin] | None = None
) -> tuple[Plugin, ...]:
    """Read the source of the plugins that a study names, without running it.

    Parameters
    ----------
    names : sequence of str
    directory : Path
        Directory that the names are relative to.
    kept : dict of str to Plugin, optional
        Plugins that a store keeps; if given, no files are read.

    Returns
    -------
    tuple of sweep.plugins.loader.Plugin

    Raises
    ------
    InputError
        If a plugin cannot be read. Its key is the plugin's number.
    """
    return read_each(lambda name: _read_plugin(name, directory, kept), names)


def _read_plugin(
    name: str, directory: Path, kept: Mapping[str, Plugin] | None, runs: bool = False
) -> Plugin:
    if kept is not None and name not in kept:
        raise InputError(f"the store does not keep the source of the plugin {name!r}")
    plugin = read_plugin_source(name, directory) if kept is None else kept[name]
    _ = plugin.exported_names if runs else ()
    return plugin


def _check_systems_of_observables(plugin: Plugin, known: list[str]) -> None:
    for observable in plugin.exports_of_kind("observable"):
        for name in observable.systems:
            check_known(f"system of the observable {observable.name!r}:", name, known)


def check_observable_names(
    family: Sequence[System],
    library: Library,
    names_of: Callable[[Observable], set[str]],
    taken: Callable[[System], set[str]],
) -> None:
    """Refuse observables whose variables have the name of another variable of the system.

    Parameters
    ----------
    family : sequence of systems.System
    library : Library
    names_of : callable
        Returns the names of the variables of a quantity.
    taken : callable
        Returns the names of the variables that a system has without plugins.

    Raises
    ------
    InputError
        If there is such an observable.
    """
    for source in library.sources:
        for observable in source.exports_of_kind("observable"):
            for system in filter(observable.belongs_to, family):
                if clash := names_of(observable) & taken(system):
                    raise InputError(
                        f"{source.in_words} adds the observable {observable.name!r}, and "
                        f"{system.name!r} has {min(clash)!r} already; expected a name of its own"
                    )

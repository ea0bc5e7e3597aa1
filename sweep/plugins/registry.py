"""What a study may name: the built-in systems, integrators and observables, and its plugins'."""

import contextlib
from dataclasses import dataclass

import integrators
import systems
from integrators.errors import InputError, check_known
from integrators.method import STEPS_OF
from sweep.errors import Gathered, StudyError, distinct, gathered
from sweep.plugins import loader as plugins


@dataclass(frozen=True)
class Library:
    """The built-in systems and integrators with those of some plugins.

    It is sent to workers, who make of the plugins' text what they need of it.

    Parameters
    ----------
    plugins : tuple of sweep.plugins.loader.Plugin
    """

    plugins: tuple = ()

    @property
    def systems(self):
        """The classes of systems that plugins add."""
        return tuple(system for plugin in self.plugins for system in plugin.systems)

    @property
    def methods(self):
        """The `integrators.Method`s that plugins add."""
        return tuple(method for plugin in self.plugins for method in plugin.methods)

    @property
    def observables(self):
        """The `systems.Observable`s that plugins add."""
        return tuple(item for plugin in self.plugins for item in plugin.observables)

    def system_class(self, name):
        """The class of a system, or `InputError`."""
        return systems.named(name, self.systems)

    def system(self, name, parameters):
        """The system of a name with a dict of parameters.

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
            As `systems.get`; also for whatever else a plugin's code raises.
        """
        plugin = self.origin("system", name)
        with plugin.blamed(f"cannot make {name!r}") if plugin else contextlib.nullcontext():
            made = systems.made(self.system_class(name), parameters)
            if plugin:  # these are made when they are first asked for
                _ = made.form, made.quantities
            return made

    def integrator(self, name, options):
        """The `integrators.Integrator` of a name with a dict of options, or `InputError`."""
        return integrators.made(name, options, self.methods)

    def quantities(self, system):
        """What can be recorded of a system: its own `Quantity`s, then plugins' observables."""
        own = (item for item in self.observables if item.belongs_to(system))
        return (*system.quantities, *own)

    def origin(self, kind, name):
        """The plugin that adds the ``"system"``, ``"integrator"`` or ``"observable"``, or None."""
        return next((plugin for plugin in self.plugins if (kind, name) in plugin.named), None)

    def hashes(self, system=None, integrator=None, options=None, observables=()):
        """Hashes of the plugins that some things are from.

        Parameters
        ----------
        system, integrator : str, optional
            Names; the integrator's may have a modifier.
        options : dict, optional
            Of the integrator, which may name another one.
        observables : iterable of str

        Returns
        -------
        dict of str to str
            By ``system NAME`` and so on; without what is built in.
        """
        named = [("system", system)]
        for name in (integrator, (options or {}).get(STEPS_OF)):
            named.append(("integrator", name and name.partition("+")[0]))
        named += [("observable", name) for name in observables]
        found = {f"{kind} {name}": self.origin(kind, name) for kind, name in named if name}
        return {key: plugin.hash for key, plugin in found.items() if plugin}


BUILT_IN = Library()


def read_library(node):
    """The `Library` of a study's array of plugins.

    Parameters
    ----------
    node : sweep.study.toml.Node

    Raises
    ------
    StudyError
        If a plugin cannot be used, or what one adds has a name that is taken.
    """
    nodes = node.elements(least=0)
    read = gathered(_run, nodes)
    distinct(nodes, [plugin.name for plugin in read], "plugin")
    library = Library(read)
    _check_distinct(nodes, library)
    gather = Gathered()
    for own, plugin in zip(nodes, read, strict=True):
        gather(_check_systems_of, own, plugin, library)
    gather.finish()
    return library


def read_plugins(node):
    """The plugins of a study's array of them; their source is read and not run.

    Parameters
    ----------
    node : sweep.study.toml.Node

    Returns
    -------
    tuple of sweep.plugins.loader.Plugin

    Raises
    ------
    StudyError
        If one cannot be read.
    """
    return gathered(_plugin, node.elements(least=0))


def _plugin(node):
    name, kept = node.label(), node.source.plugins
    with node.context():
        if kept is None:
            return plugins.read(name, node.source.directory)
        if name not in kept:  # nor is it looked for on this machine
            raise InputError(f"the store does not keep the source of the plugin {name!r}")
        return kept[name]


def _run(node):
    plugin = _plugin(node)
    with node.context():
        _ = plugin.named
    return plugin


def _check_distinct(nodes, library):
    """Refuse a name that something built in has, or that stands in two plugins."""
    taken = {("system", name): "is built in" for name in systems.names()}
    methods = integrators.ALL_INTEGRATORS
    taken |= {("integrator", method.name): "is built in" for method in methods}
    for node, plugin in zip(nodes, library.plugins, strict=True):
        for pair in plugin.named:
            if pair in taken:
                kind, name = pair
                raise node.error(
                    f"plugin {plugin.name!r} adds the {kind} {name!r}, which {taken[pair]}; "
                    "expected a name of its own"
                )
            taken[pair] = f"is added by {plugin.name!r}"


def _check_systems_of(node, plugin, library):
    known = [*systems.names(), *(system.name for system in library.systems)]
    with node.context():
        for observable in plugin.observables:
            for name in observable.systems:
                check_known(f"system of the observable {observable.name!r}:", name, known)


def with_observables(table, family, library, names_of, taken):
    """`family`, unless one of the observables of a system has a name that is taken there.

    Parameters
    ----------
    table : Node
        Of the experiment.
    family : tuple of systems.System
    library : Library
    names_of, taken : callable
        The names of variables that a quantity gives; and those of a system without plugins.

    Raises
    ------
    StudyError
        Which names one.
    """
    for index, plugin in enumerate(library.plugins):
        for observable in plugin.observables:
            for system in family:
                clash = names_of(observable) & taken(system)
                if observable.belongs_to(system) and clash:
                    where = table.source.where(("plugins", index))
                    raise StudyError(
                        f"{where}: plugin {plugin.name!r} adds the observable {observable.name!r}, "
                        f"and {system.name!r} has {min(clash)!r} already; expected a name of its "
                        "own"
                    )
    return family

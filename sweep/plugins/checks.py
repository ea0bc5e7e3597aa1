"""Checks of plugins before any work: that they compile, and are what they declare."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from integrators.compiler.elements import TANGENTS, Element
from integrators.compiler.kernels import Kernel
from integrators.method import STEPS_OF, Integrator
from integrators.precision import DOUBLE
from integrators.stepping.python_step import calling_python
from sweep.plugins.loader import Source, blame_source
from sweep.plugins.method_checks import check_method
from sweep.plugins.system_checks import check_quantity, check_system, points_about
from systems import System

if TYPE_CHECKING:
    from sweep.plugins.registry import Library

Array = NDArray[np.float64]


def try_plugin_system(library: "Library", name: str, system: System, start: Array) -> None:
    """Try a plugin's system at and about a start; `InputError` if it is wrong.

    Parameters
    ----------
    library : sweep.plugins.registry.Library
    name : str
        Of the system, which may be built in: then there is nothing to do.
    system : systems.System
    start : ndarray, shape (rows, 3)
    """
    plugin = library.origin("system", name)
    if plugin is None:
        return
    with blame_source(plugin, f"fails with the system {name!r}"), calling_python():
        check_system(system, start)


def try_plugin_observables(
    library: "Library",
    record: Sequence[str],
    system: System,
    start: NDArray[np.float64],
    elements: Sequence[Element] = (),
) -> None:
    """Try the plugins' observables that are recorded of a system; `InputError` if one fails.

    For element types besides double they are compiled only.
    """
    own: Array = np.array(system.form.parameters, dtype=float)
    for quantity in library.quantities(system):
        plugin = library.origin("observable", quantity.name)
        if plugin is not None and quantity.name in record:
            with blame_source(plugin, f"fails with the observable {quantity.name!r}"):
                check_quantity(system, quantity, points_about(system, start), own)
            _compile_plugin_kernel(plugin, quantity.function, elements)


def try_plugin_integrators(
    library: "Library",
    entries: Iterable[Any],
    system: System,
    start: Array,
    with_tangents: bool = False,
) -> None:
    """Compile integrators, as entries of a study, for a system where one of both is a plugin's.

    Those of a plugin are then measured against what they declare; see `check_method`.
    Of other element types than that of a run alone only the plugin's own kernels are compiled: of
    runs side by side, and with tangents where steps are computed with these.
    """
    of_system = library.origin("system", system.name)
    for entry in entries:
        plugin = library.origin("integrator", entry.name.partition("+")[0]) or of_system
        if plugin is None:
            continue
        with blame_source(plugin, f"fails with {entry.label!r} on {system.name!r}"):
            integrator = entry.integrator()
            problem = integrator.bind(system)
            alone, beside = problem.elements
            problem.kernels(alone)
        elements = [] if integrator.adaptive else [beside]  # adaptive runs are computed one by one
        elements += [TANGENTS] if with_tangents else []
        for made in kernels_of_source(problem.made_from, plugin):
            _compile_plugin_kernel(plugin, made, elements)
        if library.origin("integrator", integrator.method.name) is plugin:
            with blame_source(plugin, f"has the integrator {entry.label!r}, which fails"):
                _check_method_once(plugin.hash, integrator, system, start)


_checked: set[object] = set()  # methods of plugins, which each reading of a study in a process has


def _check_method_once(source: str, integrator: Integrator, system: System, start: Array) -> None:
    options = {key: value for key, value in integrator.given.items() if key != STEPS_OF}
    method = source, integrator.method.name, repr(options)
    there = *method, system.name, len(start)
    if there not in _checked:
        own = replace(integrator, modifier="", given=options, arithmetic=DOUBLE)
        check_method(own, system, start, only_there=method in _checked)
        _checked.update((method, there))


def kernels_of_source(kernels: Iterable[Any], plugin: Source) -> list[Kernel]:
    """Of kernels, and those that they are made from, the ones that a plugin's file has."""
    found, left = {}, list(kernels)
    while left:
        made = left.pop()
        if isinstance(made, Kernel):
            left += made.made_from
            if made.function.__code__.co_filename == plugin.file:
                found[made.label] = made
    return list(found.values())


def _compile_plugin_kernel(plugin: Source, made: Kernel, elements: Sequence[Element]) -> None:
    name = made.function.__name__
    for element in elements:
        doing = f"has {name!r}, which does not compile for {element.name}"
        with blame_source(plugin, doing):
            made.compiled(element)

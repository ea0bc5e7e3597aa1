"""Check plugins before any run: that they compile, and have the properties that they declare."""

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
    """Check a plugin's system at a start and near it; raise `InputError` if a check fails.

    Parameters
    ----------
    library : sweep.plugins.registry.Library
    name : str
        Name of the system. A built-in system is not checked.
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
    """Check the plugins' observables that a study records; raise `InputError` if one fails.

    Parameters
    ----------
    library : sweep.plugins.registry.Library
    record : sequence of str
        Names of the recorded quantities.
    system : systems.System
    start : ndarray, shape (rows, 3)
    elements : sequence of integrators.compiler.elements.Element
        Further element types, for which the observables are only compiled.
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
    """Compile each integrator that comes from a plugin, or all if the system comes from one.

    The declared properties of a plugin's integrators are measured as well; see `check_method`.
    For runs in lanes and runs with tangent vectors, only the plugin's own kernels are compiled.

    Parameters
    ----------
    library : sweep.plugins.registry.Library
    entries : iterable of sweep.study.experiment.IntegratorEntry
    system : systems.System
    start : ndarray, shape (rows, 3)
    with_tangents : bool
        Whether steps are also computed with tangent vectors.

    Raises
    ------
    InputError
        If a kernel does not compile, or an integrator lacks a declared property.
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


_checked: set[object] = set()  # plugin methods that this process has checked already


def _check_method_once(source: str, integrator: Integrator, system: System, start: Array) -> None:
    options = {key: value for key, value in integrator.given.items() if key != STEPS_OF}
    method = source, integrator.method.name, repr(options)
    there = *method, system.name, len(start)
    if there not in _checked:
        own = replace(integrator, modifier="", given=options, arithmetic=DOUBLE)
        check_method(own, system, start, only_there=method in _checked)
        _checked.update((method, there))


def kernels_of_source(kernels: Iterable[Any], plugin: Source) -> list[Kernel]:
    """The kernels defined in a plugin's file, among some kernels and those they are made from."""
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

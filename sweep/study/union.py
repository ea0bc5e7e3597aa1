"""The union of several studies: the runs of each of them, one study after the other.

A union of grids is not a grid in general: it has only runs that one of the studies names.
"""

import dataclasses
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sweep.errors import CannotUnite
from sweep.plugins.registry import unite_libraries
from sweep.study.experiment import Axis, IntegratorEntry, ResolvedExperiment
from sweep.study.initial_conditions.base import RandomStarts, Start

if TYPE_CHECKING:
    from sweep.study.model import Study


Value = TypeVar("Value", bound=Hashable)


def unite_studies(studies: "Sequence[Study]") -> "Study":
    """The study that has the runs of several; their texts are its texts, each once.

    Parameters
    ----------
    studies : sequence of Study
        Of one name. Their experiments of one name have the same time axis, and all that a store
        keeps of an experiment.

    Returns
    -------
    Study

    Raises
    ------
    CannotUnite
        If a label has two meanings, a parameter is scanned in one study and not in another, or
        plugins of one name differ.
    """
    experiments: dict[str, list[ResolvedExperiment]] = {}
    for experiment in (experiment for study in studies for experiment in study.experiments):
        parts = experiments.setdefault(experiment.name, [])
        parts += [part for part in experiment.grids if part not in parts]
    return dataclasses.replace(
        studies[0],
        experiments=tuple(map(_unite_experiments, experiments.values())),
        description=next((s.description for s in studies if s.description), ""),
        texts=tuple(dict.fromkeys(text for study in studies for text in study.texts)),
        library=unite_libraries([study.library for study in studies]),
    )


def _unite_experiments(parts: Sequence[ResolvedExperiment]) -> ResolvedExperiment:
    """The experiment with the runs of experiments of one name that are grids."""
    if len(parts) == 1:
        return parts[0]
    try:
        return dataclasses.replace(
            parts[0],
            parts=tuple(parts),
            scan=_unite_scans([part.scan for part in parts]),
            integrators=_unite_integrators(parts),
            step_sizes=_distinct(size for part in parts for size in part.step_sizes),
            tolerances=_distinct(size for part in parts for size in part.tolerances),
            initial_conditions=_unite_starts([part.initial_conditions for part in parts]),
            exclude=(),
            zipped=(),
            repeat=max(part.repeat for part in parts),
            library=unite_libraries([part.library for part in parts]),
        )
    except CannotUnite as error:
        raise CannotUnite(f"experiment {parts[0].name!r}: {error}") from None


def _distinct(values: Iterable[Value]) -> tuple[Value, ...]:
    return tuple(dict.fromkeys(values))


def _unite_scans(scans: Sequence[tuple[Axis, ...]]) -> tuple[Axis, ...]:
    """Axes with the values of all; a value has the label that it has first."""
    axes = [{axis.name: axis for axis in scan} for scan in scans]
    for other in axes[1:]:
        for name in sorted(set(axes[0]) ^ set(other)):
            raise CannotUnite(f"{name!r} is scanned in one study and not in the other")
    return tuple(_unite_axes([scan[name] for scan in axes]) for name in axes[0])


def _unite_axes(axes: Sequence[Axis]) -> Axis:
    labels: dict[Any, Any] = {}  # by value
    meanings: dict[Any, Any] = {}  # by label
    for axis in axes:
        if (axis.labels is None) != (axes[0].labels is None):
            raise CannotUnite(f"the values of {axis.name!r} have labels in one study only")
        for value, label in zip(axis.values, axis.labels or axis.values, strict=True):
            if meanings.setdefault(label, value) != value:
                raise CannotUnite(f"a label of {axis.name!r} stands for two values")
            labels.setdefault(value, label)
    named = None if axes[0].labels is None else tuple(labels.values())
    return dataclasses.replace(axes[0], values=tuple(labels), labels=named)


def _unite_integrators(parts: Sequence[ResolvedExperiment]) -> tuple[IntegratorEntry, ...]:
    """Integrators by label, each with all steps that it has somewhere."""
    entries: dict[str, IntegratorEntry] = {}
    steps: dict[str, dict[float, None]] = {}
    for part in parts:
        for entry in part.integrators:
            known = entries.setdefault(entry.label, entry)
            if (known.name, known.options) != (entry.name, entry.options):
                raise CannotUnite(
                    f"the label {entry.label!r} stands for two integrators; give one another "
                    "label, and run that study on its store once more"
                )
            sizes = (size[entry.adaptive] for size in part.steps_of(entry))
            steps.setdefault(entry.label, {}).update(dict.fromkeys(sizes))
    return tuple(
        dataclasses.replace(entry, tolerances=tuple(steps[label]))
        if entry.adaptive
        else dataclasses.replace(entry, step_sizes=tuple(steps[label]))
        for label, entry in entries.items()
    )


def _unite_starts(conditions: Iterable[tuple[Start, ...]]) -> tuple[Start, ...]:
    """Unite starts: each once, ensembles with their most members, and with distinct labels."""
    found: dict[str, Any] = {}  # dataclasses, by content
    labels = set()
    for start in (start for several in conditions for start in several):
        known = found.get(start.content)
        if known is None:
            label, number = start.label, 2
            while label in labels:
                label, number = f"{start.label} {number}", number + 1
            labels.add(label)
            own: Any = start
            found[start.content] = dataclasses.replace(own, label=label)
        elif isinstance(start, RandomStarts) and start.members > known.members:
            found[start.content] = dataclasses.replace(known, members=start.members)
    return tuple(found.values())

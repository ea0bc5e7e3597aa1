"""Families of integrators; each gets a panel if there are too many curves for one panel."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import xarray as xr

from sweep.analysis.runs.selection import distinct_values_and_codes, integrator_descriptions

MOST_CURVES = 14  # maximum number of curves that can be distinguished in one panel
FEWEST = 3  # smallest number of members of a family with a panel of its own
OTHERS = "other methods"
SPELLED = {
    "rkmk": "Runge–Kutta–Munthe-Kaas",
    "runge_kutta": "Runge–Kutta",
    "commutator_free": "commutator-free",
    "symplectic_lie_group": "symplectic Lie group",
}


def panel_families_of_integrators(dataset: xr.Dataset) -> dict[str, str]:
    """The family of each integrator by label; ``""`` for all if one panel is enough.

    Labels are ordered by family, and within a family as in the study.

    Parameters
    ----------
    dataset : xarray.Dataset
        A run table.

    Returns
    -------
    dict of str to str
    """
    labels, _ = distinct_values_and_codes(dataset["integrator"].values)
    if len(labels) <= MOST_CURVES:
        return dict.fromkeys(labels, "")
    known = integrator_descriptions(dataset)
    family = {label: family_in_words(label, known.get(label, {})) for label in labels}
    large = {name for name, size in Counter(family.values()).items() if size > MOST_CURVES}
    family |= {
        label: _base_method_in_words(label, known)
        for label, name in family.items()
        if name in large
    }
    sizes = Counter(family.values())
    family = {label: name if sizes[name] >= FEWEST else OTHERS for label, name in family.items()}
    order = list(dict.fromkeys(family.values()))
    return dict(sorted(family.items(), key=lambda item: order.index(item[1])))


def family_in_words(label: str, described: Mapping[str, Any]) -> str:
    """The family of an integrator in words; if it declares none, its base method.

    Parameters
    ----------
    label : str
        Label of the integrator in the study.
    described : dict
        Its description in the store; see `integrator_descriptions`.

    Returns
    -------
    str
    """
    family: str | None = described.get("family")
    return (
        SPELLED.get(family, family.replace("_", " "))
        if family
        else _base_method_in_words(label, {})
    )


def _base_method_in_words(label: str, known: Mapping[str, Mapping[str, Any]]) -> str:
    """The base method of a composition or projection, in words."""
    name: str = known.get(label, {}).get("name", label)
    return re.split(r"[+ ]", name)[0].replace("_", " ")


def panel_title(parameters: str, family: str) -> str:
    """The title of a panel from the text of scanned values and a family; either may be empty."""
    return ", ".join(filter(None, [parameters, family]))

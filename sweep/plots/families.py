"""Families of integrators: what a picture of very many of them has a panel for each of."""

import re
from collections import Counter

from sweep.analysis.runs.selection import distinct_values_and_codes, integrator_descriptions

MOST_CURVES = 14  # that can be told apart in one panel
FEWEST = 3  # of a family of its own
OTHERS = "other methods"
SPELLED = {
    "rkmk": "Runge–Kutta–Munthe-Kaas",
    "runge_kutta": "Runge–Kutta",
    "commutator_free": "commutator-free",
    "symplectic_lie_group": "symplectic Lie group",
}


def panel_families_of_integrators(dataset):
    """The family of each integrator, by its label; ``""`` for all where they fit one panel.

    Labels are ordered by their families, and within one as in the study.

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


def family_in_words(label, described):
    """The family of an integrator in words; of one that declares none, the method it is made of.

    Parameters
    ----------
    label : str
        The integrator's in the study.
    described : dict
        What the store says of it, as of `integrator_descriptions`.

    Returns
    -------
    str
    """
    family = described.get("family")
    return (
        SPELLED.get(family, family.replace("_", " "))
        if family
        else _base_method_in_words(label, {})
    )


def _base_method_in_words(label, known):
    """The method that a composition or projection is made of, in words."""
    name = known.get(label, {}).get("name", label)
    return re.split(r"[+ ]", name)[0].replace("_", " ")


def panel_title(parameters, family):
    """The title of the panel for scanned values, as text, and a family; either may be empty."""
    return ", ".join(filter(None, [parameters, family]))

"""Families of integrators: what a picture of very many of them has a panel for each of."""

import re

from sweep.analysis.selection import codes, descriptions

MOST_CURVES = 14  # that can be told apart in one panel
FEWEST = 3  # of a family of its own
OTHERS = "other methods"
KINDS = {
    "Runge–Kutta methods": re.compile(r"rk\d|dop"),
    "Lie group methods": re.compile(r"rkmk|cf\d|lie_|crouch|symplectic_lie"),
}


def families_of(dataset):
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
    labels, _ = codes(dataset["integrator"].values)
    if len(labels) <= MOST_CURVES:
        return dict.fromkeys(labels, "")
    known = descriptions(dataset)
    family = {label: _family(known.get(label, {}).get("name", label)) for label in labels}
    sizes = {name: list(family.values()).count(name) for name in family.values()}
    family = {label: name if sizes[name] >= FEWEST else OTHERS for label, name in family.items()}
    order = list(dict.fromkeys(family.values()))
    return dict(sorted(family.items(), key=lambda item: order.index(item[1])))


def _family(name):
    """Of compositions and projections that of the method that they are made of."""
    base = re.split(r"[+ ]", name)[0]
    kinds = (kind for kind, pattern in KINDS.items() if pattern.match(base))
    return next(kinds, base.replace("_", " "))


def panel_title(parameters, family):
    """The title of the panel for scanned values, as text, and a family; either may be empty."""
    return ", ".join(filter(None, [parameters, family]))

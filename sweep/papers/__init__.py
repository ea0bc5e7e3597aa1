"""Recomputation of the numbers and figures printed in papers.

>>> from sweep.papers import PAPERS, reproduce
>>> rows = reproduce("lee", "lee-stores")   # doctest: +SKIP
"""

from integrators.lazy import lazy

# Modules are imported at first use, so that a table of claims does not wait for matplotlib.
_HOMES = {
    "Agreement": "sweep.papers.agreement",
    "Claim": "sweep.papers.claims",
    "FIGURES": "sweep.papers.figures",
    "PAPERS": "sweep.papers.registry",
    "Paper": "sweep.papers.claims",
    "Row": "sweep.papers.claims",
    "claims_as_table": "sweep.papers.claims_table",
    "draw_figure": "sweep.papers.figures",
    "reproduce": "sweep.papers.reproduction",
}
__getattr__, __dir__, __all__ = lazy(__name__, _HOMES)

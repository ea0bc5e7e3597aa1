"""Counterparts of the figures of the papers."""

from sweep.papers.celledoni.figures import CELLEDONI
from sweep.papers.lee.figures import LEE
from sweep.papers.mclachlan.figures import MCLACHLAN

FIGURES = {"lee": LEE, "mclachlan": MCLACHLAN, "celledoni": CELLEDONI}
"""Counterparts of the figures of the papers, by the paper's name in `sweep.papers.PAPERS`.

Each takes the results of the packaged studies of that paper, a dictionary of study and
experiment, and returns a Figure that belongs to no window.
"""

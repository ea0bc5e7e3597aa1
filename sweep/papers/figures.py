"""Counterparts of the figures of the papers."""

from sweep.papers.celledoni.figures import CELLEDONI
from sweep.papers.lee.figures import LEE
from sweep.papers.mclachlan.figures import MCLACHLAN

# By the names of papers in `sweep.papers.PAPERS`. A function takes the run tables of the packaged
# studies of that paper, by study and experiment, and returns a figure that belongs to no window.
FIGURES = {"lee": LEE, "mclachlan": MCLACHLAN, "celledoni": CELLEDONI}

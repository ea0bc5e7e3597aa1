"""The papers, by name."""

from sweep.papers.celledoni.claims import CELLEDONI
from sweep.papers.lee.claims import LEE
from sweep.papers.mclachlan.claims import MCLACHLAN

PAPERS = {paper.name: paper for paper in (LEE, MCLACHLAN, CELLEDONI)}

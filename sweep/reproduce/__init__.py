"""The figures that a paper prints, computed anew and set beside it.

>>> from sweep.reproduce import PAPERS, reproduce
>>> rows = reproduce("lee", "lee-stores")   # doctest: +SKIP
"""

from sweep.reproduce.agreement import Agreement
from sweep.reproduce.celledoni import CELLEDONI
from sweep.reproduce.claims import Claim, Paper, Row
from sweep.reproduce.lee import LEE
from sweep.reproduce.mclachlan import MCLACHLAN
from sweep.reproduce.running import reproduce

__all__ = ["PAPERS", "Agreement", "Claim", "Paper", "Row", "reproduce"]

PAPERS = {paper.name: paper for paper in (LEE, MCLACHLAN, CELLEDONI)}

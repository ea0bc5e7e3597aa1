"""The figures that a paper prints, computed anew and set beside it.

>>> from sweep.papers import PAPERS, reproduce
>>> rows = reproduce("lee", "lee-stores")   # doctest: +SKIP
"""

from sweep.papers.agreement import Agreement
from sweep.papers.claims import Claim, Paper, Row
from sweep.papers.registry import PAPERS
from sweep.papers.running import reproduce
from sweep.papers.tables import claims_as_table

__all__ = ["PAPERS", "Agreement", "Claim", "Paper", "Row", "claims_as_table", "reproduce"]

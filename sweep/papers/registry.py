"""The papers, by name."""

from sweep.papers.claims import load_paper

PAPERS = {name: load_paper(name) for name in ("lee", "mclachlan", "celledoni")}

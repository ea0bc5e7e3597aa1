"""How far invariants wander over a run, and whether they drift."""

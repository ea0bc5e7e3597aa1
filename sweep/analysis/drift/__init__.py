"""Drifts of invariants over a run: rates, comparisons, and the part that is rounding."""

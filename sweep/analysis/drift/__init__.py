"""Drifts of invariants over a run: their rates, comparisons, and the share of rounding."""

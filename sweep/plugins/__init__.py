"""What users bring: their own systems, integrators and observables, as source text."""

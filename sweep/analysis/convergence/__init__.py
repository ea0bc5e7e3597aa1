"""How errors fall with the step size or the tolerance."""

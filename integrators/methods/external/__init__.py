"""Solvers of other libraries, as people use them."""

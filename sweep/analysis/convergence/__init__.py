"""Convergence: orders by step size, and errors by tolerance."""

"""Diagnostics of methods: structure preservation, stability, and Lyapunov exponents."""

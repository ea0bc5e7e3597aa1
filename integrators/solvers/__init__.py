"""Solvers of implicit steps and of coupled inertias."""

"""Errors and the work that they cost."""

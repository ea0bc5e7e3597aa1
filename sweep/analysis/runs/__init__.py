"""Runs of a table: selected, as scalars, as a grid."""

"""Run tables: selection by expressions, reduction to scalars, and pivoting to a grid."""

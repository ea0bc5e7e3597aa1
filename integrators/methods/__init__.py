"""Methods, a construction in each file."""

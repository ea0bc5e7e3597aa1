"""Results in files of other programs."""

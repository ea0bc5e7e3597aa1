"""Commands that write results to files or show them in a browser."""

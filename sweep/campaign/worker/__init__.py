"""The work of a worker: integrate runs and references, and commit their results as records."""

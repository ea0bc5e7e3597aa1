"""Places of stores, in directories and in buckets: read, write, list and remove files."""

"""What is known: run tables in Zarr, in a directory or a bucket."""

"""Where a store is: a directory, or a prefix of a bucket; files and trees in either."""

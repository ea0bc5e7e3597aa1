"""Where runs are computed: clusters of all kinds, how they are reached, and their workers."""

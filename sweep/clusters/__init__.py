"""Where runs are computed: clusters of all kinds, connections to them, and their workers."""

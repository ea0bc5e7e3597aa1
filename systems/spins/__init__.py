"""Systems of spins, and rigid bodies in the space of their angular momentum."""

"""What a method keeps, measured; where it is stable, and how nearby trajectories part."""

"""Initial conditions: what a study names, and the states that it stands for."""

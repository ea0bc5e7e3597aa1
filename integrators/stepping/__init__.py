"""Loops over samples and steps, with a fixed step or step control, and checkpoints."""

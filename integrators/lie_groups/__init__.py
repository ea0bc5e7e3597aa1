"""Rotations and rigid motions, their exponentials, and actions of Lie groups on states."""

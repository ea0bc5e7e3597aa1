"""Rigid bodies whose states have rotations."""

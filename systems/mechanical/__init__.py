"""Mechanical systems on products of two-spheres."""

"""Stores that were made apart become one."""

"""Packaged studies, TOML files that `sweep run NAME` finds by their names."""

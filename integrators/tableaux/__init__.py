"""Coefficients of methods: Butcher tableaux and symmetric compositions."""

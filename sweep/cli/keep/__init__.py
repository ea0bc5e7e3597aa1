"""Commands that keep stores in order, and list what studies may name."""

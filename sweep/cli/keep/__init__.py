"""Commands that extend, merge and check stores, and list what studies may name."""

"""Forms: what a system offers and a method requires."""

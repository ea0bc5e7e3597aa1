"""Commands that print the analyses of a store, or extend a store for them."""

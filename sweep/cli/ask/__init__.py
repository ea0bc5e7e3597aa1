"""Commands that answer what a store shows, and add what an answer lacks."""

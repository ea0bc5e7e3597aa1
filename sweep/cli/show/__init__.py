"""Commands that show results outside of the terminal."""

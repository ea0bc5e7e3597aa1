"""Commands that check, plan and compute studies, and say how far they are."""

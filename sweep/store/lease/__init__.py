"""The lease of a store: which process may write to it, and how others are fenced off."""

"""The lease of a store: who may write to it, and tasks that are fenced off."""

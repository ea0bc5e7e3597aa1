"""Celledoni, Çokaj, Leone, Murari and Owren, *Lie group integrators for mechanical systems*."""

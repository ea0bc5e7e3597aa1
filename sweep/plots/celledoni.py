"""Counterparts of the figures of Celledoni, Çokaj, Leone, Murari and Owren."""

from sweep.plots.celledoni_chain import convergence, tangency, unit_length

CELLEDONI = {
    "figure-5": convergence,
    "figure-6": unit_length,
    "figure-7": tangency,
}

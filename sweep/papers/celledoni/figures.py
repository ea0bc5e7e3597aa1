"""Counterparts of the figures of Celledoni, Çokaj, Leone, Murari and Owren."""

from sweep.papers.celledoni import quadrotor_figures as quadrotors
from sweep.papers.celledoni.chain_figures import convergence, tangency, unit_length
from sweep.papers.celledoni.step_figures import components, peak, shared_length, unit_links
from sweep.papers.celledoni.top_figures import long_run, short_run

CELLEDONI = {
    "figure-2": short_run,
    "figure-3": long_run,
    "figure-5": convergence,
    "figure-6": unit_length,
    "figure-7": tangency,
    "figure-8": unit_links,
    "figure-9": components,
    "figure-10": shared_length,
    "figure-11": peak,
    "figure-13": quadrotors.orders,
    "figure-14": quadrotors.snapshots,
    "figure-15": quadrotors.load_position,
    "figure-16": quadrotors.deviation,
    "figure-17": quadrotors.directions,
    "figure-18": quadrotors.unit_length,
}

"""Counterparts of the figures of Celledoni, Çokaj, Leone, Murari and Owren."""

from sweep.papers.celledoni import quadrotor_figures as quadrotors
from sweep.papers.celledoni.chain_figures import (
    draw_chain_convergence,
    draw_chain_tangency,
    draw_chain_unit_length,
)
from sweep.papers.celledoni.step_figures import (
    draw_double_pendulum_components,
    draw_links_of_shared_length,
    draw_unit_links,
    draw_velocity_peak,
)
from sweep.papers.celledoni.top_figures import draw_long_heavy_top_run, draw_short_heavy_top_run

CELLEDONI = {
    "figure-2": draw_short_heavy_top_run,
    "figure-3": draw_long_heavy_top_run,
    "figure-5": draw_chain_convergence,
    "figure-6": draw_chain_unit_length,
    "figure-7": draw_chain_tangency,
    "figure-8": draw_unit_links,
    "figure-9": draw_double_pendulum_components,
    "figure-10": draw_links_of_shared_length,
    "figure-11": draw_velocity_peak,
    "figure-13": quadrotors.draw_quadrotor_orders,
    "figure-14": quadrotors.draw_quadrotor_snapshots,
    "figure-15": quadrotors.draw_quadrotor_load_position,
    "figure-16": quadrotors.draw_quadrotor_load_deviation,
    "figure-17": quadrotors.draw_quadrotor_link_directions,
    "figure-18": quadrotors.draw_quadrotor_unit_length,
}

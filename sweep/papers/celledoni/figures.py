"""Counterparts of the figures of Celledoni, Çokaj, Leone, Murari and Owren.

Each function takes the run tables of the experiments that ``claims.toml`` lists for the figure.
"""

from collections.abc import Callable
from functools import partial

from matplotlib.figure import Figure

from sweep.papers.celledoni import chain_figures as chain
from sweep.papers.celledoni import heavy_top_figures as top
from sweep.papers.celledoni import quadrotor_figures as quadrotors
from sweep.papers.celledoni import step_figures as steps
from sweep.plots.order_plots import convergence

CELLEDONI: dict[str, Callable[..., Figure]] = {
    "figure-2": top.draw_short_heavy_top_run,
    "figure-3": top.draw_long_heavy_top_run,
    "figure-5": chain.draw_chain_convergence,
    "figure-6": chain.draw_chain_unit_length,
    "figure-7": chain.draw_chain_tangency,
    "figure-8": partial(steps.draw_step_adaptation, title="N links of 1 m", length=1.0),
    "figure-9": steps.draw_double_pendulum_components,
    "figure-10": partial(steps.draw_step_adaptation, title="N links of 5/N m", length=0.25),
    "figure-11": steps.draw_velocity_peak,
    "figure-13": convergence,  # errors of four Runge–Kutta–Munthe-Kaas methods
    "figure-14": quadrotors.draw_quadrotor_snapshots,
    "figure-15": quadrotors.draw_quadrotor_load_position,
    "figure-16": quadrotors.draw_quadrotor_load_deviation,
    "figure-17": quadrotors.draw_quadrotor_link_directions,
    "figure-18": quadrotors.draw_quadrotor_unit_length,
}

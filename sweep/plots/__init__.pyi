# The names of `_HOMES` in `__init__.py`, for type checkers and editors.

from sweep.plots.drift_plots import drift_over_time as drift_over_time
from sweep.plots.kinds import KINDS as KINDS
from sweep.plots.kinds import kinds_of_plugins as kinds_of_plugins
from sweep.plots.kinds import picture as picture
from sweep.plots.order_plots import convergence as convergence
from sweep.plots.order_plots import convergence_across as convergence_across
from sweep.plots.over_time import energy_over_time as energy_over_time
from sweep.plots.over_time import unit_length_over_time as unit_length_over_time
from sweep.plots.sphere_plots import sphere as sphere
from sweep.plots.style import compact as compact
from sweep.plots.style import numbers as numbers
from sweep.plots.style import page as page
from sweep.plots.style import save as save
from sweep.plots.style import save_numbers as save_numbers
from sweep.plots.work_plots import recommendation_picture as recommendation_picture
from sweep.plots.work_plots import work_precision as work_precision

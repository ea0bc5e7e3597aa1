"""Studies such as someone may write: random systems, methods, step sizes, horizons and starts."""

import numpy as np

import integrators
from integrators.method import EXACT
from systems import get as get_system

AROUND = {  # a named start of each system, and its parameters where the default is large
    "spherical_pendulum_chain": ("lee", {}),
    "nbody_sphere": ("lee", {}),
    "spring_pendula": ("lee", {}),
    "elastic_rod": ("lee", {}),
    "magnetic_dipoles": ("lee", {}),
    "forced_pendulum_chain": ("lee", {}),
    "free_rigid_body": ("figure3", {}),
    "irreversible_rigid_body": ("figure4", {}),
    "forced_rigid_body": ("mclachlan", {}),
    "point_vortices": ("mclachlan", {}),
    "heisenberg_chain": ("closed_curve", {"count": 10}),
    "nambu_quadratic": ("mclachlan", {}),
    "heavy_top": ("celledoni", {}),
}
ANYWHERE = ("free_rigid_body", "point_vortices", "heisenberg_chain", "nambu_quadratic")
PAIRS = 4  # of an integrator and a system, in an experiment
LONGER, INTERVALS = 10, 64  # times as long is a run as its part that is judged, and samples of that


def random_order_study(rng, experiments):
    """The text of a study of orders, each experiment with twice the work beside it.

    Experiment ``c0`` has the system, starts and horizon of ``s0``, and three times as many step
    sizes that go ten times further down, or as far as the system declares.
    """
    text = [
        'format = 1\nname = "random-orders"\n\n[defaults]\nsamples = 1\nrecord = []\n'
        'statistics = "none"\n'
    ]
    for i in range(experiments):
        text += _order_experiment(rng, i)
    return "\n".join(text)


def _order_experiment(rng, i):
    name = str(rng.choice(list(AROUND)))
    around, parameters = AROUND[name]
    system = get_system(name, **parameters)
    convergence = system.convergence
    duration = convergence.duration * float(np.exp(rng.uniform(np.log(0.3), np.log(2.0))))
    starts = int(rng.choice([1, 4, 8, 16, 32]))
    where = f'around = "{around}", random = {starts}, spread = {10 ** rng.uniform(-4, -0.7):.3g}'
    if name in ANYWHERE and rng.random() < 0.5:
        where = f"random = {starts}"
    tolerance = float(rng.choice([2.3e-14, 2.3e-14, 1e-11]))
    chosen = rng.choice(fitting_integrators(system), PAIRS, replace=False)
    usual, control = [], []
    for label in chosen:
        order = integrators.get(str(label)).order
        order = 2 if order == EXACT else order
        longest, shortest, count = convergence.steps(order)
        first = min(longest * float(np.exp(rng.uniform(np.log(0.3), np.log(2.0)))), duration)
        last = first / float(np.exp(rng.uniform(np.log(4.0), np.log(40.0))))
        usual.append(_entry(label, first, last, int(rng.integers(5, 11))))
        control.append(_entry(label, min(longest, first), max(shortest, last / 10), 2 * count))
    return [
        f'[[experiment]]\nname = "{kind}{i}"\nsystem = "{name}"\n'
        + (f"parameters = {{ count = {parameters['count']} }}\n" if parameters else "")
        + f"initial_condition = {{ {where}, seed = {i} }}\nduration = {duration!r}\n"
        + f'reference = {{ integrator = "dop853", tolerance = {own:g} }}\n'
        + f"integrators = [\n{entries}]\n"
        for kind, own, entries in (
            ("s", tolerance, "".join(usual)),
            ("c", 2.3e-14, "".join(control)),
        )
    ]


def _entry(label, first, last, count):
    return (
        f'    {{ name = "{label}", step_size = {{ start = {first!r}, stop = {last!r}, '
        f'count = {count}, spacing = "log" }} }},\n'
    )


def fitting_integrators(system):
    """Names of the integrators with a fixed step that fit a system."""
    return [name for name in integrators.names() if _fits(name, system)]


def _fits(name, system):
    integrator = integrators.get(name)
    if integrator.adaptive:
        return False
    try:
        integrator.check(system)
    except integrators.errors.InputError:
        return False
    return True


def random_drift_study(rng, experiments):
    """The text of a study of drifts, whose runs are ten times as long as what is judged of them."""
    text = [f'format = 1\nname = "random-drifts"\n\n[defaults]\nsamples = {LONGER * INTERVALS}\n']
    return "\n".join([*text, *(_drift_experiment(rng, i) for i in range(experiments))])


def _drift_experiment(rng, i):
    name = str(rng.choice([name for name in AROUND if not name.startswith("forced")]))
    around, parameters = AROUND[name]
    system = get_system(name, **parameters)
    convergence = system.convergence
    starts = int(rng.choice([1, 4, 8, 16, 32]))
    where = f'around = "{around}", random = {starts}, spread = {10 ** rng.uniform(-4, -0.7):.3g}'
    duration = LONGER * convergence.duration * float(np.exp(rng.uniform(0.0, np.log(10.0))))
    interval = duration / (LONGER * INTERVALS)
    longest = convergence.longest_step * float(np.exp(rng.uniform(np.log(0.1), np.log(1.0))))
    step = interval / max(1, int(np.ceil(interval / longest)))
    chosen = rng.choice(fitting_integrators(system), PAIRS, replace=False)
    return (
        f'[[experiment]]\nname = "s{i}"\nsystem = "{name}"\n'
        + (f"parameters = {{ count = {parameters['count']} }}\n" if parameters else "")
        + f"initial_condition = {{ {where}, seed = {i} }}\nduration = {duration!r}\n"
        + f"step_size = {step!r}\nintegrators = {[str(label) for label in chosen]}\n"
    ).replace("'", '"')

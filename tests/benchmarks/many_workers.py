"""What scheduler and coordinator cost with many workers, and where that ends.

    python tests/benchmarks/many_workers.py [--part steady|constants|runs] [--workers 200]
                                            [--seconds 30] [--rounds 5] [--json]

A study is run by `sweep run` on a real `dask scheduler`; the workers are real ones of Dask, many
in a process, but their tasks only sleep, a share of the time that the plan says. ``steady``: CPU of
the scheduler and of the coordinator, and how busy the workers are, while there is work for all:
four minutes. ``constants``: the same with shorter tasks, which gives the CPU time a task costs and
a heartbeat, the memory a worker costs, and the most tasks a second: four minutes. ``runs``: memory
and time of a coordinator that has 1e5 and 1e6 runs. ``--quick`` has 20 workers and tasks of a
second: two minutes. Needs an idle machine of two cores or more. Exit code 3: a figure does not
hold.
"""

import sys
import time

import numpy as np
from crowd import UNITS_A_TASK, Crowd, Meters, resident, written
from distributed.scheduler import heartbeat_interval
from reporting import options, report_parts

MOST_CPU, LEAST_BUSY = 30, 95  # % of a core, % of the workers' time


def percent(what, claim, share, least=False):
    """A row of a share that has a bound."""
    holds = None if claim is None else bool(100 * share >= claim if least else 100 * share <= claim)
    sign = ">=" if least else "<="
    return what, f"{sign} {claim} %" if claim else "", f"{100 * share:.1f} %", holds


def told(what, measured):
    """A row that has no bound."""
    return what, "", measured, None


def steady(folder, given):
    """Rows about the figures."""
    with Crowd(folder / "steady", given.workers) as crowd:
        found = crowd.run("steady", given.seconds, given.rounds + 3, UNITS_A_TASK, given.max_time)
    what = f"{given.workers} workers, tasks of {found.seconds:.1f} s"
    began, ended = found.all
    lengths = f"{found.length:.0f}, {ended - began:.0f}"
    return [
        told(f"{what}: tasks", len(found.tasks)),
        told(f"{what}: seconds of the steady part, of all", lengths),
        told(f"{what}: tasks a second", f"{found.rate:.2f}"),
        percent(f"{what}: CPU of the scheduler", MOST_CPU, found.cpu("scheduler")),
        percent(f"{what}: CPU of the coordinator", MOST_CPU, found.cpu("coordinator")),
        percent(f"{what}: workers busy", LEAST_BUSY, found.busy(), least=True),
        percent("  the same with the end, when tasks become short", None, found.busy(whole=True)),
    ]


def constants(folder, given):
    """Rows about what a task and a heartbeat cost, and the most tasks a second."""
    with Crowd(folder / "constants", given.workers) as crowd:
        idle = _idle(crowd, 10 if given.quick else 30)
        memory = resident(crowd.scheduler) - crowd.alone
        found = []
        for length in given.lengths:
            rounds = max(3, round(given.span / length))
            found.append(crowd.run(f"tasks-{length:g}", length, rounds, 1))
        # Shorter than anything could send them: whoever is the slowest sets the pace.
        most = crowd.run("most", 0.05, max(3, given.most // given.workers), 1)
    beats = given.workers / heartbeat_interval(given.workers)
    rows = [
        told(f"{given.workers} workers, idle: CPU of the scheduler", f"{100 * idle:.1f} %"),
        told(f"  of each of {beats:.0f} heartbeats a second", f"{1e3 * idle / beats:.2f} ms"),
        told("  memory, for 1000 workers more", f"{1000 * memory / given.workers:.0f} MB"),
    ]
    for own in (*found, most):
        count, busy = len(own.tasks), own.busy(whole=True)
        rate, *used = _used(own)
        what = f"{count} tasks of {own.took.mean():.2f} s, {rate:.1f} /s: CPU of both, busy"
        rows.append(told(what, f"{100 * used[0]:.0f}, {100 * used[1]:.0f}, {100 * busy:.0f} %"))
    for name, rest, slope in _fitted(found, idle):
        full = f"{(1 - rest) / slope:.0f} tasks/s"
        rows.append(told(f"CPU of the {name} for a task", f"{1e3 * slope:.2f} ms"))
        rows.append(told(f"  which with the rest, {100 * rest:.1f} %, is a core at", full))
    return rows


def _fitted(observed, idle):
    """Name of a process, its CPU apart from tasks, and CPU seconds of a task; of both."""
    rates, scheduler, coordinator = np.transpose([_used(own) for own in observed])
    yield "scheduler", idle, np.sum(rates * (scheduler - idle)) / np.sum(rates * rates)
    slope, rest = np.polyfit(rates, coordinator, 1)
    yield "coordinator", rest, slope


def _used(observed):
    """Tasks a second, and the CPU of scheduler and coordinator, from first to last."""
    began, ended = observed.all
    both = (observed.meters.cpu(name, began, ended) for name in ("scheduler", "coordinator"))
    return len(observed.tasks) / (ended - began), *both


def _idle(crowd, seconds):
    """CPU of the scheduler while nothing is to be done."""
    time.sleep(5)
    with Meters(scheduler=crowd.scheduler) as meters:
        began = time.monotonic()
        time.sleep(seconds)
        return meters.cpu("scheduler", began + 1, began + seconds - 1)


def runs(folder, given):
    """Rows about a coordinator that has many short runs."""
    rows, most = [], []
    with Crowd(folder / "runs", 20) as crowd:
        for count in given.runs:
            found = crowd.coordinate(written(crowd.folder, f"runs-{count}", count, 1.0))
            most.append(found.meters.megabytes("coordinator"))
            began, ended = found.all
            rows += [
                told(f"{count:,} runs: tasks", len(found.tasks)),
                told("  memory of the coordinator", f"{most[-1]:.0f} MB"),
                told("  seconds until work begins", f"{began - found.meters.since:.1f}"),
                told("  seconds of the work", f"{ended - began:.1f}"),
            ]
    each = (most[-1] - most[0]) / (given.runs[-1] - given.runs[0])
    rows.append(told("memory of the coordinator, for 1e6 runs more", f"{1e6 * each:.0f} MB"))
    return rows


PARTS = {"steady": steady, "constants": constants, "runs": runs}


def main():
    """Measure and print; the exit code."""
    parser = options(__doc__, "20 workers, tasks of a second", PARTS)
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0, help="of a task")
    parser.add_argument("--rounds", type=int, default=5, help="tasks of a worker, steadily")
    parser.add_argument("--max-time", type=float, help="seconds after which the study is to end")
    given = parser.parse_args()
    given.lengths, given.span, given.most = (15.0, 6.0, 3.0), 30.0, 3000
    given.runs = 100_000, 1_000_000
    if given.quick:
        given.workers, given.seconds, given.rounds = 20, 1.0, 5
        given.lengths, given.span, given.most = (1.0, 0.5), 4.0, 400
        given.runs = 1000, 10_000
    return report_parts(PARTS, given)


if __name__ == "__main__":
    sys.exit(main())

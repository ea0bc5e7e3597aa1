"""What the store costs: CPU time of a run, and requests to a bucket.

    python tests/benchmarks/store.py [--part runs|requests] [--quick] [--json]

``runs``: CPU time that a run takes of which hardly anything is to be computed, 101 samples of five
series, from its task to its row in the arrays: the slope over studies of two sizes, coordinator,
scheduler and worker in one process. Beside it what the bare kernels take. ``requests``: to a server
(moto) for 12 runs and what is asked of them. What a million runs cost is in `scale.py`. Exit code
3: a figure does not hold.
"""

import os
import sys
import time

from reporting import HELPERS, options, report_parts

sys.path.insert(0, str(HELPERS))

STUDY = """
format = 1
name = "bench"
[[experiment]]
name = "only"
system = "spherical_pendulum_chain"
integrators = ["rk4"]
step_size = {steps}
initial_condition = {{ around = "lee", random = {starts}, spread = 1e-2, seed = 1 }}
duration = {duration}
samples = {samples}
record = ["energy", "unit_length", "tangency"]
"""
SIZES, SAMPLES, STEP_SIZE = (2000, 20_000), 100, 0.1


def local_client():
    """A client of a cluster within this process."""
    from distributed import Client

    return Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None)


# --- runs ----------------------------------------------------------------------------------------


def runs(folder, given):
    """Rows about the CPU time of a run."""
    import sweep

    taken = []
    for number in range(2 if given.quick else 5):
        seconds = []
        for size in SIZES:
            study = folder / f"{number}-{size}.toml"
            keys = {"steps": [STEP_SIZE], "starts": size, "samples": SAMPLES}
            study.write_text(STUDY.format(**keys, duration=STEP_SIZE * SAMPLES))
            with local_client() as client:
                began = time.process_time()
                assert sweep.run(study, study.with_suffix(".zarr"), client).complete
                seconds.append(time.process_time() - began)
        taken.append(seconds)
    few, many = map(min, zip(*taken, strict=True))
    each = (many - few) / (SIZES[1] - SIZES[0])
    what = f"a run of {SAMPLES} steps and samples"
    return [
        (f"CPU of {what} [us]", "", f"{1e6 * each:.1f}", None),
        (f"CPU of {what}, bare kernels [us]", "", f"{1e6 * _bare_seconds():.1f}", None),
        (f"CPU of all else, with {SIZES[0]} runs [s]", "", f"{few - SIZES[0] * each:.2f}", None),
    ]


def _bare_seconds(repeats=200):
    """CPU seconds of a run by the kernels alone, eight together."""
    import integrators
    import systems
    from integrators.stepping.batch import run_batch

    system = systems.get("spherical_pendulum_chain")
    problem = integrators.get("rk4").bind(system)
    states = system.ensemble(8, 1, around="lee", spread=1e-2)
    for number in range(repeats + 1):
        if number == 1:  # the first one loads the kernels
            began = time.process_time()
        run_batch(problem, states, STEP_SIZE, 1, SAMPLES, statistics=True)
    return (time.process_time() - began) / repeats / len(states)


# --- requests ------------------------------------------------------------------------------------


def requests(folder, given):
    """Rows about what is asked of a server."""
    from s3_server import Server

    import sweep

    server = Server()
    os.environ.update(server.environment)
    server.client().create_bucket(Bucket="studies")
    study, store, rows = folder / "requests.toml", "s3://studies/a.zarr", []
    study.write_text(STUDY.format(steps=[0.1, 0.05], starts=6, duration=1.0, samples=10))
    with local_client() as client:
        for what, most, call in (
            ("12 runs", 160, lambda: sweep.run(study, store, client)),
            ("status", 7, lambda: sweep.status(store)),
            ("verify", 88, lambda: sweep.verify(store)),
        ):
            server.asked()
            call()
            asked = server.asked()
            rows.append((f"requests: {what}", f"<= {most}", len(asked), len(asked) <= most))
            if what == "12 runs":
                puts = sum(method == "PUT" and "/records/" in path for method, path in asked)
                rows.append(("objects put for its task", 1, puts, puts == 1))
    server.stop()
    return rows


PARTS = {"runs": runs, "requests": requests}


def main():
    """Measure and print; the exit code."""
    parser = options(__doc__, "each size twice, not five times", PARTS)
    return report_parts(PARTS, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())

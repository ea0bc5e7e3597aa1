"""How often the interval of an order holds the truth, and which verdicts come of it.

Errors of vectors, A |C + D h^q + E h^2q| h^p over a floor of noise, with C, D, E of random
directions for each start: p is the order, q = 2 as of symmetric methods or 1. Step sizes span nine
powers of ten of the error.
"""

import argparse

import numpy as np

from sweep.analysis.convergence.order_verdicts import HALF
from sweep.analysis.convergence.slopes import fit_convergence_order
from sweep.text import format_table

ORDERS = ((1, 1), (2, 2), (2, 1), (4, 2), (4, 1), (6, 2), (8, 2))
FLOOR = 1e-13


def fit(rng, order, power, starts, count, bend):
    """The fit to one ensemble; the next terms are `bend` times the leading one at h = 1."""
    h = np.geomspace(1.0, max(1e-3, 10 ** (-9 / order)), count)
    leading, later, last = rng.normal(size=(3, starts, 3))
    leading /= np.linalg.norm(leading, axis=1, keepdims=True)
    small = h[:, None, None] ** power
    shape = np.linalg.norm(leading + bend * (later * small + last * small**2), axis=2)
    error = 0.01 * np.exp(rng.normal(size=starts)) * shape * h[:, None] ** order
    noise = np.linalg.norm(FLOOR * rng.normal(size=(count, starts, 3)), axis=2)
    return fit_convergence_order(h, np.hypot(error, noise), FLOOR, symmetric=power == 2)


def main():
    """Print a row for each order, number of starts and of step sizes, and bend."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200)
    trials = parser.parse_args().trials
    headers = ["order", "next term", "starts", "step sizes", "bend"]
    headers += ["interval holds it", "± median", "confirmed", "another order"]
    rows = []
    for order, power in ORDERS:
        for starts in (1, 16):
            for count in (6, 12):
                for bend in (0.3, 2.0):
                    rng = np.random.default_rng(0)
                    fits = [fit(rng, order, power, starts, count, bend) for _ in range(trials)]
                    low, high = (
                        np.array([getattr(f, side) for f in fits]) for side in ("low", "high")
                    )
                    whole = np.round((low + high) / 2)
                    within = (low >= whole - HALF) & (high <= whole + HALF)
                    held = np.mean((low <= order) & (order <= high))
                    wrong = np.mean(within & (whole != order))
                    rows.append(
                        [f"{order}", f"h^{order + power}", f"{starts}", f"{count}", f"{bend:g}"]
                        + [f"{held:.1%}", f"{np.median(high - low) / 2:.3f}"]
                        + [f"{np.mean(within & (whole == order)):.0%}", f"{wrong:.1%}"]
                    )
    print(format_table(headers, rows))


if __name__ == "__main__":
    main()

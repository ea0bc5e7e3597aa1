"""Ensembles of errors as a store holds them, whose truth is known.

A run has a million steps. Its error oscillates with a phase that diffuses and an amplitude that
comes and goes, about an offset (it is 0 at first), and may walk or drift beside. Interval means are
drawn directly, with the statistics that means over the steps have; `every_step` takes the steps.
"""

from dataclasses import dataclass

import numpy as np
from run_tables import run_table, with_series

STEPS = 1_000_000


@dataclass(frozen=True)
class Oscillation:
    """A bounded error of rms 1.

    Parameters
    ----------
    period, memory : float
        Steps of a cycle, and of the correlation time of its phase.
    comes_and_goes : float
        Correlation time of the amplitude, in memories; it varies by a factor √e each way.
    rectified : float
        Slow part that follows the square of the amplitude: an error whose mean is not the same
        in calm and in wild parts.
    tails : float
        Spread over the starts of the logarithm of the amplitude.
    intervals : int
    """

    period: float = 50.0
    memory: float = 300.0
    comes_and_goes: float = 10.0
    rectified: float = 0.0
    tails: float = 0.5
    intervals: int = 500

    def means(self, rng, starts):
        """Interval means, shape ``(starts, intervals)``."""
        length = STEPS / self.intervals
        cycle = np.sqrt(2) * _cycles(rng, starts, self.intervals, length, self.memory, self.period)
        size = _sizes(rng, starts, self.intervals, length / (self.comes_and_goes * self.memory))
        return self._whole(rng, cycle, size)

    def every_step(self, rng, starts):
        """The same from all the steps."""
        phase = rng.normal(size=(starts, STEPS)) * np.sqrt(2 / self.memory)
        phase = np.cumsum(phase, axis=1) + 2 * np.pi * np.arange(STEPS) / self.period
        cycle = np.sqrt(2) * np.cos(phase + rng.uniform(0, 2 * np.pi, size=(starts, 1)))
        size = _sizes(rng, starts, STEPS, 1 / (self.comes_and_goes * self.memory))
        whole = self._whole(rng, cycle, size)
        return whole.reshape(starts, self.intervals, -1).mean(axis=2)

    def _whole(self, rng, cycle, size):
        starts = len(cycle)
        offset = rng.normal(size=(starts, 1))
        scale = np.exp(self.tails * rng.normal(size=(starts, 1)))
        return scale * (cycle * size + self.rectified * (size**2 - 1) - offset)


def walks(rng, starts, intervals):
    """Interval means of random walks that have the rms 1 at the end."""
    kicks = rng.normal(size=(starts, intervals)) / np.sqrt(intervals)
    inner = rng.normal(size=(starts, intervals)) / np.sqrt(12 * intervals)
    return np.cumsum(kicks, axis=1) - kicks / 2 + inner


def line(intervals):
    """Interval means of a straight line from 0 to 1."""
    return (np.arange(intervals) + 0.5) / intervals


TRUTHS = {
    "bounded": lambda rng, starts, n: 0.0,
    "√t": walks,
    "linear": lambda rng, starts, n: line(n),
    "linear, each its sign": lambda rng, starts, n: line(n) * rng.choice([-1, 1], (starts, 1)),
}


def ensemble(rng, truth, starts=64, share=0.01, oscillation=Oscillation()):
    """Interval means of a truth of `TRUTHS` that reaches `share` of the oscillation at the end."""
    there = share * TRUTHS[truth](rng, starts, oscillation.intervals)
    return oscillation.means(rng, starts) + there


def table_of(means, times=None, step_sizes=(0.5,), seconds=None, value=True):
    """A run table of starts with these interval means of the energy error.

    Parameters
    ----------
    means : array_like or dict
        Of shape ``(starts, intervals)``; a dict has those of each integrator, or of each integrator
        and step size.
    times : array_like, optional
        Of the samples; by default a second apart.
    seconds : dict, optional
        CPU time of the runs, with the keys of `means`.
    value : bool
        Whether the energy is there too, so that its errors have a sign.
    """
    means = means if isinstance(means, dict) else {"a": means}
    labels = [key if isinstance(key, str) else key[0] for key in means]
    every = np.concatenate([np.asarray(one) for one in means.values()])
    count = len(every) // len(means)
    starts = tuple(f"start[{i}]" for i in range(count))
    times = np.arange(every.shape[1] + 1.0) if times is None else times
    table = run_table(dict.fromkeys(labels, 2), step_sizes, starts, times)
    interval = np.insert(every, 0, np.nan, axis=1)
    ends = np.insert(every, 0, 0.0, axis=1)
    if value:
        table = with_series(table, "energy", 1.0 + ends)
    table = with_series(table, "energy_error", ends, mean=interval, abs_mean=np.abs(interval))
    if seconds is not None:
        table["cpu_time"] = "run", np.repeat([seconds[key] for key in means], count)
    return table


def judged(means, **settings):
    """The drift, with its verdict, of one integrator's starts; see `table_of`."""
    from sweep.analysis import drift_table

    (row,) = drift_table(table_of(means, **settings))
    return row


def drift_of_means(means):
    """The drift of interval means, shape ``(starts, intervals)``, over a run of length 1."""
    from sweep.analysis.drift.estimators import measure_drift, window_weights

    ends = np.linspace(0.0, 1.0, means.shape[1] + 1)
    weights = window_weights(ends)
    return measure_drift((ends[1:] + ends[:-1]) / 2 @ weights, means @ weights)


def _sizes(rng, starts, count, decay):
    """Amplitudes, log-normal with mean square 1, whose logarithm forgets."""
    from scipy.signal import lfilter

    keeps = np.exp(-decay)
    kicks = rng.normal(size=(starts, count))
    kicks[:, 1:] *= np.sqrt(1 - keeps**2)
    return np.exp(0.5 * lfilter([1], [1, -keeps], kicks, axis=1) - 0.25)


def _cycles(rng, starts, count, length, memory, period):
    """Real part of means of a complex Ornstein-Uhlenbeck process of variance 1, exactly.

    dz = λz dt + √(2/memory) dW with λ = −1/memory + 2πi/period: with state z at its start an
    interval ends at e^{λL} z + ξ and has the mean ((e^{λL} − 1)/λ z + η)/L.
    """
    from scipy.signal import lfilter

    rate = -1 / memory + 2j * np.pi / period
    turn, lost = np.exp(rate * length), 1 - np.exp(-2 * length / memory)
    both = (2 / (memory * rate)) * (
        lost * memory / 2 - np.expm1(np.conj(rate) * length) / np.conj(rate)
    )
    own = lost * memory / 2 - 2 * np.real(np.expm1(rate * length) / rate) + length
    own *= 2 / (memory * abs(rate) ** 2)
    xi = np.sqrt(lost) * _complex(rng, (starts, count))
    rest = np.sqrt(max(own - abs(both) ** 2 / lost, 0.0))
    eta = both / lost * xi + rest * _complex(rng, (starts, count))
    first = _complex(rng, (starts, 1))
    after = lfilter([1], [1, -turn], xi, axis=1, zi=turn * first)[0]
    states = np.concatenate([first, after[:, :-1]], axis=1)
    return np.real(np.expm1(rate * length) / rate * states + eta) / length


def _complex(rng, shape):
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)) / np.sqrt(2)

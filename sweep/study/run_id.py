"""Identifiers of runs.

The identifier is a hash of everything that determines a trajectory, and of nothing else: the
system and its parameters (`System.identity`), the integrator and its options
(`Integrator.identity`), the exact step size or tolerance, and the initial state. Labels and the
duration are not part of it, so that runs keep their identifiers when a study is edited. Neither are
new parameters and options at their defaults, so that runs keep their identifiers when this package
is updated.

It combines two digests, so that a million identifiers take a few seconds::

    method = blake2b(JSON of [system, parameters, integrator, options, step size], 16 bytes)
    start  = blake2b(initial state as little-endian float64, row by row, 16 bytes)
    run_id = blake2b(method + start, 8 bytes), in hexadecimal

For the second and later repeats of a run, ``method`` is replaced by ``blake2b(method + number)``.

If a plugin adds the system or the integrator, the hash of its source is included: runs with an
edited plugin are different runs.

The JSON has sorted keys and no spaces, and its numbers are written by ``float.hex``. For adaptive
integrators, the options include the tolerance, and the step size is 0.
"""

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from systems import System

RunId = str  # 16 hexadecimal digits
StepSize = float  # in the system's unit of time; NaN for an adaptive run
Tolerance = float  # of an adaptive run; NaN for others


class SystemDigest:
    """Makes digests of everything that identifies runs of a system, except initial states.

    Parameters
    ----------
    system : systems.System
        Its parameters are converted once for many methods.
    """

    def __init__(self, system: System) -> None:
        begun = _canonical_json([system.first_name, system.identity])[:-1]
        self._hash = hashlib.blake2b(begun.encode(), digest_size=16)

    def method(self, text: bytes) -> bytes:
        """The digest of a method, given by its `method_as_json`."""
        found = self._hash.copy()
        found.update(text)
        return found.digest()


def method_as_json(
    integrator_name: str,
    options: Mapping[str, Any],
    step_size: StepSize,
    tolerance: Tolerance = math.nan,
    plugins: Mapping[str, str] | None = None,
) -> bytes:
    """The part of a run's JSON that describes the method, as bytes.

    Parameters
    ----------
    integrator_name : str
    options : dict
        `Integrator.identity`.
    step_size, tolerance : float
        One of them is NaN: adaptive integrators have a tolerance, others a step size.
    plugins : dict of str to str, optional
        Hashes of the plugins that add the system and the integrator, by what they add.

    Returns
    -------
    bytes
    """
    if math.isfinite(tolerance):
        options, step_size = {**options, "tolerance": tolerance}, 0.0
    parts = [integrator_name, options, step_size]
    if plugins:
        parts.append(plugins)
    return f",{_canonical_json(parts)[1:]}".encode()


def _canonical_json(value: object) -> str:
    return json.dumps(_with_hexadecimal_numbers(value), sort_keys=True, separators=(",", ":"))


def repeat_digest(method: bytes, repeat: int) -> bytes:
    """The digest of a method for a repeat, counted from 0, which is the run itself."""
    if not repeat:
        return method
    return hashlib.blake2b(method + repeat.to_bytes(8, "little"), digest_size=16).digest()


def initial_state_digests(
    states: NDArray[np.float64], rows: NDArray[np.integer] | None = None
) -> list[bytes]:
    """Digests of initial states.

    Parameters
    ----------
    states : ndarray, shape (states, rows, 3)
    rows : ndarray of int, shape (states,), optional
        Number of rows that each state has; by default all.
    """
    data, size = np.ascontiguousarray(states, dtype="<f8").tobytes(), 24 * states.shape[1]
    sizes = np.broadcast_to(size if rows is None else 24 * rows, len(states)).tolist()
    begins, made = range(0, len(data), size), hashlib.blake2b(digest_size=16)
    parts = (data[begin : begin + own] for begin, own in zip(begins, sizes, strict=True))
    return list(_digests_after(made, parts))


def run_digests(method: bytes, starts: Iterable[bytes]) -> Iterator[bytes]:
    """Digests of the runs of one method from many initial states.

    Parameters
    ----------
    method : bytes
        A `SystemDigest.method`.
    starts : iterable of bytes
        Digests by `initial_state_digests`.

    Yields
    ------
    bytes
        Eight bytes, which in hexadecimal are the ``run_id``.
    """
    return _digests_after(hashlib.blake2b(method, digest_size=8), starts)


def _digests_after(before: "hashlib.blake2b", parts: Iterable[bytes]) -> Iterator[bytes]:
    """Yield for each part the digest of what was hashed before and of it."""
    for part in parts:
        both = before.copy()  # takes 0.6 of the time of a new hash
        both.update(part)
        yield both.digest()


def _with_hexadecimal_numbers(value: object) -> object:
    """`value` with its numbers in hexadecimal, so that 1 and 1.0 are the same.

    A dataclass, such as a tableau, becomes a dict of its fields.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, dict):
        return {key: _with_hexadecimal_numbers(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_with_hexadecimal_numbers(item) for item in value]
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
        return float(value).hex()
    return value

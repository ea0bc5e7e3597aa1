"""The identity of a run: what makes two runs the same one.

The identifier is a hash of everything that determines a trajectory, and of nothing else: the
system and its parameters (`System.identity`), the integrator and its options
(`Integrator.identity`), the exact step size or tolerance, and the initial state. Labels and the
duration are no part of it, hence runs keep theirs when a study is edited; nor are parameters and
options that came later and are at their defaults, hence when this package is updated.

It is put together from two digests, so that a million of them cost a few seconds::

    method = blake2b(JSON of [system, parameters, integrator, options, step size], 16 bytes)
    start  = blake2b(initial state as little-endian float64, row by row, 16 bytes)
    run_id = blake2b(method + start, 8 bytes), in hexadecimal

Where a run is repeated, ``method`` of the second and later times is ``blake2b(method + number)``.

Where a plugin adds the system or the integrator, the hash of its source is a further part: runs of
an edited plugin are other runs.

The JSON has sorted keys and no spaces, and every number in it is written as ``float.hex``. The
tolerance of an adaptive integrator stands among its options, and its step size is 0.
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
StepSize = float  # in the system's unit of time; NaN of an adaptive run
Tolerance = float  # of an adaptive run; NaN of others


class SystemDigest:
    """Makes digests of all that identifies runs of a system, except their initial states.

    Parameters
    ----------
    system : systems.System
        Whose parameters are read once, for many methods.
    """

    def __init__(self, system: System) -> None:
        begun = _canonical_json([system.first_name, system.identity])[:-1]
        self._hash = hashlib.blake2b(begun.encode(), digest_size=16)

    def method(self, text: bytes) -> bytes:
        """The digest of the runs by a method with a `method_as_json`."""
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
    """The JSON after the system, as bytes.

    Parameters
    ----------
    integrator_name : str
    options : dict
        `Integrator.identity`.
    step_size, tolerance : float
        One is NaN: an adaptive integrator has a tolerance, another a step size.
    plugins : dict of str to str, optional
        Hashes of the plugins that system and integrator are from, by what they add.

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
    """The digest of a method for the run's repeat of that number; 0 is the run itself."""
    if not repeat:
        return method
    return hashlib.blake2b(method + repeat.to_bytes(8, "little"), digest_size=16).digest()


def initial_state_digest(state: NDArray[np.float64]) -> bytes:
    """Digest of an initial state, an ndarray of shape ``(rows, 3)``, as bytes."""
    data = np.ascontiguousarray(state, dtype="<f8").tobytes()
    return hashlib.blake2b(data, digest_size=16).digest()


def run_digests(method: bytes, starts: Iterable[bytes]) -> Iterator[bytes]:
    """Digests of the runs of one `SystemDigest.method` from many `initial_state_digest`.

    Parameters
    ----------
    method : bytes
    starts : iterable of bytes

    Yields
    ------
    bytes
        Eight each; in hexadecimal, the ``run_id``.
    """
    before = hashlib.blake2b(method, digest_size=8)
    for start in starts:
        both = before.copy()
        both.update(start)
        yield both.digest()


def _with_hexadecimal_numbers(value: object) -> object:
    """`value` with its numbers in hexadecimal, by which 1 and 1.0 are the same.

    A dataclass, such as a tableau, is a table of its fields.
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

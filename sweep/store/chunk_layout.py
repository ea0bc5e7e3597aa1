"""How an experiment's arrays are cut: into chunks for readers, and shards of them, each a file.

A chunk is some half a megabyte, whatever the number of runs; a shard is many of them, so that files
are few. All arrays that tasks write are cut into shards at the same rows. A *row of shards* is all
shards, of all these arrays, that hold the same block of `Layout.shard_rows` runs; they are written
together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

TIME_CHUNK = 1024  # samples
CHUNK_BYTES, MOST_CHUNK_ROWS = 2**19, 4096
SHARD_BYTES = 2**28  # of the widest variable, twice as long as it is
LEAST_SHARD_ROWS, MOST_SHARD_ROWS = 2**12, 2**15  # the former where there is room for more runs
INDEX = 512  # chunks of a shard of a series, about: its index is read first
MOST_TIME_CHUNKS = 16  # of a shard
INITIAL_CHUNK = 1024  # rows of initial states
ITEM = 8  # bytes


@dataclass(frozen=True)
class Layout:
    """Chunks and shards of the arrays that tasks write.

    Parameters
    ----------
    shard_rows : int
        Runs of a row of shards.
    time_chunk : int
        Samples of a chunk.
    time_chunks : int
        Chunks of a shard along time.
    """

    shard_rows: int
    time_chunk: int
    time_chunks: int

    @classmethod
    def choose(cls, runs: int, samples: int, width: int) -> "Layout":
        """That of an experiment.

        Parameters
        ----------
        runs, samples : int
        width : int
            Numbers at a sample, or of a run, of the widest variable.
        """
        time_chunk = min(TIME_CHUNK, max(samples, 1))
        series = chunk_rows(time_chunk)
        room = SHARD_BYTES // (ITEM * width * 2 * min(samples, 4 * TIME_CHUNK) or 1)
        rows = min(
            MOST_SHARD_ROWS,
            max(LEAST_SHARD_ROWS, _power_of_two_up_to(2 * runs)),
            256 * series,
            _power_of_two_up_to(room),
        )
        chunks = INDEX // max(1, rows // series)
        return cls(rows, time_chunk, max(1, min(MOST_TIME_CHUNKS, chunks)))

    def chunks_of(
        self, dims: Sequence[str], shape: Sequence[int]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The chunk and the shard of an array.

        Parameters
        ----------
        dims : tuple of str
            ``run`` first.
        shape : tuple of int

        Returns
        -------
        chunk, shard : tuple of int
        """
        sizes = zip(dims[1:], shape[1:], strict=True)
        rest = [self.time_chunk if dim == "time" else max(1, n) for dim, n in sizes]
        more = [self.time_chunks if dim == "time" else 1 for dim in dims[1:]]
        # Along the runs alone all are read, and a chunk takes zarr half a millisecond.
        rows = min(self.shard_rows, chunk_rows(math.prod(rest))) if rest else self.shard_rows
        return (rows, *rest), (self.shard_rows, *(c * n for c, n in zip(rest, more, strict=True)))

    def files(self, runs: int, samples: int, series: int, scalars: int) -> int:
        """Files of so many arrays over time, and along the runs alone."""
        along = math.ceil(samples / (self.time_chunk * self.time_chunks))
        return math.ceil(runs / self.shard_rows) * (series * along + scalars)


def chunk_rows(numbers: int) -> int:
    """Rows of a chunk, of so many numbers each: a power of two."""
    return max(1, min(MOST_CHUNK_ROWS, _power_of_two_up_to(CHUNK_BYTES // (ITEM * numbers))))


def _power_of_two_up_to(number: int) -> int:
    return 1 << (max(1, int(number)).bit_length() - 1)

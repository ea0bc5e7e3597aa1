"""How an experiment's arrays are cut into chunks, each of which is a file, and how many these are.

Chunks are small where that fills the workers, and large where there would be too many files: file
systems are slow with millions of them. A study has a budget, which its experiments share.
"""

import dataclasses
import math

from integrators.compiler.lanes import WIDTH
from sweep.store.storage import TIME_CHUNK, coordinate_chunk_size

MOST_FILES = 100_000  # of a store
MOST_CHUNK_ROWS = 1024
CHUNK_SECONDS = 2.5  # no task is shorter than a chunk
CHUNKS = 12  # of an experiment, where it has the runs: work for every worker
INITIAL_CHUNK = 1024  # rows
REFERENCE_CHUNK = 16
REFERENCE_ARRAYS = 2  # over time
COORDINATES = 12  # along the runs, with some scanned axes
MOST_COORDINATE_CHUNKS = 64  # of one that could have fewer


@dataclasses.dataclass(frozen=True)
class Layout:
    """The arrays of an experiment's store.

    Parameters
    ----------
    runs : int
        Rows of the run table.
    times : int
        Samples, the one at time 0 included.
    variables : int
        Arrays over runs that tasks write.
    sampled : int
        Those of them over time as well.
    references : int
        Reference trajectories, 0 without.
    chunk_rows, time_chunk : int
        Rows and samples of a chunk.
    coordinate_chunks : tuple of int
        Runs and samples of a chunk of coordinates.
    """

    runs: int
    times: int
    variables: int
    sampled: int
    references: int
    chunk_rows: int
    time_chunk: int
    coordinate_chunks: tuple

    @property
    def chunks(self):
        """Number of chunk rows."""
        return math.ceil(self.runs / self.chunk_rows)

    @property
    def files(self):
        """Files of the experiment, while it is computed; when it is complete there are fewer."""
        scalars = self.variables - self.sampled + 1  # and the checkpoints at the ends
        results = self.chunks * (self.sampled * self._over_time(self.time_chunk) + scalars)
        rest = math.ceil(self.runs / INITIAL_CHUNK)
        along_run, along_time = self._coordinate_files
        rest += COORDINATES * along_run + along_time + 2
        metadata = self.variables + COORDINATES + 4
        return results + rest + metadata + self._reference_files

    @property
    def is_scattered(self):
        """Whether coordinates are in so many chunks that reading them takes long.

        As when a study grew much: its coordinates have the chunks that they began with.
        """
        best = self._fresh_coordinates
        sizes = zip(self._coordinate_files, self.coordinate_chunks, best, strict=True)
        return any(files > MOST_COORDINATE_CHUNKS and own < new for files, own, new in sizes)

    @property
    def _fresh_coordinates(self):
        return coordinate_chunk_size(self.runs), coordinate_chunk_size(self.times)

    @property
    def _coordinate_files(self):
        sizes = zip((self.runs, self.times), self.coordinate_chunks, strict=True)
        return tuple(math.ceil(size / chunk) for size, chunk in sizes)

    @property
    def _reference_files(self):
        if not self.references:
            return 0
        arrays = REFERENCE_ARRAYS * self._over_time(TIME_CHUNK) + 3  # marker, checkpoint, CPU time
        chunks = math.ceil(self.references / REFERENCE_CHUNK)
        return chunks * arrays + math.ceil(self.references / INITIAL_CHUNK) + arrays + 4

    def _over_time(self, chunk):
        return math.ceil(self.times / chunk)

    def within(self, files, rows=1):
        """The same arrays in at most so many files, or as few as there can be; not scattered.

        Parameters
        ----------
        files : int
        rows : int
            Of a chunk at least, where anything is changed.
        """
        if self.files <= files and not self.is_scattered:
            return self
        found = dataclasses.replace(
            self,
            chunk_rows=max(self.chunk_rows, rows),
            time_chunk=min(TIME_CHUNK, max(self.times, self.time_chunk)),
            coordinate_chunks=self._fresh_coordinates,
        )
        while found.files > files and found.chunk_rows < MOST_CHUNK_ROWS:
            found = dataclasses.replace(found, chunk_rows=2 * found.chunk_rows)
        return found if found.files < self.files else self


def choose_chunk_rows(runs, seconds, lanes):
    """Rows of a chunk, the number of files aside: a power of two up to 1024.

    Few enough that there is work for every worker and a chunk does not take too long.

    Parameters
    ----------
    runs : int
    seconds : float
        Of a run, on average.
    lanes : bool
        Whether a multiple of 8 is of use.
    """
    wanted = min(runs / CHUNKS, CHUNK_SECONDS / max(seconds, 1e-9))
    rows = max(WIDTH if lanes else 1, 2 ** math.floor(math.log2(max(wanted, 1))))
    return min(rows, MOST_CHUNK_ROWS)


def divide_file_budget(needs, budget):
    """Divide a budget: who needs little has it, the others the same each.

    Parameters
    ----------
    needs : list of int
    budget : int

    Returns
    -------
    list of float
    """
    found, left = [0.0] * len(needs), float(budget)
    for place, index in enumerate(sorted(range(len(needs)), key=needs.__getitem__)):
        found[index] = min(needs[index], left / (len(needs) - place))
        left -= found[index]
    return found

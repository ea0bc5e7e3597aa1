"""Limits on what a study may ask for.

A study is a few lines of text that can ask for more than any machine has. What it needs is counted
from the lengths of its axes before anything of that length is made, over all of its experiments
together, and refused with the number where it is more than a `Limit`. Each leaves room for the
largest campaigns and keeps the checking of any study within seconds and 1 GB.
"""

from typing import NamedTuple

from integrators.errors import InputError

MOST_TEXT = 1_000_000  # bytes of a study; what is longer is data and belongs into a file
MOST_DEPTH = 32  # of nested arrays and tables; the deepest that mean something have 7
MOST_STRING = 10_000  # characters
MOST_LABEL = 200  # characters; each run has its own, and names of experiments are those of files
MOST_EXPERIMENTS = 1000
MOST_VALUES = 100_000  # of a range
MOST_STATES = 50_000  # of a family or lattice, each of which is made and checked
MOST_PER_DECADE = 10_000  # samples, of which no pixel shows more
MOST_SAMPLES = 10_000_000  # of a run: 10,000 chunks of each variable
MOST_RUNS = 10_000_000  # planned within 500 MB and a minute
MOST_MEMORY = 1_000_000_000  # bytes of initial states: ten million of a double pendulum


class Limit(NamedTuple):
    """The most of something that the experiments of a study may ask for together.

    Parameters
    ----------
    most : int
    what : str
        Follows a number in messages.
    remedy : str
    unit : float
        That messages give amounts in, with three digits; 1: all digits.
    """

    most: int
    what: str
    remedy: str
    unit: float = 1

    def error(self, amount: float, key: str | None = None) -> InputError:
        """The `InputError` of a study that asks for too much, there at a key."""
        asked, most = (
            f"{own:,}" if self.unit == 1 else f"{own / self.unit:,.3g}"
            for own in (amount, self.most)
        )
        said = f"comes to {asked} {self.what}; at most {most} are possible: {self.remedy}"
        return InputError(said, key=key)


RUNS = Limit(MOST_RUNS, "runs in all experiments", "write several studies, each with its own store")
MEMORY = Limit(
    MOST_MEMORY, "GB of memory for systems and initial states",
    "take fewer bodies, starts or scanned values, or write several studies", unit=1e9,
)  # fmt: skip
SYSTEMS = Limit(  # each is made
    20_000, "systems, combinations of scanned values, in all experiments",
    "scan fewer values, or write several studies",
)  # fmt: skip
PAIRS = Limit(  # each is checked
    200_000, "pairs of a system with an integrator or a start",
    "scan fewer values, or write several studies",
)  # fmt: skip

"""Limits on what a study may ask for.

A few lines of text can ask for more than any machine has. So the demands of a study are computed
from the lengths of its axes, over all experiments together, before any array of that length is
made. A study that exceeds a `Limit` is refused with the number. The limits leave room for the
largest campaigns, and keep the check of any study within seconds and 1 GB.
"""

from typing import NamedTuple

from integrators.errors import InputError

MOST_TEXT = 1_000_000  # bytes of a study; anything longer is data and belongs in a file
MOST_DEPTH = 32  # levels of nested arrays and tables; valid studies have at most 7
MOST_STRING = 10_000  # characters
MOST_LABEL = 200  # characters; each run has a label, and names of experiments are also file names
MOST_EXPERIMENTS = 1000
MOST_VALUES = 100_000  # numbers in a range
MOST_STATES = 50_000  # states of a family or lattice, which are all made and checked
MOST_PER_DECADE = 10_000  # samples; a plot cannot resolve more
MOST_SAMPLES = 10_000_000  # samples of a run: 10,000 chunks of each variable
MOST_RUNS = 10_000_000  # runs, which are planned within 500 MB and a minute
MOST_MEMORY = 1_000_000_000  # bytes of initial states: ten million of a double pendulum


class Limit(NamedTuple):
    """A limit on the demand of all experiments of a study together.

    Parameters
    ----------
    most : int
    what : str
        The words that follow the number in messages.
    remedy : str
    unit : float
        Unit of amounts in messages, which then have three digits; with 1 they have all digits.
    """

    most: int
    what: str
    remedy: str
    unit: float = 1

    def error(self, amount: float, key: str | None = None) -> InputError:
        """The `InputError` of a study that asks for too much at a key."""
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
SYSTEMS = Limit(  # each system is made
    20_000, "systems, combinations of scanned values, in all experiments",
    "scan fewer values, or write several studies",
)  # fmt: skip
PAIRS = Limit(  # each pair is checked
    200_000, "pairs of a system with an integrator or a start",
    "scan fewer values, or write several studies",
)  # fmt: skip

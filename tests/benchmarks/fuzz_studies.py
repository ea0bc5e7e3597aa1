"""Packaged studies, changed at random, are read or refused: never a traceback, 10 s or 1 GB.

    python tests/benchmarks/fuzz_studies.py [20000] [--seed 0] [--keep DIRECTORY]

Values, types, nesting, sizes, keys and characters change, see ``tests/helpers/studies_at_odds.py``.
Exit code 3: some study ended otherwise; each kind of failure is printed once with its text.
"""

import argparse
import collections
import sys
import traceback
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from studies_at_odds import bounded, changed_studies, checked

from sweep import errors
from sweep.study import study


def main():
    """Try as many as are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("examples", type=int, nargs="?", default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="directory for the texts that failed")
    given_ = parser.parse_args()
    counts, failures = collections.Counter(), {}
    packaged = [file.read_text() for file in study._packaged_files().values()]

    @seed(given_.seed)
    @settings(
        max_examples=given_.examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(changed_studies(packaged))
    def attempt(text):
        counts["tried"] += 1
        try:
            with bounded():
                checked(text)
            counts["valid"] += 1
        except errors.StudyError:
            counts["refused"] += 1
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            counts["failed"] += 1
            frame = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}"
            failures.setdefault(kind, (str(error)[:200], text))

    attempt()
    for number, (kind, (message, text)) in enumerate(failures.items()):
        print(f"{kind}: {message}\n{text[:3000]}\n")
        if given_.keep is not None:
            given_.keep.mkdir(parents=True, exist_ok=True)
            (given_.keep / f"{number}.toml").write_text(text)
    print(", ".join(f"{counts[key]:,} {key}" for key in ("tried", "valid", "refused", "failed")))
    sys.exit(3 if failures else 0)


if __name__ == "__main__":
    main()

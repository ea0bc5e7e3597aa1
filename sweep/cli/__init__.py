"""The command `sweep`: a file a subcommand, in a folder a group. Only here click is imported."""

import os

# Workers are forked from this process, one a core. BLAS reads these when it is imported.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

"""Imported by the process that workers are forked from: what all of them need, see `processes`.

Imports make a million permanent objects. To search them for garbage took 0.2 s here, and 0.1 s in
each worker.
"""

import gc
import importlib

NEEDED = (
    "sweep.campaign.worker.compute",
    "sweep.clusters.local",
    "sweep.clusters.workers",
    "integrators.registry",
    "systems.registry",
)

gc.disable()
try:
    for _name in NEEDED:
        importlib.import_module(_name)
    from sweep.store import provenance
    from sweep.store.lease import sessions

    sessions.code_hash()  # cached, as what follows: each worker would compute it otherwise
    provenance.describe_cpu_libm_and_versions()
finally:
    gc.freeze()
    gc.enable()

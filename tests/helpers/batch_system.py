"""SLURM, by two scripts: jobs are processes that begin at once, or queue for ever."""

import json
import os

import dask

SBATCH = """\
#!/bin/sh
here=$(dirname "$0")
echo submitted >> "$here/calls"
[ -e "$here/broken" ] && { echo "sbatch: error: invalid partition: night" >&2; exit 1; }
cp "$1" "$here/script"
[ -e "$here/full" ] && { echo "Submitted batch job 77"; exit; }
cp "$1" "$here/script-$$"  # another one may come meanwhile
setsid sh "$here/script-$$" > "$here/output" 2>&1 &
echo "$!" >> "$here/jobs"
echo "Submitted batch job $!"
"""
SCANCEL = """\
#!/bin/sh
echo "cancelled $1" >> "$(dirname "$0")/calls"
[ "$1" = 77 ] || kill -TERM -- "-$1"
"""
NIGHT = {
    "kind": "slurm",
    "cores": 1,
    "memory": "1GB",
    "nanny": False,
    "scheduler-options": {"host": "127.0.0.1"},
    "scale": 1,
}


class BatchSystem:
    """The folder of its scripts, and what they were told."""

    def __init__(self, folder, monkeypatch):
        folder.mkdir()
        for name, text in {"sbatch": SBATCH, "scancel": SCANCEL}.items():
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        self.folder, self._patch = folder, monkeypatch
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def configure(self, **options):
        """Let this process, and those that it starts, have a profile ``night``."""
        found = {"clusters": {"night": NIGHT | options}}
        configuration = self.folder / "configuration"
        configuration.mkdir(exist_ok=True)
        (configuration / "dask.json").write_text(json.dumps({"geosweep": found}))
        self._patch.setenv("DASK_CONFIG", str(configuration))
        self._patch.setitem(dask.config.config, "geosweep", found)

    def set(self, name):
        """Be ``broken``, or ``full``."""
        (self.folder / name).touch()

    @property
    def calls(self):
        """A line for each job that was submitted or cancelled."""
        return self._lines("calls")

    @property
    def told(self):
        """The first words of these."""
        return [call.split()[0] for call in self.calls]

    @property
    def jobs(self):
        """Process groups of the jobs that began."""
        return [int(line) for line in self._lines("jobs")]

    def _lines(self, name):
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []

    @property
    def scripts(self):
        """Of the jobs that began, in this order."""
        files = sorted(self.folder.glob("script-*"), key=lambda file: file.stat().st_mtime_ns)
        return [file.read_text() for file in files]

    @property
    def last_script(self):
        """Of the last job that was submitted."""
        return (self.folder / "script").read_text()

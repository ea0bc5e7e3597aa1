"""A study on four hosts over TLS, of which one is cut off, one killed, and the scheduler killed.

    python tests/benchmarks/four_hosts.py [--part events|late|tls] [--quick] [--json]

The hosts are network namespaces, which root on Linux can make; skipped elsewhere. One has the
scheduler, three have two workers each, the coordinator is on a fifth; all see one file system.
``events``: during 10,000 runs a host is cut off for good, another is killed, and then the
scheduler, each started again by a loop as an orchestrator's; the coordinator's command is given
again as long as it exits with 4. The store must then be complete, sound, and bitwise the local
one: four minutes. ``late``: workers that are cut off and suspended in their first chunk, or in
their first commit, wake when the study is complete, and must not harm the store: four minutes.
``tls``: the same study over tcp:// and tls:// in turn: five minutes. ``--quick`` has a tenth of
the runs. Exit code 3: a figure does not hold.
"""

import contextlib
import signal
import sys
import time
from dataclasses import dataclass, field

import numpy as np
import psutil
import suspending
from disasters import POLL, Done, compare
from namespaces import Network, Site, missing
from reporting import STEP_SIZES, call_sweep, options, report_parts, write_study

MOST_TLS = 5  # %
PATIENCE = 900.0  # seconds for a study
EXITS = 25  # of the coordinator, after which it is given up
AT = {"cut": 0.2, "killed": 0.45, "scheduler": 0.7}  # of the runs
WHAT = {"cut": "a host cut off", "killed": "a host killed", "scheduler": "the scheduler killed"}
LATE_RUNS = 184  # in 23 tasks of most of a second each
WAKE_SECONDS, IDLE_SECONDS = 120.0, 0.5  # at most; CPU in 15 s of one that has nothing to do
SAMPLES = 50


@dataclass
class Journal:
    """What happened; times are of the clock on the wall."""

    began: float = field(default_factory=time.time)
    events: dict = field(default_factory=dict)  # by name: when
    begun: dict = field(default_factory=dict)  # by name: segments that workers had begun by then
    exits: list = field(default_factory=list)  # of the coordinator: when, code, what it said last
    progress: list = field(default_factory=list)  # when, fraction of the runs
    ended: float = 0.0

    def note(self, fraction):
        """Take down a fraction, if it is another one."""
        if not self.progress or fraction != self.progress[-1][1]:
            self.progress.append((time.time(), fraction))

    def stalled(self, event):
        """Longest time without a commit that began after an event and before the next one."""
        since = self.events[event]
        until = min([at for at in self.events.values() if at > since], default=self.ended)
        times = [since, *(at for at, _ in self.progress if at > since)]
        gaps = [b - a for a, b in zip(times[:-1], times[1:], strict=True) if a <= until]
        return max(gaps, default=0.0)


def pursue(site, command, store, strikes=()):
    """Give the coordinator's command until it ends well, with events on the way; the `Journal`.

    Parameters
    ----------
    site : Site
    command : sequence
        Of `sweep`.
    store : Path
    strikes : sequence of (float, str, callable)
        Fraction of the runs, name of the event, what to do.
    """
    journal, done, left = Journal(), Done(store), list(strikes)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and len(journal.exits) < EXITS:
        run = site.coordinator(*command)
        while run.poll() is None and time.monotonic() < deadline:
            time.sleep(POLL)
            site.tend()
            journal.note(fraction := done())
            if left and fraction >= left[0][0]:
                _, name, strike = left.pop(0)
                journal.events[name] = time.time()
                strike()
        if run.poll() is None:
            run.kill_all()
        said = site.log("sweep").read_text().strip().splitlines()[-1:]
        journal.exits.append((time.time(), run.returncode, *said))
        if run.returncode == 0:
            break
        time.sleep(1.0)  # an orchestrator waits, too
        site.tend()
    journal.ended = time.time()
    return journal


# --- events ----------------------------------------------------------------------------------


def events(folder, given):
    """Rows about a study whose hosts go away."""
    study, store = (
        write_study(folder, "events", given.runs, duration=280.0, samples=SAMPLES),
        folder / "events.zarr",
    )
    whole = folder / "local.zarr"
    began = time.time()
    code, said = call_sweep("run", study, whole, "--no-summary", cwd=folder)
    if code:
        return [("the local run", "ends", said[-500:], False)]
    alone = time.time() - began
    command = ("run", study, store, "--no-summary", "--checkpoint-every", "2")
    with Network() as network:
        site = Site(network, folder / "events", "tls")
        site.add_workers(2, 3, 4)
        site.wait_for_workers(6)
        hosts = site.hosts
        strikes = (
            (AT["cut"], "cut", hosts[4].cut),
            (AT["killed"], "killed", hosts[3].kill),
            (AT["scheduler"], "scheduler", site.scheduler.group.kill_all),
        )
        journal = pursue(site, command, store, strikes)
        given_up = site.removed(hosts[4])
    rows = _ending(journal, alone) + _costs(site, journal, given_up, given.runs)
    return rows + sound("four hosts", store, whole)


def _ending(journal, alone):
    codes = [code for _, code, *_ in journal.exits]
    for at, code, *said in journal.exits:
        print(f"{at - journal.began:6.1f} s: exit {code}: {' '.join(said)}", file=sys.stderr)
    happened = len(journal.events) == len(AT)
    wrong = [code for code in codes[:-1] if code != 4]
    wall = f"{journal.ended - journal.began:.0f}, {alone:.0f}"
    return [
        ("four hosts: events that happened", len(AT), len(journal.events), happened),
        ("four hosts: seconds, of the local run", "", wall, None),
        ("four hosts: exit codes", "4 ... 0", codes, codes[-1] == 0 and not wrong),
    ]


def _costs(site, journal, given_up, runs):
    """Rows about what was computed twice, and what each event cost."""
    begun = {number: _begun(site.steps(number)) for number in site.hosts}
    every = sum(280.0 / step for step in STEP_SIZES) * (runs // len(STEP_SIZES))
    twice = sum(begun.values()) / every - 1
    rows = [("four hosts: computed twice, of all steps", "", f"{twice:.1%}", None)]
    for name, at in journal.events.items():
        what = f"{WHAT[name]} after {at - journal.began:.0f} s: longest pause"
        rows.append((what, "", f"{journal.stalled(name):.1f} s", None))
    if "cut" in journal.events and given_up is not None:
        late = given_up - journal.events["cut"]
        rows.append(("a host cut off: given up by the scheduler after", "", f"{late:.1f} s", None))
    if "scheduler" in journal.events:
        after = [at for at, code, *_ in journal.exits if at > journal.events["scheduler"]]
        exits = f"{len(after) - 1}"
        rows.append(
            ("the scheduler killed: times that the command is given again", "", exits, None)
        )
    return rows


def _begun(file):
    return np.loadtxt(file, dtype=np.int64, ndmin=2)[:, 3].sum() if file.exists() else 0


def sound(what, store, whole):
    """Rows about a store that must be that of an undisturbed run."""
    verified, said = call_sweep("verify", store, cwd=store.parent)
    if verified:
        print(said[-2000:], file=sys.stderr)
    try:
        lost, wrong = compare(store, whole, "ensemble")
    except Exception as error:  # a store that cannot be read is a finding, not an end
        lost = wrong = f"{type(error).__name__}: {error}"[:200]
    return [
        (f"{what}: exit code of verify", 0, verified, verified == 0),
        (f"{what}: runs lost", 0, lost, lost == 0),
        (f"{what}: runs with other bits", 0, wrong, wrong == 0),
    ]


# --- workers that wake too late --------------------------------------------------------------


def late(folder, given):
    """Rows about workers that are cut off and suspended, and go on when all is done."""
    study, whole = (
        write_study(folder, "late", LATE_RUNS, duration=1400.0, samples=SAMPLES),
        folder / "late-local.zarr",
    )
    call_sweep("run", study, whole, "--no-summary", cwd=folder)
    rows = []
    for name, what in (("computing", "late workers"), ("writing", "workers late in a commit")):
        store = folder / f"{name}.zarr"
        rows += _overslept(folder / name, study, store, what) + sound(what, store, whole)
    return rows


def _overslept(folder, study, store, what):
    """Rows about workers that sleep while they compute, or in a commit."""
    command = ("run", study, store, "--no-summary", "--checkpoint-every", "2")
    in_commit = {suspending.STOP: "1"} if folder.name == "writing" else {}
    with Network() as network:
        site = Site(network, folder, "tls")
        site.add_workers(2, **in_commit)
        site.wait_for_workers(2)
        sleeper = Sleeper(site, 2, by_themselves=bool(in_commit))
        journal = pursue(site, command, store, ((0.0, "cut", sleeper.falls_asleep),))
        asleep = sleeper.is_asleep()
        before = _state(store)
        used = sleeper.wakes()
        after = _state(store)
    codes = [code for _, code, *_ in journal.exits]
    touched = sorted(str(file) for file in before.keys() ^ after.keys())
    touched += sorted(str(file) for file in before.keys() & after if before[file] != after[file])
    print(f"{what} wrote, when all was done: {touched[:10]}", file=sys.stderr)
    harmless = bool(in_commit)  # it had been allowed to write: nothing can hold it back
    return [
        (f"{what}: exit codes", "0", codes, codes == [0]),
        (f"{what}: asleep until all is done", "yes", "yes" if asleep else "no", asleep),
        (f"{what}: CPU seconds that they then used", "", f"{used:.1f}", None),
        (f"{what}: files they then wrote or removed", "" if harmless else 0, len(touched),
         None if harmless else not touched),
    ]  # fmt: skip


def _state(store):
    """Name, time and size of each file of a store."""
    files = {}
    for file in store.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            if file.is_file():
                files[file.relative_to(store)] = file.stat().st_mtime_ns, file.stat().st_size
    return files


class Sleeper:
    """A host that is cut off and suspended as soon as its workers compute.

    Parameters
    ----------
    site : Site
    number : int
        Of the host.
    by_themselves : bool
        Whether its workers suspend themselves.
    """

    def __init__(self, site, number, by_themselves):
        self._site, self._number, self._by_themselves = site, number, by_themselves
        self._slept, self._seen = [], {}

    def falls_asleep(self):
        """Wait until it computes, suspend it, cut it off, and start another host."""
        host = self._site.hosts.pop(self._number)  # nobody tends it any more
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not self._may_be_cut(host):
            time.sleep(0.01)
        self._slept = host.processes()
        self._signal(signal.SIGSTOP)
        host.cut()
        self._site.add_workers(self._number + 1)

    def _may_be_cut(self, host):
        if not self._by_themselves:
            return self._site.steps(self._number).exists()
        return sum(_is_stopped(own) for own in host.processes()) == 2

    def is_asleep(self):
        """Whether its processes are all there and suspended."""
        return bool(self._slept) and all(map(_is_stopped, self._slept))

    def wakes(self):
        """Let it go on, until it has nothing more to do; CPU seconds that it used for that."""
        before = self._used()
        if self._by_themselves:  # not their nannies, which would end them
            self._slept = [own for own in self._slept if "spawn_main" in " ".join(own.cmdline())]
        self._signal(signal.SIGCONT)
        used, deadline = -1.0, time.monotonic() + WAKE_SECONDS
        while time.monotonic() < deadline and self._used() > used + IDLE_SECONDS:
            used = self._used()
            time.sleep(15.0)
        return self._used() - before

    def _used(self):
        """CPU seconds of its processes; of those that have ended, as much as was seen."""
        for process in self._slept:
            with contextlib.suppress(psutil.NoSuchProcess):
                self._seen[process.pid] = sum(process.cpu_times()[:2])
        return sum(self._seen.values())

    def _signal(self, number):
        for process in self._slept:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)


def _is_stopped(process):
    try:
        return process.status() == psutil.STATUS_STOPPED
    except psutil.NoSuchProcess:
        return False


# --- TLS -------------------------------------------------------------------------------------


def tls(folder, given):
    """Rows about what encryption costs."""
    study = write_study(folder, "tls", given.runs, duration=70.0, samples=SAMPLES)
    walls = {"tcp": [], "tls": []}
    with Network() as network:
        sites = {
            protocol: Site(network, folder / protocol, protocol, first)
            for protocol, first in (("tcp", 21), ("tls", 41))
        }
        for site in sites.values():
            site.add_workers(2)
            site.wait_for_workers(2)
        for turn in range(-1, given.pairs):  # the first one is to warm up
            for protocol, site in sites.items():
                store = folder / f"{protocol}{turn}.zarr"
                began = time.perf_counter()
                journal = pursue(site, ("run", study, store, "--no-summary"), store)
                if [code for _, code, *_ in journal.exits] != [0]:
                    return [(f"the run over {protocol}", "ends", journal.exits, False)]
                if turn >= 0:
                    walls[protocol].append(time.perf_counter() - began)
    print(f"seconds: {walls}", file=sys.stderr)
    least = {protocol: min(taken) for protocol, taken in walls.items()}
    cost = 100 * (least["tls"] / least["tcp"] - 1)
    shown = f"{least['tcp']:.1f}, {least['tls']:.1f}"
    claim = None if given.quick else bool(cost <= MOST_TLS)
    return [
        (f"{given.runs:,} runs over tcp, tls: least seconds of {given.pairs}", "", shown, None),
        ("TLS costs", f"<= {MOST_TLS} %", f"{cost:.1f} %", claim),
    ]


PARTS = {"events": events, "late": late, "tls": tls}


def main():
    """Measure and print; the exit code."""
    parser = options(__doc__, "a tenth of the runs, two pairs", PARTS)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=4, help="of runs over tcp and tls")
    given = parser.parse_args()
    if given.quick:
        given.runs, given.pairs = given.runs // 10, 2
    if reason := missing():
        print(f"Skipped: {reason}", file=sys.stderr)
        return 0
    return report_parts(PARTS, given)


if __name__ == "__main__":
    sys.exit(main())

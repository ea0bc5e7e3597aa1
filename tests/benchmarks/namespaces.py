"""Hosts of our own on one machine: network namespaces on a bridge, and processes in them.

Linux's `ip` makes them, for root. The bridge is in a namespace too, so that nothing of the machine
itself is touched; names have the number of this process. Also a scheduler and workers on them, each
started again when it ends, with certificates by a test authority of their own.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time

import counting
import psutil
from disasters import POLL, Group
from reporting import HELPERS, HERE, PROGRAMS

sys.path.insert(0, str(HELPERS))

from authorities import make_certificates

PORT = 8786
NETWORK = "10.73.0"  # only inside of our namespaces
AGAIN_SECONDS = 1.0  # after which an orchestrator starts a process again


def missing():
    """Why there can be no hosts here; empty if there can."""
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    for program in ("ip", "unshare"):
        if shutil.which(program) is None:
            return f"`{program}` is not installed"
    name = f"gs{os.getpid()}-try"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if tried.returncode:
        return f"no network namespace can be made: {tried.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", name], check=False)
    return ""


def _ip(*arguments):
    subprocess.run(["ip", *map(str, arguments)], check=True, capture_output=True)


class Network:
    """A bridge with hosts; a context manager, after which nothing is left of them."""

    def __init__(self):
        self._switch = f"gs{os.getpid()}-sw"
        self._names, self._groups = [], []

    def __enter__(self):
        self._add(self._switch)
        _ip("-n", self._switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "bridge", "up")
        return self

    def __exit__(self, *exception):
        for group in reversed(self._groups):
            with contextlib.suppress(psutil.Error):
                group.kill_all()
        for name in self._names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)

    def _add(self, name):
        self._names.append(name)
        _ip("netns", "add", name)

    def host(self, number):
        """A new `Host`, whose address ends with the number."""
        name, port = f"gs{os.getpid()}-h{number}", f"port{number}"
        self._add(name)
        _ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", port, "netns", self._switch)
        for place, link in ((name, "lo"), (name, "eth0"), (self._switch, port)):
            _ip("-n", place, "link", "set", link, "up")
        _ip("-n", name, "address", "add", f"{NETWORK}.{number}/24", "dev", "eth0")
        _ip("-n", self._switch, "link", "set", port, "master", "bridge")
        return Host(self, name, f"{NETWORK}.{number}", port)

    def start(self, host, arguments, log, environment):
        """A process group on a host, which is killed at the end at the latest."""
        named = ["ip", "netns", "exec", host.name, "unshare", "--uts", "sh", "-c"]
        named += ['hostname "$0" && exec "$@"', f"host{host.address.rpartition('.')[2]}"]
        group = Group(*named, *arguments, log=log, **environment)
        self._groups.append(group)
        return group

    def unplug(self, port):
        """Cut a host off, for good: neither side is told."""
        _ip("-n", self._switch, "link", "set", port, "down")


class Host:
    """A namespace with an address and a host name of its own.

    Parameters
    ----------
    network : Network
    name, address : str
    port : str
        Of the bridge.
    """

    def __init__(self, network, name, address, port):
        self.name, self.address = name, address
        self._network, self._port, self._kept = network, port, []

    def start(self, *arguments, log, **environment):
        """Start a process here; the `disasters.Group`."""
        return self._network.start(self, arguments, log, environment)

    def keep(self, *arguments, log, **environment):
        """Start a process that is started again whenever it ends; the `Kept`."""
        self._kept.append(Kept(lambda: self.start(*arguments, log=log, **environment)))
        return self._kept[-1]

    def tend(self):
        """Start again what has ended; to be called now and then."""
        for kept in self._kept:
            kept.tend()

    def cut(self):
        """Cut it off, for good."""
        self._network.unplug(self._port)

    def kill(self):
        """SIGKILL to all of its processes, for good."""
        kept, self._kept = self._kept, []
        for own in kept:
            own.group.kill_all()

    def processes(self):
        """All of its processes that run."""
        return [process for own in self._kept for process in own.processes()]


class Kept:
    """A process that is started again when it ends.

    Parameters
    ----------
    start : callable
        Gives a new `disasters.Group`.

    Attributes
    ----------
    group : Group
    starts : int
    """

    def __init__(self, start):
        self._start, self._ended = start, None
        self.group, self.starts = start(), 1

    def tend(self):
        """Start it again, a second after it ended."""
        if self.group.poll() is None:
            return
        self._ended = self._ended or time.monotonic()
        if time.monotonic() - self._ended > AGAIN_SECONDS:
            self.group, self._ended, self.starts = self._start(), None, self.starts + 1

    def processes(self):
        """It and those that it started."""
        with contextlib.suppress(psutil.NoSuchProcess):
            own = psutil.Process(self.group.pid)
            return [own, *own.children(recursive=True)]
        return []


class Site:
    """A scheduler's host, hosts with workers and one for the coordinator; all started.

    Parameters
    ----------
    network : Network
    folder : Path
        New; for logs.
    protocol : str
        ``tls`` or ``tcp``.
    first : int
        Number of the scheduler's host; the workers' follow, the coordinator's is nine more.
    """

    def __init__(self, network, folder, protocol, first=1):
        folder.mkdir()
        self.folder, self._network, self._first = folder, network, first
        self._tls = folder / "tls" if protocol == "tls" else None
        if self._tls:
            make_certificates(self._tls)
        self.hosts = {}
        server = network.host(first)
        self.address = f"{protocol}://{server.address}:{PORT}"
        self.scheduler = server.keep(
            PROGRAMS / "dask", "scheduler", "--host", f"{protocol}://{server.address}",
            "--port", PORT, "--no-dashboard", log=self.log("scheduler"),
            **self._encryption("scheduler"),
        )  # fmt: skip
        self._server, self._own = server, network.host(first + 9)

    def log(self, name):
        """The log of a process, or of a host."""
        return self.folder / f"{name}.log"

    def _encryption(self, role):
        """Variables by which Dask's configuration names the certificate of a role."""
        if self._tls is None:
            return {}
        named = {
            "CA_FILE": "ca",
            f"{role.upper()}__CERT": role,
            f"{role.upper()}__KEY": f"{role}-key",
        }
        return {
            f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(self._tls / f"{file}.pem")
            for name, file in named.items()
        }

    def add_workers(self, *numbers, **environment):
        """Two workers on each of new hosts."""
        for number in numbers:
            host = self._network.host(self._first + number - 1)
            self.hosts[number] = host
            log = self.log(f"host{number}")
            host.keep(
                PROGRAMS / "dask", "worker", self.address, "--nworkers", 2, "--nthreads", 1,
                "--no-dashboard", "--preload", HERE / "counting.py",
                "--preload", HERE / "suspending.py", "--local-directory", self.folder, log=log,
                **{counting.LOG: str(self.steps(number)), counting.PIDS: str(self.log("pids"))},
                **self._encryption("worker"), **environment,
            )  # fmt: skip

    def steps(self, number):
        """The file to which a host's workers write what they begin."""
        return self.log(f"steps{number}")

    def coordinator(self, *arguments):
        """Start a command of `sweep`; the `Group`."""
        own = (PROGRAMS / "sweep", *arguments, "--scheduler", self.address)
        return self._own.start(*own, log=self.log("sweep"), **self._encryption("client"))

    def tend(self):
        """Start again what has ended."""
        for host in (self._server, *self.hosts.values()):
            host.tend()

    def wait_for_workers(self, count):
        """Until so many have come up, by their own word."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if len(self.log("pids").read_text().split()) >= count:
                    return
            self.tend()
            time.sleep(POLL)
        raise TimeoutError(f"the workers do not come up; see {self.folder}")

    def removed(self, host):
        """When the scheduler gave a host's workers up, by its log and the clock on the wall."""
        for line in self.log("scheduler").read_text().splitlines():
            if "Remove worker" in line and f"//{host.address}:" in line:
                stamp, _, fraction = line.split(" - ")[0].partition(",")
                return time.mktime(time.strptime(stamp, "%Y-%m-%d %H:%M:%S")) + int(fraction) / 1e3
        return None

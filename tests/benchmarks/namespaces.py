"""Hosts of our own on one machine: network namespaces on a bridge, and processes in them.

Linux's `ip` makes them, for root. The bridge is in a namespace too, so that nothing of the machine
itself is touched; names have the number of this process. Also a test authority whose certificate
all hosts share, and processes that are started again when they end.
"""

import contextlib
import datetime
import os
import shutil
import subprocess
import time
from pathlib import Path

import psutil
from disasters import Group

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


# --- certificates ------------------------------------------------------------------------------


def certificates(folder):
    """Files of an authority and of one certificate by it, for all: options of `dask` for them."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    folder = Path(folder)
    folder.mkdir()
    own, shared = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _name("a test authority")
    now = datetime.datetime.now(datetime.UTC)
    for file, subject, key in (("ca", authority, own), ("host", _name("a test host"), shared)):
        is_authority = x509.BasicConstraints(ca=file == "ca", path_length=None)
        made = x509.CertificateBuilder(authority, subject, key.public_key())
        made = made.serial_number(x509.random_serial_number())
        made = made.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
        signed = made.add_extension(is_authority, critical=True).sign(own, hashes.SHA256())
        _write(folder / f"{file}.pem", signed, key)
    options = {"ca-file": "ca.pem", "cert": "host.pem", "key": "host-key.pem"}
    return {name: folder / file for name, file in options.items()}


def _name(common):
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common)])


def _write(path, certificate, key):
    from cryptography.hazmat.primitives import serialization as s

    path.write_bytes(certificate.public_bytes(s.Encoding.PEM))
    secret = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
    path.with_name(f"{path.stem}-key.pem").write_bytes(secret)

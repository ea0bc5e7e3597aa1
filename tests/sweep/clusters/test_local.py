"""What a local cluster listens on, and whom it lets in: nobody but the run that started it."""

import contextlib
import os
import socket
import ssl
import stat
import tempfile
import urllib.request
from pathlib import Path

import dask
import psutil
import pytest
from distributed import Client
from waiting import HANG

from integrators.errors import InputError
from sweep.clusters import certificates, launch, local, tls
from sweep.clusters.launch import start_or_connect
from sweep.clusters.spec import ClusterSpec


def listening(processes):
    """Address and port of each socket that some processes listen on."""
    found = [at for process in processes for at in process.net_connections("inet")]
    return [tuple(at.laddr) for at in found if at.status == psutil.CONN_LISTEN]


def named_unix_sockets(processes):
    found = [at for process in processes for at in process.net_connections("unix")]
    return [Path(at.laddr) for at in found if at.laddr]


def answer(place, said, context=None):
    """What a server says to who comes without its certificate; empty if it hangs up."""
    with socket.create_connection(place, HANG) as plain, contextlib.ExitStack() as stack:
        try:
            end = stack.enter_context(context.wrap_socket(plain)) if context else plain
            end.sendall(said)
            return end.recv(100)
        except (ConnectionError, ssl.SSLError):
            return b""


def stranger():
    """The client's context of who has a certificate of another authority."""
    other = tls.PrivateSecurity(*certificates.make_self_signed_certificate())
    context = other.get_connection_args("client")["ssl_context"]
    context.verify_mode = ssl.CERT_NONE  # it would talk to anybody
    return context


def test_nobody_else_gets_into_a_run(long_study, start, until, committed):
    run = start("sweep", "run", "long.toml", "--no-summary", "--workers", 2, cwd=long_study)
    until(lambda: committed(long_study / "long.zarr", "pendulum") or run.poll() is not None)
    processes = run.members()
    places = listening(processes)
    assert len(places) == 5  # the scheduler; two nannies and their workers
    assert {host for host, _ in places} == {"127.0.0.1"}
    for path in named_unix_sockets(processes):  # where workers are forked
        assert path.parent.stat().st_uid == os.geteuid()
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for place in places:
        assert answer(place, b"GET /health HTTP/1.0\r\n\r\n") == b""
        assert answer(place, b"hello", stranger()) == b""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            assert not any("PRIVATE KEY" in text for text in process.environ().values())
            assert "PRIVATE KEY" not in " ".join(process.cmdline())
    other = tls.PrivateSecurity(*certificates.make_self_signed_certificate())
    for host, port in places:
        for address, security in ((f"tcp://{host}:{port}", None), (f"tls://{host}:{port}", other)):
            with pytest.raises(OSError):
                Client(address, security=security, timeout=1)
    printed, errors = run.finish()
    assert run.returncode == 0, errors
    assert "Complete: 136 runs" in printed


def test_who_has_the_certificate_gets_in(cluster):
    with Client(cluster.scheduler.address, security=cluster.security) as client:
        assert client.submit(os.getpid).result() in client.run(os.getpid).values()


def test_the_key_is_never_written(monkeypatch):
    def refuse(*arguments, **options):
        raise AssertionError("a temporary file")

    for name in ("TemporaryDirectory", "NamedTemporaryFile", "mkstemp", "mkdtemp"):
        monkeypatch.setattr(tempfile, name, refuse)
    security = tls.PrivateSecurity(*certificates.make_self_signed_certificate())
    for role in tls.ROLES:
        assert security.get_connection_args(role)["ssl_context"]
        assert security.get_listen_args(role)["ssl_context"]
    assert "PRIVATE KEY" not in repr(security)


def test_each_cluster_has_a_certificate_of_its_own():
    one, two = (
        certificates.make_self_signed_certificate(),
        certificates.make_self_signed_certificate(),
    )
    assert not set(one) & set(two)


def test_a_cluster_has_no_more_workers_than_tasks_unless_it_is_told_how_many(monkeypatch):
    monkeypatch.setattr(launch.os, "cpu_count", lambda: 2)
    with launch.starting_or_connecting(ClusterSpec()) as connected:
        assert [len(connected(tasks).nthreads()) for tasks in (1, 5)] == [1, 2]
    with launch.starting_or_connecting(ClusterSpec(workers=2)) as connected:
        assert len(connected(1).nthreads()) == 2


def test_a_dashboard_that_a_profile_asks_for():
    profile = {"kind": "local", "scale": 1, "dashboard-address": ":0"}
    with (
        dask.config.set({"geosweep.clusters": {"watched": profile}}),
        start_or_connect(ClusterSpec(profile="watched")) as client,
    ):
        server = client.cluster.scheduler.http_server
        assert server.address == "127.0.0.1"
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/health") as page:
            assert page.read() == b"ok"
        (worker,) = client.scheduler_info()["workers"].values()
        assert worker["services"] == {}
        family = [psutil.Process(), *psutil.Process().children(recursive=True)]
        assert {host for host, _ in listening(family)} == {"127.0.0.1"}


@pytest.mark.parametrize(
    ("given", "address"),
    [(8787, "127.0.0.1:8787"), ("8787", "127.0.0.1:8787"), (":8787", "127.0.0.1:8787"),
     ("0.0.0.0:8787", "0.0.0.0:8787"), ("login1:0", "login1:0")],
)  # fmt: skip
def test_where_a_dashboard_listens(given, address):
    assert local._dashboard_options(given) == {"dashboard": True, "dashboard_address": address}


@pytest.mark.parametrize("bad", ["", "here", "here:", True, -1, 1.5, ":70000", [8787]])
def test_an_address_of_a_dashboard_that_is_none(bad):
    with pytest.raises(InputError, match=r"expected a port, such as 8787, or host:port"):
        local.start_local_cluster(1, dashboard_address=bad)

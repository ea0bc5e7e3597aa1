"""A local cluster: whom it lets in, and how many workers it has."""

import contextlib
import os
import shutil
import socket
import ssl
import urllib.request

import distributed
import psutil
import pytest
import zarr
from authorities import make_certificates
from dask_processes import SMALL
from distributed import Client
from waiting import HANG

import sweep
from integrators.compiler import cache_directory


def listening(process):
    """Host and port of each socket that a process listens on, which is none if it has ended."""
    try:
        found = process.net_connections("inet")
    except psutil.NoSuchProcess:
        return []
    return [tuple(at.laddr) for at in found if at.status == psutil.CONN_LISTEN]


def answer(place, said, context=None):
    """What a server says to who comes without its certificate; empty if it hangs up."""
    with socket.create_connection(place, HANG) as plain, contextlib.ExitStack() as stack:
        try:
            end = stack.enter_context(context.wrap_socket(plain)) if context else plain
            end.sendall(said)
            return end.recv(100)
        except (ConnectionError, ssl.SSLError):
            return b""


def test_nobody_else_gets_in(cluster, tmp_path):
    """Neither to the scheduler nor to workers, all of which listen on this machine alone."""
    other = make_certificates(tmp_path / "tls")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_cert_chain(other / "client.pem", other / "client-key.pem")
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it would talk to anybody
    info = cluster.scheduler_info(n_workers=-1)
    addresses = [info["address"], *info["workers"]]
    addresses += [worker["nanny"] for worker in info["workers"].values()]
    assert len(addresses) == 5 and all(one.startswith("tls://127.0.0.1:") for one in addresses)
    assert info["services"] == {} and all(w["services"] == {} for w in info["workers"].values())
    workers = [psutil.Process(pid) for pid in cluster.run(os.getpid).values()]
    ports = {int(one.rpartition(":")[2]) for one in addresses}
    places = [place for worker in workers for place in listening(worker)]
    assert {host for host, _ in places} == {"127.0.0.1"}
    for port in ports | {port for _, port in places}:
        assert answer(("127.0.0.1", port), b"GET /health HTTP/1.0\r\n\r\n") == b""
        assert answer(("127.0.0.1", port), b"hello", context) == b""
    files = {"tls_ca_file": other / "ca.pem"} | {
        f"tls_client_{part}": other / f"client{end}.pem"
        for part, end in (("cert", ""), ("key", "-key"))
    }
    foreign = distributed.Security(
        require_encryption=True, **{name: str(file) for name, file in files.items()}
    )
    for address, security in ((addresses[0].replace("tls", "tcp"), None), (addresses[0], foreign)):
        with pytest.raises(OSError):
            Client(address, security=security, timeout=1)
    for worker in workers:
        assert not any("PRIVATE KEY" in text for text in worker.environ().values())
        assert "PRIVATE KEY" not in " ".join(worker.cmdline())


def test_who_has_the_certificate_gets_in(cluster):
    with Client(cluster.scheduler.address, security=cluster.security) as client:
        assert client.submit(os.getpid).result() in client.run(os.getpid).values()


@pytest.fixture
def small(tmp_path):
    """The file of a study of four runs, which are one task."""
    (tmp_path / "small.toml").write_text(SMALL)
    return tmp_path / "small.toml"


def workers_of(store):
    (host,) = zarr.open_group(store, mode="r").attrs["hosts"]
    return host["workers"]


def test_there_are_no_more_workers_than_tasks(small, monkeypatch):
    """Of a cluster with certificates of the user's own, too."""
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    tls = make_certificates(small.parent / "tls")
    files = {f"tls_{part}": tls / f"{part}.pem" for part in ("cert", "key")}
    shutil.copy(tls / "worker.pem", files["tls_cert"])
    shutil.copy(tls / "worker-key.pem", files["tls_key"])
    spec = sweep.ClusterSpec(tls_ca_file=tls / "ca.pem", **files)
    store = small.with_suffix(".zarr")
    assert sweep.run(small, store, cluster=spec).complete
    assert workers_of(store) == 1


@pytest.mark.slow
def test_there_are_as_many_workers_as_is_said(small):
    store = small.with_suffix(".zarr")
    assert sweep.run(small, store, workers=2).complete
    assert workers_of(store) == 2


@pytest.mark.slow
def test_a_dashboard_that_a_profile_asks_for(long_study, start, until, tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    profile = f"{{kind: local, scale: 1, dashboard-address: {port}}}"
    (tmp_path / "dask.yaml").write_text(f"geosweep: {{clusters: {{watched: {profile}}}}}")
    monkeypatch.setenv("DASK_CONFIG", str(tmp_path))
    study = long_study / "long.toml"  # of some minutes now: it is there when one looks
    study.write_text(study.read_text().replace("random = 68", "random = 2000"))
    run = start("sweep", "run", "long.toml", "--cluster", "watched", cwd=long_study)

    def page():
        assert run.poll() is None, run.finish()
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as answered,
        ):
            return answered.read()

    assert until(page) == b"ok"
    hosts = {host for process in run.members() for host, _ in listening(process)}
    assert hosts == {"127.0.0.1"}


@pytest.mark.slow
def test_workers_share_the_private_cache_of_their_coordinator(small, start, monkeypatch):
    """Where others may write the user's: kernels are compiled once, and it is said once."""
    shared = small.parent / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv(cache_directory.NAMED, str(shared))
    monkeypatch.delenv(cache_directory.HANDED, raising=False)
    run = start("sweep", "run", "small.toml", "--no-summary", "--workers", 2, cwd=small.parent)
    printed, errors = run.finish()
    assert run.returncode == 0 and errors.count("may be written by others") == 1, errors
    assert list(shared.iterdir()) == []

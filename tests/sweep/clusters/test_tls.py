"""Encrypted connections: certificates are checked and used; others are refused."""

import datetime
import shlex
import subprocess

import dask
import pytest
from authorities import NOW, make_certificates
from dask_processes import SMALL, address_in, files, refused, start_scheduler, start_worker
from documents import fenced

LONG = datetime.timedelta(days=30)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Directories of certificates: of one authority each."""
    top = tmp_path_factory.mktemp("tls")
    ages = {"own": NOW, "foreign": NOW, "expired": NOW - LONG, "early": NOW + LONG}
    for name, now in ages.items():
        make_certificates(top / name, now)
    return top


@pytest.fixture(scope="module")
def scheduler(start_once, until, made, tmp_path_factory):
    """The file of a scheduler with a worker, who speak TLS alone."""
    top, own = tmp_path_factory.mktemp("processes"), made / "own"
    start_scheduler(start_once, top, "--protocol", "tls", *files(own, "scheduler"))
    file = top / "scheduler.json"
    address = until(lambda: address_in(file))
    start_worker(start_once, address, top, *files(own, "worker"))
    return file


def test_a_run_over_tls(made, scheduler, command, tmp_path):
    """Files are a profile's, or what Dask's configuration says."""
    (tmp_path / "small.toml").write_text(SMALL)
    own = files(made / "own", "client")
    address = address_in(scheduler)
    with having(*own[1::2]):
        run = ("run", "small.toml", "--no-summary", "--scheduler", address)
        assert "Complete: 4 runs" in command(tmp_path, *run).stdout
    night = {"kind": "scheduler", "address": address, "tls-ca-file": str(own[1])}
    between = {"tls-cert": str(made / "own" / "between.pem")}  # leads to the authority, with key
    with dask.config.set({"geosweep.clusters": {"night": night | between}}):
        extend = ("extend", "small.zarr", "--no-summary", "--duration", 3, "--cluster", "night")
        assert "Complete: 4 runs" in command(tmp_path, *extend).stdout


HANGS_UP = "closes the connection: … if and only if it has certificates … signed by an authority"
CLIENTS = {
    "plain": ("tcp", None, f"{HANGS_UP}…this process has none"),
    "without certificates": ("tls", None, "TLS expects… or tls://host:8786, with certificates"),
    "certificates without TLS": ("tcp", "own", "encryption required…or tls://host:8786, with"),
    "foreign authority": ("tls", "foreign", "self-signed certificate in…shows FOLDER/client"),
    "expired": ("tls", "expired", f"{HANGS_UP}…FOLDER/client.pem and trusts BOTH"),
    "not yet valid": ("tls", "early", f"{HANGS_UP}…FOLDER/client.pem and trusts BOTH"),
    "refused": ("tls", "foreign", f"{HANGS_UP}…FOLDER/client.pem and trusts BOTH"),
}


@pytest.mark.parametrize("kind", CLIENTS)
def test_other_clients_are_refused(kind, made, scheduler, command, tmp_path):
    protocol, folder, expected = CLIENTS[kind]
    address = address_in(scheduler).replace("tls", protocol)
    own = list(files(made / folder, "client")) if folder else []
    if "BOTH" in expected:
        own[1] = both(made, folder, "own", tmp_path)
        expected = expected.replace("BOTH", str(own[1]))
    with having(*own[1::2]):
        message = refused(command, tmp_path, "--scheduler", address)
    for words in expected.replace("FOLDER", str(made / str(folder))).split("…"):
        assert words.strip() in message


def both(made, one, other, place):
    """A file of two authorities."""
    file = place / "both.pem"
    file.write_bytes((made / one / "ca.pem").read_bytes() + (made / other / "ca.pem").read_bytes())
    return file


@pytest.mark.slow
def test_a_scheduler_whose_certificate_has_expired(made, start, until, command, tmp_path):
    old = ("--protocol", "tls", *files(made / "expired", "scheduler"))
    start_scheduler(start, tmp_path / "expired", *old)
    address = until(lambda: address_in(tmp_path / "expired" / "scheduler.json"))
    authorities = both(made, "own", "expired", tmp_path)
    with having(authorities, *files(made / "own", "client")[3::2]):
        message = refused(command, tmp_path, "--scheduler", address)
    assert (
        f"the scheduler '{address}' closes the connection" in message and "has expired" in message
    )


@pytest.mark.slow
def test_a_scheduler_without_tls(made, start, until, command, tmp_path):
    start_scheduler(start, tmp_path / "plain")
    address = until(lambda: address_in(tmp_path / "plain" / "scheduler.json")).replace("tcp", "tls")
    with having(*files(made / "own", "client")[1::2]):
        message = refused(command, tmp_path, "--scheduler", address)
    assert (
        f"the scheduler '{address}' closes the connection" in message
        and "if and only if" in message
    )


def test_files_that_do_not_do(made, command, tmp_path):
    (tmp_path / "text.pem").write_text("no certificate")
    own = made / "own"
    pair = own / "client.pem", own / "client-key.pem"
    locked = tmp_path / "locked.pem"
    convert = ["openssl", "pkcs8", "-topk8", "-v2", "aes128", "-passout", "pass:x"]
    subprocess.run([*convert, "-in", pair[1], "-out", locked], check=True)
    cases = (
        (tmp_path / "none.pem", *pair, f"No such file or directory: '{tmp_path}/none.pem'"),
        (tmp_path / "text.pem", *pair, f"{tmp_path}/text.pem, {pair[0]}, {pair[1]} cannot be used"),
        (own / "ca.pem", tmp_path, pair[1], f"Is a directory: '{tmp_path}'"),
        (own / "ca.pem", tmp_path / "text.pem", pair[1], f"{tmp_path}/text.pem, {pair[1]} cannot"),
        (own / "ca.pem", pair[0], tmp_path / "text.pem", f"{pair[0]}, {tmp_path}/text.pem cannot"),
        (own / "ca.pem", pair[0], None, f"{own}/ca.pem, {pair[0]} cannot be used"),
        (own / "ca.pem", pair[0], own / "worker-key.pem", "KEY_VALUES_MISMATCH"),
        (own / "ca.pem", pair[0], locked, "its key without a password"),
    )
    for ca_file, cert, key, expected in cases:
        with having(ca_file, cert, key):
            assert expected in refused(command, tmp_path, "--scheduler", "tls://h:1")
            assert expected in refused(command, tmp_path, "--workers", 1)


def having(ca_file=None, cert=None, key=None):
    """Within ``with``, these files are those of all processes, by Dask's configuration."""
    tls = {f"{role}.{name}": file and str(file)
           for role in ("client", "scheduler", "worker")
           for name, file in (("cert", cert), ("key", key))}  # fmt: skip
    tls["ca-file"] = ca_file and str(ca_file)
    said = {f"distributed.comm.tls.{name}": file for name, file in tls.items()}
    return dask.config.set(said | {"distributed.comm.require-encryption": ca_file is not None})


@pytest.mark.parametrize(
    ("authority", "cert", "said"),
    [
        ("foreign", "own/client", "unable to get local issuer certificate"),
        ("foreign", "own/between", "unable to get local issuer certificate"),
        ("expired", "expired/client", "certificate has expired"),
        ("early", "early/client", "certificate is not yet valid"),
    ],
)
def test_a_cluster_whose_processes_would_refuse_one_another(
    authority, cert, said, made, command, tmp_path
):
    own, key = made / f"{cert}.pem", made / f"{cert}-key.pem"
    with having(made / authority / "ca.pem", own, key if key.exists() else None):
        message = refused(command, tmp_path, "--workers", 1)
    assert f"the certificate {own} with the authority {made / authority / 'ca.pem'}" in message
    assert f"is refused ({said})" in message and "valid now" in message


def test_one_certificate_for_all_by_the_command_of_the_guide(called, tmp_path):
    shown = [line for block in fenced("bash") for line in block.text.splitlines()]
    (line,) = [line for line in shown if line.startswith("openssl ")]
    subprocess.run(shlex.split(line), cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "small.toml").write_text(SMALL)
    with having(tmp_path / "cert.pem", tmp_path / "cert.pem", tmp_path / "key.pem"):
        done = called(tmp_path, "run", "small.toml", "--no-summary")
    assert "Complete: 4 runs" in done.stdout, done.stderr

"""Encrypted connections: certificates are made, checked, used; others are refused."""

import datetime
import stat
import subprocess

import dask
import pytest
import trustme
from dask_processes import SMALL, address_in, files, refused, start_scheduler, start_worker

from integrators.errors import InputError
from sweep.clusters import certificates, tls
from sweep.clusters.launch import start_or_connect
from sweep.clusters.spec import ClusterSpec, TlsFiles

NOW = datetime.datetime.now(datetime.UTC)
LONG = datetime.timedelta(days=30)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Directories of certificates: of one authority each."""
    top = tmp_path_factory.mktemp("tls")
    ages = {"own": NOW, "foreign": NOW, "expired": NOW - LONG, "early": NOW + LONG}
    for name, now in ages.items():
        certificates.make_test_certificates(top / name, ["127.0.0.1"], days=2, now=now)
    return top


@pytest.fixture(scope="module")
def scheduler(start_once, until, made, tmp_path_factory):
    """The address of a scheduler with a worker, who speak TLS alone."""
    top, own = tmp_path_factory.mktemp("processes"), made / "own"
    start_scheduler(start_once, top, "--protocol", "tls", *files(own, "scheduler"))
    old = ("--protocol", "tls", *files(made / "expired", "scheduler"))
    start_scheduler(start_once, top / "expired", *old)
    start_scheduler(start_once, top / "plain")
    file = top / "scheduler.json"
    address = until(lambda: address_in(file))
    start_worker(start_once, address, top, *files(own, "worker"))
    return file


def other(scheduler, until, name):
    return until(lambda: address_in(scheduler.parent / name / "scheduler.json"))


def test_a_run_over_tls(made, scheduler, command, tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    own = files(made / "own", "client")
    run = ("run", "small.toml", "--no-summary", "--scheduler-file", scheduler, *own)
    assert "Complete: 4 runs" in command(tmp_path, *run).stdout
    address = address_in(scheduler)
    assert address.startswith("tls://")
    names = ("ca-file", "client.cert", "client.key")
    settings = {
        f"distributed.comm.tls.{name}": str(file)
        for name, file in zip(names, own[1::2], strict=True)
    }
    with dask.config.set(settings):
        extend = ("extend", "small.zarr", "--duration", 2, "--scheduler", address)
        assert "Complete: 4 runs" in command(tmp_path, *extend).stdout


def check_refused(command, tmp_path, *arguments):
    return refused(command, tmp_path, *arguments)


CLIENTS = {
    "plain": ("tcp", None, "asks for encryption; expected tls://127.0.0.1:"),
    "without certificates": ("tls", None, "needs certificates, and distributed.comm.tls.ca-file"),
    "certificates without TLS": ("tcp", "own", "is without encryption, but certificates are given"),
    "foreign authority": ("tls", "foreign", "is refused: self-signed certificate in"),
    "expired": ("tls", "expired", "has expired ("),
    "not yet valid": ("tls", "early", "is not valid yet ("),
}


@pytest.mark.parametrize("kind", CLIENTS)
def test_other_clients_are_refused(kind, made, scheduler, command, tmp_path):
    protocol, folder, expected = CLIENTS[kind]
    address = address_in(scheduler).replace("tls", protocol)
    own = files(made / folder, "client") if folder else ()
    message = check_refused(command, tmp_path, "--scheduler", address, *own)
    assert expected in message
    if folder == "foreign":
        assert f"signed by the authority in {made / folder / 'ca.pem'}" in message


def test_a_scheduler_that_refuses_our_certificate(made, scheduler, command, tmp_path):
    (tmp_path / "both.pem").write_bytes(
        (made / "foreign" / "ca.pem").read_bytes() + (made / "own" / "ca.pem").read_bytes()
    )
    own = ["--tls-ca-file", tmp_path / "both.pem", *files(made / "foreign", "client")[2:]]
    address = address_in(scheduler)
    message = check_refused(command, tmp_path, "--scheduler", address, *own)
    assert f"the scheduler '{address}' refuses the certificate {made / 'foreign'}" in message
    assert "signed by" in message


def test_a_scheduler_whose_certificate_has_expired(made, scheduler, command, tmp_path, until):
    (tmp_path / "both.pem").write_bytes(
        (made / "own" / "ca.pem").read_bytes() + (made / "expired" / "ca.pem").read_bytes()
    )
    own = ["--tls-ca-file", tmp_path / "both.pem", *files(made / "own", "client")[2:]]
    address = other(scheduler, until, "expired")
    message = check_refused(command, tmp_path, "--scheduler", address, *own)
    assert f"the certificate of the scheduler '{address}'" in message and "has expired" in message


def test_a_scheduler_without_tls(made, scheduler, command, tmp_path, until):
    address = other(scheduler, until, "plain").replace("tcp", "tls")
    own = files(made / "own", "client")
    message = check_refused(command, tmp_path, "--scheduler", address, *own)
    assert f"the scheduler '{address}' speaks no TLS" in message


def test_files_that_do_not_do(made, tmp_path):
    (tmp_path / "text.pem").write_text("no certificate")
    own = made / "own"
    pair = own / "client.pem", own / "client-key.pem"
    locked = tmp_path / "locked.pem"
    convert = ["openssl", "pkcs8", "-topk8", "-v2", "aes128", "-passout", "pass:x"]
    subprocess.run([*convert, "-in", pair[1], "-out", locked], check=True)
    cases = (
        (tmp_path / "none.pem", *pair, "none.pem (--tls-ca-file) cannot be read: No such file"),
        (tmp_path / "text.pem", *pair, "text.pem (--tls-ca-file) holds no certificate in PEM"),
        (own / "ca.pem", tmp_path, pair[1], "(--tls-cert) cannot be read: Is a directory"),
        (own / "ca.pem", tmp_path / "text.pem", pair[1], "(--tls-cert) holds no certificate"),
        (own / "ca.pem", pair[0], tmp_path / "text.pem", "no private key in PEM format is in"),
        (own / "ca.pem", pair[0], None, "client.pem (--tls-cert; --tls-key is not given)"),
        (own / "ca.pem", pair[0], own / "worker-key.pem", "(--tls-key) does not fit (KEY_VALUES"),
        (own / "ca.pem", pair[0], locked, "has a password"),
        (made / "foreign" / "ca.pem", *pair, "(--tls-cert) is not signed by the authority in"),
    )
    for ca_file, cert, key, expected in cases:
        with pytest.raises(tls.InputError) as refusal:
            tls.tls_security_of_client("tls://h:1", TlsFiles(ca_file, cert, key))
        assert expected in str(refusal.value)
    both = tmp_path / "both.pem"
    both.write_bytes(pair[0].read_bytes() + pair[1].read_bytes())
    assert tls.tls_security_of_client("tls://h:1", TlsFiles(own / "ca.pem", both, None))


def test_a_certificate_in_between_leads_to_the_authority(made, tmp_path):
    """The certificate's file holds it, too; an authority that signed neither is refused."""
    authority = trustme.CA()
    between = authority.create_child_ca()
    pair = between.issue_cert("127.0.0.1")
    (tmp_path / "ca.pem").write_bytes(authority.cert_pem.bytes())
    chain = pair.cert_chain_pems[0].bytes() + between.cert_pem.bytes()
    (tmp_path / "own.pem").write_bytes(pair.private_key_pem.bytes() + chain)
    own = TlsFiles(tmp_path / "ca.pem", tmp_path / "own.pem")
    assert tls.tls_security_of_client("tls://127.0.0.1:8786", own).require_encryption
    foreign = TlsFiles(made / "foreign" / "ca.pem", tmp_path / "own.pem")
    with pytest.raises(InputError, match="is not signed by the authority in .*foreign"):
        tls.tls_security_of_client("tls://127.0.0.1:8786", foreign)


def test_a_local_cluster_with_tls(made, tmp_path):
    own = made / "own"
    tls_options = {"tls_ca_file": own / "ca.pem", "tls_cert": own / "worker.pem"}
    spec = ClusterSpec(workers=1, **tls_options, tls_key=own / "worker-key.pem")
    with start_or_connect(spec) as client:
        addresses = [client.scheduler.address, *client.nthreads()]
        assert len(addresses) == 2
        assert all(address.startswith("tls://") for address in addresses)


def test_the_command_makes_certificates(command, tmp_path):
    said = command(tmp_path, "certificates", "tls", "--host", "login1", "--host", "10.0.0.1")
    folder = tmp_path / "tls"
    assert sorted(file.name for file in folder.iterdir()) == sorted(certificates.NAMES)
    for file in folder.glob("*-key.pem"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert f"dask scheduler --protocol tls --tls-ca-file {folder}/ca.pem" in said.stdout
    assert "for tests and private networks" in said.stdout
    text = ["openssl", "x509", "-noout", "-text", "-in", folder / "worker.pem"]
    text = subprocess.run(text, capture_output=True, text=True, check=True).stdout
    assert "DNS:login1, IP Address:10.0.0.1" in text
    again = command(tmp_path, "certificates", "tls", code=2)
    assert "exists; give another directory" in again.stderr
    (tmp_path / "file").touch()
    nowhere = command(tmp_path, "certificates", "file/tls", code=2)
    assert "cannot be written: Not a directory" in nowhere.stderr
    no_host = command(tmp_path, "certificates", "other", "--host", "a b", code=2)
    assert "hosts are 'a b'" in no_host.stderr and "expected names or IP" in no_host.stderr
    assert not (tmp_path / "other").exists()

"""Encrypted connections: certificates are made, checked, used; others are refused."""

import datetime
import stat
import subprocess

import dask
import pytest
from authorities import NOW, make_certificates
from dask_processes import SMALL, address_in, files, refused, start_scheduler, start_worker

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
    """Files are options, a profile's, or what Dask's configuration says."""
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
        extend = ("extend", "small.zarr", "--no-summary", "--duration", 2, "--scheduler", address)
        assert "Complete: 4 runs" in command(tmp_path, *extend).stdout
    night = {"kind": "scheduler", "address": address, "tls-ca-file": str(own[1])}
    between = {"tls-cert": str(made / "own" / "between.pem")}  # leads to the authority, with key
    with dask.config.set({"geosweep.clusters": {"night": night | between}}):
        extend = ("extend", "small.zarr", "--no-summary", "--duration", 3, "--cluster", "night")
        assert "Complete: 4 runs" in command(tmp_path, *extend).stdout


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
    message = refused(command, tmp_path, "--scheduler", address, *own)
    assert expected in message
    if folder == "foreign":
        assert f"signed by the authority in {made / folder / 'ca.pem'}" in message


def both(made, one, other, place):
    """A file of two authorities."""
    file = place / "both.pem"
    file.write_bytes((made / one / "ca.pem").read_bytes() + (made / other / "ca.pem").read_bytes())
    return file


def test_a_scheduler_that_refuses_our_certificate(made, scheduler, command, tmp_path):
    authorities = both(made, "foreign", "own", tmp_path)
    own = ["--tls-ca-file", authorities, *files(made / "foreign", "client")[2:]]
    address = address_in(scheduler)
    message = refused(command, tmp_path, "--scheduler", address, *own)
    assert f"the scheduler '{address}' refuses the certificate {made / 'foreign'}" in message
    assert "signed by" in message


@pytest.mark.slow
def test_a_scheduler_whose_certificate_has_expired(made, start, until, command, tmp_path):
    old = ("--protocol", "tls", *files(made / "expired", "scheduler"))
    start_scheduler(start, tmp_path / "expired", *old)
    address = until(lambda: address_in(tmp_path / "expired" / "scheduler.json"))
    authorities = both(made, "own", "expired", tmp_path)
    own = ["--tls-ca-file", authorities, *files(made / "own", "client")[2:]]
    message = refused(command, tmp_path, "--scheduler", address, *own)
    assert f"the certificate of the scheduler '{address}'" in message and "has expired" in message


@pytest.mark.slow
def test_a_scheduler_without_tls(made, start, until, command, tmp_path):
    start_scheduler(start, tmp_path / "plain")
    address = until(lambda: address_in(tmp_path / "plain" / "scheduler.json")).replace("tcp", "tls")
    own = files(made / "own", "client")
    message = refused(command, tmp_path, "--scheduler", address, *own)
    assert f"the scheduler '{address}' speaks no TLS" in message


def test_files_that_do_not_do(made, command, tmp_path):
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
        (made / "foreign" / "ca.pem", own / "between.pem", None, "is not signed by the authority"),
    )
    for ca_file, cert, key, expected in cases:
        key_option = () if key is None else ("--tls-key", key)
        options = ("--tls-ca-file", ca_file, "--tls-cert", cert, *key_option)
        assert expected in refused(command, tmp_path, "--scheduler", "tls://h:1", *options)
        assert expected in refused(command, tmp_path, "--workers", 1, *options)


def test_the_command_makes_certificates(command, tmp_path):
    said = command(tmp_path, "certificates", "tls", "--host", "login1", "--host", "10.0.0.1")
    folder = tmp_path / "tls"
    names = {f"{role}{part}.pem" for role in ("ca", "scheduler", "worker", "client")
             for part in ("", "-key")}  # fmt: skip
    assert {file.name for file in folder.iterdir()} == names
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


def test_certificates_that_were_made_fit_one_another(command, tmp_path):
    command(tmp_path, "certificates", "tls", "--host", "127.0.0.1", "--days", 1)
    for role in ("scheduler", "worker", "client"):
        verify = ["openssl", "verify", "-CAfile", "tls/ca.pem", f"tls/{role}.pem"]
        done = subprocess.run(verify, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert "OK" in done.stdout
        dates = ["openssl", "x509", "-noout", "-in", f"tls/{role}.pem", "-checkend"]
        for seconds, code in (80_000, 0), (90_000, 1):
            done = subprocess.run([*dates, str(seconds)], cwd=tmp_path, capture_output=True)
            assert done.returncode == code

"""Certificates: an authority for tests with what it signs, and one for the length of a run."""

import datetime
import ipaddress
import os
import socket
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from integrators.errors import InputError, check_whole

ROLES = ("scheduler", "worker", "client")
AUTHORITY = "ca"
NAMES = tuple(f"{role}{part}.pem" for role in (AUTHORITY, *ROLES) for part in ("", "-key"))
BEFORE = datetime.timedelta(hours=1)  # for hosts whose clocks are late
MOST_DAYS = 36500
LONGEST_RUN = 3650  # days


def make(directory, hosts=(), days=365, now=None):
    """Write ``ca.pem``, and ``ROLE.pem`` of each of `ROLES`, with their keys ``…-key.pem``.

    Each key is readable by its owner alone, and has no password, as Dask needs it.

    Parameters
    ----------
    directory : str or Path
        Is made if it is not there.
    hosts : sequence of str, optional
        Names or IP addresses that the certificates are for; this host unless given.
    days : int, optional
        They are valid from now on.
    now : datetime.datetime, optional
        With a time zone; from then on instead.

    Returns
    -------
    Path
        The directory, absolute.

    Raises
    ------
    InputError
        If a file is there already, or none can be written.
    """
    days = check_whole("days", days)
    if days > MOST_DAYS:
        raise InputError(f"days = {days}; expected at most {MOST_DAYS}")
    folder = Path(directory).absolute()
    now = now or datetime.datetime.now(datetime.UTC)
    valid = now - BEFORE, now + datetime.timedelta(days=days)
    names = hosts or (socket.gethostname(), "localhost", "127.0.0.1")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_free(folder)
        _write_all(folder, names, valid)
    except OSError as error:
        raise InputError(f"{directory} cannot be written: {error.strerror}") from None
    return folder


def _check_free(folder):
    for name in NAMES:
        if (folder / name).exists():
            raise InputError(
                f"{folder / name} exists; give another directory, or remove it first. Hosts that "
                "have certificates of one authority refuse those of another"
            )


def self_signed(days=LONGEST_RUN, now=None):
    """A certificate that is its own authority, and its key, both new.

    Parameters
    ----------
    days : int, optional
        They are valid from now on.
    now : datetime.datetime, optional
        With a time zone; from then on instead.

    Returns
    -------
    certificate, key : str
        In PEM format.
    """
    now = now or datetime.datetime.now(datetime.UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    unsigned = _begun("run", key, key, (now - BEFORE, now + datetime.timedelta(days=days)), "run")
    return _certificate(unsigned, key).decode(), _key(key).decode()


def _write_all(folder, hosts, valid):
    authority = ec.generate_private_key(ec.SECP256R1())
    _write(folder, AUTHORITY, authority, _authority(authority, valid))
    for role in ROLES:
        key = ec.generate_private_key(ec.SECP256R1())
        _write(folder, role, key, _signed(role, key, authority, hosts, valid))


def _authority(key, valid):
    usage = dict.fromkeys(
        ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
         "key_agreement", "encipher_only", "decipher_only"), False,
    )  # fmt: skip
    return (
        _begun(f"test {AUTHORITY}", key, key, valid)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**usage, key_cert_sign=True, crl_sign=True), critical=True)
    ), key


def _signed(role, key, authority, hosts, valid):
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]  # as workers are
    return (
        _begun(f"test {role}", key, authority, valid)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(x509.SubjectAlternativeName(list(map(_host, hosts))), critical=False)
    ), authority


def _begun(name, key, authority, valid, issuer=f"test {AUTHORITY}"):
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(valid[0])
        .not_valid_after(valid[1])
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()),
            critical=False,
        )
    )


def _named(name):
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"Geosweep {name}")])


def _host(name):
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return x509.DNSName(name)
    except ValueError:
        raise InputError(f"{name!r} is no host; expected a name or an IP address") from None


def _write(folder, name, key, unsigned):
    """A certificate, and its key in a file that only the owner can read from the start."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(folder / f"{name}-key.pem", flags, 0o600), "wb") as file:
        file.write(_key(key))
    with open(folder / f"{name}.pem", "xb") as file:
        file.write(_certificate(*unsigned))


def _key(key):
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, *plain)


def _certificate(unsigned, signer):
    return unsigned.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

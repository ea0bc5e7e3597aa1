"""Encrypted connections: the files, checked before anything is connected.

Dask connects with certificates both ways and says of bad ones nothing, or that it tried for
long. Here a handshake in memory, between two ends that have them, says what is wrong.
"""

import contextlib
import os
import ssl
import time
from dataclasses import dataclass

from distributed import Security
from distributed.comm import parse_address

from integrators.errors import InputError

ROLES = ("client", "scheduler", "worker")
MEND = (
    "Give --tls-ca-file, --tls-cert and --tls-key, or set distributed.comm.tls in Dask's "
    "configuration; `sweep certificates` makes some for tests"
)
NOT_YET, EXPIRED, UNSIGNED = 9, 10, (18, 19, 20, 21)  # OpenSSL's X509_V_ERR_…


@dataclass(frozen=True)
class Checked:
    """The files of one role, and what the user calls them; they are checked when it is made.

    Parameters
    ----------
    ca_file, cert, key : str
        Paths; the key may be None if it is in the certificate's file.
    names : tuple of str
        Options or settings that they come from.

    Raises
    ------
    InputError
        If one is missing or cannot be read, is none, does not fit the others, or is not valid now.
    """

    ca_file: str
    cert: str
    key: str | None
    names: tuple

    def __post_init__(self):
        for path, name in zip((self.ca_file, self.cert, self.key), self.names, strict=True):
            if path is not None:
                _check_readable(path, name)
        self._check_authority()
        ends = self._end(ssl.PROTOCOL_TLS_SERVER), self._end(ssl.PROTOCOL_TLS_CLIENT)
        try:
            _shake_hands(*ends)
        except ssl.SSLCertVerificationError as error:
            what = f"the certificate {self.cert} ({self.names[1]})"
            raise InputError(f"{what} {verdict(error, self.ca_file, self.cert)}") from None
        except ssl.SSLError as error:
            raise InputError(
                f"the certificate {self.cert} ({self.names[1]}) is of no use: "
                f"{error.reason or error}. {MEND}"
            ) from None

    def _check_authority(self):
        try:
            authority = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            authority.load_verify_locations(self.ca_file)
        except ssl.SSLError:
            raise InputError(_no_pem(self.ca_file, self.names[0], "certificate")) from None

    def _end(self, protocol):
        """A context with the certificate, that asks for one signed by the authority."""
        context = ssl.SSLContext(protocol)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # as Dask has it
        context.load_verify_locations(self.ca_file)
        try:
            context.load_cert_chain(self.cert, self.key, password=self._refuse_password)
        except ssl.SSLError as error:
            raise InputError(self._misfit(error)) from None
        return context

    def _refuse_password(self):
        raise InputError(
            f"the key {self.key or self.cert} has a password, which nobody could give to Dask; "
            "expected one without"
        )

    def _misfit(self, error):
        key, name = self.key or self.cert, self.names[2] if self.key else self.names[1]
        if error.reason == "KEY_VALUES_MISMATCH":
            return (
                f"the key {key} ({name}) does not fit the certificate {self.cert} "
                f"({self.names[1]}); expected the key that it was made with"
            )
        with open(self.cert, "rb") as file:
            if b"-----BEGIN CERTIFICATE-----" not in file.read():
                return _no_pem(self.cert, self.names[1], "certificate")
        if self.key is None:
            return f"{self.cert} holds no private key, and {self.names[2]} is not given"
        return _no_pem(key, name, "private key")


class PrivateSecurity(Security):
    """A certificate for all roles that only those have who were handed this object.

    It is its own authority: nobody else is let in, or believed. Pickled, it goes to worker
    processes through the pipe by which they are started.

    Parameters
    ----------
    certificate, key : str
        In PEM format.
    """

    def __init__(self, certificate, key):
        pairs = {f"tls_{role}_cert": certificate for role in ROLES}
        pairs |= {f"tls_{role}_key": key for role in ROLES}
        super().__init__(require_encryption=True, tls_ca_file=certificate, **pairs)

    def _get_tls_context(self, tls, purpose):
        """As Dask's, which would write the key to a temporary file for OpenSSL to read."""
        if not hasattr(os, "memfd_create"):
            return super()._get_tls_context(tls, purpose)
        with _file_in_memory(tls["cert"] + tls["key"]) as path:
            return super()._get_tls_context({**tls, "cert": path, "key": None}, purpose)


@contextlib.contextmanager
def _file_in_memory(text):
    """Path of a file without a name that only this process has open."""
    with os.fdopen(os.memfd_create("certificate"), "w") as file:
        file.write(text)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


def security_of_started(files):
    """The `Security` of a cluster to start, checked; None if it is not to be encrypted.

    It is encrypted if there are `files`, or ``distributed.comm.require-encryption`` says so.

    Parameters
    ----------
    files : TlsFiles or None
    """
    security = _security(files)
    for role in ROLES:
        if security.require_encryption:
            _checked(security, role, files is not None, "a cluster with encryption")
        else:
            _check_unneeded(security, role)
    return security if security.require_encryption else None


def security_of_client(address, files):
    """The `Security` for a running scheduler, checked.

    Parameters
    ----------
    address : str
    files : TlsFiles or None
    """
    security = _security(files)
    scheme, location = parse_address(address)
    if scheme in ("tls", "wss"):
        _checked(security, "client", files is not None, f"the scheduler {address!r}")
    elif security.require_encryption:
        why = "certificates are given" if files else "Dask's configuration requires encryption"
        raise InputError(
            f"the address {address!r} is without encryption, but {why}; expected "
            f"tls://{location} of a scheduler with certificates, or neither"
        )
    else:
        _check_unneeded(security, "client")
    return security


def _security(files):
    if files is None:
        try:
            return Security()
        except ValueError as error:  # a version of TLS in the configuration
            raise InputError(f"Dask's configuration: {error}") from None
    ca_file, cert, key = (None if p is None else str(p) for p in vars(files).values())
    options = {f"tls_{role}_cert": cert for role in ROLES}
    options |= {f"tls_{role}_key": key for role in ROLES}
    return Security(require_encryption=True, tls_ca_file=ca_file, **options)


def _check_unneeded(security, role):
    """Refuse bad files also where they are not needed: Dask loads those that it is told of."""
    files = security.get_tls_config_for_role(role)
    if files["ca_file"] and files["cert"]:
        _checked(security, role, False, "Dask's configuration")


def _checked(security, role, given, what):
    """Refuse files of a role that are missing or bad, as far as they are files."""
    files = security.get_tls_config_for_role(role)
    files = [files[name] for name in ("ca_file", "cert", "key")]
    names = ("--tls-ca-file", "--tls-cert", "--tls-key")
    if not given:
        settings = ("ca-file", f"{role}.cert", f"{role}.key")
        names = tuple(f"distributed.comm.tls.{setting}" for setting in settings)
    for file, name in zip(files[:2], names[:2], strict=True):
        if not file:
            raise InputError(f"{what} needs certificates, and {name} is not set. {MEND}")
    if not any("\n" in file for file in files if file):  # Dask takes their text as well
        Checked(*files, names)


def verdict(error, ca_file, cert=None):
    """What is wrong with a certificate, and how to mend it, as the end of a sentence.

    Parameters
    ----------
    error : ssl.SSLCertVerificationError
    ca_file : str
        The authority that it was verified with.
    cert : str, optional
        Its file, for its dates.
    """
    if error.verify_code in UNSIGNED:
        return f"is not signed by the authority in {ca_file}; expected all from one authority"
    late = error.verify_code == EXPIRED
    if late or error.verify_code == NOT_YET:
        state = "has expired" if late else "is not valid yet"
        which, date = _culprit(ca_file, cert, late)
        return (
            f"{which}{state}{date}. Make new ones (`sweep certificates` does for tests), or set "
            "the clock"
        )
    return f"cannot be verified: {error.verify_message}. {MEND}"


def _culprit(ca_file, cert, late):
    """Whether it is the authority's certificate, and the date that has passed or is to come."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(ca_file)
    for found in context.get_ca_certs():
        date = found["notAfter" if late else "notBefore"]
        if (ssl.cert_time_to_seconds(date) < time.time()) == late:
            return f"or its authority's in {ca_file} ", f" ({date})"
    from cryptography import x509  # takes a while, and is needed here alone

    try:
        with open(cert, "rb") as file:
            found = x509.load_pem_x509_certificate(file.read())
    except (OSError, ValueError, TypeError):
        return "", ""
    return "", f" ({found.not_valid_after_utc if late else found.not_valid_before_utc:%Y-%m-%d})"


def _check_readable(path, name):
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise InputError(f"{path} ({name}) cannot be read: {error.strerror}") from None


def _no_pem(path, name, kind):
    return f"{path} ({name}) holds no {kind} in PEM format; expected -----BEGIN {kind.upper()}"


def _shake_hands(server, client):
    """Let two contexts meet in memory; raises what either has against the other."""
    back, forth = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(back, forth), server.wrap_bio(forth, back, server_side=True)]
    for _ in range(4):
        for end in list(ends):
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                continue

"""Encrypted connections: Dask's `Security` of files, which are checked, or of a key in memory."""

import contextlib
import datetime
import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from distributed import Security
from distributed.comm import parse_address

from integrators.errors import InputError
from sweep.clusters.spec import TlsFiles

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

ROLES = ("client", "scheduler", "worker")
OPTIONS = ("`tls_ca_file`", "`tls_cert`", "`tls_key`")
MEND = (
    "Give `tls_ca_file`, `tls_cert` and `tls_key`, or set distributed.comm.tls in Dask's "
    "configuration; `sweep certificates` makes some for tests"
)


class PrivateSecurity(Security):
    """A certificate for all roles that only those have who were handed this object.

    It is its own authority: nobody else is let in, or believed. Pickled, it goes to worker
    processes through the pipe by which they are started.

    Parameters
    ----------
    certificate, key : str
        In PEM format.
    """

    def __init__(self, certificate: str, key: str) -> None:
        super().__init__(**_dask_security_options(certificate, certificate, key))

    def _get_tls_context(self, tls: dict[str, Any], purpose: ssl.Purpose) -> ssl.SSLContext | None:
        """As Dask's, which would write the key to a temporary file for OpenSSL to read."""
        if not hasattr(os, "memfd_create"):
            of_files: ssl.SSLContext | None = super()._get_tls_context(tls, purpose)
            return of_files
        with os.fdopen(os.memfd_create("certificate"), "w") as file:  # without a name
            file.write(tls["cert"] + tls["key"])
            file.flush()
            pair = {"cert": f"/proc/self/fd/{file.fileno()}", "key": None}
            made: ssl.SSLContext | None = super()._get_tls_context({**tls, **pair}, purpose)
            return made


def tls_security_of_started_cluster(files: TlsFiles | None) -> Security | None:
    """The `Security` of a cluster to start, checked; None if it is not to be encrypted.

    It is encrypted if there are `files`, or ``distributed.comm.require-encryption`` says so.

    Parameters
    ----------
    files : TlsFiles or None
    """
    security = _dask_security_from_files(files)
    needed_by = "a cluster with encryption" if security.require_encryption else ""
    for role in ROLES:
        _check_certificates_of_role(security, role, files, needed_by)
    return security if needed_by else None


def tls_security_of_client(address: str, files: TlsFiles | None) -> Security:
    """The `Security` for a running scheduler, checked.

    Parameters
    ----------
    address : str
    files : TlsFiles or None
    """
    security = _dask_security_from_files(files)
    scheme, location = parse_address(address)
    encrypted = scheme in ("tls", "wss")
    if security.require_encryption and not encrypted:
        why = "certificates are given" if files else "Dask's configuration requires encryption"
        raise InputError(
            f"the address {address!r} is without encryption, but {why}; expected "
            f"tls://{location} of a scheduler with certificates, or neither"
        )
    _check_certificates_of_role(
        security, "client", files, f"the scheduler {address!r}" if encrypted else ""
    )
    return security


def _dask_security_from_files(files: TlsFiles | None) -> Security:
    if files is None:
        try:
            return Security()
        except ValueError as error:  # a version of TLS in the configuration
            raise InputError(f"Dask's configuration: {error}") from None
    return Security(
        **_dask_security_options(*(path and str(path) for path in vars(files).values()))
    )


def _dask_security_options(
    authority: str | None, cert: str | None, key: str | None
) -> dict[str, Any]:
    """Arguments of a `Security` that has the same certificate for all roles."""
    pairs = {f"tls_{role}_cert": cert for role in ROLES}
    pairs |= {f"tls_{role}_key": key for role in ROLES}
    return {"require_encryption": True, "tls_ca_file": authority, **pairs}


def _check_certificates_of_role(
    security: Security, role: str, given: TlsFiles | None, needed_by: str
) -> None:
    """Refuse files of a role that are bad, or missing where something needs them.

    Also where nothing does: Dask loads those that it is told of.
    """
    found = security.get_tls_config_for_role(role)
    files = [found[name] for name in ("ca_file", "cert", "key")]
    settings = ("ca-file", f"{role}.cert", f"{role}.key")
    names = OPTIONS if given else [f"distributed.comm.tls.{setting}" for setting in settings]
    missing = [name for file, name in zip(files[:2], names[:2], strict=True) if not file]
    if missing and needed_by:
        raise InputError(f"{needed_by} needs certificates, and {missing[0]} is not set. {MEND}")
    if not missing and not any("\n" in file for file in files if file):  # Dask takes text as well
        _check_certificate_files(*files, *names)


def _check_certificate_files(
    ca_file: str, cert: str, key: str | None, ca_name: str, cert_name: str, key_name: str
) -> None:
    """Refuse files that cannot be read, do not hold what they should, or are not valid now."""
    from cryptography import exceptions, x509  # takes a while, and is needed here alone

    at = f"{key} ({key_name})" if key else f"{cert} ({cert_name}; {key_name} is not given)"

    def refuse_password() -> NoReturn:
        raise InputError(f"the key in {at} has a password; expected one without, as Dask needs it")

    def has_signed(issuer: "Certificate", certificate: "Certificate") -> bool:
        with contextlib.suppress(exceptions.InvalidSignature, ValueError, TypeError):
            certificate.verify_directly_issued_by(issuer)
            return True
        return False

    found = []
    for path, name in ((ca_file, ca_name), (cert, cert_name)):
        try:
            found.append(x509.load_pem_x509_certificates(Path(path).read_bytes()))
        except OSError as error:
            raise InputError(f"{path} ({name}) cannot be read: {error.strerror}") from None
        except ValueError:
            said = f"{path} ({name}) holds no certificate in PEM format"
            raise InputError(f"{said}; expected -----BEGIN CERTIFICATE") from None
    authorities, (own, *others) = found
    certificate = f"the certificate {cert} ({cert_name})"
    last, left = own, others  # the file may hold those between its own and the authority
    while not any(has_signed(one, last) for one in authorities) and (
        issuer := next((one for one in left if has_signed(one, last)), None)
    ):
        last, left = issuer, [one for one in left if one is not issuer]
    if not any(has_signed(one, last) for one in authorities):
        raise InputError(
            f"{certificate} is not signed by the authority in {ca_file} ({ca_name}); expected all "
            "from one authority"
        )
    begin, end = own.not_valid_before_utc, own.not_valid_after_utc
    now = datetime.datetime.now(datetime.UTC)
    if not begin <= now <= end:
        state = "has expired" if now > end else "is not valid yet"
        raise InputError(
            f"{certificate} {state} (valid from {begin:%Y-%m-%d} to {end:%Y-%m-%d}). Make new "
            "ones (`sweep certificates` does for tests), or set the clock"
        )
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert, key, password=refuse_password)
    except ssl.SSLError as error:
        said = f"the key in {at} does not fit ({error.reason})"  # as KEY_VALUES_MISMATCH
        said = said if error.reason else f"no private key in PEM format is in {at}"
        raise InputError(f"{said}; expected the one that {certificate} was made with") from None
    except OSError as error:
        raise InputError(f"{at} cannot be read: {error.strerror}") from None

"""Encrypted connections: Dask's `Security`, of certificate files that are tried before."""

import contextlib
import os
import ssl
from pathlib import Path

from distributed import Security

from integrators.errors import InputError
from sweep.clusters.spec import ClusterSpec

EXPECTED = (
    "expected files in PEM format: a certificate that is valid now, its key without a password, "
    "and the certificate of the authority that has signed those of all processes, by "
    "distributed.comm.tls in Dask's configuration"
)


def security_of(spec: ClusterSpec, started: bool = False) -> Security:
    """The `Security` of a client, by files that a spec or Dask's configuration names.

    Parameters
    ----------
    spec : ClusterSpec
    started : bool, optional
        Whether it is also that of a scheduler and workers, which are started with it.

    Raises
    ------
    InputError
        If there are files which cannot be loaded; if scheduler, workers and client would refuse
        one another by them.
    """
    paths = (spec.tls_ca_file, spec.tls_cert, spec.tls_key)
    authority, cert, key = (
        None if path is None else os.path.abspath(os.path.expanduser(path)) for path in paths
    )
    own: dict[str, str | None] = {}
    for role in ("client", "scheduler", "worker") if authority else ():
        own |= {"tls_ca_file": authority, f"tls_{role}_cert": cert, f"tls_{role}_key": key}
    try:
        security = Security(True if own else None, **own)
    except ValueError as error:  # a version of TLS in the configuration
        raise InputError(f"Dask's configuration: {error}") from None
    _check_files(security, "client")
    if started and security.require_encryption:
        _check_files(security, "scheduler")
        _check_files(security, "worker")
        for role in ("worker", "client"):
            _check_trust(security, role)
    return security


def _check_files(security: Security, role: str) -> None:
    """Refuse files that Dask could not load, or could not without asking for a password."""
    found = security.get_tls_config_for_role(role)
    files = [found[name] for name in ("ca_file", "cert", "key") if found[name]]
    if not (found["ca_file"] and found["cert"]) or any("\n" in file for file in files):
        return  # Dask has no use for one without the other, and takes their text as well
    try:
        for file in files:
            Path(file).read_bytes()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(found["ca_file"])
        context.load_cert_chain(found["cert"], found["key"], password="")
    except OSError as error:  # of a file, or of OpenSSL, such as KEY_VALUES_MISMATCH
        raise InputError(f"{', '.join(files)} cannot be used: {error}; {EXPECTED}") from None


def _check_trust(security: Security, role: str) -> None:
    """Refuse certificates by which a scheduler and a worker or client would not trust each other.

    They shake hands in memory; otherwise one would wait for processes that never connect.
    """
    server = security.get_listen_args("scheduler")["ssl_context"]
    client = security.get_connection_args(role)["ssl_context"]
    if server is None or client is None:
        raise InputError(f"a cluster with encryption needs certificates, and has none; {EXPECTED}")
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = client.wrap_bio(back, there), server.wrap_bio(there, back, server_side=True)
    try:
        for end in ends * 3:  # each speaks twice; the second time of the server it has all it needs
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    except ssl.SSLError as error:
        files = security.get_tls_config_for_role(role)
        said = getattr(error, "verify_message", error.reason)
        raise InputError(
            f"the certificate {files['cert']} with the authority {files['ca_file']} is refused "
            f"({said}); {EXPECTED}"
        ) from None

"""Certificates: an authority for tests with what it signs, and one for the length of a run."""

import datetime
import os
import socket
from collections.abc import Sequence
from pathlib import Path

import trustme

from integrators.errors import InputError, check_whole

ROLES = ("scheduler", "worker", "client")
AUTHORITY, OWNER = "ca", "Geosweep"
NAMES = tuple(f"{role}{part}.pem" for role in (AUTHORITY, *ROLES) for part in ("", "-key"))
BEFORE = datetime.timedelta(hours=1)  # for hosts whose clocks are late
MOST_DAYS = 36500


def make_test_certificates(
    directory: str | Path,
    hosts: Sequence[str] = (),
    days: int = 365,
    now: datetime.datetime | None = None,
) -> Path:
    """Write ``ca.pem``, and ``ROLE.pem`` of each of `ROLES`, with their keys ``…-key.pem``.

    Each key is readable by its owner alone, and has no password, as Dask needs it. The authority
    does not expire.

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
    begin, end = now - BEFORE, now + datetime.timedelta(days=days)
    hosts = hosts or (socket.gethostname(), "localhost", "127.0.0.1")
    authority = _certificate_authority(f"test {AUTHORITY}")
    made = {AUTHORITY: (authority.private_key_pem, authority.cert_pem)}
    for role in ROLES:
        try:
            pair = authority.issue_cert(
                *hosts, organization_name=OWNER, organization_unit_name=f"test {role}",
                not_before=begin, not_after=end,
            )  # fmt: skip
        except ValueError as error:
            said = f"hosts are {' '.join(hosts)!r}: {error}"
            raise InputError(f"{said}; expected names or IP addresses") from None
        made[role] = pair.private_key_pem, pair.cert_chain_pems[0]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in NAMES:
            if (folder / name).exists():
                raise InputError(
                    f"{folder / name} exists; give another directory, or remove it first. Hosts "
                    "that have certificates of one authority refuse those of another"
                )
        for name, (key, certificate) in made.items():
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with os.fdopen(os.open(folder / f"{name}-key.pem", flags, 0o600), "wb") as file:
                file.write(key.bytes())
            with open(folder / f"{name}.pem", "xb") as file:
                file.write(certificate.bytes())
    except OSError as error:
        raise InputError(f"{directory} cannot be written: {error.strerror}") from None
    return folder


def make_self_signed_certificate() -> tuple[str, str]:
    """A certificate that is its own authority, and its key: both new, and in PEM format."""
    authority = _certificate_authority("run")
    certificate, key = authority.cert_pem, authority.private_key_pem
    return certificate.bytes().decode(), key.bytes().decode()


def _certificate_authority(name: str) -> trustme.CA:
    return trustme.CA(path_length=0, organization_name=OWNER, organization_unit_name=name)

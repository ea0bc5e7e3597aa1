"""A running scheduler: its address, whether it answers, lets us in, and has our version of Dask.

All is asked with plain messages before a client is made, which would say it less clearly, later,
or only when the first task cannot be read.
"""

import asyncio
import contextlib
import json
import logging
import math
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor

import dask
import distributed
from distributed import Client
from distributed.comm import connect, parse_address, parse_host_port

from integrators.errors import InputError
from sweep.clusters import tls

CONNECT_SECONDS = 10
WORKERS_SECONDS = 60  # those of a scheduler that was killed see that first, and start again
LOOK_SECONDS = 0.2  # between looks at whether something has come, or the end is asked for
SOON = 2.0  # seconds after which one is told that workers are waited for
PROBE_SECONDS = 2  # for the first answer of a scheduler that is connected
ANSWERS_SECONDS = 5  # for the answers of all its workers
EXPECTED = "Expected an address such as tcp://host:8786 of a running `dask scheduler`"
ALERTS = {
    "ALERT_UNKNOWN_CA": "it is not signed by the scheduler's authority",
    "ALERT_CERTIFICATE_EXPIRED": "it has expired",
    "ALERT_BAD_CERTIFICATE": "it is bad",
    "ALERT_DECRYPT_ERROR": "it is not signed by the scheduler's authority",
    "ALERT_CERTIFICATE_UNKNOWN": "it is unknown",
}


@contextlib.contextmanager
def remote_client(spec, check=lambda: None, told=lambda text: None):
    """A client of the running scheduler of a `ClusterSpec`, with its workers.

    Parameters
    ----------
    spec : ClusterSpec
    check : callable
        Called again and again while it waits; may raise.
    told : callable
        Called with a line of text for the user when that takes long.

    Raises
    ------
    InputError
        If it does not answer, has no workers, another version of Dask, or certificates do not do.
    """
    address = address_of(spec, check)
    security = tls.security_of_client(address, spec.tls)
    check_versions(address, security)
    check()
    with _unlogged(), Client(address, security=security, timeout=CONNECT_SECONDS) as client:
        text = f"Waiting up to {WORKERS_SECONDS} s for workers of {address}"
        if not has_workers(client, check, lambda: told(text), WORKERS_SECONDS):
            raise InputError(
                f"the scheduler {address!r} has no workers; start some with "
                f"`dask worker {address} --nthreads 1{_worker_options(address)}`"
            )
        yield client


def has_workers(client, check, told, seconds=math.inf):
    """Wait until a cluster has a worker; False if its scheduler ends, or that takes longer.

    Parameters
    ----------
    client : distributed.Client
    check : callable
        Called again and again while it waits; may raise.
    told : callable
        Called once when that takes long.
    seconds : float, optional
    """
    began, said = time.monotonic(), False
    while not _slots(client):
        check()
        waited = time.monotonic() - began
        if client.status != "running" or waited > seconds:
            return False
        if waited > SOON and not said:
            told()
            said = True
        time.sleep(LOOK_SECONDS)
    return True


def _slots(client):
    """Task slots of each worker; none if the scheduler is gone."""
    try:
        return client.nthreads()
    except OSError:
        return {}


@contextlib.contextmanager
def _unlogged():
    """Within this, a client does not log with a traceback that its scheduler is gone."""
    logger = logging.getLogger("distributed.client")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _worker_options(address):
    files = " --tls-ca-file ca.pem --tls-cert worker.pem --tls-key worker-key.pem"
    return files if address.startswith("tls://") else ""


def address_of(spec, check=lambda: None):
    """The address of the scheduler that a `ClusterSpec` names."""
    address = spec.scheduler
    if address is None:
        address = _read_scheduler_file(spec.scheduler_file, check)
    return f"tls://{address}" if spec.tls and "://" not in address else address


def _read_scheduler_file(path, check):
    """The address in a scheduler's file, which may be about to be written."""
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
            if isinstance(found, dict) and isinstance(found.get("address"), str):
                return found["address"]
            said = "has no address"
        except FileNotFoundError:
            said = f"is not there, and was not written within {CONNECT_SECONDS} s"
        except OSError as error:
            raise InputError(
                f"the scheduler file {path} cannot be read: {error.strerror}"
            ) from None
        except ValueError:
            said = "is not JSON"
        # Others have what they will have: only a missing or half-written one is waited for.
        if time.monotonic() > deadline or said == "has no address":
            raise InputError(
                f"the scheduler file {path} {said}; expected the one that `dask scheduler "
                "--scheduler-file` writes"
            )
        check()
        time.sleep(0.1)


def check_versions(address, security):
    """Refuse what is no scheduler, does not answer, or has another version of Dask than we.

    Parameters
    ----------
    address : str
    security : distributed.Security

    Raises
    ------
    InputError
    """
    try:
        arguments = security.get_connection_args("client")
        with ThreadPoolExecutor(1) as pool:  # the caller's thread may have a running loop
            kind, versions = pool.submit(asyncio.run, _ask(address, arguments)).result()
    except (ValueError, OSError, TimeoutError) as error:
        raise InputError(_explain(address, security) or _unreachable(address, error)) from None
    if not kind.endswith("Scheduler"):  # of a local cluster it is a LocalScheduler
        raise InputError(f"{address!r} is the address of a {kind}. {EXPECTED}")
    for where, found in versions.items():
        if found != distributed.__version__:
            who = f"the scheduler {address!r}"
            who = who if where == address else f"the worker {where} of {who}"
            raise InputError(
                f"{who} has version {found or 'unknown'} of Dask's distributed; expected "
                f"{distributed.__version__}, as this process has: they would not understand one "
                f"another. `pip install 'distributed=={distributed.__version__}' "
                f"'dask=={dask.__version__}'` there, and start it again"
            )


def _unreachable(address, error):
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    if isinstance(error, ValueError):
        return f"{address!r} is no address of a scheduler: {reason}. {EXPECTED}"
    return (
        f"the scheduler {address!r} does not answer within {CONNECT_SECONDS} s: {reason}. "
        f"{EXPECTED}"
    )


async def _ask(address, arguments):
    """The kind of server at an address, and the version of each process by address."""
    comm = await connect(address, timeout=CONNECT_SECONDS, **arguments)
    try:
        identity = await _call(comm, CONNECT_SECONDS, op="identity")
        kind = identity.get("type", "server of another kind")
        if kind != "Scheduler":
            return kind, {}
        own = await _call(comm, CONNECT_SECONDS, op="versions")
        versions = {address: _version(own)}
        if versions[address] == distributed.__version__:
            message = {"op": "versions"}
            with contextlib.suppress(TimeoutError):  # one that is lost just now
                found = await _call(
                    comm, ANSWERS_SECONDS, op="broadcast", msg=message, on_error="ignore"
                )
                answers = {who: one for who, one in found.items() if isinstance(one, dict)}
                versions |= {who: _version(answer) for who, answer in answers.items()}
        return kind, versions
    finally:
        comm.abort()


async def _call(comm, seconds, **message):
    """A server's answer to a plain message; nothing in it is unpickled."""
    await comm.write({**message, "reply": True})
    answer = await asyncio.wait_for(comm.read(deserializers=["msgpack"]), seconds)
    return answer if isinstance(answer, dict) else {}


def _version(answer):
    return answer.get("packages", {}).get("distributed")


def _explain(address, security):
    """Why a scheduler that is there does not let us in; empty if that cannot be said."""
    scheme, location = parse_address(address)
    context = security.get_connection_args("client")["ssl_context"]
    with contextlib.suppress(OSError, ValueError):  # it is not there
        if scheme == "tls":
            return _explain_tls(address, _host_and_port(location), context, security)
        if scheme == "tcp" and _speaks_tls(_host_and_port(location)):
            return (
                f"the scheduler {address!r} asks for encryption; expected tls://{location}. "
                f"{tls.MEND}"
            )
    return ""


def _host_and_port(location):
    host, port = parse_host_port(location)
    return str(host), int(port)


def _explain_tls(address, place, context, security):
    files = security.get_tls_config_for_role("client")
    try:
        with (
            socket.create_connection(place, PROBE_SECONDS) as plain,
            context.wrap_socket(plain) as encrypted,
        ):
            encrypted.recv(1)
    except ssl.SSLCertVerificationError as error:
        said = tls.verdict(error, files["ca_file"])
        return f"the certificate of the scheduler {address!r} {said}"
    except ssl.SSLError as error:
        reason = error.reason or ""
        if "ALERT" in reason:
            why = next((text for alert, text in ALERTS.items() if alert in reason), reason)
            return (
                f"the scheduler {address!r} refuses the certificate {files['cert']}: {why}. "
                "Expected one that is signed by the authority that the scheduler was started with"
            )
        return (
            f"the scheduler {address!r} speaks no TLS; start it with --tls-ca-file, --tls-cert and "
            f"--tls-key, or connect to tcp://{address.partition('://')[2]} without certificates"
        )
    return ""


def _speaks_tls(place):
    """Whether a server says nothing to a plain client, and answers one that speaks TLS."""
    with socket.create_connection(place, PROBE_SECONDS) as plain:
        plain.settimeout(PROBE_SECONDS / 4)
        with contextlib.suppress(TimeoutError):
            if plain.recv(1):
                return False
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(place, PROBE_SECONDS) as plain:
            context.wrap_socket(plain).close()
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    return True

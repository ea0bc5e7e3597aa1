"""A running scheduler: its address, its client, and whether that has our version of Dask."""

import asyncio
import contextlib
import gc
import json
import logging
import math
import ssl
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dask
import distributed
from distributed import Client, Security
from distributed.comm import CommClosedError
from distributed.versions import VersionMismatchWarning

from integrators.errors import InputError
from sweep.clusters import tls
from sweep.clusters.spec import Check, ClusterSpec

CONNECT_SECONDS = 10
WORKERS_SECONDS = 60  # those of a scheduler that was killed see that first, and start again
LOOK_SECONDS = 0.2  # between looks at whether something has come, or the end is asked for
SOON = 2.0  # seconds after which one is told that workers are waited for
ANSWERS_SECONDS = 5  # for the answers of a scheduler that is connected, and of all its workers
EXPECTED = (
    "Expected an address such as tcp://host:8786 of a running `dask scheduler` with Dask "
    f"{distributed.__version__}"
)


@contextlib.contextmanager
def client_of_running_scheduler(
    spec: ClusterSpec,
    check: Check = lambda: None,
    told: Callable[[str], object] = lambda text: None,
) -> Iterator[Client]:
    """A client of the running scheduler of a `ClusterSpec`, with its workers.

    Parameters
    ----------
    spec : ClusterSpec
    check : callable
        Called again and again while it waits; may raise.
    told : callable
        Called with a line of text for the user when this takes long.

    Raises
    ------
    InputError
        If it does not answer, has no workers, another version of Dask, or certificates do not do.
    """
    address = scheduler_address(spec, check)
    security = tls.tls_security_of_client(address, spec.tls)
    check_dask_versions(address, security, check)
    options = {"security": security, "timeout": CONNECT_SECONDS}
    # It would log with a traceback that its scheduler is gone.
    with _silenced_dask_logger("distributed.client"), Client(address, **options) as client:
        text = f"Waiting up to {WORKERS_SECONDS} s for workers of {address}"
        if not wait_for_workers(client, check, lambda: told(text), WORKERS_SECONDS):
            files = "--tls-ca-file ca.pem --tls-cert worker.pem --tls-key worker-key.pem"
            raise InputError(
                f"the scheduler {address!r} has no workers; start some with `dask worker "
                f"{address} --nthreads 1{f' {files}' if address.startswith('tls://') else ''}`"
            )
        yield client


def wait_for_workers(
    client: Client,
    check: Check,
    told: Callable[[], object],
    seconds: float = math.inf,
    workers: int = 1,
) -> bool:
    """Wait until a cluster has workers; False if its scheduler ends, or that takes longer.

    Parameters
    ----------
    client : distributed.Client
    check : callable
        Called again and again while it waits; may raise.
    told : callable
        Called once when that takes long.
    seconds : float, optional
    workers : int, optional
        So many.
    """
    began, said = time.monotonic(), False
    while len(_task_slots_by_worker(client)) < workers:
        check()
        waited = time.monotonic() - began
        if client.status != "running" or waited > seconds:
            return False
        if waited > SOON and not said:
            told()
            said = True
        time.sleep(LOOK_SECONDS)
    return True


def _task_slots_by_worker(client: Client) -> dict[str, int]:
    """Task slots of each worker; none if the scheduler is gone."""
    try:
        slots: dict[str, int] = client.nthreads()
        return slots
    except OSError:
        return {}


@contextlib.contextmanager
def _silenced_dask_logger(name: str) -> Iterator[None]:
    """Silence one of Dask's loggers; a context manager."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def scheduler_address(spec: ClusterSpec, check: Check = lambda: None) -> str:
    """The address of the scheduler that a `ClusterSpec` names."""
    address = spec.scheduler
    if address is None:
        if spec.scheduler_file is None:
            raise InputError("neither a scheduler's address nor its file is given")
        address = _read_scheduler_file(spec.scheduler_file, check)
    return f"tls://{address}" if spec.tls and "://" not in address else address


def _read_scheduler_file(path: str | Path, check: Check) -> str:
    """The address in a scheduler's file, which may be about to be written."""
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
            address = found.get("address") if isinstance(found, dict) else None
            if isinstance(address, str):
                return address
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


def check_dask_versions(address: str, security: Security, check: Check = lambda: None) -> None:
    """Refuse an address that is no scheduler's, denies access, or runs another version of Dask.

    Parameters
    ----------
    address : str
    security : distributed.Security
    check : callable
        Called again and again while it waits; may raise.

    Raises
    ------
    InputError
    """
    with ThreadPoolExecutor(1) as pool:  # the caller's thread may have a running loop
        asked = pool.submit(
            asyncio.run, _ask_scheduler_for_versions(address, security, check)
        ).result()
    if (failure := asked.exception()) is not None:
        refusal = InputError(_explain_scheduler_failure(address, security, failure))
        # What failed may have left a connection open, which Dask would log when it is collected.
        with _silenced_dask_logger("distributed.comm.tcp"):
            del asked, failure
            gc.collect()
        raise refusal
    for who, answer in asked.result().items():
        found, version = answer["packages"]["distributed"], distributed.__version__
        if found != version:
            raise InputError(
                f"{f'the worker {who} of ' if who else ''}the scheduler {address!r} has version "
                f"{found} of Dask's distributed; expected {version}, as this process has: they "
                f"would not understand one another. `pip install 'distributed=={version}' "
                f"'dask=={dask.__version__}'` there, and start it again"
            )


async def _ask_scheduler_for_versions(
    address: str, security: Security, check: Check
) -> "asyncio.Task[dict[str, Any]]":
    """Ask for the versions; returns the finished task; ends early where `check` raises."""
    asking = asyncio.create_task(_dask_versions_of_cluster(address, security))
    while not asking.done():
        check()
        await asyncio.wait([asking], timeout=LOOK_SECONDS)
    return asking


async def _dask_versions_of_cluster(address: str, security: Security) -> dict[str, Any]:
    """Versions of a scheduler, by the key "", and of its workers; nothing is unpickled."""
    with warnings.catch_warnings():  # the client's, of what is said more clearly here
        warnings.simplefilter("ignore", VersionMismatchWarning)
        client: Any = Client(  # whose methods are coroutines here
            address, security=security, timeout=CONNECT_SECONDS, asynchronous=True,
            set_as_default=False,
        )  # fmt: skip
        try:
            # A server that takes connections and says nothing is waited for without an end.
            await asyncio.wait_for(client, CONNECT_SECONDS + ANSWERS_SECONDS)
            try:
                found = await asyncio.wait_for(client.get_versions(), ANSWERS_SECONDS)
            except TimeoutError:  # of a worker that is lost just now: the scheduler answers
                answer = client.scheduler.versions()
                return {"": await asyncio.wait_for(answer, ANSWERS_SECONDS)}
            return {"": found["scheduler"], **found["workers"]}
        finally:
            await client.close()


def _explain_scheduler_failure(address: str, security: Security, error: BaseException) -> str:
    """Why a client of a scheduler failed, and what to do about it."""
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    said = next((str(one) for one in reversed(causes) if str(one)), type(error).__name__)
    scheduler, said = f"the scheduler {address!r}", said.splitlines()[0]
    scheme, _, place = address.rpartition("://")
    files = security.get_tls_config_for_role("client").items()
    files = {k: "Dask's configuration" if "\n" in str(v) else v for k, v in files}  # its text
    if "SSL" in said and not any(word in said for word in ("ALERT", "VERIFY", "EOF")):
        return (
            f"{scheduler} speaks no TLS ({said}); start it with --tls-ca-file, --tls-cert and "
            f"--tls-key, or connect to tcp://{place} without certificates"
        )
    if not isinstance(error, OSError):
        return f"{address!r} is no address of a scheduler that we understand: {said}. {EXPECTED}"
    if not isinstance(error, CommClosedError):
        return f"{scheduler} does not answer within {CONNECT_SECONDS} s: {said}. {EXPECTED}"
    if scheme not in ("tls", "wss"):
        return (
            f"{scheduler} hangs up ({said}): perhaps it asks for encryption; expected "
            f"tls://{place} then. {tls.MEND}"
        )
    if isinstance(causes[-1], ssl.SSLCertVerificationError):
        return (
            f"the certificate of {scheduler} is refused: {causes[-1].verify_message}; expected one "
            f"that is valid now and is signed by the authority in {files['ca_file']}"
        )
    return (
        f"{scheduler} refuses the certificate {files['cert']}: {said}. Expected one that is valid "
        "now and signed by the authority that the scheduler was started with"
    )

"""Start a cluster for a run, or connect to a running scheduler; both give a Dask client."""

import contextlib
import functools
import json
import os
import ssl
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import dask
import distributed
from distributed import Client, Security, SpecCluster
from distributed.comm import CommClosedError
from distributed.gc import enable_gc_diagnosis
from distributed.utils import silence_logging_cmgr
from distributed.versions import VersionMismatchWarning

from integrators.errors import InputError
from sweep.clusters.jobs import (
    AdaptiveToRemainingWork,
    start_batch_jobs,
    start_failure,
    start_kubernetes_pods,
)
from sweep.clusters.local import start_local_cluster
from sweep.clusters.profiles import JOBS, KUBERNETES, Profile, resolve_cluster_spec
from sweep.clusters.spec import LOCAL, Check, ClusterSpec
from sweep.clusters.workers import LOOK_SECONDS, ask_cluster_with_retries, wait_for_workers

CONNECT_SECONDS = 10
ANSWER_SECONDS = 5  # within which all workers answer
WORKERS_SECONDS = 60  # workers of a killed scheduler need time to notice that and to reconnect
EXPECTED = (
    "Expected an address such as tcp://host:8786 of a running `dask scheduler` with Dask "
    f"{distributed.__version__}; or tls://host:8786, with certificates by distributed.comm.tls in "
    "Dask's configuration"
)
FILES_EXPECTED = (
    "expected files in PEM format: a certificate that is valid now, its key without a password, "
    "and the certificate of the authority that has signed those of all processes, by "
    "distributed.comm.tls in Dask's configuration"
)

Connect = Callable[..., Client]  # its optional argument is the number of tasks
Told = Callable[[str], object]  # called with a line of text for the user when something takes long


@contextlib.contextmanager
def starting_or_connecting(
    spec: ClusterSpec, check: Check = lambda: None, told: Told = lambda text: None
) -> Iterator[Connect]:
    """Context manager that starts or connects a cluster, and yields a function for its client.

    On entry, batch jobs are submitted, a running scheduler is connected, or a local cluster begins
    to start in the background. The function waits until the cluster has a worker. It takes the
    number of tasks, optionally: a local cluster whose number of workers is not given starts at most
    as many. On exit, a cluster that was started is closed.

    Parameters
    ----------
    spec : ClusterSpec
    check : callable
        Called repeatedly while waiting; may raise.
    told : callable
        Called with a line of text for the user if waiting takes long.

    Yields
    ------
    callable
        ``connect(tasks=None)`` returns a `distributed.Client`.

    Raises
    ------
    InputError
        If the cluster cannot be started, or the scheduler cannot be reached.
    """
    spec, profile = resolve_cluster_spec(spec)
    if profile is None:
        with _client_of_running_scheduler(spec, check, told) as client:
            yield lambda tasks=None: client
        return
    with contextlib.ExitStack() as stack:
        yield _start(profile, security_of(spec, started=True), stack, check, told)


@contextlib.contextmanager
def start_or_connect(
    spec: ClusterSpec, check: Check = lambda: None, told: Told = lambda text: None
) -> Iterator[Client]:
    """Context manager for the client of a cluster; parameters as in `starting_or_connecting`."""
    with starting_or_connecting(spec, check, told) as connected:
        yield connected()


def local_cluster_client(workers: int | None = None) -> AbstractContextManager[Client]:
    """Context manager for the client of a local cluster, for several runs in a row.

    Parameters
    ----------
    workers : int, optional
        Number of processes; by default one per core.
    """
    return start_or_connect(ClusterSpec(workers=workers))


# --- clusters that are started ----------------------------------------------------------------


def _start(
    profile: Profile, security: Security, stack: contextlib.ExitStack, check: Check, told: Told
) -> Connect:
    """Start a cluster in a thread; the stack closes it. See `starting_or_connecting`."""
    starts = {LOCAL: _start_local_cluster, KUBERNETES: start_kubernetes_pods}
    cores = os.cpu_count() or 1
    encrypting = security if security.require_encryption else None
    # The scheduler's thread would enable it too, and fail where this thread collects garbage then.
    enable_gc_diagnosis()
    pool = stack.enter_context(ThreadPoolExecutor(1))
    starting = pool.submit(starts.get(profile.kind, start_batch_jobs), profile, encrypting)
    stack.callback(_close, starting, profile)

    @functools.cache
    def connected(tasks: int | None = None) -> Client:
        cluster = _started(starting, profile, check)
        client: Client = stack.enter_context(Client(cluster))
        if not wait_for_workers(client, check, lambda: told(_waiting_message(profile))):
            raise start_failure(profile, "its scheduler has ended")
        needed = min(tasks or cores, cores)
        if profile.kind != LOCAL:
            _check_dask_versions(client, check)
        elif not (profile.scale or profile.adapt) and len(cluster.worker_spec) < needed:
            cluster.scale(needed)
            wait_for_workers(client, check, lambda: None, WORKERS_SECONDS, needed)
        return client

    if profile.kind != LOCAL:
        _started(starting, profile, check)  # so that errors are raised before anything is planned
    return connected


def _start_local_cluster(profile: Profile, security: Security | None) -> SpecCluster:
    """Start a local cluster, at first with one worker if the number of workers is not given."""
    said = profile.scale.get("workers") or profile.adapt.get("minimum")
    most, at_first = said or os.cpu_count() or 1, said or 1
    return start_local_cluster(most, security, profile.adapt, at_first, **profile.options)


def _started(starting: Future[Any], profile: Profile, check: Check) -> Any:
    """Wait until the cluster has started and return it; wrap exceptions as `InputError`."""
    while not wait([starting], LOOK_SECONDS).done:
        check()
    try:
        return starting.result()
    except InputError:
        raise
    except Exception as error:  # from a batch system, Kubernetes, their clients or Dask
        if profile.kind == LOCAL and not profile.options:  # not caused by the user's options
            raise
        raise start_failure(profile, error) from error


def _close(starting: Future[Any], profile: Profile) -> None:
    """Close a cluster that was started, with its running and queued jobs."""
    if starting.exception() is not None:
        return

    def close() -> None:
        with contextlib.suppress(TimeoutError, AssertionError):
            starting.result().close()

    if profile.kind == LOCAL:  # without waiting for its workers to end
        threading.Thread(target=close).start()
    else:
        close()


def _waiting_message(profile: Profile) -> str:
    where = {"slurm": "squeue", "pbs": "qstat", "lsf": "bjobs", "sge": "qstat"}
    look = f", `{where[profile.kind]}` shows its jobs" if profile.kind in JOBS else ""
    look = ", `kubectl get pods` shows its pods" if profile.kind == KUBERNETES else look
    return f"Waiting for the first worker of {profile.name} ({profile.kind}{look}); Ctrl-C ends it"


def tell_work_left(client: Client, seconds: float, tasks: int) -> None:
    """Tell an adaptive cluster how much work remains; do nothing for other clusters.

    Parameters
    ----------
    client : distributed.Client
    seconds : float
        Expected seconds of all remaining tasks together.
    tasks : int
        Number of remaining tasks.
    """
    adaptive = getattr(client.cluster, "_adaptive", None)
    if isinstance(adaptive, AdaptiveToRemainingWork):
        adaptive.work_left = seconds, tasks


# --- running schedulers -----------------------------------------------------------------------


@contextlib.contextmanager
def _client_of_running_scheduler(spec: ClusterSpec, check: Check, told: Told) -> Iterator[Client]:
    """Connect to the running scheduler of a `ClusterSpec`, and wait until it has workers."""
    address = spec.scheduler or _address_in_file(Path(str(spec.scheduler_file)), check)
    if spec.tls_cert and "://" not in address:
        address = f"tls://{address}"
    security = security_of(spec)
    # Dask would log the loss of a scheduler or a connection with a traceback.
    with silence_logging_cmgr("critical"), silence_logging_cmgr("critical", "distributed.client"):
        try:
            with warnings.catch_warnings():  # `_check_dask_versions` says more clearly what matters
                warnings.simplefilter("ignore", VersionMismatchWarning)
                connecting = Client(address, security=security, timeout=CONNECT_SECONDS)
        except Exception as error:
            raise InputError(_explain_scheduler_failure(address, security, error)) from None
        with connecting as client:
            _check_dask_versions(client, check)
            files = "--tls-ca-file ca.pem --tls-cert worker.pem --tls-key worker-key.pem"
            start = f"`dask worker {address} --nthreads 1"
            start += f" {files}`" if address.startswith("tls://") else "`"
            text = f"Waiting up to {WORKERS_SECONDS} s for workers of {address}; {start} starts one"
            if not wait_for_workers(client, check, lambda: told(text), WORKERS_SECONDS):
                raise InputError(f"the scheduler {address!r} has no workers; {start} starts one")
            yield client


def _address_in_file(file: Path, check: Check) -> str:
    """The address in a scheduler file; waits for the file if it is not there yet."""
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            return str(json.loads(file.read_text(encoding="utf-8"))["address"])
        except FileNotFoundError:
            said = f"is not there, and was not written within {CONNECT_SECONDS} s"
        except ValueError:
            said = "is not JSON"
        except (LookupError, TypeError):
            said, deadline = "has no address", 0.0
        except OSError as error:
            said, deadline = f"cannot be read: {error.strerror}", 0.0
        if time.monotonic() > deadline:
            raise InputError(
                f"the scheduler file {file} {said}; expected the one that `dask scheduler "
                "--scheduler-file` writes"
            )
        check()
        time.sleep(0.1)


def _check_dask_versions(client: Client, check: Check) -> None:
    """Refuse a scheduler or workers that have another version of Dask than this process.

    Other differences of versions do no harm, or change the hash of the code.
    """
    version = distributed.__version__
    scheduler: Any = client.scheduler  # not None, since the client is connected
    try:
        found = ask_cluster_with_retries(client, client.get_versions, check, ANSWER_SECONDS)
    except InputError:  # a suspended worker does not answer; `inspect_workers` will refuse it
        versions = ask_cluster_with_retries(client, scheduler.versions, check)
        found = {"scheduler": versions, "workers": {}}
    for who, answer in {"": found["scheduler"], **found["workers"]}.items():
        if (other := answer["packages"]["distributed"]) != version:
            raise InputError(
                f"{f'the worker {who} of ' if who else ''}the scheduler {scheduler.address!r} has "
                f"version {other} of Dask's distributed; expected {version}, as this process has: "
                f"the two are incompatible. `pip install 'distributed=={version}' "
                f"'dask=={dask.__version__}'` there, and start it again"
            )


def _explain_scheduler_failure(address: str, security: Security, error: BaseException) -> str:
    """Why a client of a scheduler failed, and what to do about it."""
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    said = next((str(one) for one in reversed(causes) if str(one)), type(error).__name__)
    scheduler, said = f"the scheduler {address!r}", said.splitlines()[0]
    if isinstance(error, CommClosedError) or "cannot convert to SSL" in said:
        own = security.get_tls_config_for_role("client")
        shown = f"shows {own['cert']} and trusts {own['ca_file']}" if own["cert"] else "has none"
        return (
            f"{scheduler} closes the connection: {said}. Expected an address with tls:// if and "
            "only if it has certificates; then both ends need one that is valid now and signed by "
            f"an authority that the other end trusts, and this process {shown}"
        )
    if isinstance(error, OSError):
        return f"{scheduler} does not answer within {CONNECT_SECONDS} s: {said}. {EXPECTED}"
    return f"{address!r} is no address of a scheduler: {said}. {EXPECTED}"


# --- encryption -------------------------------------------------------------------------------


def security_of(spec: ClusterSpec, started: bool = False) -> Security:
    """The `Security` of a client, from files that the spec or Dask's configuration names.

    Parameters
    ----------
    spec : ClusterSpec
    started : bool, optional
        Whether a scheduler and workers will be started with it as well.

    Returns
    -------
    distributed.Security

    Raises
    ------
    InputError
        If a file cannot be loaded, or scheduler, workers and client would refuse one another's
        certificates.
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
    except ValueError as error:  # an invalid TLS version in the configuration
        raise InputError(f"Dask's configuration: {error}") from None
    is_whole = started and security.require_encryption
    for role in ("client", "scheduler", "worker") if is_whole else ("client",):
        _check_files(security, role)
    for role in ("worker", "client") if is_whole else ():
        _check_trust(security, role)
    return security


def _check_files(security: Security, role: str) -> None:
    """Refuse files that Dask cannot load, or only after asking for a password."""
    found = security.get_tls_config_for_role(role)
    files = [found[name] for name in ("ca_file", "cert", "key") if found[name]]
    if not (found["ca_file"] and found["cert"]) or any("\n" in file for file in files):
        return  # Dask ignores one without the other, and accepts text in place of a path
    try:
        for file in files:
            Path(file).read_bytes()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(found["ca_file"])
        context.load_cert_chain(found["cert"], found["key"], password="")
    except OSError as error:  # an unreadable file, or an OpenSSL error such as KEY_VALUES_MISMATCH
        raise InputError(f"{', '.join(files)} cannot be used: {error}; {FILES_EXPECTED}") from None


def _check_trust(security: Security, role: str) -> None:
    """Refuse certificates with which scheduler, workers and client would not trust one another.

    The TLS handshake is tried in memory. Without this check, the client would wait for workers that
    can never connect.
    """
    server = security.get_listen_args("scheduler")["ssl_context"]
    client = security.get_connection_args(role)["ssl_context"]
    if server is None or client is None:
        raise InputError(
            f"a cluster with encryption needs certificates, and has none; {FILES_EXPECTED}"
        )
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = client.wrap_bio(back, there), server.wrap_bio(there, back, server_side=True)
    try:
        for end in ends * 3:  # more turns than a handshake needs
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    except ssl.SSLError as error:
        files = security.get_tls_config_for_role(role)
        said = getattr(error, "verify_message", error.reason)
        raise InputError(
            f"the certificate {files['cert']} with the authority {files['ca_file']} is refused "
            f"({said}); {FILES_EXPECTED}"
        ) from None

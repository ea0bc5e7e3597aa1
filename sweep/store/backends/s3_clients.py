"""Clients of an S3 server, by obstore, and the translation of their errors.

The server and the credentials are taken from the environment (``AWS_ENDPOINT_URL``,
``AWS_ACCESS_KEY_ID``, …) of each process, or from where boto3 finds them. They are never part of
studies or tasks.
"""

import contextlib
import errno
import functools
import importlib.util
import os
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta
from types import ModuleType
from typing import TYPE_CHECKING

import obstore
from obstore.store import S3Store

from integrators.errors import InputError
from sweep.errors import Unreachable

if TYPE_CHECKING:
    from obstore.auth.boto3 import Boto3CredentialProvider
    from obstore.store import ClientConfig, RetryConfig
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype
    from zarr.storage import ObjectStore


MOST_AT_ONCE = 2**26  # bytes in a put; larger objects are sent in parts
AT_START, LATER = 5.0, 60.0  # seconds for which a failed request is retried
PATIENCE = "GEOSWEEP_OBJECT_PATIENCE"  # environment variable that replaces the latter
MOST_PATIENCE = 1e8  # seconds
REQUEST_SECONDS = 60.0  # limit for a single request
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
OWN_CREDENTIALS = (  # variables that obstore reads itself
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
)
NO_CREDENTIALS = (
    "no credentials for the object store were found: set AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
)


def zarr_store_of_bucket(bucket: str, prefix: str, patient: bool) -> "ObjectStore[S3Store]":
    """The zarr store of the objects below a prefix of a bucket."""
    with _obstore_errors_as_oserrors(bucket, prefix):
        client = _cached_s3_client(bucket, _request_timeout(patient), _settings(), prefix)
        return _zarr_bucket_store_class()(client)


@functools.cache
def _zarr_bucket_store_class() -> "type[ObjectStore[S3Store]]":
    from zarr.storage import ObjectStore

    class Objects(ObjectStore[S3Store]):
        """Zarr's own class, with translated errors."""

        async def get(
            self, key: str, prototype: "BufferPrototype", byte_range: "ByteRequest | None" = None
        ) -> "Buffer | None":
            with _errors_of_client(self.store):
                return await super().get(key, prototype, byte_range)

        async def exists(self, key: str) -> bool:
            with _errors_of_client(self.store):
                return await super().exists(key)

        async def delete(self, key: str) -> None:
            with _errors_of_client(self.store):
                await super().delete(key)

        async def list_dir(self, prefix: str) -> AsyncGenerator[str, None]:
            with _errors_of_client(self.store):
                async for name in super().list_dir(prefix):
                    yield name

    return Objects


# --- clients ---------------------------------------------------------------------------------


@contextlib.contextmanager
def obstore_client(bucket: str, key: str, patient: bool) -> Iterator[tuple[ModuleType, S3Store]]:
    """The module obstore and a client; a context manager that translates their errors."""
    with _obstore_errors_as_oserrors(bucket, key):
        yield obstore, _cached_s3_client(bucket, _request_timeout(patient), _settings())


def _request_timeout(patient: bool) -> float:
    if not patient:
        return AT_START
    text = os.environ.get(PATIENCE, str(LATER))
    with contextlib.suppress(ValueError):
        if 0.0 < (seconds := float(text)) <= MOST_PATIENCE:
            return seconds
    raise InputError(f"{PATIENCE} is {text!r}; expected seconds, such as 60")


def _settings() -> tuple[tuple[str, str], ...]:
    """The environment variables on which a client depends."""
    return tuple((name, value) for name, value in os.environ.items() if name.startswith("AWS_"))


@functools.lru_cache(maxsize=64)
def _cached_s3_client(
    bucket: str, seconds: float, settings: tuple[tuple[str, str], ...], prefix: str | None = None
) -> S3Store:
    known = dict(settings)
    endpoint = _s3_endpoint(known)
    if endpoint and not endpoint.startswith(("http://", "https://")):
        raise Unreachable.for_reason(
            f"AWS_ENDPOINT_URL is {endpoint!r}; expected such as https://HOST or http://HOST:9000"
        )
    options: ClientConfig = {
        "connect_timeout": timedelta(seconds=AT_START),
        "timeout": timedelta(seconds=min(REQUEST_SECONDS, seconds)),
        "allow_http": endpoint.startswith("http://"),
    }
    retries: RetryConfig = {
        "max_retries": 1000,
        "retry_timeout": timedelta(seconds=seconds),
        "backoff": {
            "init_backoff": timedelta(seconds=min(0.1, seconds / 4)),
            "max_backoff": timedelta(seconds=min(5.0, seconds / 4)),
        },
    }
    return S3Store(
        bucket,
        prefix=prefix,
        client_options=options,
        retry_config=retries,
        credential_provider=_s3_credentials_from_boto3(known),
    )


def _s3_endpoint(known: Mapping[str, str]) -> str:
    return next((known[name] for name in ENDPOINTS if known.get(name)), "")


def _s3_credentials_from_boto3(known: Mapping[str, str]) -> "Boto3CredentialProvider | None":
    """Credentials that boto3 finds, such as a profile; None if the environment has some."""
    if any(known.get(name) for name in OWN_CREDENTIALS):
        return None
    if importlib.util.find_spec("boto3") is None:
        return None
    from obstore.auth.boto3 import Boto3CredentialProvider

    try:
        return Boto3CredentialProvider()
    except ValueError:  # boto3 finds none either
        raise Unreachable.for_reason(NO_CREDENTIALS) from None


# --- errors ----------------------------------------------------------------------------------


def _errors_of_client(client: S3Store) -> AbstractContextManager[None]:
    return _obstore_errors_as_oserrors(client.config["bucket"], client.prefix or "")


@contextlib.contextmanager
def _obstore_errors_as_oserrors(bucket: str, key: str) -> Iterator[None]:
    """Translate exceptions of obstore into OSErrors that say what is wrong."""
    try:
        yield
    except FileNotFoundError as error:
        if "NoSuchBucket" in str(error):
            raise _unreachable_bucket_error(bucket, error) from None
        asked = f"s3://{bucket}/{key}"
        raise FileNotFoundError(errno.ENOENT, "there is no such object", asked) from None
    except OSError:
        raise
    except Exception as error:
        if not type(error).__module__.startswith("obstore"):
            raise
        raise _unreachable_bucket_error(bucket, error) from None


def _unreachable_bucket_error(bucket: str, error: Exception) -> Unreachable:
    """Translate an exception of obstore into an `Unreachable`."""
    text, kind = str(error), type(error).__name__
    server = _s3_endpoint(os.environ) or "AWS"
    if "NoSuchBucket" in text:
        return Unreachable.for_reason(f"there is no bucket {bucket!r} at {server}")
    if any(sign in text for sign in ("/latest/api/token", "/latest/meta-data", "redentials")):
        return Unreachable.for_reason(NO_CREDENTIALS)
    if kind in ("PermissionDeniedError", "UnauthenticatedError") or "403 Forbidden" in text:
        what = "written" if " PUT " in text or " DELETE " in text or " POST " in text else "read"
        return Unreachable.for_reason(
            f"the bucket {bucket!r} at {server} may not be {what} with these credentials"
        )
    if "redirect" in text.lower():
        return Unreachable.for_reason(
            f"the bucket {bucket!r} is in another region than AWS_REGION says"
        )
    reason = text.partition("\n")[0]
    reason = reason.rpartition(" - ")[2] or reason
    return Unreachable.for_reason(
        f"the object store at {server} does not answer for the bucket {bucket!r}: {reason[:300]}"
    )

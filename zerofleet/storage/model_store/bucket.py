"""Bucket of an S3 object store: read, list and conditionally write whole objects.

The model store relies on the conditions: `create` writes only a new object, `replace` only over the content that was read.
A server that ignores conditions would break it silently, so `require_conditions` tests both before the first write. A
request that the library retries after a lost reply may meet its own first attempt; each write carries a token so that a
retry recognises its first attempt.

Wrong credentials are an error of the settings until a first request succeeds. Those refused later were right before: a key is
being replaced, a policy or a clock corrected, so the error is `Unavailable` and a service that is running retries.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from botocore import exceptions
from botocore.config import Config
from botocore.loaders import create_loader
from botocore.session import Session

from zerofleet.errors import ConfigurationError, Unavailable, ZerofleetError
from zerofleet.storage.model_store.location import SCHEME, split_url

__all__ = ["Bucket", "ChangedMeanwhileError", "Content", "Listed"]

CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 30  # between two reads of a reply, not for all of it
ATTEMPTS = 4  # botocore waits up to 1, 2, 4 s between them, with jitter
_CHUNK_BYTES = 1 << 20
_WRITER = "zerofleet-writer"
_DESCRIPTIONS = create_loader()  # of the interface of S3, whose first reading takes a tenth of a second
_NOBODYS_ETAG = '"00000000000000000000000000000000"'

_ABSENT = {"NoSuchKey", "404", "NotFound"}
_REFUSED_CONDITIONS = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}
_REFUSED_CREDENTIALS = {
    *("AccessDenied", "AllAccessDisabled", "AccountProblem", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch"),
    *("AuthorizationHeaderMalformed", "RequestTimeTooSkewed", "401", "403"),
}
_NO_ANSWER = (
    exceptions.ConnectionError,
    exceptions.HTTPClientError,
    exceptions.IncompleteReadError,
    exceptions.CredentialRetrievalError,
    exceptions.MetadataRetrievalError,
)


class ChangedMeanwhileError(Exception):
    """The object differs from the expected one: another writer was faster."""


@dataclass(frozen=True, slots=True)
class Content:
    """Object as read."""

    data: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class Listed:
    """Object as listed."""

    key: str  # without the prefix of the store
    etag: str
    size: int  # bytes
    modified_at_s: float  # since 1970 UTC, by the server's clock


class Bucket:
    """Objects below a prefix, with keys relative to it. Every method may raise `Unavailable` or `ConfigurationError`.

    Once a request has succeeded, refused or missing credentials and a missing bucket are `Unavailable`.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._bucket, prefix = split_url(url)
        self._prefix = f"{prefix}/" if prefix else ""
        self._heeds_conditions = False
        self._accepted = False
        try:
            session = Session()  # of its own: a session keeps the first credentials found
            session.register_component("data_loader", _DESCRIPTIONS)
            self._client: Any = session.create_client("s3", region_name=_region(), config=_config())
        except (exceptions.BotoCoreError, ValueError) as error:
            raise ConfigurationError(f"cannot open {url}: {error}; check the AWS_ variables") from error

    def listing(self, prefix: str) -> list[Listed]:
        """Return every object whose key has this prefix, sorted by key."""
        with self._requests(f"list {prefix}"):
            return [
                Listed(one["Key"].removeprefix(self._prefix), one["ETag"], one["Size"], one["LastModified"].timestamp())
                for page in self._pages(prefix)
                for one in page.get("Contents", ())
            ]

    def folders(self) -> list[str]:
        """Return the first components of all keys with more than one."""
        with self._requests("list"):
            found = [one["Prefix"] for page in self._pages("", Delimiter="/") for one in page.get("CommonPrefixes", ())]
        return [name.removeprefix(self._prefix).rstrip("/") for name in found]

    def read(self, key: str, *, max_bytes: int) -> Content | None:
        """Return an object, None if absent; at most `max_bytes` + 1 bytes of it."""
        with self._requests(f"read {key}"):
            try:
                answer = self._client.get_object(**self._names(key))
            except exceptions.ClientError as error:
                if _code(error) in _ABSENT:
                    return None
                raise
            with closing(answer["Body"]) as body:
                data = body.read(max_bytes + 1)
            wanted = min(answer.get("ContentLength", 0), max_bytes + 1)
            if len(data) < wanted:  # the server closed the connection; a bounded read is no error of the library then
                raise exceptions.IncompleteReadError(actual_bytes=len(data), expected_bytes=wanted)
            return Content(data, answer["ETag"])

    def download(self, listed: Listed, path: Path) -> None:
        """Write a listed object to `path`. Raises `ChangedMeanwhileError`, and `OSError` on a disk error."""
        with self._requests(f"read {listed.key}"):
            try:
                answer = self._client.get_object(**self._names(listed.key), IfMatch=listed.etag)
            except exceptions.ClientError as error:
                if _code(error) in _ABSENT | _REFUSED_CONDITIONS:
                    raise ChangedMeanwhileError(listed.key) from error
                raise
            with closing(answer["Body"]) as body, path.open("xb") as out:
                for chunk in body.iter_chunks(_CHUNK_BYTES):
                    out.write(chunk)

    def write(self, key: str, content: bytes | Path) -> None:
        """Write an object unconditionally."""
        self._put(key, content)

    def create(self, key: str, content: bytes) -> str:
        """Write a new object and return its tag; raises `ChangedMeanwhileError` if it exists."""
        return self._put(key, content, IfNoneMatch="*")

    def replace(self, key: str, content: bytes, former: Content | None) -> str:
        """Replace the object `former`, None for no object, and return the new tag.

        Raises `ChangedMeanwhileError` when the stored object is another.
        """
        return self.create(key, content) if former is None else self._put(key, content, IfMatch=former.etag)

    def remove(self, key: str) -> None:
        """Remove an object; idempotent."""
        with self._requests(f"remove {key}"):
            self._client.delete_object(**self._names(key))

    def require_conditions(self, key: str) -> None:
        """Raise `ConfigurationError` unless the server rejects writes with a false condition; tested once, on `key`."""
        if self._heeds_conditions:
            return
        with suppress(ChangedMeanwhileError):
            self.create(key, b"Conditional writes are tried on this object.\n")
        for wrong in (None, Content(b"", _NOBODYS_ETAG)):
            try:
                self.replace(key, b"This write should have been refused.\n", wrong)
            except ChangedMeanwhileError:
                continue
            raise ConfigurationError(
                f"the server of {self.url} ignores If-None-Match and If-Match on writes, so two gatekeepers could"
                " both promote; use one that honours them (Amazon S3, MinIO, Ceph of 2024 or later) or a directory"
            )
        self._heeds_conditions = True

    def _put(self, key: str, content: bytes | Path, **condition: str) -> str:
        """Write an object and return its tag."""
        token = secrets.token_hex(16)
        request = {**self._names(key), **condition, "Metadata": {_WRITER: token}}
        with self._requests(f"write {key}"):
            try:
                if isinstance(content, bytes):
                    return str(self._client.put_object(**request, Body=content)["ETag"])
                with content.open("rb") as body:
                    return str(self._client.put_object(**request, Body=body)["ETag"])
            except exceptions.ClientError as error:
                if not (condition and _code(error) in _ABSENT | _REFUSED_CONDITIONS):
                    raise
                there = self._head(key)
                if there is not None and there["Metadata"].get(_WRITER) == token:
                    return str(there["ETag"])  # the first attempt succeeded, only its reply was lost
                raise ChangedMeanwhileError(key) from error

    def _head(self, key: str) -> dict[str, Any] | None:
        try:
            return dict(self._client.head_object(**self._names(key)))
        except exceptions.ClientError as error:
            if _code(error) in _ABSENT:
                return None
            raise

    def _names(self, key: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + key}

    def _pages(self, prefix: str, **options: str) -> Iterator[dict[str, Any]]:
        pages: Iterator[dict[str, Any]] = iter(
            self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix + prefix, **options)
        )
        return pages

    @contextmanager
    def _requests(self, action: str) -> Iterator[None]:
        """Convert the library's exceptions to domain errors; neither contains a secret."""
        try:
            yield
            self._accepted = True
        except exceptions.ClientError as error:
            raise self._refused(error, action) from error
        except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError) as error:
            raise self._misfit(
                f"cannot {action} in {self.url}: {error}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run where the"
                " machine has a role"
            ) from error
        except _NO_ANSWER as error:
            raise Unavailable(
                f"cannot {action} in {self.url}: {_server()} does not answer ({type(error).__name__}); is it up, and is"
                " AWS_ENDPOINT_URL right?"
            ) from error
        except exceptions.BotoCoreError as error:
            raise ConfigurationError(f"cannot {action} in {self.url}: {type(error).__name__}: {error}") from error

    def _refused(self, error: exceptions.ClientError, action: str) -> ZerofleetError:
        code = _code(error)
        said = f"cannot {action} in {self.url}: {_server()} returned {code}"
        if code == "NoSuchBucket":
            return self._misfit(f"{said}; create the bucket {self._bucket}, or use another than {SCHEME}{self._bucket}")
        if code in _REFUSED_CREDENTIALS:
            return self._misfit(
                f"{said}; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, the rights of the key and the clock"
            )
        if code in {"NotImplemented", "501", "MethodNotAllowed", "405"}:
            return ConfigurationError(
                f"{said}; the server lacks a feature that the model store needs: see docs/object_store.md"
            )
        return Unavailable(f"{said} ({error.response.get('Error', {}).get('Message', 'no details')}); try again")

    def _misfit(self, text: str) -> ZerofleetError:
        """Return the error of settings that the server does not accept; those accepted before may be again."""
        if self._accepted:
            return Unavailable(
                f"{text}; these settings were accepted before: try again, and restart the service with a replaced key"
            )
        return ConfigurationError(text)


def _code(error: exceptions.ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "no code"))


def _endpoint() -> str:
    """Return the endpoint as botocore finds it; these are standard AWS variables, not settings of Zerofleet."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


def _region() -> str | None:
    """Return the region; containers on AWS set AWS_REGION, but botocore reads only AWS_DEFAULT_REGION."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ("us-east-1" if _endpoint() else None)


def _server() -> str:
    """Return the server's address without the other parts of the URL."""
    parts = urlsplit(_endpoint())
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}" if parts.hostname else "Amazon S3"


def _config() -> Config:
    return Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        # Many servers lack the newer checksums; the manifest holds a sha256 of every file.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        # Servers other than Amazon's have no host name per bucket.
        s3={"addressing_style": "path"} if _endpoint() else {},
        user_agent_extra="zerofleet",
        max_pool_connections=16,
    )

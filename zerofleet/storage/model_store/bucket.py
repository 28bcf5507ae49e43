"""A bucket of an S3 object store: whole objects, read, listed, and written on a condition.

The conditions carry the promises of the model store: `create` writes only where nothing is, `replace` only over the content
that was read. A server that takes such a request and heeds no condition would break them in silence, so
`require_conditions` tries both before the first write. A request that the library repeats after a lost answer may meet its
own first attempt; each write is signed with a token, by which it knows itself.
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

import boto3
from botocore import exceptions
from botocore.config import Config

from zerofleet.errors import ConfigurationError, Unavailable
from zerofleet.storage.model_store.location import SCHEME, split_url

__all__ = ["Bucket", "ChangedMeanwhileError", "Content", "Listed"]

CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 30  # between two reads of an answer, not for the whole of it
ATTEMPTS = 4  # botocore waits up to 1, 2, 4 s between them, with jitter
_CHUNK_BYTES = 1 << 20
_WRITER = "zerofleet-writer"
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
    """The object is not what the writer took it for: somebody else was quicker."""


@dataclass(frozen=True, slots=True)
class Content:
    """An object as it was read."""

    data: bytes
    etag: str


@dataclass(frozen=True, slots=True)
class Listed:
    """An object as a listing shows it."""

    key: str  # without the prefix of the store
    etag: str
    size: int  # bytes
    modified_at_s: float  # since 1970 UTC, by the server's clock


class Bucket:
    """The objects below a prefix. Keys are relative to it. Every method raises `Unavailable` or `ConfigurationError`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._bucket, prefix = split_url(url)
        self._prefix = f"{prefix}/" if prefix else ""
        self._heeds_conditions = False
        try:
            session = boto3.session.Session()  # not boto3's own, which keeps the credentials it first found
            self._client: Any = session.client("s3", region_name=_region(), config=_config())
        except (exceptions.BotoCoreError, ValueError) as error:
            raise ConfigurationError(f"cannot open {url}: {error}; check the AWS_ variables") from error

    def listing(self, prefix: str) -> list[Listed]:
        """Return every object whose key begins so, by key."""
        with self._requests(f"list {prefix}"):
            return [
                Listed(one["Key"].removeprefix(self._prefix), one["ETag"], one["Size"], one["LastModified"].timestamp())
                for page in self._pages(prefix)
                for one in page.get("Contents", ())
            ]

    def folders(self) -> list[str]:
        """Return the first parts of all keys that have more than one."""
        with self._requests("list"):
            found = [one["Prefix"] for page in self._pages("", Delimiter="/") for one in page.get("CommonPrefixes", ())]
        return [name.removeprefix(self._prefix).rstrip("/") for name in found]

    def read(self, key: str, *, max_bytes: int) -> Content | None:
        """Return an object, None when there is none; at most one byte more than `max_bytes` of it."""
        with self._requests(f"read {key}"):
            try:
                answer = self._client.get_object(**self._names(key))
            except exceptions.ClientError as error:
                if _code(error) in _ABSENT:
                    return None
                raise
            with closing(answer["Body"]) as body:
                return Content(body.read(max_bytes + 1), answer["ETag"])

    def download(self, listed: Listed, path: Path) -> None:
        """Write to `path` the object as it was listed. Raises `ChangedMeanwhileError`, `OSError` when the disk refuses."""
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
        """Write an object, whatever was there."""
        self._put(key, content)

    def create(self, key: str, content: bytes) -> str:
        """Write an object where there is none, and return its tag; raises `ChangedMeanwhileError` where there is one."""
        return self._put(key, content, IfNoneMatch="*")

    def replace(self, key: str, content: bytes, former: Content | None) -> str:
        """Write an object over `former`, None for nothing, and return its tag.

        Raises `ChangedMeanwhileError` when that is not what is there.
        """
        return self.create(key, content) if former is None else self._put(key, content, IfMatch=former.etag)

    def remove(self, key: str) -> None:
        """Remove an object; one that is not there is removed already."""
        with self._requests(f"remove {key}"):
            self._client.delete_object(**self._names(key))

    def require_conditions(self, key: str) -> None:
        """Raise `ConfigurationError` unless the server refuses writes whose condition does not hold; tried once, on `key`."""
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
                f"the server of {self.url} does not heed If-None-Match and If-Match when it writes, so two gatekeepers could"
                " both promote; use one that does (Amazon S3, MinIO, Ceph of 2024 or later) or a directory"
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
                    return str(there["ETag"])  # the first attempt had arrived, only its answer was lost
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
        """Turn what the library raises into errors of ours; neither names a secret."""
        try:
            yield
        except exceptions.ClientError as error:
            raise self._refused(error, action) from error
        except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError) as error:
            raise ConfigurationError(
                f"cannot {action} in {self.url}: {error}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run where a role"
                " is given to the machine"
            ) from error
        except _NO_ANSWER as error:
            raise Unavailable(
                f"cannot {action} in {self.url}: {_server()} does not answer ({type(error).__name__}); is it up, and is"
                " AWS_ENDPOINT_URL right?"
            ) from error
        except exceptions.BotoCoreError as error:
            raise ConfigurationError(f"cannot {action} in {self.url}: {type(error).__name__}: {error}") from error

    def _refused(self, error: exceptions.ClientError, action: str) -> Exception:
        code = _code(error)
        said = f"cannot {action} in {self.url}: {_server()} says {code}"
        if code == "NoSuchBucket":
            return ConfigurationError(f"{said}; create the bucket {self._bucket}, or name another than {SCHEME}{self._bucket}")
        if code in _REFUSED_CREDENTIALS:
            return ConfigurationError(
                f"{said}; check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, what the key may do, and the clock"
            )
        if code in {"NotImplemented", "501", "MethodNotAllowed", "405"}:
            return ConfigurationError(f"{said}; the server lacks something the model store needs: see docs/object_store.md")
        return Unavailable(f"{said} ({error.response.get('Error', {}).get('Message', 'no more')}); try again")


def _code(error: exceptions.ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "no code"))


def _endpoint() -> str:
    """The server as botocore finds it; these variables belong to its own standard and not to our settings."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


def _region() -> str | None:
    """AWS_REGION is what containers on Amazon's machines have; botocore itself knows the other name alone."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ("us-east-1" if _endpoint() else None)


def _server() -> str:
    """Name the server without whatever else the URL holds."""
    parts = urlsplit(_endpoint())
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}" if parts.hostname else "Amazon S3"


def _config() -> Config:
    return Config(
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        # Newer checksums are unknown to many servers; the manifest holds a sha256 of every file.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        # Servers other than Amazon's have no name for each bucket.
        s3={"addressing_style": "path"} if _endpoint() else {},
        user_agent_extra="zerofleet",
        max_pool_connections=16,
    )

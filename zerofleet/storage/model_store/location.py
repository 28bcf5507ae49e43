"""Location of a model store: a directory, or `s3://bucket/prefix` in an object store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator

from zerofleet.errors import ConfigurationError

__all__ = ["SCHEME", "StoreLocation", "StoreSetting", "parse_location", "split_url"]

SCHEME = "s3://"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")  # Amazon's rules; others are at least as strict
_PREFIX = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
_NO_URL = re.compile(r"(?!s3://)[A-Za-z][A-Za-z0-9+.-]*://")

StoreLocation: TypeAlias = Path | str
"""`Path`, or a string that begins with `s3://`."""


def parse_location(text: str | Path) -> StoreLocation:
    """Parse a location. Raises `ConfigurationError` for an invalid URL."""
    if isinstance(text, Path):
        return text
    if text.startswith(SCHEME):
        split_url(text)
        return text.rstrip("/")
    if _NO_URL.match(text):
        raise ConfigurationError(
            f"model store {text.partition('://')[0]}://… is not known; want a directory or s3://bucket/prefix"
        )
    return Path(text)


def split_url(url: str) -> tuple[str, str]:
    """Return bucket and prefix; the prefix may be empty and has no slash at its ends. Raises `ConfigurationError`."""
    bucket, _, prefix = url.removeprefix(SCHEME).partition("/")
    prefix = prefix.rstrip("/")
    if not _BUCKET.fullmatch(bucket):
        raise ConfigurationError(
            f"model store {url} names no bucket: got {bucket!r}, want s3://bucket/prefix with 3 to 63 of a-z, 0-9, dots and"
            " hyphens; the address of the server goes into AWS_ENDPOINT_URL"
        )
    if prefix and (not _PREFIX.fullmatch(prefix) or {".", ".."} & set(prefix.split("/"))):
        raise ConfigurationError(f"model store {url} has the prefix {prefix!r}; want letters, digits and ._- between slashes")
    return bucket, prefix


def _validate(value: Any) -> Any:
    if isinstance(value, str | Path):
        try:
            return parse_location(value)
        except ConfigurationError as error:
            raise ValueError(str(error)) from error
    return value


StoreSetting = Annotated[Path | str, BeforeValidator(_validate)]
"""Type of a setting with the location of a model store."""

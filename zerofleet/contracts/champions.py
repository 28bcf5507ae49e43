"""Champion pointer: the version that plays, as the gatekeeper writes it and as its clients receive it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from zerofleet.contracts.naming import MAX_VERSION

__all__ = ["MAX_EPOCH", "Champion"]

MAX_EPOCH = (1 << 53) - 1
"""Largest epoch. Messages and pages cannot hold a larger one of a damaged file, and all later ones would be larger still."""

_Milliseconds = Annotated[int, Field(ge=0, le=MAX_EPOCH)]


@dataclass(frozen=True, slots=True)
class Champion:
    """Version that plays, as written by the gatekeeper."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - not a field, and pydantic reads a plain dictionary
    model: str
    version: Annotated[int, Field(ge=0, le=MAX_VERSION)]
    epoch: Annotated[int, Field(ge=0, le=MAX_EPOCH)]
    """Grows with every write; the holder of an older epoch has been replaced."""
    manifest_sha256: str
    promoted_at_ms: _Milliseconds
    """Milliseconds since 1970 UTC."""
    reason: str
    exported_at_ms: _Milliseconds = 0
    """Milliseconds since 1970 UTC, from the manifest; 0 if unknown: promoted by an older release."""

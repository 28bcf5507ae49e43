"""Champion pointer: the version that plays, as the gatekeeper writes it and as its clients receive it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MAX_EPOCH", "Champion"]

MAX_EPOCH = (1 << 53) - 1
"""Largest number of a pointer. Messages and pages cannot hold a larger one of a damaged file, and all later epochs would be
larger still."""

_NUMBERS = ("version", "epoch", "promoted_at_ms", "exported_at_ms")


@dataclass(frozen=True, slots=True)
class Champion:
    """Version that plays, as written by the gatekeeper."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - not a field, and pydantic reads a plain dictionary
    model: str
    version: int
    epoch: int
    """Grows with every write; the holder of an older epoch has been replaced."""
    manifest_sha256: str
    promoted_at_ms: int
    """Milliseconds since 1970 UTC."""
    reason: str
    exported_at_ms: int = 0
    """Milliseconds since 1970 UTC, from the manifest; 0 if unknown: promoted by an older release."""

    def __post_init__(self) -> None:
        """Raise `ValueError` for a number that no message can hold."""
        for name in _NUMBERS:
            if not 0 <= (number := getattr(self, name)) <= MAX_EPOCH:
                raise ValueError(f"{name} is {number}, want 0 to {MAX_EPOCH}")

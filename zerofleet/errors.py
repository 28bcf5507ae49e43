"""Errors of the services; they know nothing of gRPC.

    ZerofleetError
    ├── InvalidRequest            a request is malformed: names what, got, wanted
    ├── ModelNotFound             no such model or version is served or stored
    ├── CorruptModel              a model's files are missing, changed, foreign or not finite
    │   └── VersionSkew           a model or record of another game, rules, encoder or schema version
    ├── RecordRejected(reason)    a game record lies or cannot be read; `reason` is a short metric label
    ├── Overloaded                a bounded queue is full; try again with backoff
    ├── Unavailable               a service cannot be reached just now; try again
    ├── PermissionRefused         the credential is missing or not good enough
    ├── RunDirectoryError         a run directory is in use, foreign or of another version
    ├── ConfigurationError        settings contradict each other or the machine
    └── StaleEpoch                another holder has taken over; stop writing

`games.errors.GameError` (bad moves and parameters) stands beside this tree: rules do not know services.
"""

from __future__ import annotations

__all__ = [
    "ConfigurationError",
    "CorruptModel",
    "InvalidRequest",
    "ModelNotFound",
    "Overloaded",
    "PermissionRefused",
    "RecordRejected",
    "RunDirectoryError",
    "StaleEpoch",
    "Unavailable",
    "VersionSkew",
    "ZerofleetError",
    "first_error",
]


class ZerofleetError(Exception):
    """Base of every error a service raises on purpose; its text is meant for the user."""


class InvalidRequest(ZerofleetError):
    """A request is malformed; the text names what was wrong, what was got and what was wanted."""


class ModelNotFound(ZerofleetError):
    """No such model or version is served or stored; the text names those that are."""


class CorruptModel(ZerofleetError):
    """A model's files are missing, truncated, changed or not finite; it is never served."""


class VersionSkew(CorruptModel):
    """A model or record belongs to another game, rules version, encoder or schema; the text names both versions."""


class RecordRejected(ZerofleetError):
    """A game record failed validation; `reason` is the short label it is counted under."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Overloaded(ZerofleetError):
    """A bounded queue is full; the caller should back off and try again."""


class Unavailable(ZerofleetError):
    """A service cannot be reached at present; the caller may try again."""


class PermissionRefused(ZerofleetError):
    """The credential is missing or does not allow the call."""


class RunDirectoryError(ZerofleetError):
    """A run directory is in use by another process, is not one of ours, or is of another version."""


class ConfigurationError(ZerofleetError):
    """Settings contradict each other or this machine; the text says which and what to change."""


class StaleEpoch(ZerofleetError):
    """Another process has taken over the role; this one must stop writing."""


def first_error(failure: Exception) -> Exception:
    """Return the first error of a group of tasks that failed together, for where the others follow from it."""
    while isinstance(failure, ExceptionGroup):
        failure = failure.exceptions[0]
    return failure

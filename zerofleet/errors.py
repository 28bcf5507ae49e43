"""Errors of the services, independent of gRPC.

    ZerofleetError
    ├── InvalidRequest            malformed request
    ├── ModelNotFound             model or version neither served nor stored
    ├── CorruptModel              model files missing, changed, foreign or not finite
    │   ├── UnfitModel            model in training that cannot be exported
    │   │   └── Diverged          weights in training that are no longer finite
    │   └── VersionSkew           model or record of another game, rules, encoder or schema version
    ├── RecordRejected(reason)    invalid or unreadable game record; `reason` is a short metric label
    ├── ReaderFailed              process for reading games that fails again and again
    ├── Overloaded                bounded queue full; retry with back-off
    ├── Unavailable               service temporarily unreachable; retry
    │   └── DeviceLost            GPU unusable until the process is restarted
    ├── PermissionRefused         credential missing or insufficient
    ├── RunDirectoryError         run directory in use, foreign or of another version
    ├── ConfigurationError        settings that contradict each other or the machine
    ├── LearnerContractError      learner of one's own that breaks a law of its contract
    └── StaleEpoch                role taken over by another process; stop writing

`games.errors.GameError` (bad moves and parameters) is a separate tree: rules do not depend on services.
"""

from __future__ import annotations

__all__ = [
    "ConfigurationError",
    "CorruptModel",
    "DeviceLost",
    "Diverged",
    "InvalidRequest",
    "LearnerContractError",
    "ModelNotFound",
    "Overloaded",
    "PermissionRefused",
    "ReaderFailed",
    "RecordRejected",
    "RunDirectoryError",
    "StaleEpoch",
    "Unavailable",
    "UnfitModel",
    "VersionSkew",
    "ZerofleetError",
    "first_error",
]


class ZerofleetError(Exception):
    """Base of every error a service raises on purpose; its text is shown to the user."""


class InvalidRequest(ZerofleetError):
    """Malformed request; the text names the fault, the value received and the values accepted."""


class ModelNotFound(ZerofleetError):
    """Model or version that is neither served nor stored; the text names those that are."""


class CorruptModel(ZerofleetError):
    """Model whose files are missing, truncated, changed or not finite; it is never served."""


class UnfitModel(CorruptModel):
    """Model in training that cannot be exported by a fault of its own; a repetition does not help, as it may with a store."""


class Diverged(UnfitModel):
    """Network in training whose weights, gradients or evaluations are no longer finite; the text names the setting to lower."""


class VersionSkew(CorruptModel):
    """Model or record of another game, rules version, encoder or schema; the text names both versions."""


class RecordRejected(ZerofleetError):
    """Game record that failed validation; `reason` is its metric label."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class ReaderFailed(ZerofleetError):
    """Process of the trainer for reading games that fails by a fault of its own, or is lost again and again."""


class Overloaded(ZerofleetError):
    """Bounded queue full; the caller should back off and retry."""


class Unavailable(ZerofleetError):
    """Service temporarily unreachable; the caller may retry."""


class DeviceLost(Unavailable):
    """Error after which a GPU is unusable in this process, such as a failed assertion on the device; the process has to end."""


class PermissionRefused(ZerofleetError):
    """Credential missing or without permission for the call."""


class RunDirectoryError(ZerofleetError):
    """Run directory in use by another process, not made by Zerofleet, or of another version."""


class ConfigurationError(ZerofleetError):
    """Settings that contradict each other or this machine; the text names them and the change to make."""


class LearnerContractError(ZerofleetError):
    """Learner that breaks a law of `trainer.learners.conformance`; the text states the law and what was found."""


class StaleEpoch(ZerofleetError):
    """Role taken over by another process; this one must stop writing."""


def first_error(failure: Exception) -> Exception:
    """Return the first error of a (nested) group of task failures, where the others are its consequences."""
    while isinstance(failure, ExceptionGroup):
        failure = failure.exceptions[0]
    return failure

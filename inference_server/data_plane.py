"""Data plane of the server, independent of gRPC: infer, describe, count, load and unload.

Methods raise errors of `zerofleet.errors` only.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inference_server.batcher import Batcher
from inference_server.queueing import RequestOutput, Ticket
from inference_server.registry import Registry
from inference_server.served_version import ServedVersion
from inference_server.tensors import Tensor
from zerofleet.contracts.naming import CHAMPION_ALIAS, parse_version, require_model_name
from zerofleet.contracts.priorities import Priority
from zerofleet.errors import ModelNotFound, Overloaded, Unavailable
from zerofleet.telemetry import metrics, tracing

__all__ = ["DataPlane", "Inference", "require_names"]

# Bound on the wait of a request without a deadline.
DEFAULT_PATIENCE_S = 60.0


def require_names(model: str, version: str) -> int | None:
    """Return the version of valid names on the wire, None for the champion; raises `InvalidRequest` for others."""
    require_model_name(model)
    return None if version in ("", CHAMPION_ALIAS) else parse_version(version)


@dataclass(frozen=True, slots=True)
class Inference:
    """Result of a request."""

    model: str
    version: int
    outputs: tuple[tuple[str, str, np.ndarray], ...]  # name, type on the wire, little-endian rows


class DataPlane:
    """Registry and batcher behind one interface."""

    def __init__(self, registry: Registry, batcher: Batcher) -> None:
        self.registry = registry
        self.draining = False
        """True once shutdown began: not ready, while requests in progress complete."""
        self._batcher = batcher

    def ready(self) -> bool:
        """Return whether some model is served and the server is not draining."""
        return bool(self.registry.models()) and not self.draining

    def full(self, priority: Priority) -> str | None:
        """Return the reason to reject a request of a priority now, None while there is room."""
        return self._batcher.full(priority)

    def find(self, model: str, version: str = "") -> ServedVersion:
        """Return a served version by its names on the wire, the champion for an empty version and for `champion`.

        Raises `InvalidRequest` for an invalid name or version, `ModelNotFound` for one that is not served, `Unavailable` while
        the server starts.
        """
        return self.registry.resolve(model, require_names(model, version))

    def model_ready(self, model: str, version: str = "") -> bool:
        """Return whether a version is ready; raises `InvalidRequest` for an invalid name or version."""
        try:
            self.find(model, version)
        except (ModelNotFound, Unavailable):
            return False
        return not self.draining

    async def infer(
        self,
        names: tuple[str, str],
        tensors: Sequence[Tensor],
        *,
        outputs: Sequence[str] = (),
        patience_s: float | None = None,
        priority: Priority = Priority.DEFAULT,
    ) -> Inference:
        """Evaluate a request for `names` (model, version) within `patience_s`, the caller's remaining time.

        Raises `InvalidRequest`, `ModelNotFound`, `Overloaded`, `Unavailable`.
        Cancellation: the request leaves the queue; others are not affected.
        """
        served = self.find(*names)
        began_s = time.monotonic()
        try:
            wanted = served.contract.require_outputs(outputs)
            states, legal = served.contract.read(tensors)
            served.contract.require_sendable(len(states), wanted)
            result = await self.evaluate(served, states, legal, patience_s=patience_s, priority=priority)
            if (span := tracing.current()) is not tracing.NO_SPAN:
                tracing.note(span, model=served.manifest.model, version=served.version, positions=len(states))
                tracing.note(span, queue_s=round(result.queue_s, 6), compute_s=round(result.compute_s, 6))
        except Exception:
            served.statistics.failure.add(time.monotonic() - began_s)
            raise
        served.statistics.success.add(time.monotonic() - began_s)
        named = zip(served.contract.outputs, result.output, strict=True)
        sent = tuple((output.name, output.datatype, rows) for output, rows in named if output.name in wanted)
        return Inference(served.manifest.model, served.version, sent)

    async def evaluate(
        self,
        served: ServedVersion,
        states: np.ndarray,
        legal: np.ndarray,
        *,
        patience_s: float | None = None,
        priority: Priority = Priority.DEFAULT,
    ) -> RequestOutput:
        """Evaluate checked arrays with a version, even one that has just been retired. Raises and cancels as `infer`."""
        expires_s = time.monotonic() + (DEFAULT_PATIENCE_S if patience_s is None else patience_s)
        try:
            return await self._batcher.evaluate(served, states, legal, expires_s=expires_s, priority=priority)
        except Overloaded:
            metrics.INFERENCE_REFUSED.labels(reason="overload").inc()
            raise

    def submit(
        self, served: ServedVersion, states: np.ndarray, legal: np.ndarray, *, patience_s: float, priority: Priority
    ) -> Ticket:
        """Queue checked arrays without waiting; the ticket's future gets the output, or the error. Raises as `infer`."""
        expires_s = time.monotonic() + patience_s
        try:
            return self._batcher.submit(served, states, legal, expires_s=expires_s, priority=priority)
        except Overloaded:
            metrics.INFERENCE_REFUSED.labels(reason="overload").inc()
            raise

    def require_room(self, priority: Priority) -> None:
        """Raise `Overloaded` while requests of a priority are rejected unread; see `inference_server.admission`."""
        if (full := self._batcher.full(priority)) is not None:
            metrics.INFERENCE_REFUSED.labels(reason="overload").inc()
            raise Overloaded(full)

    def withdraw(self, ticket: Ticket) -> None:
        """Cancel a request made with `submit`; others are not affected."""
        self._batcher.withdraw(ticket)

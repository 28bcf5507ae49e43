"""Choice of the transport between a client and an inference server.

    grpc            KServe v2: any server, Triton too, on any host
    shared_memory   Zerofleet's server on this host, at a unix socket
    auto            shared memory while the server offers it, gRPC otherwise: the default of workers

With `auto` a server that goes away, or stops to offer shared memory, is asked over gRPC, which waits for it; once it answers,
shared memory is tried again. A server that refuses the client, as when its regions are full, is tried again after a minute.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias

import structlog

from games.core import Game
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.shared_memory import doorbell_path
from zerofleet.errors import ConfigurationError, Unavailable, ZerofleetError
from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.evaluators.shared_memory import SharedMemoryEvaluator
from zerofleet.rpc.security.tls import PLAIN, Tls

__all__ = ["NearestEvaluator", "Transport", "connected_evaluator"]

LOOK_AGAIN_S = 1.0
"""Time between two attempts to use shared memory of a server that is away."""
REFUSED_AGAIN_S = 60.0
"""That after a refusal, which the server logs and counts."""

Transport: TypeAlias = Literal["auto", "grpc", "shared_memory"]

log = structlog.get_logger()


class NearestEvaluator:
    """`Evaluator` over shared memory while it can be had, over gRPC otherwise; the log states each change and its cause."""

    def __init__(self, near: SharedMemoryEvaluator, far: KServeEvaluator) -> None:
        self._near = near
        self._far = far
        self._used: Transport | None = None
        self._look_again_s = 0.0
        self._looking = asyncio.Lock()

    @property
    def transport(self) -> Transport | None:
        """Transport of the latest request; None before the first."""
        return self._used

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`. Cancellation: as that of the evaluator in use."""
        if self._near.connected or await self._attach():
            try:
                return await self._near.evaluate(batch, version=version)
            except Unavailable:  # the next request looks for shared memory again
                log.debug("inference.near_failed", address=self._near.target, exc_info=True)
        return await self._far.evaluate(batch, version=version)

    async def _attach(self) -> bool:
        """Return whether shared memory can be used now. Cancellation: no effect."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._look_again_s:
            return False
        async with self._looking:  # of several callers one waits for a server that does not answer
            if self._near.connected or loop.time() < self._look_again_s:
                return self._near.connected
            try:
                await self._near.connect()
            except ZerofleetError as error:
                self._look_again_s = loop.time() + (LOOK_AGAIN_S if isinstance(error, Unavailable) else REFUSED_AGAIN_S)
                self._tell("grpc", str(error))
                return False
            self._tell("shared_memory", "the server of this host offers it")
            return True

    def _tell(self, transport: Transport, reason: str) -> None:
        if transport != self._used:
            self._used = transport
            log.info("inference.transport", transport=transport, address=self._near.target, reason=reason)


@asynccontextmanager
async def connected_evaluator(
    target: str,
    game: Game,
    *,
    transport: Transport,
    token: str | None = None,
    tls: Tls = PLAIN,
    timeout_s: float = 15.0,
    retry_s: float = 60.0,
    on_retry: Callable[[ZerofleetError], None] = lambda failure: None,
) -> AsyncIterator[Evaluator]:
    """Yield the client of the server at `target`; for the arguments see `KServeEvaluator`.

    Raises `ConfigurationError` for shared memory with an address that is no unix socket. Cancellation: it is closed.
    """
    reason = "the setting transport"
    if doorbell_path(target) is None:
        if transport == "shared_memory":
            raise ConfigurationError(
                f"transport=shared_memory, but {target} is no unix socket with a path of at most 100 bytes; set transport=grpc"
            )
        if transport == "auto":
            transport, reason = "grpc", "the address is no unix socket with a path of at most 100 bytes"
    far = KServeEvaluator(
        target,
        model_name(game),
        token=token,
        tls=tls,
        timeout_s=timeout_s,
        retry_s=retry_s,
        on_retry=on_retry,
    )
    near = SharedMemoryEvaluator(
        target,
        game,
        token=token,
        timeout_s=timeout_s,
        retry_s=retry_s,
        reconnect_s=0.0 if transport == "auto" else retry_s,
        on_retry=on_retry,
    )
    async with far, near:
        if transport == "auto":
            yield NearestEvaluator(near, far)
            return
        log.info("inference.transport", transport=transport, address=target, reason=reason)
        yield near if transport == "shared_memory" else far

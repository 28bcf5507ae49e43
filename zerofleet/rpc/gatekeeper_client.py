"""Client of the gatekeeper: champion, candidates and ratings.

Workers follow `watch`: it yields the current champion at once and every later one, and survives restarts of the
gatekeeper. All other calls are repeated for `timeout_s` while the gatekeeper is overloaded, and otherwise fail fast with an
error of `zerofleet.errors`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import grpc
import structlog

from zerofleet.contracts.messages import build_request
from zerofleet.contracts.promotions import Candidate, Champion, Rung, champion_from_wire
from zerofleet.contracts.wire import gatekeeper_pb2 as wire
from zerofleet.contracts.wire import gatekeeper_pb2_grpc as stubs
from zerofleet.errors import InvalidRequest, ModelNotFound, PermissionRefused, Unavailable
from zerofleet.rpc.backoff import Backoff
from zerofleet.rpc.channel_client import ChannelClient
from zerofleet.rpc.channel_options import CHANNEL_OPTIONS, PAGE_SIZE
from zerofleet.rpc.channels import open_channel
from zerofleet.rpc.failures import error_from
from zerofleet.rpc.security.tls import PLAIN, Tls

__all__ = ["GatekeeperClient", "ModelChanges"]

log = structlog.get_logger()

Reply = TypeVar("Reply")

FIRST_PAUSE_S = 0.2
MAX_PAUSE_S = 5.0
TELL_AFTER_S = 10.0  # without a connection


@dataclass(frozen=True, slots=True)
class ModelChanges:
    """Page of the candidates that changed since a cursor."""

    candidates: tuple[Candidate, ...]
    champion: Champion | None
    cursor: str
    """Place after these candidates; empty from a gatekeeper without pages, which always sends every candidate."""
    has_more: bool


class GatekeeperClient(ChannelClient):
    """Client of a gatekeeper at `target` (`host:port` or `unix:/path`); create it inside the event loop that uses it."""

    def __init__(
        self,
        target: str,
        *,
        token: str | None = None,
        tls: Tls = PLAIN,
        timeout_s: float = 10.0,
        rng: random.Random | None = None,
    ) -> None:
        super().__init__(target, open_channel(target, CHANNEL_OPTIONS, tls), token, tls)
        self._timeout_s = timeout_s
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not a secret
        self._stub: stubs.GatekeeperAsyncStub = stubs.GatekeeperStub(self._channel)

    async def submit(self, model: str, version: int, manifest_sha256: str) -> Candidate:
        """Submit a published version for promotion; idempotent, a repeated call returns the current status.

        Raises `InvalidRequest`, `ModelNotFound`, `Unavailable`.
        Cancellation: it may or may not have been submitted; submit again.
        """
        request = build_request(wire.SubmitCandidateRequest, game=model, version=version, manifest_sha256=manifest_sha256)
        return Candidate.from_wire(
            await self._call(lambda: self._stub.SubmitCandidate(request, timeout=self._timeout_s, metadata=self._metadata))
        )

    async def champion(self, model: str) -> Champion | None:
        """Return the champion, None before the first promotion.

        Raises `InvalidRequest` (a gatekeeper of another game), `Unavailable`.
        Cancellation: no effect.
        """
        request = wire.GetChampionRequest(game=model)
        try:
            return champion_from_wire(
                await self._call(lambda: self._stub.GetChampion(request, timeout=self._timeout_s, metadata=self._metadata))
            )
        except ModelNotFound:
            return None

    async def models(self, model: str) -> tuple[list[Candidate], Champion | None]:
        """Return every version registered with the gatekeeper, oldest first, and the champion; fetched in pages.

        Raises `InvalidRequest`, `Unavailable`.
        Cancellation: no effect.
        """
        known: dict[int, Candidate] = {}
        changes = ModelChanges((), None, "", has_more=True)
        while changes.has_more:
            changes = await self.changes(model, changes.cursor)
            known |= {candidate.version: candidate for candidate in changes.candidates}
        return [known[version] for version in sorted(known)], changes.champion

    async def changes(self, model: str, cursor: str = "") -> ModelChanges:
        """Return the next page of the candidates that changed since `cursor`; without one, of all candidates.

        Raises `InvalidRequest`, `Unavailable`.
        Cancellation: no effect.
        """
        request = wire.ListModelsRequest(game=model, page_size=PAGE_SIZE, cursor=cursor)
        reply = await self._call(lambda: self._stub.ListModels(request, timeout=self._timeout_s, metadata=self._metadata))
        champion = champion_from_wire(reply.champion) if reply.HasField("champion") else None
        listed = tuple(Candidate.from_wire(message) for message in reply.models)
        return ModelChanges(listed, champion, reply.cursor, has_more=reply.has_more)

    async def promote(self, model: str, version: int, *, reason: str, without_self_test: bool = False) -> Champion:
        """Promote a version regardless of its results, once its files are verified and an inference server has loaded it.

        `without_self_test` accepts a version that no server can load now, at the risk of a champion that cannot be evaluated.

        Raises `ModelNotFound`, `CorruptModel`, `InvalidRequest`, `StaleEpoch`, `Unavailable`.
        Cancellation: it may or may not have been promoted; check with `champion`.
        """
        request = build_request(
            wire.PromoteRequest, game=model, version=version, reason=reason, without_self_test=without_self_test
        )
        return champion_from_wire(
            await self._call(lambda: self._stub.Promote(request, timeout=self._timeout_s, metadata=self._metadata))
        )

    async def rollback(self, model: str, *, reason: str) -> Champion:
        """Restore the previous champion.

        Raises `ModelNotFound` (no previous champion), `CorruptModel`, `InvalidRequest`, `StaleEpoch`, `Unavailable`.
        Cancellation: it may or may not have been restored; check with `champion`.
        """
        request = build_request(wire.RollbackRequest, game=model, reason=reason)
        return champion_from_wire(
            await self._call(lambda: self._stub.Rollback(request, timeout=self._timeout_s, metadata=self._metadata))
        )

    async def ladder(self, model: str) -> list[Rung]:
        """Return the rating ladder, strongest first; `random` has 0 Elo.

        Raises `InvalidRequest`, `Unavailable`.
        Cancellation: no effect.
        """
        request = wire.GetLadderRequest(game=model)
        reply = await self._call(lambda: self._stub.GetLadder(request, timeout=self._timeout_s, metadata=self._metadata))
        return [Rung.from_wire(message) for message in reply.rungs]

    async def watch(self, model: str) -> AsyncIterator[Champion]:
        """Yield the current champion at once (if any) and every later one, without end.

        A lost connection is retried with jittered back-off. Epochs are strictly increasing.
        Raises `InvalidRequest`, `PermissionRefused`: a retry would not help.
        Cancellation: the stream is closed.
        """
        request, epoch, backoff = wire.WatchChampionRequest(game=model), -1, self._backoff()
        while True:
            await self._reached()
            call = self._stub.WatchChampion(request, wait_for_ready=True, metadata=self._metadata)
            try:
                with self.while_open():
                    async for message in call:
                        backoff.reset()
                        champion = champion_from_wire(message)
                        if champion.epoch > epoch:
                            epoch = champion.epoch
                            yield champion
            except grpc.aio.AioRpcError as failure:
                error = error_from(failure, target=self.target)
                if isinstance(error, InvalidRequest | PermissionRefused):
                    raise error from failure
                log.info("gatekeeper.watch_lost", target=self.target, code=failure.code().name, error=str(error))
            finally:
                call.cancel()
            await backoff.pause()

    async def _reached(self) -> None:
        """Wait for a connection; log each reason for its absence once."""
        told = ""
        while True:
            try:
                async with asyncio.timeout(TELL_AFTER_S):
                    with self.while_open():
                        await self._channel.channel_ready()
                    return
            except TimeoutError:
                away = Unavailable(f"{self.target} does not answer; is it running?")
                error = await self.explained(away)
                if (why := str(error)) != told:
                    # An absent server recovers by itself; wrong TLS settings have to be changed.
                    (log.info if error is away else log.warning)("gatekeeper.unreachable", reason=why)
                    told = why

    def _backoff(self) -> Backoff:
        return Backoff(FIRST_PAUSE_S, MAX_PAUSE_S, rng=self._rng)

    async def _call(self, start: Callable[[], Awaitable[Reply]]) -> Reply:
        return await self.retried(start, lambda failure: error_from(failure, target=self.target), patience_s=self._timeout_s)

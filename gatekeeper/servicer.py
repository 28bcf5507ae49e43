"""gRPC servicer of the gatekeeper: each call converts, delegates, converts. The interceptor maps errors to status codes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from gatekeeper.arbiter import Arbiter
from gatekeeper.ladder import Ladder
from gatekeeper.ledger import Ledger
from gatekeeper.pointer import ChampionPointer
from zerofleet.contracts.naming import MAX_VERSION
from zerofleet.contracts.promotions import champion_to_wire
from zerofleet.contracts.wire import gatekeeper_pb2 as wire
from zerofleet.contracts.wire import gatekeeper_pb2_grpc as stubs
from zerofleet.errors import InvalidRequest, ModelNotFound

__all__ = ["GatekeeperServicer"]

LARGEST_PAGE = 1_000  # candidates
LONGEST_REASON = 500  # characters; reasons are read by people


class GatekeeperServicer(stubs.GatekeeperServicer):
    """Calls about one model."""

    def __init__(self, *, ledger: Ledger, pointer: ChampionPointer, arbiter: Arbiter, ladder: Ladder) -> None:
        self._ledger = ledger
        self._pointer = pointer
        self._arbiter = arbiter
        self._ladder = ladder

    async def SubmitCandidate(self, request: wire.SubmitCandidateRequest, context: Any) -> wire.Candidate:
        """Submit a candidate. Cancellation: the candidate is either accepted or unknown."""
        version = self._version(request)
        return (await self._arbiter.submit(version, request.manifest_sha256)).to_wire()

    async def GetChampion(self, request: wire.GetChampionRequest, context: Any) -> wire.Champion:
        """Return the champion. Cancellation: no effect."""
        self._require_own(request.game)
        if self._pointer.champion is None:
            raise ModelNotFound(f"{request.game} has no champion yet; the first valid candidate becomes champion")
        return champion_to_wire(self._pointer.champion)

    async def WatchChampion(self, request: wire.WatchChampionRequest, context: Any) -> AsyncIterator[wire.Champion]:
        """Stream the champion and its successors. Cancellation: the stream ends."""
        self._require_own(request.game)
        async for champion in self._pointer.watch():
            yield champion_to_wire(champion)

    async def ListModels(self, request: wire.ListModelsRequest, context: Any) -> wire.ListModelsReply:
        """List candidates: all by version, or a page of those changed since the cursor. Cancellation: no effect."""
        self._require_own(request.game)
        champion = self._pointer.champion
        reply = wire.ListModelsReply(champion=champion_to_wire(champion) if champion else None)
        if request.page_size:
            limit = min(request.page_size, LARGEST_PAGE)
            listed, reply.cursor, reply.has_more = self._ledger.changes(request.cursor, limit)
        else:
            listed = self._ledger.candidates()
        reply.models.extend(candidate.to_wire() for candidate in listed)
        return reply

    async def Promote(self, request: wire.PromoteRequest, context: Any) -> wire.Champion:
        """Promote a version by hand. Cancellation: complete and announced, or no effect."""
        version = self._version(request)
        champion = await self._arbiter.promote(
            version, reason=_reason(request.reason), without_self_test=request.without_self_test
        )
        return champion_to_wire(champion)

    async def Rollback(self, request: wire.RollbackRequest, context: Any) -> wire.Champion:
        """Roll back to the previous champion. Cancellation: complete and announced, or no effect."""
        self._require_own(request.game)
        return champion_to_wire(await self._arbiter.rollback(reason=_reason(request.reason)))

    async def GetLadder(self, request: wire.GetLadderRequest, context: Any) -> wire.Ladder:
        """Return the ratings. Cancellation: no effect."""
        self._require_own(request.game)
        return wire.Ladder(game=request.game, rungs=[rung.to_wire() for rung in await self._ladder.rungs()])

    def _require_own(self, game: str) -> None:
        if game != self._ledger.model:
            raise InvalidRequest(f"this gatekeeper judges {self._ledger.model}, not {game[:80]!r}")

    def _version(self, request: wire.SubmitCandidateRequest | wire.PromoteRequest) -> int:
        self._require_own(request.game)
        if not 1 <= request.version <= MAX_VERSION:
            raise InvalidRequest(f"version {request.version} is out of range; versions begin at 1")
        return request.version


def _reason(text: str) -> str:
    """Return a reason as one line of printable characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:LONGEST_REASON]

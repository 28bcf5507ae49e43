"""Client of the evaluation service: moves in, named moves and values out.

    async with EvaluationClient("127.0.0.1:8001") as client:
        opinion = await client.evaluate("connect_four", ["d1", "d2"], simulations=400)
        print(opinion.moves[0].move, opinion.value)

The service shares the port of KServe v2 (`docs/protocol.md`); its clients need no encoding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import grpc

from zerofleet.contracts.wire import evaluation_pb2 as wire
from zerofleet.contracts.wire import evaluation_pb2_grpc as stubs
from zerofleet.rpc.channel_client import ChannelClient
from zerofleet.rpc.inference_channels import call_error, open_channel
from zerofleet.rpc.security.tls import PLAIN, Tls

__all__ = ["EvaluationClient", "MoveOpinion", "Opinion"]


@dataclass(frozen=True, slots=True)
class MoveOpinion:
    """Evaluation of a legal move."""

    move: str
    action: int
    prior: float
    """Probability from the network, in [0, 1]."""
    visits: int
    value: float | None
    """Mean value for the player to move, in [-1, 1]; None if unvisited."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """Evaluation of a position."""

    model_version: int
    to_move: int
    value: tuple[float, ...]
    """Expected score of each player in seat order, in [-1, 1]; the final scores when the game is over."""
    moves: tuple[MoveOpinion, ...]
    """Best first: by visits after a search, by prior without one."""
    principal_variation: tuple[str, ...]
    is_over: bool


class EvaluationClient(ChannelClient):
    """Client of an inference server at `target` (`host:port` or `unix:/path`); create it inside its event loop."""

    def __init__(self, target: str, *, token: str | None = None, tls: Tls = PLAIN, timeout_s: float = 60.0) -> None:
        super().__init__(target, open_channel(target, tls), token, tls)
        self._timeout_s = timeout_s
        self._stub: stubs.EvaluationAsyncStub = stubs.EvaluationStub(self._channel)

    async def evaluate(
        self,
        game: str,
        moves: Sequence[str] = (),
        *,
        parameters: Mapping[str, str] | None = None,
        model_version: int = 0,
        simulations: int = 0,
        seed: int = 0,
    ) -> Opinion:
        """Return a model's evaluation of the position after `moves`; version 0 is the newest served.

        Raises `InvalidRequest` (unknown game, illegal move), `ModelNotFound`, `Overloaded`, `Unavailable`.
        Cancellation: the server drops the search.
        """
        request = wire.EvaluateRequest(
            game=game,
            parameters=parameters or {},
            moves=moves,
            model_version=model_version,
            simulations=simulations,
            seed=seed,
        )
        try:
            reply = await self._stub.Evaluate(request, timeout=self._timeout_s, metadata=self._metadata)
        except grpc.aio.AioRpcError as failure:
            raise await self.explained(call_error(failure, target=self.target)) from failure
        return _opinion(reply)


def _opinion(reply: wire.EvaluateReply) -> Opinion:
    moves = (MoveOpinion(m.move, m.action, m.prior, m.visits, m.value if m.HasField("value") else None) for m in reply.moves)
    return Opinion(
        model_version=reply.model_version,
        to_move=reply.to_move,
        value=tuple(reply.value),
        moves=tuple(moves),
        principal_variation=tuple(reply.principal_variation),
        is_over=reply.is_over,
    )

"""Client of the evaluation service: moves in, named moves and values out.

    async with EvaluationClient("127.0.0.1:8001") as client:
        opinion = await client.evaluate("connect_four", ["d1", "d2"], simulations=400)
        print(opinion.moves[0].move, opinion.value)

The service shares the port of KServe v2 (`docs/protocol.md`); its clients need no encoding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from zerofleet.contracts.naming import CHAMPION_ALIAS
from zerofleet.contracts.wire import evaluation_pb2 as wire
from zerofleet.contracts.wire import evaluation_pb2_grpc as stubs
from zerofleet.rpc.channel_client import ChannelClient
from zerofleet.rpc.inference_channels import call_error, open_inference_channel
from zerofleet.rpc.requests import build_request
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

    def __str__(self) -> str:
        """Return the moves as a table, best first, with the expected line below."""
        if self.is_over:
            return f"the game is over: {' '.join(f'{score:+g}' for score in self.value)}"
        value = self.value[self.to_move]
        width = max(4, *(len(move.move) for move in self.moves))
        lines = [
            f"player {self.to_move + 1} to move, value {value:+.3f}, model {self.model_version}",
            f"{'move':<{width}}   prior  visits   value",
            *(_row(move, width) for move in self.moves),
        ]
        if self.principal_variation:
            lines.append(f"expected line: {' '.join(self.principal_variation)}")
        return "\n".join(lines)


class EvaluationClient(ChannelClient):
    """Client of an inference server at `target` (`host:port` or `unix:/path`); create it inside its event loop."""

    def __init__(self, target: str, *, token: str | None = None, tls: Tls = PLAIN, timeout_s: float = 60.0) -> None:
        super().__init__(target, open_inference_channel(target, tls), token, tls)
        self._timeout_s = timeout_s
        self._stub: stubs.EvaluationAsyncStub = stubs.EvaluationStub(self._channel)

    async def evaluate(
        self,
        game: str,
        moves: Sequence[str] = (),
        *,
        parameters: Mapping[str, str] | None = None,
        model_version: int | Literal["champion"] = CHAMPION_ALIAS,
        simulations: int = 0,
        seed: int = 0,
    ) -> Opinion:
        """Return a model's evaluation of the position after `moves`, by default the champion's (`champion`, or 0).

        Raises `InvalidRequest` (unknown game, illegal move), `ModelNotFound`, `Unavailable`, and `Overloaded` when the
        server is still overloaded after `timeout_s`.
        Cancellation: the server drops the search.
        """
        request = build_request(
            wire.EvaluateRequest,
            game=game,
            parameters=parameters or {},
            moves=moves,
            model_version=0 if model_version == CHAMPION_ALIAS else model_version,
            simulations=simulations,
            seed=seed,
        )
        reply = await self.retried(
            lambda: self._stub.Evaluate(request, timeout=self._timeout_s, metadata=self._metadata),
            lambda failure: call_error(failure, target=self.target),
            patience_s=self._timeout_s,
        )
        return _opinion(reply)


def _row(move: MoveOpinion, width: int) -> str:
    value = "" if move.value is None else f"{move.value:+.3f}"
    return f"{move.move:<{width}}  {move.prior:>6.1%}  {move.visits:>6}  {value:>6}".rstrip()


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

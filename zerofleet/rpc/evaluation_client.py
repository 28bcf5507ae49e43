"""Client of the evaluation service: moves in, named moves and values out.

    async with EvaluationClient("127.0.0.1:8001") as client:
        opinion = await client.evaluate("connect_four", ["d1", "d2"], simulations=400)
        print(opinion.moves[0].move, opinion.value)

The service shares the port of KServe v2 (`docs/protocol.md`); its clients need no encoding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from zerofleet.contracts.messages import build_request, texts_of
from zerofleet.contracts.naming import CHAMPION_ALIAS
from zerofleet.contracts.opinions import Opinion, opinion_from_wire
from zerofleet.contracts.wire import evaluation_pb2 as wire
from zerofleet.contracts.wire import evaluation_pb2_grpc as stubs
from zerofleet.errors import InvalidRequest
from zerofleet.rpc.channel_client import ChannelClient
from zerofleet.rpc.failures import call_error
from zerofleet.rpc.inference_channels import open_inference_channel
from zerofleet.rpc.security.tls import PLAIN, Tls

__all__ = ["ANSWER_S", "LONGEST_ANSWER_S", "EvaluationClient"]

ANSWER_S = 60.0
"""Time for an answer by default, in seconds."""
LONGEST_ANSWER_S = 86_400.0


class EvaluationClient(ChannelClient):
    """Client of an inference server at `target` (`host:port` or `unix:/path`); create it inside its event loop.

    `timeout_s` bounds the wait for an answer, at most `LONGEST_ANSWER_S`; raises `InvalidRequest` for another one.
    """

    def __init__(self, target: str, *, token: str | None = None, tls: Tls = PLAIN, timeout_s: float = ANSWER_S) -> None:
        if not 0 < timeout_s <= LONGEST_ANSWER_S:
            raise InvalidRequest(
                f"timeout_s={timeout_s} is out of range; give seconds above 0, at most {LONGEST_ANSWER_S:,.0f}"
            )
        super().__init__(target, open_inference_channel(target, tls), token, tls)
        self._timeout_s = timeout_s
        self._stub: stubs.EvaluationAsyncStub = stubs.EvaluationStub(self._channel)

    async def evaluate(
        self,
        game: str,
        moves: Sequence[str] = (),
        *,
        parameters: Mapping[str, str | float] | None = None,
        model_version: int | Literal["champion"] = CHAMPION_ALIAS,
        simulations: int = 0,
        seed: int = 0,
    ) -> Opinion:
        """Return a model's evaluation of the position after `moves`, by default the champion's (`champion`, or 0).

        Raises `InvalidRequest` (unknown game, illegal move), `ModelNotFound`, `CorruptModel` (the network returns numbers
        that are not finite), `Unavailable`, and `Overloaded` when the server is still overloaded after the client's
        `timeout_s`; `Unavailable` also when a search takes longer.
        Cancellation: the server drops the search.
        """
        request = build_request(
            wire.EvaluateRequest,
            game=game,
            parameters=texts_of(parameters),
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
        return opinion_from_wire(reply)

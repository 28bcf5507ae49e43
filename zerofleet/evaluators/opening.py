"""Scoped evaluators: the client of an inference server, or the uniform evaluator without a model."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from games.core import Game
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.priorities import Priority
from zerofleet.evaluators.base import Evaluator
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.rpc.security.credentials import client_tls, client_token

__all__ = ["evaluating"]


@contextlib.asynccontextmanager
async def evaluating(address: str | None, game: Game) -> AsyncIterator[Evaluator]:
    """Yield a client of the inference server at `address`; without an address, the uniform evaluator.

    Its requests have high priority: they measure strength, or a person waits for them. Token and TLS settings come from the
    environment (`zerofleet.rpc.security.credentials`).

    Cancellation: the connection is closed.
    """
    if address is None:
        yield UniformEvaluator(game.spec().num_players, game.spec().num_actions)
        return
    async with KServeEvaluator(
        address, model_name(game), token=client_token(), tls=client_tls(), priority=Priority.HIGH
    ) as evaluator:
        yield evaluator

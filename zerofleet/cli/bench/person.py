"""Requests of a person who plays against a model: one position after another, beside the load of self-play."""

from __future__ import annotations

import asyncio
import time
from enum import StrEnum
from types import TracebackType
from typing import Any, Self

from games.core import Game
from zerofleet.contracts.encodings import sample_positions
from zerofleet.contracts.naming import model_name
from zerofleet.contracts.priorities import Priority
from zerofleet.evaluators.base import LeafBatch, ModelVersion
from zerofleet.evaluators.kserve import KServeEvaluator

__all__ = ["Person", "PersonPriority"]

THOUGHT_S = 0.005
"""Pause between requests: the time in which a search of one game finds its next leaf."""


class PersonPriority(StrEnum):
    """Choice of `--person`."""

    HIGH = "high"
    DEFAULT = "default"


class Person:
    """Client with requests of one position. An async context manager."""

    def __init__(self, target: str, game: Game, *, version: int, priority: Priority) -> None:
        states, legal = sample_positions(game, games=1, seed=0)
        self._batch = LeafBatch(states[:1], legal[:1])
        self._version = ModelVersion(version)
        self._evaluator = KServeEvaluator(target, model_name(game), priority=priority)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._evaluator.aclose()

    async def ask_while(self, others: asyncio.Future[Any]) -> list[float]:
        """Send requests until `others` are done; return their latencies in seconds. Cancellation: no effect."""
        latencies_s = []
        while not others.done():
            began_s = time.perf_counter()
            await self._evaluator.evaluate(self._batch, version=self._version)
            latencies_s.append(time.perf_counter() - began_s)
            await asyncio.sleep(THOUGHT_S)
        return latencies_s

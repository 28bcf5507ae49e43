"""Traces of the sampled games of one block: spans for a selection of its evaluation requests.

A request evaluates leaves of every game of the block, and a game waits for thousands of requests. Of the requests made
during a sampled game, the 1st, 2nd, 4th, 8th ... are therefore recorded: as children of this game's span, with links to the
block's other sampled games. The span of the game stores the number of requests and the total wait for them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from selfplay_worker.game_register import Ticket
from zerofleet.telemetry import tracing

__all__ = ["BlockTraces"]

_NOTHING = nullcontext()


@dataclass(slots=True)
class _Traced:
    span: tracing.Span
    requests: int = 0
    waited_s: float = 0.0


class BlockTraces:
    """Sampled games of a block, by slot."""

    def __init__(self) -> None:
        self._games: dict[int, _Traced] = {}

    def begin(self, slot: int, ticket: Ticket) -> None:
        """Follow a game that was begun in `slot`, if it is sampled."""
        if ticket.span is not tracing.NO_SPAN:
            self._games[slot] = _Traced(ticket.span)

    def end(self, slot: int) -> None:
        """Write the totals of the game in `slot` to its span, which its register ends."""
        if (game := self._games.pop(slot, None)) is not None:
            tracing.note(game.span, requests=game.requests, waited_s=round(game.waited_s, 6))

    def request(self, positions: int) -> AbstractContextManager[None]:
        """Return a context manager to enclose an evaluation request."""
        return self._request(positions) if self._games else _NOTHING

    @contextmanager
    def _request(self, positions: int) -> Iterator[None]:
        games = list(self._games.values())
        for game in games:
            game.requests += 1
        told = [game for game in games if tracing.is_told(game.requests)]
        span = tracing.NO_SPAN
        if told:
            span = tracing.begin(
                "evaluate",
                parent=tracing.traceparent(told[0].span),
                links=[tracing.traceparent(game.span) for game in games if game is not told[0]],
                kind=tracing.SpanKind.CLIENT,
                positions=positions,
                request=told[0].requests,
            )
        began_s = time.monotonic()
        try:
            with tracing.use(span):
                yield
        finally:
            waited_s = time.monotonic() - began_s
            for game in games:
                game.waited_s += waited_s

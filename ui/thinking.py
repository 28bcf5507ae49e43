"""Search in progress at a table, as events for the bar beside the board.

With hidden information, the opponent's search would reveal its hand: of that one the events hold the number of visits alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Literal

from games.core import play
from ui.endpoints import StrictValue
from ui.event_stream import Events
from ui.tables import Table, Watched
from zerofleet.library.seated_game import SeatedGame
from zerofleet.search import RootAnalysis

__all__ = ["Thinking", "expected_line", "thinking_events"]


class Thinking(StrictValue):
    """Search in progress."""

    by: Literal["opponent", "hint"]
    visits: int
    """Simulations so far."""
    simulations: int
    """Simulations of the complete search; a limit that few searches reach, where `limit_s` is given."""
    elapsed_s: float
    """Part of `limit_s` that has passed."""
    limit_s: float | None
    """Wall-clock time of the complete search; None for a budget of simulations."""
    value: float | None
    """Expected score of the person in [-1, 1]; None where it would reveal what is hidden."""
    line: tuple[str, ...]
    """Expected line from the position; empty where it would reveal what is hidden."""


async def thinking_events(table: Table) -> Events:
    """Yield the search in progress several times a second, until it ends. Cancellation: the search goes on."""
    async with contextlib.aclosing(table.follow()) as following:
        async for watched in following:
            analysis = await watched.search.analysis()
            if analysis is not None:
                yield "thinking", await asyncio.to_thread(_view, watched, analysis)


def expected_line(played: SeatedGame, analysis: RootAnalysis) -> tuple[str, ...]:
    """Return the principal variation in notation; with hidden information its first move alone."""
    game, state, line = played.game, played.state(), []
    for action in analysis.principal_variation[: None if game.spec().information == "perfect" else 1]:
        line.append(game.action_name(state, action))
        play(game, state, action)
    return tuple(line)


def _view(watched: Watched, analysis: RootAnalysis) -> Thinking:
    played = watched.played
    is_shown = watched.is_hint or played.game.spec().information == "perfect"
    return Thinking(
        by="hint" if watched.is_hint else "opponent",
        visits=int(analysis.visits.sum()),
        simulations=watched.search.simulations,
        elapsed_s=watched.search.elapsed_s,
        limit_s=watched.search.limit_s,
        value=float(analysis.value[played.seat]) if is_shown else None,
        line=expected_line(played, analysis) if is_shown else (),
    )

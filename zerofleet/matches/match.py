"""A match from terms to decision: plays until the stopping rule decides, and can go on from results already known."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from zerofleet.evaluators.base import Evaluator
from zerofleet.matches.play import AgentMaker, MatchSettings, play_games
from zerofleet.matches.scoreboard import GameResult, Scoreboard, Standing
from zerofleet.matches.stopping import Decision, StoppingRule

__all__ = ["MatchOutcome", "play_match"]

ResultHandler = Callable[[GameResult], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class MatchOutcome:
    """How a match ended."""

    standing: Standing
    decision: Decision
    log_likelihood_ratio: float


async def play_match(
    board: Scoreboard,
    rule: StoppingRule,
    evaluator: Evaluator,
    *,
    settings: MatchSettings,
    make_agent: AgentMaker,
    on_result: ResultHandler | None = None,
) -> MatchOutcome:
    """Play what `board` has no result for until `rule` decides; then the board is closed.

    `on_result` is awaited for each result before it counts. Results already on the board count as if they had been played
    now. Raises what the evaluator raises; then the board keeps what it has, and the match may be played on.
    Cancellation: likewise.
    """
    outcome = _outcome(board, rule)
    if outcome is None:
        pairings = board.open_pairings()
        games = play_games(board.terms.game, pairings, evaluator, settings=settings, make_agent=make_agent)
        async with aclosing(games) as results:
            async for result in results:
                if on_result is not None:
                    await on_result(result)
                board.record(result)
                outcome = _outcome(board, rule)
                if outcome is not None:
                    break
    if outcome is None:
        raise AssertionError(f"match {board.terms.match_id} ran out of games without a decision")
    board.close()
    return outcome


def _outcome(board: Scoreboard, rule: StoppingRule) -> MatchOutcome | None:
    standing = board.standing()
    decision = rule.decide(standing, is_last=board.exhausted)
    if decision is None:
        return None
    return MatchOutcome(standing, decision, rule.log_likelihood_ratio(standing))

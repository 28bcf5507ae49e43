"""Match: plays until the stopping rule decides; resumable from known results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass

from zerofleet.evaluators.base import Evaluator
from zerofleet.strength.matches.play import AgentMaker, MatchSettings, play_games
from zerofleet.strength.matches.scoreboard import GameResult, Scoreboard, Standing
from zerofleet.strength.matches.stopping import Decision, StoppingRule

__all__ = ["MatchOutcome", "decide", "play_match"]

Recorder = Callable[[GameResult], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class MatchOutcome:
    """Result of a match."""

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
    record: Recorder | None = None,
) -> MatchOutcome:
    """Play the games missing from `board` until `rule` decides; then close the board.

    `record` adds a result to the board; the default is `board.record`. Results already on the board count like new ones.
    Propagates errors of the evaluator and `record`; the board keeps its results, and the match can be resumed.
    Cancellation: likewise.
    """
    outcome = decide(board, rule)
    if outcome is None:
        looked_at = board.groups
        pairings = board.open_pairings()
        games = play_games(board.terms.game, pairings, evaluator, settings=settings, make_agent=make_agent)
        async with aclosing(games) as results:
            async for result in results:
                if record is None:
                    board.record(result)
                else:
                    await record(result)
                outcome = decide(board, rule, after=looked_at)
                if outcome is not None:
                    break
                looked_at = board.groups
    if outcome is None:
        raise AssertionError(f"match {board.terms.match_id} ran out of games without a decision")
    board.close()
    return outcome


def decide(board: Scoreboard, rule: StoppingRule, *, after: int = -1) -> MatchOutcome | None:
    """Return the outcome at the first group at which the rule decides, None while it does not.

    Every group is examined, also when several complete at once, so that the outcome does not depend on the number of
    concurrent games. Groups up to `after` have been examined before.
    """
    for groups in range(after + 1, board.groups + 1):
        standing = board.standing(groups)
        decision = rule.decide(standing, is_last=groups == board.groups and board.exhausted)
        if decision is not None:
            return MatchOutcome(standing, decision, rule.log_likelihood_ratio(standing))
    return None

"""Match: plays until the stopping rule decides; resumable from known results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass

from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import Evaluator
from zerofleet.strength.matches.play import AgentMaker, MatchSettings, play_games
from zerofleet.strength.matches.scoreboard import GameResult, Scoreboard, Standing
from zerofleet.strength.matches.stopping import Decision, StoppingRule
from zerofleet.strength.matches.terms import Pairing

__all__ = ["MatchOutcome", "decide", "paced", "play_match"]

PACE = 3  # 15 groups decide a clear match; a close one has 100 groups of the default gate in progress after 23
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
    Raises `InvalidRequest` as `decide`. Propagates errors of the evaluator and `record`; the board keeps its results, and the
    match can be resumed.
    Cancellation: likewise.
    """
    outcome = decide(board, rule)
    if outcome is None:
        looked_at = board.groups
        pairings = paced(board, settings.lead_games) if settings.lead_games else board.open_pairings()
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


def paced(board: Scoreboard, lead_games: int) -> Iterator[Pairing | None]:
    """Yield the games without a result, and None while too many groups have begun for the number that counts.

    Groups count in the order in which they began, so a decision needs the longest games of the first groups, and games of
    later groups are lost with it. A match therefore begins with `lead_games`, rounded up to whole groups, and `PACE` further
    groups may begin for each one that counts: a clear match ends within its first games, a close one soon fills all slots.
    """
    lead_groups = -(-lead_games // board.terms.games_per_group)
    for pairing in board.open_pairings():
        while pairing.group >= lead_groups + PACE * board.groups:
            yield None
        yield pairing


def decide(board: Scoreboard, rule: StoppingRule, *, after: int = -1) -> MatchOutcome | None:
    """Return the outcome at the first group at which the rule decides, None while it does not.

    Every group is examined, also when several complete at once, so that the outcome does not depend on the number of
    concurrent games. Groups up to `after` have been examined before.

    Raises `InvalidRequest` for a match without an opening: no rule decides on no games.
    """
    if not board.groups and board.exhausted:
        raise InvalidRequest(f"match {board.terms.match_id} has no opening, so no game; want at least one")
    for groups in range(after + 1, board.groups + 1):
        standing = board.standing(groups)
        decision = rule.decide(standing, is_last=groups == board.groups and board.exhausted)
        if decision is not None:
            return MatchOutcome(standing, decision, rule.log_likelihood_ratio(standing))
    return None

"""Play of the missing games of a ladder: one champion at a time, for large batches of its positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from itertools import chain, islice

from zerofleet.agents import AgentMaker
from zerofleet.evaluators.base import Evaluator
from zerofleet.strength.ladders.book import LadderBook
from zerofleet.strength.ladders.plan import LadderPlan, Match
from zerofleet.strength.matches import GameResult, MatchSettings, Pairing, Player, Scoreboard, play_games

__all__ = ["VERSIONS_AT_ONCE", "Lender", "climb", "in_turns", "missing_games"]

VERSIONS_AT_ONCE = 12  # versions loaded in a server, which holds sixteen by default

Lender = Callable[[Sequence[int]], AbstractAsyncContextManager[Evaluator]]
"""Returns a context manager for an evaluator of the given versions; given none, the evaluator is not used."""


async def climb(
    plan: LadderPlan,
    book: LadderBook,
    *,
    lend: Lender,
    settings: MatchSettings,
    make_agent: AgentMaker,
    note: Callable[[GameResult], None],
) -> None:
    """Play every game of the plan missing from the book, with the plan's root; `note` is called with each result.

    Propagates errors of `lend`, the evaluator and the agents; the book keeps the finished games.
    Cancellation: likewise.
    """
    settings = replace(settings, root=plan.root)
    for versions, matches in plan.rounds(VERSIONS_AT_ONCE):
        by_id = {match.match_id: match for match in matches if missing_games(book, match, plan.groups)}
        if not by_id:
            continue
        pairings = chain.from_iterable(
            in_turns([book.board(match, plan.groups) for match in of_one], groups=plan.groups)
            for of_one in _by_champion(list(by_id.values()))
        )
        needed = {name for match in by_id.values() for name in (match.first, match.second)}
        async with lend([version for version in versions if f"model:{version}" in needed]) as evaluator:
            games = play_games(plan.game, pairings, evaluator, settings=settings, make_agent=make_agent)
            async with aclosing(games) as results:
                async for result in results:
                    book.record(by_id[result.match_id], result)
                    note(result)


def missing_games(book: LadderBook, match: Match, groups: int) -> int:
    """Return the number of missing games in the first `groups` groups of a match."""
    board = book.board(match, max(1, groups))
    available = next((group for group in range(groups) if board.opening(group) is None), groups)
    played = sum(result.group < available for result in board.results())
    return available * board.terms.games_per_group - played


def in_turns(boards: Sequence[Scoreboard], *, groups: int | None = None) -> Iterator[Pairing]:
    """Yield the games of all boards, one group of each in turn, so that all boards progress together.

    With `groups`, only the first `groups` groups.
    """
    open_pairings = [(board.open_pairings(), board.terms.games_per_group) for board in boards]
    while open_pairings:
        following = []
        for pairings, group_size in open_pairings:
            group = [pairing for pairing in islice(pairings, group_size) if groups is None or pairing.group < groups]
            yield from group
            if group:
                following.append((pairings, group_size))
        open_pairings = following


def _by_champion(matches: Sequence[Match]) -> Iterator[list[Match]]:
    """Yield the matches grouped by champion; matches between rungs form one group."""
    kinds = dict.fromkeys(_champion(match) for match in matches)
    return ([match for match in matches if _champion(match) == kind] for kind in kinds)


def _champion(match: Match) -> int | None:
    return Player.named(match.first).version

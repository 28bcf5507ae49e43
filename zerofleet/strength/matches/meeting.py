"""Meeting: a complete match, from a number of games to a summary.

terms = terms_of_games(game, players, games=100, seed=0, opening_plies=2)
met = await meet(terms, addresses, simulations=100)      # an inference server for each run of the models, none without models
print(met.summary())
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from games.core import Game
from zerofleet.agents import make_agent
from zerofleet.agents.model.search_options import SearchOptions
from zerofleet.evaluators.base import Evaluator
from zerofleet.evaluators.of_runs import evaluating_runs
from zerofleet.strength.matches.match import MatchOutcome, play_match
from zerofleet.strength.matches.openings import Opening
from zerofleet.strength.matches.play import MatchSettings
from zerofleet.strength.matches.scoreboard import GameResult, Scoreboard
from zerofleet.strength.matches.stopping import FixedGames, StoppingRule
from zerofleet.strength.matches.summary import MatchSummary, summarise
from zerofleet.strength.matches.terms import MatchTerms, Player, seatings
from zerofleet.strength.processors import usable_cores

__all__ = ["Met", "meet", "terms_of_games"]

SLOTS = 128  # concurrent games: large requests, and still many opponents' moves between two of them
AGENT_SLOTS = 8  # per core without models: more games would only end later, when a test may have decided


@dataclass(frozen=True, slots=True)
class Met:
    """Completed meeting."""

    board: Scoreboard
    outcome: MatchOutcome

    def summary(self) -> MatchSummary:
        """Return the summary of the match."""
        standing = self.outcome.standing
        return summarise(self.board.terms, standing, self.board.counted_results(standing.groups))


def terms_of_games(
    game: Game,
    players: tuple[Player, ...],
    *,
    games: int,
    seed: int,
    opening_plies: int,
    openings: tuple[Opening, ...] | None = None,
) -> MatchTerms:
    """Return the terms of a match of at least `games` games, in whole groups. Raises `InvalidRequest`."""
    return MatchTerms(
        match_id="match",
        game=game,
        players=players,
        seed=seed,
        opening_plies=opening_plies,
        max_groups=math.ceil(games / len(seatings(game.spec().num_players))),
        given_openings=openings,
    )


async def meet(
    terms: MatchTerms,
    addresses: Sequence[str],
    *,
    simulations: int,
    options: SearchOptions | None = None,
    evaluator: Evaluator | None = None,
    rule: StoppingRule | None = None,
    progress: Callable[[Scoreboard], None] = lambda _board: None,
) -> Met:
    """Play until `rule` decides, by default all games; `progress` is called after each result.

    `options` are those of the models' search; an agent such as `mcts` has its own. `addresses` are those of inference servers,
    one for each run of the models (`zerofleet.evaluators.of_runs`); none without models or with the caller's `evaluator`.
    Propagates errors of evaluator and agents. Cancellation: the games are lost.
    """
    board = Scoreboard(terms)
    most = terms.max_groups * terms.games_per_group
    slots = AGENT_SLOTS * usable_cores() if not addresses and evaluator is None else SLOTS
    settings = MatchSettings(simulations=simulations, options=options or SearchOptions(), slots=min(slots, most))

    async def record(result: GameResult) -> None:
        board.record(result)
        progress(board)

    async with contextlib.AsyncExitStack() as stack:
        if evaluator is None:
            evaluator = await stack.enter_async_context(evaluating_runs(addresses, terms.game))
        outcome = await play_match(
            board, rule or FixedGames(), evaluator, settings=settings, make_agent=make_agent, record=record
        )
    return Met(board, outcome)

"""Rating ladder: strength of champions on a scale anchored to the classical agents.

    random ── alpha_beta:1 ── alpha_beta:2 ── … ── alpha_beta:5        neighbours play one match
       └────────────┴───────────────┴───── champion ──┘                each champion plays every rung
                                               │
                                        next champion                  their gate match counts as well

Ratings are Bayesian Elo over all these games. (Matches stopped early by a sequential test slightly overrate the winner;
only those that led to a promotion are counted.) The ladder plays at low priority: never while a candidate waits, and only
for a share of the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from itertools import pairwise

import numpy as np
import structlog

from games.core import Game
from games.errors import GameError
from gatekeeper.ledger import Ledger
from gatekeeper.pointer import ChampionPointer
from gatekeeper.settings import GatekeeperSettings
from zerofleet.contracts.promotions import Rung
from zerofleet.errors import (
    ConfigurationError,
    CorruptModel,
    InvalidRequest,
    ModelNotFound,
    Overloaded,
    Unavailable,
    first_error,
)
from zerofleet.evaluators.base import Evaluator
from zerofleet.strength.ladders.play import in_turns
from zerofleet.strength.ladders.rungs import ANCHOR, default_rungs, require_rungs
from zerofleet.strength.matches import AgentMaker, MatchSettings, MatchTerms, Pairing, Player, SearchTerms, play_games
from zerofleet.strength.ratings import Placement, Tally, rate
from zerofleet.telemetry import metrics

__all__ = ["Ladder", "rest_s"]

RATED_CHAMPIONS = 40  # the latest; the cost of rating is cubic in their number
PAUSE_S = 2.0

log = structlog.get_logger()


class Ladder:
    """Rating ladder of one model."""

    def __init__(
        self,
        game: Game,
        settings: GatekeeperSettings,
        *,
        ledger: Ledger,
        pointer: ChampionPointer,
        idle: asyncio.Event,
        make_agent: AgentMaker,
    ) -> None:
        self._game = game
        self._settings = settings
        self._ledger = ledger
        self._pointer = pointer
        self._idle = idle
        self._make_agent = make_agent
        self._search = SearchTerms(settings.gate.root, settings.gate.leaves_per_game)
        self._names = self._chosen_rungs() if settings.gate.ladder_games else ()
        self._resumed_at_s = 0.0

    def rungs(self) -> list[Rung]:
        """Return the ladder, strongest first."""
        champions = [f"model:{champion.version}" for champion in self._pointer.history]
        known = {ANCHOR, *self._names, *dict.fromkeys(reversed(champions[-RATED_CHAMPIONS:]))}
        rated = [one for one in self._ledger.evidence(self._search) if _players(one) <= known]
        return [Rung(r.name, r.elo, r.low, r.high, r.games) for r in rate(rated, anchor=ANCHOR)]

    async def run(self, evaluator: Evaluator) -> None:
        """Play the missing matches of each champion until cancelled.

        Cancellation: games in progress are lost, results are kept.
        """
        await asyncio.sleep(self._settings.ladder_delay_s)
        while self._names:
            epoch = self._pointer.epoch
            try:
                await self._close_former_matches()
                self._show()
                await self._play(evaluator, epoch)
            except Exception as failure:  # no failure of the ladder may stop the gatekeeper
                error = first_error(failure)
                foreseen = isinstance(error, Unavailable | Overloaded | ModelNotFound | CorruptModel)
                log.info("ladder.delayed", error=str(error), exc_info=None if foreseen else failure)
                await asyncio.sleep(PAUSE_S)
                continue
            await self._pointer.changed_since(epoch)

    async def _play(self, evaluator: Evaluator, epoch: int) -> None:
        """Play until no match is missing or the champion changes."""
        boards = [await self._ledger.open_match(terms, "ladder") for terms in self._missing()]
        settings = MatchSettings(
            simulations=self._settings.gate.simulations,
            leaves_per_game=self._search.leaves_per_game,
            root=self._search.root,
            slots=self._settings.ladder_slots,
            cache_positions=self._settings.cache_positions,
            before_step=self._take_turns,
            agent_threads=1,  # `ladder_time_share` refers to one core
        )
        self._resumed_at_s = asyncio.get_running_loop().time()
        pairings = self._until_changed(in_turns(boards), epoch)
        games = play_games(self._game, pairings, evaluator, settings=settings, make_agent=self._make_agent)
        async with aclosing(games) as results:
            async for result in results:
                await self._ledger.record(result)
                self._show()
                if self._pointer.epoch != epoch:
                    break
        if self._pointer.epoch != epoch:
            return
        for board in boards:
            await self._ledger.close_match(board.terms.match_id, rated_groups=board.groups)

    def _missing(self) -> list[MatchTerms]:
        """Return the matches that are not complete."""
        matches = list(pairwise(self._names))
        if self._pointer.champion is not None:
            champion = f"model:{self._pointer.champion.version}"
            matches = [*((champion, name) for name in self._names), *matches]
        missing = [self._terms(first, second) for first, second in matches]
        return [terms for terms in missing if not self._games_of(terms)]

    def _games_of(self, terms: MatchTerms) -> int:
        """Return the games of a match that is complete, else 0."""
        first, second = terms.players
        return self._ledger.games_between(first.name, second.name, terms.search)

    def _terms(self, first: str, second: str) -> MatchTerms:
        players = (Player.named(first), Player.named(second))
        words = [self._settings.seed, *f"{first} {second}".encode()]
        gate = self._settings.gate
        return MatchTerms(
            match_id=f"ladder/{first}/{second}",
            game=self._game,
            players=players,
            seed=int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0]) >> 1,
            opening_plies=gate.opening_plies,
            max_groups=max(1, gate.ladder_games // 2),
            search=self._search.between(first, second),
        )

    def _until_changed(self, pairings: Iterator[Pairing], epoch: int) -> Iterator[Pairing]:
        for pairing in pairings:
            if self._pointer.epoch != epoch:
                return
            yield pairing

    async def _take_turns(self) -> None:
        """Rest after each step in proportion to its time, and while a candidate waits."""
        clock = asyncio.get_running_loop().time
        worked_s = clock() - self._resumed_at_s
        await asyncio.sleep(rest_s(worked_s, self._settings.ladder_time_share))
        await self._idle.wait()
        self._resumed_at_s = clock()

    async def _close_former_matches(self) -> None:
        """Close the matches of former champions, and those with another search than the present; their games count."""
        champion = self._pointer.champion
        for board in self._ledger.boards("ladder"):
            first = board.terms.players[0]
            former = first.version is not None and (champion is None or first.version != champion.version)
            search = self._search.between(*(player.name for player in board.terms.players))
            if former or board.terms.search != search:
                await self._ledger.close_match(board.terms.match_id, rated_groups=board.groups)

    def _chosen_rungs(self) -> tuple[str, ...]:
        """Return the classical rungs, weakest first: those in the settings, else those of the game.

        Raises `ConfigurationError` for a configured one that does not exist or cannot play the game.
        """
        gate = self._settings.gate
        if not gate.rungs:
            return default_rungs(self._game, make_agent=self._make_agent, depth=gate.ladder_depth)
        try:
            return require_rungs(gate.rungs, self._game, make_agent=self._make_agent)
        except (InvalidRequest, GameError) as error:
            raise ConfigurationError(f"setting gate.rungs: {error}") from error

    def _show(self) -> None:
        champion = self._pointer.champion
        for rung in self.rungs():
            if champion is not None and rung.name == f"model:{champion.version}":
                metrics.CHAMPION_ELO.set(rung.elo)
            elif not rung.name.startswith("model:"):
                metrics.LADDER_ELO.labels(rung=rung.name).set(rung.elo)


def rest_s(worked_s: float, time_share: float) -> float:
    """Return the rest after `worked_s` of work such that work takes `time_share` of the time."""
    return worked_s * (1.0 / time_share - 1.0)


def _players(result: Tally | Placement) -> set[str]:
    return {result.first, result.second} if isinstance(result, Tally) else set(result.players)

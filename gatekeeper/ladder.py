"""Rating ladder: strength of champions on a scale anchored to the classical agents.

    random ── alpha_beta:1 ── alpha_beta:2 ── … ── alpha_beta:5        neighbours play one match
       └────────────┴───────────────┴───── champion ──┘                each champion plays every rung
                                               │
                                        next champion                  their gate match counts as well

Ratings are Bayesian Elo over all these games. (Matches stopped early by a sequential test slightly overrate the winner;
only those that led to a promotion are counted.) The ladder plays only for a share of the time. A few games of each champion
against every rung are reserved: they are played while candidates wait as well, and to their end when the next champion is
promoted meanwhile, since a rating without games against rungs is not anchored (`standings`). All other games are played only
while no candidate waits. The ladder rates the last confirmed champion (`lineage`): in mode `watch` champions change faster
than a rating is played.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import pairwise, takewhile
from typing import Any

import numpy as np
import structlog

from games.core import Game
from games.errors import GameError
from gatekeeper import ratings
from gatekeeper.ledger import Ledger
from gatekeeper.pointer import ChampionPointer
from gatekeeper.ratings import Ratings
from gatekeeper.served_versions import Serving
from gatekeeper.settings import GatekeeperSettings
from zerofleet.contracts.gate_events import ModelPlay
from zerofleet.contracts.lineage import confirmed_champion
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
from zerofleet.presets import GateSettings
from zerofleet.presets.gate_rules import model_play
from zerofleet.strength.ladders.play import in_turns
from zerofleet.strength.ladders.rungs import default_rungs, require_rungs
from zerofleet.strength.matches import AgentMaker, MatchSettings, MatchTerms, Pairing, Player, Scoreboard, play_games
from zerofleet.strength.matches.meeting import terms_of_games
from zerofleet.telemetry import metrics

__all__ = ["Ladder", "chosen_rungs", "rest_s"]

RESERVED_GROUPS = 2
"""Groups of games against each rung, 4 games of two players, that a champion plays also while candidates wait."""
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
        serving: Serving,
        idle: asyncio.Event,
        make_agent: AgentMaker,
        rungs: Sequence[str],
    ) -> None:
        """Create it with the classical `rungs`, see `chosen_rungs`; without any it plays nothing."""
        self._game = game
        self._settings = settings
        self._ledger = ledger
        self._pointer = pointer
        self._serving = serving
        self._idle = idle
        self._make_agent = make_agent
        self._names = tuple(rungs)
        self._ratings = Ratings(ledger, pointer)
        self._resumed_at_s = 0.0
        self._version: int | None = None
        """Version that is being rated."""
        self._boards: Sequence[Scoreboard] = ()
        """Its matches, and those among the rungs, that are being played."""

    async def rungs(self) -> Sequence[Rung]:
        """Return the ladder, strongest first, as of at most `ratings.PERIOD_S` ago. Cancellation: as `Ratings.rungs`."""
        return await self._ratings.rungs(max_age_s=ratings.PERIOD_S)

    async def run(self, evaluator: Evaluator) -> None:
        """Play the missing matches of each confirmed champion, and show the ratings, until cancelled.

        Cancellation: games in progress are lost, results are kept.
        """
        await asyncio.sleep(self._settings.ladder_delay_s)
        if self._names:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._show_changes())
                group.create_task(self._play_each_champion(evaluator))

    async def _play_each_champion(self, evaluator: Evaluator) -> None:
        while True:
            version = self._confirmed()
            try:
                await self._close_matches_of_other_champions(version)
                async with self._serving.including(*([] if version is None else [version])):
                    is_complete = await self._play(evaluator, version)
            except Exception as failure:  # no failure of the ladder may stop the gatekeeper
                error = first_error(failure)
                foreseen = isinstance(error, Unavailable | Overloaded | ModelNotFound | CorruptModel)
                log.info("ladder.delayed", error=str(error), exc_info=None if foreseen else failure)
                await asyncio.sleep(PAUSE_S)
                continue
            if is_complete:
                await self._until_another_is_confirmed(version)

    def _confirmed(self) -> int | None:
        """Return the version to rate."""
        champion = confirmed_champion(self._pointer.history, self._ledger.candidates())
        return None if champion is None else champion.version

    async def _until_another_is_confirmed(self, version: int | None) -> None:
        while self._confirmed() == version:
            await self._until_changed()

    async def _until_changed(self, *others: Coroutine[Any, Any, object]) -> None:
        """Wait for a change of the ledger or the pointer, or until one of `others` ends."""
        noted, written = self._ledger.changed.wait(), self._pointer.changed_since(self._pointer.epoch)
        waits = [asyncio.ensure_future(one) for one in (noted, written, *others)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()

    async def _play(self, evaluator: Evaluator, version: int | None) -> bool:
        """Play until no match is missing and return True; once another champion is confirmed, only the reserved games."""
        self._version = version
        self._boards = boards = [await self._ledger.open_match(terms, "ladder") for terms in self._missing()]
        settings = replace(
            MatchSettings.recorded(self._play_of(version)),
            slots=self._settings.ladder_slots,
            cache_positions=self._settings.cache_positions,
            before_step=self._take_turns,
            agent_threads=1,  # `ladder_time_share` refers to one core
        )
        self._resumed_at_s = asyncio.get_running_loop().time()
        pairings = takewhile(self._may_begin, _reserved_first(boards))
        games = play_games(self._game, pairings, evaluator, settings=settings, make_agent=self._make_agent)
        async with aclosing(games) as results:
            async for result in results:
                await self._ledger.record(result)
                if self._confirmed() != version and not self._owes():
                    return False
        for board in boards:
            if board.exhausted:  # not so if another champion was confirmed for a while
                await self._ledger.close_match(board.terms.match_id, rated_groups=board.groups)
        return all(board.closed for board in boards)

    def _may_begin(self, pairing: Pairing) -> bool:
        """Return whether a game may begin: any, or only a reserved one once another champion is confirmed."""
        return self._confirmed() == self._version or _reserved(pairing)

    def _missing(self) -> list[MatchTerms]:
        """Return the matches that are not complete."""
        matches = list(pairwise(self._names))
        version = self._confirmed()
        if version is not None:
            champion = f"model:{version}"
            matches = [*((champion, name) for name in self._names), *matches]
        play = self._play_of(version)
        return [self._terms(first, second, play) for first, second in matches if not self._ledger.games_between(first, second)]

    def _play_of(self, version: int | None) -> ModelPlay:
        """Return how a version plays all its matches: as in those that a restart interrupted, else by the present settings."""
        own = (board.terms for board in self._ledger.boards("ladder") if board.terms.players[0].version == version)
        return next((terms.play for terms in own if terms.play is not None), model_play(self._settings.gate))

    def _terms(self, first: str, second: str, play: ModelPlay) -> MatchTerms:
        players = (Player.named(first), Player.named(second))
        words = [self._settings.seed, *f"{first} {second}".encode()]
        gate = self._settings.gate
        terms = terms_of_games(
            self._game,
            players,
            games=gate.ladder_games,
            seed=int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0]) >> 1,
            opening_plies=gate.opening_plies,
        )
        return replace(terms, match_id=f"ladder/{first}/{second}", play=play if _is_of_a_model(terms) else None)

    async def _take_turns(self) -> None:
        """Rest after each step in proportion to its time and, unless reserved games are missing, while a candidate waits.

        A champion confirmed meanwhile ends the rest: its reserved games do not wait.
        """
        clock = asyncio.get_running_loop().time
        worked_s = clock() - self._resumed_at_s
        await asyncio.sleep(rest_s(worked_s, self._settings.ladder_time_share))
        while not (self._idle.is_set() or self._owes() or self._confirmed() != self._version):
            await self._until_changed(self._idle.wait())
        self._resumed_at_s = clock()

    def _owes(self) -> bool:
        """Return whether reserved games of the version that is being rated are missing."""
        return any(
            _is_of_a_model(board.terms) and board.groups < RESERVED_GROUPS and not board.exhausted for board in self._boards
        )

    async def _close_matches_of_other_champions(self, version: int | None) -> None:
        """Close the matches of all champions but one; their games count."""
        for board in self._ledger.boards("ladder"):
            first = board.terms.players[0]
            if first.version is not None and first.version != version:
                await self._ledger.close_match(board.terms.match_id, rated_groups=board.groups)

    async def _show_changes(self) -> None:
        """Show the ratings in the metrics, again after each change; changes shortly after one another are shown together."""
        while True:
            changed, epoch = self._ledger.changed, self._pointer.epoch
            try:
                await self._show()
            except Exception as error:  # as in `_play_each_champion`
                log.warning("ladder.not_rated", error=str(error), exc_info=error)
            await asyncio.sleep(ratings.PERIOD_S)
            if not changed.is_set() and self._pointer.epoch == epoch:
                await self._until_changed()

    async def _show(self) -> None:
        rungs = await self._ratings.rungs(max_age_s=0.0)
        champion = f"model:{self._confirmed()}"
        metrics.CHAMPION_ELO.set(math.nan)
        for rung in rungs:
            if not rung.anchored:
                continue
            if rung.name == champion:
                metrics.CHAMPION_ELO.set(rung.elo)
            elif not rung.name.startswith("model:"):
                metrics.LADDER_ELO.labels(rung=rung.name).set(rung.elo)


def chosen_rungs(game: Game, gate: GateSettings, make_agent: AgentMaker) -> tuple[str, ...]:
    """Return the classical rungs, weakest first: those in the settings, else those of the game; none without ladder games.

    Makes each agent, which may take long: `perfect` solves its game. Raises `ConfigurationError` for a configured one that does
    not exist or cannot play the game.
    """
    if not gate.ladder_games:
        return ()
    if not gate.rungs:
        return default_rungs(game, make_agent=make_agent, depth=gate.ladder_depth)
    try:
        return require_rungs(gate.rungs, game, make_agent=make_agent)
    except (InvalidRequest, GameError) as error:
        raise ConfigurationError(f"setting gate.rungs: {error}") from error


def rest_s(worked_s: float, time_share: float) -> float:
    """Return the rest after `worked_s` of work such that work takes `time_share` of the time."""
    return worked_s * (1.0 / time_share - 1.0)


def _reserved_first(boards: Sequence[Scoreboard]) -> Iterator[Pairing]:
    """Yield the reserved games of a champion, then all others, those of every match in turn."""
    own = [board for board in boards if _is_of_a_model(board.terms)]
    yield from in_turns(own, groups=RESERVED_GROUPS)
    yield from (pairing for pairing in in_turns(boards) if not _reserved(pairing))


def _reserved(pairing: Pairing) -> bool:
    return pairing.group < RESERVED_GROUPS and any(player.version is not None for player in pairing.players)


def _is_of_a_model(terms: MatchTerms) -> bool:
    return terms.players[0].version is not None

"""Finished games from the game log of a run, or from players that play now on fixed seats."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

import numpy as np

from games.core import Game
from zerofleet.agents import make_agent
from zerofleet.contracts.records import decode_record, validate
from zerofleet.errors import InvalidRequest, RecordRejected
from zerofleet.evaluators.base import Evaluator
from zerofleet.storage.game_log import GameLog
from zerofleet.strength.behaviour.finished import FinishedGame, of_moves, of_record
from zerofleet.strength.matches import MatchSettings, Opening, Pairing, Player, draw_openings, play_games

__all__ = ["Sitting", "logged_games", "played_games"]


@dataclass(frozen=True, slots=True)
class Sitting:
    """Games of players who keep their seats."""

    game: Game
    players: tuple[Player, ...]
    """One for each seat; they may be equal."""
    games: int
    seed: int
    opening_plies: int = 0
    """Random plies before each game."""

    def require_variety(self, settings: MatchSettings) -> None:
        """Raise `InvalidRequest` if every game would be the same, or if the players do not fit the seats."""
        spec = self.game.spec()
        if len(self.players) != spec.num_players:
            raise InvalidRequest(
                f"{spec.name} has {spec.num_players} seats, got {len(self.players)} players; name one for each seat, or one "
                "for all"
            )
        if self.repeats(settings) and not self.opening_plies:
            raise InvalidRequest(
                "players without a random choice repeat one game; add --opening-plies 2, or for models --search temperature=1"
            )

    def repeats(self, settings: MatchSettings) -> bool:
        """Whether two games from one opening are the same game."""
        spec = self.game.spec()
        fixed = spec.information == "perfect" and all(player.repeats_itself for player in self.players)
        samples = bool(settings.search(spec).temperature) and any(player.version is not None for player in self.players)
        return fixed and not samples


def logged_games(path: Path, newest: int) -> Iterator[FinishedGame]:
    """Yield at most `newest` games of a game log, oldest first; damaged and invalid ones are skipped.

    Raises `RunDirectoryError` without a log.
    """
    with GameLog.open(path, writer=False) as log:
        for logged in log.scan(log.end_index - newest):
            try:
                yield of_record(validate(decode_record(logged.payload)))
            except RecordRejected:
                continue


async def played_games(sitting: Sitting, evaluator: Evaluator, settings: MatchSettings) -> AsyncGenerator[FinishedGame]:
    """Play and yield the games as they end. Cancellation: the games are lost.

    Raises `InvalidRequest` if there are too few openings for players who repeat a game; propagates the errors of agents and
    evaluator.
    """
    pairings = _pairings(sitting, settings)
    version = max((player.version or 0 for player in sitting.players), default=0)
    games = play_games(sitting.game, iter(pairings), evaluator, settings=settings, make_agent=make_agent)
    async for result in games:
        seed = pairings[result.group].opening.seed
        yield of_moves(sitting.game, result.moves, seed=seed, scores=tuple(result.scores), version=version)


def _pairings(sitting: Sitting, settings: MatchSettings) -> list[Pairing]:
    """Return the games to play; they depend on seed and number alone."""
    seats = tuple(range(len(sitting.players)))
    words = np.random.SeedSequence(sitting.seed).generate_state(1 + 2 * sitting.games, np.uint64)
    first, *seeds = (int(word) >> 2 for word in words)
    openings = _openings(sitting, settings, first, seeds[::2])
    return [
        Pairing("behaviour", number, seats, sitting.players, opening, seed)
        for number, (opening, seed) in enumerate(zip(openings, seeds[1::2], strict=True))
    ]


def _openings(sitting: Sitting, settings: MatchSettings, seed: int, seeds: Sequence[int]) -> list[Opening]:
    """Return an opening for each game: there may be fewer different ones.

    Args:
        sitting: The games.
        settings: Settings of the play.
        seed: Seed of the random plies.
        seeds: Seed of each game's deal. With random plies a deal is that for which they were drawn.
    """
    if not sitting.opening_plies:
        return [Opening(dealt, ()) for dealt in seeds]
    drawn = list(islice(draw_openings(sitting.game, plies=sitting.opening_plies, seed=seed), sitting.games))
    if not drawn:
        raise InvalidRequest(f"every opening of {sitting.opening_plies} plies ends the game; use fewer --opening-plies")
    if len(drawn) < sitting.games and sitting.repeats(settings):
        raise InvalidRequest(
            f"there are {len(drawn):,} different openings of {sitting.opening_plies} plies, and players without a random "
            f"choice repeat the game of each; add plies, or for models --search temperature=1, or use --games {len(drawn)}"
        )
    if sitting.game.spec().information == "hidden":
        return list(islice(cycle(drawn), sitting.games))
    return [Opening(dealt, opening.moves) for dealt, opening in zip(seeds, cycle(drawn), strict=False)]

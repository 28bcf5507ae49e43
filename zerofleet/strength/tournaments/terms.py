"""The terms of a tournament: everybody meets everybody, from the same openings.

A *meeting* is a match, of two players, or in a game of more seats of as many different players as it has seats (a *table*).
Who else takes part changes no game of a meeting: its openings and its luck follow from the seed and its players.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from games.core import Game
from games.positions import parameters_text
from zerofleet.errors import InvalidRequest
from zerofleet.strength.matches import MatchTerms, Opening, Player, position_key

__all__ = ["TournamentTerms"]


@dataclass(frozen=True)
class TournamentTerms:
    """What is settled before the first game. Equal terms give the same games from players whose luck is the games'."""

    game: Game
    players: tuple[Player, ...]
    games: int
    """Of each meeting, rounded up to whole groups: one opening, every seating."""
    seed: int
    opening_plies: int
    simulations: int
    """Visits of each move of a model."""
    given_openings: tuple[Opening, ...] | None = None
    """Openings to use instead of random ones, in this order."""
    tables: bool = False
    """Whether each game has as many different players as seats, instead of two who share these."""

    def __post_init__(self) -> None:
        names = [player.name for player in self.players]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidRequest(f"{', '.join(repeated)} would play twice; name every player once")
        if len(names) < self.players_a_game:
            raise InvalidRequest(f"a game needs {self.players_a_game} players, got {', '.join(names) or 'none'}")

    @property
    def players_a_game(self) -> int:
        """Different players in each game."""
        return self.game.spec().num_players if self.tables else 2

    @functools.cached_property
    def meetings(self) -> tuple[MatchTerms, ...]:
        """Everybody against everybody. Raises `InvalidRequest` when no opening leaves the game open."""
        return tuple(self._meeting(players) for players in itertools.combinations(self.players, self.players_a_game))

    def said(self) -> dict[str, object]:
        """Return what decides the games, in plain values: equal exactly for terms under which a tournament may go on."""
        given = self.given_openings
        return {
            "game": self.game.spec().name,
            "parameters": parameters_text(self.game),
            "rules_version": self.game.spec().rules_version,
            "players": [player.name for player in self.players],
            "games": self.games,
            "seed": self.seed,
            "opening_plies": self.opening_plies,
            "simulations": self.simulations,
            "openings": None if given is None else [[opening.seed, *opening.moves] for opening in given],
            "tables": self.tables,
        }

    def _meeting(self, players: tuple[Player, ...]) -> MatchTerms:
        names = " / ".join(player.name for player in players)
        words = [self.seed, *names.encode()]
        unlike = all(player.repeats_itself for player in players)
        openings = self._different_openings if unlike else self._openings
        return MatchTerms(
            match_id=names,
            game=self.game,
            players=players,
            seed=int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0]) >> 1,
            opening_plies=self.opening_plies,
            max_groups=len(openings),
            given_openings=openings,
        )

    @functools.cached_property
    def _openings(self) -> tuple[Opening, ...]:
        """Those of all meetings; they repeat where the game offers too few, but for the luck that goes with them."""
        anybody = tuple(Player(f"player {number}") for number in range(self.players_a_game))
        terms = MatchTerms(
            match_id="",
            game=self.game,
            players=anybody,
            seed=self.seed,
            opening_plies=self.opening_plies,
            max_groups=1,
            given_openings=self.given_openings,
        )
        groups = math.ceil(self.games / terms.games_per_group)
        everything = MatchTerms("", self.game, anybody, self.seed, self.opening_plies, groups, self.given_openings)
        return tuple(everything.openings())

    @functools.cached_property
    def _different_openings(self) -> tuple[Opening, ...]:
        """Those that lead to different positions, for players who would otherwise only repeat a game."""
        return tuple(self._first_of_each_position())

    def _first_of_each_position(self) -> Iterator[Opening]:
        seen = set()
        secret = self.game.spec().information == "simultaneous"
        for opening in self._openings:
            key = position_key(self.game, opening)
            if secret or key not in seen:
                seen.add(key)
                yield opening

"""Terms of a round-robin tournament with common openings.

A *meeting* is a match of two players, or in a game of more seats of as many different players as seats (a *table*). Its games
do not depend on the other participants: openings and random numbers follow from the seed and its players.
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
from zerofleet.agents.model.search_options import parse_search
from zerofleet.errors import InvalidRequest
from zerofleet.strength.matches import MatchTerms, Opening, Player, position_key

__all__ = ["TournamentTerms"]


@dataclass(frozen=True)
class TournamentTerms:
    """Conditions of a tournament. Equal terms give equal games from players without other sources of randomness."""

    game: Game
    players: tuple[Player, ...]
    games: int
    """Games per meeting, rounded up to whole groups: one opening, every seating."""
    seed: int
    opening_plies: int
    simulations: int
    """Simulations per move of a model."""
    search: str = ""
    """Options of the models' search, as written by `SearchOptions`."""
    given_openings: tuple[Opening, ...] | None = None
    """Openings to use instead of random ones, in this order."""
    tables: bool = False
    """Whether each seat of a game has a different player, instead of two players on all seats."""

    def __post_init__(self) -> None:
        names = [player.name for player in self.players]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise InvalidRequest(f"{', '.join(repeated)} would play twice; name each player once")
        if len(names) < self.players_a_game:
            raise InvalidRequest(f"a game needs {self.players_a_game} players, got {', '.join(names) or 'none'}")

    @property
    def players_a_game(self) -> int:
        """Number of different players in each game."""
        return self.game.spec().num_players if self.tables else 2

    @functools.cached_property
    def meetings(self) -> tuple[MatchTerms, ...]:
        """Meetings of all combinations of players. Raises `InvalidRequest` if every opening ends the game."""
        return tuple(self._meeting(players) for players in itertools.combinations(self.players, self.players_a_game))

    def said(self) -> dict[str, object]:
        """Return the terms that determine the games as plain values; a tournament can be resumed under equal values only."""
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
            **({"search": search} if (search := parse_search(self.search).identity) else {}),  # absent without options
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
        """Openings of all meetings; if the game has too few, they repeat with other seeds."""
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
        """Openings that lead to different positions, for deterministic players."""
        return tuple(self._first_of_each_position())

    def _first_of_each_position(self) -> Iterator[Opening]:
        seen = set()
        secret = self.game.spec().information == "simultaneous"
        for opening in self._openings:
            key = position_key(self.game, opening)
            if secret or key not in seen:
                seen.add(key)
                yield opening

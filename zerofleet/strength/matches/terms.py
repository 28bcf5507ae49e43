"""Terms of a match: players, openings and seats.

The games of a match come in groups. All games of a group start from the same opening, one for each way to seat the players
(`seatings`): for two players, two in a two-player game and six in a three-player one. A group favours no player, and its points
are one observation of relative strength. A match may have as many players as the game has seats.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from games.core import Game
from zerofleet.agents.registry import repeats_itself
from zerofleet.contracts.gate_events import ModelPlay
from zerofleet.contracts.naming import is_version
from zerofleet.errors import InvalidRequest
from zerofleet.strength.matches.openings import Opening, draw_openings, position_key

__all__ = ["MatchTerms", "Pairing", "Player", "points", "seatings"]


@dataclass(frozen=True, slots=True)
class Player:
    """Player of a match: a model version, or a classical agent."""

    name: str
    """Name such as `model:7`, `random` or `alpha_beta:3`; see `zerofleet.agents`."""
    version: int | None = None
    """Model version; None for an agent."""
    agent: str | None = None
    """Text of the agent if it differs from `name`; see `twin`."""

    @classmethod
    def model(cls, version: int) -> Player:
        """Return the player of a model version."""
        return cls(f"model:{version}", version)

    @classmethod
    def named(cls, name: str) -> Player:
        """Return the player with a name: `model:7` is a model version, any other name an agent."""
        kind, _, number = name.partition(":")
        return cls(name, int(number)) if kind == "model" and is_version(number) else cls(name)

    def twin(self) -> Player:
        """Return the same player under another name, for a match between equals."""
        return Player(f"{self.name} (control)", self.version, None if self.version else self.text)

    @property
    def text(self) -> str:
        """Argument of `zerofleet.agents.make_agent` for the agent."""
        return self.agent or self.name

    @property
    def asks_model(self) -> bool:
        """Whether it is an agent that uses a model."""
        return self.version is None and ",model=" in self.text

    @property
    def repeats_itself(self) -> bool:
        """Whether it repeats a game given the same opposing moves. Most agents break ties at random."""
        return self.version is not None or repeats_itself(self.text)


@dataclass(frozen=True, slots=True)
class Pairing:
    """One game to play."""

    match_id: str
    group: int
    seating: tuple[int, ...]
    """Index of the player on each seat."""
    players: tuple[Player, ...]
    """Players by seat."""
    opening: Opening
    seed: int
    """Seed of the agents' random numbers; the opening has its own seed."""


@dataclass(frozen=True, slots=True)
class MatchTerms:
    """Conditions of a match. Equal terms and deterministic evaluations give equal games."""

    match_id: str
    """Identifier of the match in results; never reused."""
    game: Game
    players: tuple[Player, ...]
    """Two players at least, and at most one per seat."""
    seed: int
    opening_plies: int
    max_groups: int
    given_openings: tuple[Opening, ...] | None = None
    """Openings to use instead of random ones, in this order."""
    play: ModelPlay | None = None
    """How the models choose their moves, where the match may outlast the process that began it; None: not recorded."""

    def __post_init__(self) -> None:
        for player in self.players:
            if self.players.count(player) > 1:
                raise InvalidRequest(
                    f"{player.name} cannot play itself: the result is no evidence of strength; name two different players"
                )
        spec = self.game.spec()
        if not 2 <= len(self.players) <= spec.num_players:
            raise InvalidRequest(
                f"{len(self.players)} players cannot share the {spec.num_players} seats of {spec.name}; "
                f"want at least two, and at most one per seat"
            )
        if self.max_groups < 1:
            raise InvalidRequest(f"a match needs at least one group of games, got {self.max_groups}")
        if self.given_openings is not None and self.must_differ:
            keys = [position_key(self.game, opening) for opening in self.given_openings]
            if len(set(keys)) < len(keys):
                raise InvalidRequest("two openings lead to the same position; deterministic players would repeat their game")

    @property
    def must_differ(self) -> bool:
        """Whether a second group with the same opening would repeat the first.

        False where moves are secret: players randomise them, seeded by the opening.
        """
        return self.game.spec().information != "simultaneous" and all(player.repeats_itself for player in self.players)

    @property
    def games_per_group(self) -> int:
        """Number of games per group."""
        return len(self.seatings)

    @property
    def seatings(self) -> tuple[tuple[int, ...], ...]:
        """Seatings of the games of a group."""
        return seatings(self.game.spec().num_players, len(self.players))

    def openings(self) -> Iterator[Opening]:
        """Yield the opening of each group, at most `max_groups`; fewer if the game has fewer different openings.

        Openings repeat if a player is randomised, but never between deterministic players.
        """
        return itertools.islice(self._all_openings(), self.max_groups)

    def pairings(self, group: int, opening: Opening) -> Iterator[Pairing]:
        """Yield the games of a group."""
        for index, seating in enumerate(self.seatings):
            seed = int(np.random.SeedSequence([self.seed, group, index]).generate_state(1, np.uint64)[0])
            seated = tuple(self.players[player] for player in seating)
            yield Pairing(self.match_id, group, seating, seated, opening, seed)

    def _all_openings(self) -> Iterator[Opening]:
        if self.given_openings is not None:
            yield from self.given_openings
            return
        drawn = False
        for round_number in itertools.count():
            for opening in draw_openings(self.game, plies=self.opening_plies, seed=self.seed + round_number):
                drawn = True
                yield opening
            if not drawn:
                raise InvalidRequest(
                    f"every opening of {self.opening_plies} plies ends the game; use fewer plies (--opening-plies, in Python "
                    "opening_plies)"
                )
            if self.must_differ:
                return


@functools.lru_cache
def seatings(num_seats: int, num_players: int = 2) -> tuple[tuple[int, ...], ...]:
    """Return every assignment of players to seats in which each player has a seat, in lexicographic order."""
    every_way = itertools.product(range(num_players), repeat=num_seats)
    return tuple(seats for seats in every_way if len(set(seats)) == num_players)


def points(seating: tuple[int, ...], scores: tuple[float, ...]) -> float:
    """Return the first player's share of a game's points, in [0, 1], from the scores (by seat, in [-1, 1]).

    The difference between its mean score and the mean of the others, scaled to [0, 1]: with two seats 1 for a win, one half
    for a draw.
    """
    own = [score for seat, score in zip(seating, scores, strict=True) if seat == 0]
    others = [score for seat, score in zip(seating, scores, strict=True) if seat != 0]
    return 0.5 + (sum(own) / len(own) - sum(others) / len(others)) / 4.0

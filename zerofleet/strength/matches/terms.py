"""The terms of a match: who meets whom, from which openings, on which seats.

The games of a match come in groups. All games of a group begin with the same opening, one for each way to seat the players
(`seatings`): of two players, two for a two-player game, six for a three-player one. So a group favours nobody, and its
points are one observation of who is stronger. As many players may meet in a game as it has seats.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from games.core import Game
from zerofleet.errors import InvalidRequest
from zerofleet.strength.matches.openings import Opening, draw_openings, position_key

__all__ = ["MatchTerms", "Pairing", "Player", "points", "seatings"]


@dataclass(frozen=True, slots=True)
class Player:
    """One side of a match: a model version, or a classical agent."""

    name: str
    """`model:7`, `random`, `alpha_beta:3`, as `zerofleet.agents` knows them."""
    version: int | None = None
    """Model version; None for an agent."""
    agent: str | None = None
    """How the agent is written where `name` does not say so; see `twin`."""

    @classmethod
    def model(cls, version: int) -> Player:
        """Return the player that searches with a model version."""
        return cls(f"model:{version}", version)

    @classmethod
    def named(cls, name: str) -> Player:
        """Return the player of a name: `model:7` is a model version, anything else an agent."""
        kind, _, number = name.partition(":")
        return cls(name, int(number)) if kind == "model" and number.isdecimal() else cls(name)

    def twin(self) -> Player:
        """Return the same player under another name, for a match between equals."""
        return Player(f"{self.name} (control)", self.version, None if self.version else self.text)

    @property
    def text(self) -> str:
        """How `zerofleet.agents.make_agent` is asked for the agent."""
        return self.agent or self.name

    @property
    def asks_model(self) -> bool:
        """Whether it is an agent that asks a model."""
        return self.version is None and ",model=" in self.text

    @property
    def repeats_itself(self) -> bool:
        """Whether it plays the same game when it meets the same moves again. Agents break ties by lot."""
        return self.version is not None


@dataclass(frozen=True, slots=True)
class Pairing:
    """One game to be played."""

    match_id: str
    group: int
    seating: tuple[int, ...]
    """By seat, which player sits there: 0 the first, 1 the second and so on."""
    players: tuple[Player, ...]
    """By seat."""
    opening: Opening
    seed: int
    """Of whatever luck the agents have; the opening has its own."""


@dataclass(frozen=True, slots=True)
class MatchTerms:
    """What is settled before the first move. Equal terms give the same games from deterministic evaluations."""

    match_id: str
    """Names the match in results; never used for another one."""
    game: Game
    players: tuple[Player, ...]
    """Two, or up to as many as the game has seats."""
    seed: int
    opening_plies: int
    max_groups: int
    given_openings: tuple[Opening, ...] | None = None
    """Openings to use instead of random ones, in this order."""

    def __post_init__(self) -> None:
        for player in self.players:
            if self.players.count(player) > 1:
                raise InvalidRequest(
                    f"{player.name} cannot meet itself: the result would say nothing; name two different players"
                )
        spec = self.game.spec()
        if not 2 <= len(self.players) <= spec.num_players:
            raise InvalidRequest(
                f"{len(self.players)} players cannot share the {spec.num_players} seats of {spec.name}; "
                "there must be two at least, and a seat for each"
            )
        if self.max_groups < 1:
            raise InvalidRequest(f"a match needs at least one group of games, got {self.max_groups}")
        if self.given_openings is not None and self.must_differ:
            keys = [position_key(self.game, opening) for opening in self.given_openings]
            if len(set(keys)) < len(keys):
                raise InvalidRequest("two openings lead to the same position; deterministic players would repeat their game")

    @property
    def must_differ(self) -> bool:
        """Whether a second group with the same opening would only repeat the first.

        Not where moves are secret: whoever is not to be guessed draws them, by luck that the opening's seed decides.
        """
        return self.game.spec().information != "simultaneous" and all(player.repeats_itself for player in self.players)

    @property
    def games_per_group(self) -> int:
        """Games of each group."""
        return len(self.seatings)

    @property
    def seatings(self) -> tuple[tuple[int, ...], ...]:
        """The games of a group, each by who sits where."""
        return seatings(self.game.spec().num_players, len(self.players))

    def openings(self) -> Iterator[Opening]:
        """Yield the opening of each group, `max_groups` at most; fewer where the game offers no more different ones.

        Players of whom one has luck of its own may meet in the same opening again; deterministic ones never do.
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
                raise InvalidRequest(f"no opening of {self.opening_plies} plies leaves the game open; take fewer")
            if self.must_differ:
                return


@functools.lru_cache
def seatings(num_seats: int, num_players: int = 2) -> tuple[tuple[int, ...], ...]:
    """Return every way to seat the players on the seats so that each sits somewhere; the first player's first."""
    every_way = itertools.product(range(num_players), repeat=num_seats)
    return tuple(seats for seats in every_way if len(set(seats)) == num_players)


def points(seating: tuple[int, ...], scores: tuple[float, ...]) -> float:
    """Return the first player's share of a game's points, in [0, 1], from the scores (by seat, in [-1, 1]).

    Half the difference of its mean score to that of the others, moved to [0, 1]: with two seats 1 for a win, one half for a
    draw.
    """
    own = [score for seat, score in zip(seating, scores, strict=True) if seat == 0]
    others = [score for seat, score in zip(seating, scores, strict=True) if seat != 0]
    return 0.5 + (sum(own) / len(own) - sum(others) / len(others)) / 4.0

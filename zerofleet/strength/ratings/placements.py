"""Placements: ranked results of games of any number of players, ties included.

The model is Plackett's (1975) and Luce's (1959): the winner is drawn in proportion to strength, then the second from the
rest, and so on. For two players it is Bradley and Terry's model; the probability that one player ranks before another does not
depend on the other players, hence games of different sizes can be rated together. Tied players count as the mean
log-likelihood over all orders among them; for two players that is half a win and half a loss.

With w = exp(rating), and a *round* being a set of players from which one is drawn, the log-likelihood of a placement is

    sum over players, rating of the player  -  sum over rounds, weight of the round * log(sum of w over its members)

For t tied players ranked before a set R, each subset U of them forms the round U + R in 1 / C(t, |U|) of the orders. A player
on several seats is several members of a round.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from zerofleet.errors import ConfigurationError

__all__ = ["Placement", "Round"]

TIE_TOLERANCE = 1e-6  # scores are float32 sums

Round = tuple[tuple[str, int], ...]
"""Members of a round with the number of their seats, by name."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Games of equal outcome: `players`, by seat or in any order, and the place of each."""

    players: tuple[str, ...]
    """Name of the player on each seat; a player on several seats occurs several times."""
    places: tuple[int, ...]
    """Place of each, 0 for the best; tied players share a place."""
    games: int = 1

    def __post_init__(self) -> None:
        if len(self.players) != len(self.places):
            raise ConfigurationError(f"{len(self.players)} players have {len(self.places)} places, want one each")
        if len(set(self.players)) < 2:
            raise ConfigurationError(f"{', '.join(self.players)}: a placement needs at least two different players")
        if self.games < 0:
            raise ConfigurationError(f"{', '.join(self.players)}: {self.games} games")

    @classmethod
    def of(cls, players: Sequence[str], scores: Sequence[float]) -> Self:
        """Return the placement of one game from its scores by seat; equal outcomes give equal placements."""
        ranked = sorted(zip(scores, players, strict=True), key=lambda entry: -entry[0])
        places = [0]
        for (better, _), (score, _) in itertools.pairwise(ranked):
            places.append(places[-1] + (better - score > TIE_TOLERANCE))
        entries = sorted((place, name) for place, (_, name) in zip(places, ranked, strict=True))
        return cls(tuple(name for _, name in entries), tuple(place for place, _ in entries))

    def rounds(self) -> Iterator[tuple[Round, float]]:
        """Yield the rounds with their weights, those of a single player included."""
        for place in sorted(set(self.places)):
            tied = [name for name, own in zip(self.players, self.places, strict=True) if own == place]
            behind = [name for name, own in zip(self.players, self.places, strict=True) if own > place]
            for size in range(1, len(tied) + 1):
                weight = 1.0 / math.comb(len(tied), size)
                for drawn_from in itertools.combinations(tied, size):
                    yield tuple(sorted(Counter([*drawn_from, *behind]).items())), weight

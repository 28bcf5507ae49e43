"""Games of any number of players as placements: who came before whom, ties included.

The model is Plackett's (1975) and Luce's (1959): the winner is drawn in proportion to strength, then the second among the
rest, and so on. Of two players it is Bradley and Terry's model, and the chance that one comes before another is the same
whoever else plays, so games of different sizes can be rated together. Players who tie count as the mean, over all orders
among them, of what those orders say; of two players that is half a win and half a loss.

A placement's log-likelihood, with w = exp(rating) and a *round* being a set of players of whom one is drawn, is

    sum over players, rating of the player  -  sum over rounds, weight of the round * log(sum of w over its members)

Among t who tie before a set R, each subset U of them
meets as the round U + R in
1 / C(t, |U|) of the orders. A player who sits on several seats is several members of a round.
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
    """Games that ended alike: `players` by seat or in any order, and the place of each."""

    players: tuple[str, ...]
    """One entry a seat; who sits on several seats is named several times."""
    places: tuple[int, ...]
    """0 for the best; those who tie have the same place."""
    games: int = 1

    def __post_init__(self) -> None:
        if len(self.players) != len(self.places):
            raise ConfigurationError(f"{len(self.players)} players have {len(self.places)} places; each needs one")
        if len(set(self.players)) < 2:
            raise ConfigurationError(
                f"{', '.join(self.players)}: a placement needs two different players, it would say nothing"
            )
        if self.games < 0:
            raise ConfigurationError(f"{', '.join(self.players)}: {self.games} games")

    @classmethod
    def of(cls, players: Sequence[str], scores: Sequence[float]) -> Self:
        """Return the placement of one game from its scores by seat; games that ended alike give equal ones."""
        ranked = sorted(zip(scores, players, strict=True), key=lambda entry: -entry[0])
        places = [0]
        for (better, _), (score, _) in itertools.pairwise(ranked):
            places.append(places[-1] + (better - score > TIE_TOLERANCE))
        entries = sorted((place, name) for place, (_, name) in zip(places, ranked, strict=True))
        return cls(tuple(name for _, name in entries), tuple(place for place, _ in entries))

    def rounds(self) -> Iterator[tuple[Round, float]]:
        """Yield the rounds with the weight of each, also those in which a player was drawn from nobody else."""
        for place in sorted(set(self.places)):
            tied = [name for name, own in zip(self.players, self.places, strict=True) if own == place]
            behind = [name for name, own in zip(self.players, self.places, strict=True) if own > place]
            for size in range(1, len(tied) + 1):
                weight = 1.0 / math.comb(len(tied), size)
                for drawn_from in itertools.combinations(tied, size):
                    yield tuple(sorted(Counter([*drawn_from, *behind]).items())), weight

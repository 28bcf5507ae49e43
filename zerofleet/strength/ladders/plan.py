"""Who meets whom on a ladder, and in which order.

    random ── alpha_beta:1 ── alpha_beta:2 ── …            neighbours among the rungs, and those two apart
       └────────────┴───────────────┴──── champion         each champion meets every rung
                                             │
                                       next champion       and the one before it

A rung meets the one two above it as well: between random and strong play most games are won by the same side, and all that is
known of the distance from `random` goes through those few that are not. Neighbouring champions meet because the best of them
beat every rung in every game, which says nothing of their order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np

from games.core import Game
from zerofleet.strength.matches import MatchTerms, Player

__all__ = ["LadderPlan", "Match", "spaced"]

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class Match:
    """Two players and the conditions of their games. Equal ones have the same openings, however many are played."""

    first: str
    second: str
    simulations: int
    """Of each move of a model; 0 too where none plays."""
    opening_plies: int
    seed: int

    @property
    def match_id(self) -> str:
        """Names the match in results."""
        return f"ladder/{self.first}/{self.second}/{self.simulations}/{self.opening_plies}/{self.seed}"

    def terms(self, game: Game, groups: int) -> MatchTerms:
        """Return the terms of its first `groups` groups of games."""
        words = [self.seed, *f"{self.first} {self.second}".encode()]
        return MatchTerms(
            match_id=self.match_id,
            game=game,
            players=(Player.named(self.first), Player.named(self.second)),
            seed=int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0]) >> 1,
            opening_plies=self.opening_plies,
            max_groups=groups,
        )


@dataclass(frozen=True, slots=True)
class LadderPlan:
    """What is to be played."""

    game: Game
    rungs: tuple[str, ...]
    """Classical players, weakest first."""
    versions: tuple[int, ...]
    """Champions, oldest first."""
    games: int
    """Of each pair, rounded up to whole groups; 0 plays nothing."""
    simulations: int
    opening_plies: int
    seed: int

    @property
    def groups(self) -> int:
        """Groups of games of each match."""
        first, second = Player("first"), Player("second")
        probe = MatchTerms("probe", self.game, (first, second), seed=0, opening_plies=0, max_groups=1)
        return math.ceil(self.games / probe.games_per_group)

    def rung_matches(self) -> list[Match]:
        """Return the matches in which no model plays."""
        pairs = [*pairwise(self.rungs), *zip(self.rungs, self.rungs[2:], strict=False)]
        return [self._match(lower, upper) for lower, upper in pairs]

    def champion_matches(self, version: int) -> list[Match]:
        """Return the matches of a champion: against the rungs, and against the champion before it."""
        name = f"model:{version}"
        place = self.versions.index(version)
        before = [self._match(name, f"model:{self.versions[place - 1]}")] if place else []
        return [*(self._match(name, rung) for rung in self.rungs), *before]

    def matches(self) -> list[Match]:
        """Return all matches."""
        return [*self.rung_matches(), *(match for version in self.versions for match in self.champion_matches(version))]

    def rounds(self, size: int) -> Iterator[tuple[tuple[int, ...], list[Match]]]:
        """Yield the champions in shares of `size`, newest first, with their matches, and whom those need beside themselves.

        A server holds so many versions at once and no more. The matches among the rungs come with the first share.
        """
        newest_first = self.versions[::-1]
        for start in range(0, max(1, len(newest_first)), size):
            share = newest_first[start : start + size + 1]  # one more: the last of a share meets the one before it
            matches = [match for version in share[:size] for match in self.champion_matches(version)]
            yield share, [*(self.rung_matches() if start == 0 else ()), *matches]

    def _match(self, first: str, second: str) -> Match:
        with_model = any(Player.named(name).version is not None for name in (first, second))
        return Match(first, second, self.simulations if with_model else 0, self.opening_plies, self.seed)


def spaced(entries: Sequence[Entry], every: int) -> list[Entry]:
    """Return every so manieth entry, counted from the last, which is always there, and the first."""
    return [entry for i, entry in enumerate(entries) if i == 0 or (len(entries) - 1 - i) % every == 0]

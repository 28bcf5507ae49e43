"""Plan of a ladder: its matches and their order.

    random ── alpha_beta:1 ── alpha_beta:2 ── …            neighbours among the rungs, and those two apart
       └────────────┴───────────────┴──── champion         each champion meets every rung
                                             │
                                       next champion       and the one before it

A rung also plays the one two above it: between random and strong play nearly all games go to the same side, and the distance to
`random` rests on the few exceptions. Neighbouring champions play each other because the best of them win every game against
every rung, which does not order them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

import numpy as np

from games.core import Game
from zerofleet.agents.model.search_options import parse_search
from zerofleet.strength.matches import MatchTerms, Player

__all__ = ["LadderPlan", "Match", "spaced"]

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class Match:
    """Two players and the conditions of their games. Equal matches share their openings, whatever the number of games."""

    first: str
    second: str
    simulations: int
    """Simulations per move of a model; 0 also in a match without models."""
    opening_plies: int
    seed: int
    search: str = ""
    """Options of the models' search (`SearchOptions.identity`); empty also in a match without models."""

    @property
    def has_model(self) -> bool:
        """Whether a model plays in it."""
        return any(Player.named(name).version is not None for name in (self.first, self.second))

    @property
    def match_id(self) -> str:
        """Identifier of the match in results."""
        plain = f"ladder/{self.first}/{self.second}/{self.simulations}/{self.opening_plies}/{self.seed}"
        return f"{plain}/{self.search}" if self.search else plain

    def terms(self, game: Game, groups: int) -> MatchTerms:
        """Return the terms of the first `groups` groups of games."""
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
    """Matches to play."""

    game: Game
    rungs: tuple[str, ...]
    """Classical players, weakest first."""
    versions: tuple[int, ...]
    """Champions, oldest first."""
    games: int
    """Games per pair of players, rounded up to whole groups; 0 plays nothing."""
    simulations: int
    opening_plies: int
    seed: int
    search: str = ""
    """Options of the models' search, as written by `SearchOptions.resolved`."""

    @property
    def recorded_search(self) -> str:
        """Search of the models as `Match.search` has it."""
        return parse_search(self.search).identity

    @property
    def groups(self) -> int:
        """Number of groups in each match."""
        return math.ceil(self.games / self._games_per_group)

    @property
    def most_games(self) -> int:
        """Number of games of all matches; fewer where a game has not that many different openings."""
        return len(self.matches()) * self.groups * self._games_per_group

    def rung_matches(self) -> list[Match]:
        """Return the matches between rungs."""
        pairs = [*pairwise(self.rungs), *zip(self.rungs, self.rungs[2:], strict=False)]
        return [self._match(lower, upper) for lower, upper in pairs]

    def champion_matches(self, version: int) -> list[Match]:
        """Return the matches of a champion against the rungs and the previous champion."""
        name = f"model:{version}"
        place = self.versions.index(version)
        before = [self._match(name, f"model:{self.versions[place - 1]}")] if place else []
        return [*(self._match(name, rung) for rung in self.rungs), *before]

    def matches(self) -> list[Match]:
        """Return all matches."""
        return [*self.rung_matches(), *(match for version in self.versions for match in self.champion_matches(version))]

    def rounds(self, size: int) -> Iterator[tuple[tuple[int, ...], list[Match]]]:
        """Yield shares of `size` champions, newest first, with their opponents and their matches.

        `size` is limited by the number of versions that a server holds. Matches between rungs come with the first share.
        """
        newest_first = self.versions[::-1]
        for start in range(0, max(1, len(newest_first)), size):
            share = newest_first[start : start + size + 1]  # one more: the last of a share plays the previous champion
            matches = [match for version in share[:size] for match in self.champion_matches(version)]
            yield share, [*(self.rung_matches() if start == 0 else ()), *matches]

    @property
    def _games_per_group(self) -> int:
        first, second = Player("first"), Player("second")
        return MatchTerms("probe", self.game, (first, second), seed=0, opening_plies=0, max_groups=1).games_per_group

    def _match(self, first: str, second: str) -> Match:
        match = Match(first, second, self.simulations, self.opening_plies, self.seed, self.recorded_search)
        return match if match.has_model else replace(match, simulations=0, search="")


def spaced(entries: Sequence[Entry], every: int) -> list[Entry]:
    """Return every n-th entry (n = `every`), counted from the last, which is always included, and the first."""
    return [entry for i, entry in enumerate(entries) if i == 0 or (len(entries) - 1 - i) % every == 0]

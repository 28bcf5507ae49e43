"""Diagnostics of self-play: figures of the finished games that show whether play became narrow or overlooks wins.

Totals count from the start, so that the difference of two readings describes the games between them; ratios and means refer
to the latest games or positions. `GameRegister` exports them as metrics; a loop in one process reads `figures`.

    facts = diagnostics.note(played)        # of this game
    diagnostics.figures                     # of all
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from games.compiled import lean
from selfplay_worker.game_walk import GameWalk, walk
from zerofleet.contracts.endings import ENDINGS, Ending, ending_of
from zerofleet.contracts.played import FULL_SEARCH, REDUCED, Searches
from zerofleet.search import PlayedGame

__all__ = ["ENDINGS", "LINE_PLIES", "Diagnostics", "Figures", "GameFacts", "warm_up"]

LINE_PLIES = 8
"""Plies of the lines compared as openings, drawn ones included."""
WINDOW_GAMES = 1_000
WINDOW_POSITIONS = 50_000

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class GameFacts:
    """Facts about one game."""

    ending: Ending
    plies: int
    """Number of moves, the opening included."""
    wins_taken: int
    wins_overlooked: int
    samples: int
    """Searches that are policy targets with the full weight."""
    reduced_samples: int
    """Policy targets after a soft resignation."""
    target_entropy: float
    """Sum of the entropies of all its policy targets, in nats."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Totals of all games, and ratios and means of the latest, which are 0 before the first game."""

    games: int
    endings: Mapping[Ending, int]
    plies: int
    wins_taken: int
    wins_overlooked: int
    samples: int
    reduced_samples: int
    entropy_sum: float
    """Sum of the entropies of all policy targets, in nats."""
    positions: int
    """Positions in which a player chose a move, openings excluded."""
    new_positions: int
    """Those that had not occurred among the latest positions before them."""
    resigned_ratio: float
    """Share of the latest games that were resigned, softly or not."""
    target_entropy: float
    """Mean entropy of the policy targets of the latest games, in nats."""
    distinct_openings_ratio: float
    """Number of different first `LINE_PLIES` plies among the latest games, per game."""
    new_positions_ratio: float
    """Share of the latest positions that had not occurred among as many before them."""


class Diagnostics:
    """Counts over the finished games of a worker. Not thread-safe."""

    def __init__(self, *, window_games: int = WINDOW_GAMES, window_positions: int = WINDOW_POSITIONS) -> None:
        """Start without games; the windows are the numbers of latest games and of latest positions."""
        self._endings: Counter[Ending] = Counter()
        self._totals: Counter[str] = Counter()
        self._entropy_sum = 0.0
        self._latest: deque[GameFacts] = deque()
        self._window_games = window_games
        self._resigned = 0  # of the latest games
        self._targets = 0
        self._latest_entropy = 0.0
        self._lines = _Window[tuple[int, ...]](window_games)
        self._positions = _Window[int](window_positions)

    def note(self, played: PlayedGame) -> GameFacts:
        """Count a finished game; return its facts."""
        walked = walk(played)
        facts = _facts(played, walked)
        self._endings[facts.ending] += 1
        for name in ("plies", "wins_taken", "wins_overlooked", "samples", "reduced_samples"):
            self._totals[name] += getattr(facts, name)
        self._entropy_sum += facts.target_entropy
        self._latest.append(facts)
        self._weigh(facts, +1)
        if len(self._latest) > self._window_games:
            self._weigh(self._latest.popleft(), -1)
        self._lines.add_all([tuple(played.moves[:LINE_PLIES].tolist())])
        self._positions.add_all(walked.keys.tolist())
        return facts

    @property
    def figures(self) -> Figures:
        """Current figures."""
        games = len(self._latest)
        return Figures(
            games=self._endings.total(),
            endings={ending: self._endings[ending] for ending in ENDINGS},
            plies=self._totals["plies"],
            wins_taken=self._totals["wins_taken"],
            wins_overlooked=self._totals["wins_overlooked"],
            samples=self._totals["samples"],
            reduced_samples=self._totals["reduced_samples"],
            entropy_sum=self._entropy_sum,
            positions=self._positions.added,
            new_positions=self._positions.new,
            resigned_ratio=self._resigned / games if games else 0.0,
            target_entropy=self._latest_entropy / self._targets if self._targets else 0.0,
            distinct_openings_ratio=self._lines.distinct_ratio,
            new_positions_ratio=self._positions.new_ratio,
        )

    def _weigh(self, facts: GameFacts, sign: int) -> None:
        """Add a game to the figures of the latest ones, or remove it."""
        self._resigned += sign * (facts.ending in ("resigned", "soft_resigned"))
        self._targets += sign * (facts.samples + facts.reduced_samples)
        self._latest_entropy += sign * facts.target_entropy


@dataclass(slots=True)
class _Window(Generic[Key]):
    """Latest `size` keys, and how often each occurs among them. A key is new if it is not in the window when it comes."""

    size: int
    added: int = 0
    """All keys ever."""
    new: int = 0
    """All new keys ever."""
    _keys: deque[tuple[Key, bool]] = field(default_factory=deque)
    _counts: dict[Key, int] = field(default_factory=dict)
    _latest_new: int = 0

    def add_all(self, added: Sequence[Key]) -> None:
        """Add keys one by one, each in place of the oldest if there are `size`."""
        keys, counts = self._keys, self._counts
        for key in added:
            count = counts.get(key, 0)
            is_new = not count
            counts[key] = count + 1
            keys.append((key, is_new))
            self._latest_new += is_new
            self.new += is_new
            if len(keys) > self.size:
                oldest, was_new = keys.popleft()
                self._latest_new -= was_new
                if counts[oldest] == 1:
                    del counts[oldest]
                else:
                    counts[oldest] -= 1
        self.added += len(added)

    @property
    def distinct_ratio(self) -> float:
        """Number of different keys per key."""
        return len(self._counts) / len(self._keys) if self._keys else 0.0

    @property
    def new_ratio(self) -> float:
        """Share of the keys in the window that were new when they came."""
        return self._latest_new / len(self._keys) if self._keys else 0.0


def warm_up() -> None:
    """Load the compiled code, or compile it."""
    _note_targets(Searches.of(()))


def _facts(played: PlayedGame, walked: GameWalk) -> GameFacts:
    searches = Searches.of(played.searched)
    samples, reduced, entropy = _note_targets(searches)
    return GameFacts(
        ending=ending_of(
            played.game.spec(),
            plies=len(played.moves),
            has_resigned=played.resigned_seat is not None,
            has_reduced=bool((searches.flags & REDUCED).any()),
        ),
        plies=len(played.moves),
        wins_taken=walked.wins_taken,
        wins_overlooked=walked.wins_overlooked,
        samples=samples,
        reduced_samples=reduced,
        target_entropy=entropy,
    )


def _note_targets(searches: Searches) -> tuple[int, int, float]:
    """Return the numbers of policy targets of full and of reduced weight, and the sum of the entropies of both, in nats."""
    visits, targets = (searches.start, searches.visits), (searches.target_start, searches.target)
    found: tuple[int, int, float] = _sum_targets(searches.flags, visits, targets)
    return found


@lean
def _sum_targets(
    flags: np.ndarray, visits: tuple[np.ndarray, np.ndarray], targets: tuple[np.ndarray, np.ndarray]
) -> tuple[int, int, float]:
    """Return `_note_targets` of columns of `Searches`."""
    samples, reduced, entropy = 0, 0, 0.0
    for row in range(flags.size):
        if not flags[row] & FULL_SEARCH:
            continue
        if flags[row] & REDUCED:
            reduced += 1
        else:
            samples += 1
        start, target = targets
        if start[row] < start[row + 1]:
            entropy += _entropy(target[start[row] : start[row + 1]])
        else:
            start, visited = visits
            entropy += _entropy(visited[start[row] : start[row + 1]])
    return samples, reduced, entropy


@lean
def _entropy(weights: np.ndarray) -> float:
    """Return the entropy of weights (numbers [n]) in nats."""
    total, found = 0.0, 0.0
    for weight in weights:
        total += weight
    for weight in weights:
        if weight > 0:
            found -= weight / total * np.log(weight / total)
    return found

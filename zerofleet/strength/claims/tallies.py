"""Tallies: counts of the scores of one player on one seat, and the estimates of figures drawn from them.

A figure of one tally or of several with the same training seed has the interval of its games: Wilson's for shares of games,
the empirical likelihood's (Owen 1988) for mean scores. Over two or more training seeds the mean over seeds has Student's
interval: seeds are then the independent observations. Two or three seeds can be equal by chance, for example with all games
won, so that interval is never narrower than the one of the pooled games. Where nothing is trained, games of all seeds are
pooled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from zerofleet.strength.learning.curves import t_interval
from zerofleet.strength.ratings import difference_interval, share_interval, wilson

__all__ = ["FIGURES", "Estimate", "Figure", "Tally", "difference", "estimate", "measured_estimate"]

Figure: TypeAlias = Literal["won", "drawn", "lost", "points", "net", "kept", "opened", "turns won", "turns drawn", "turns lost"]
FIGURES: Mapping[Figure, str] = {
    "won": "games won, %",
    "drawn": "games drawn, %",
    "lost": "games lost, %",
    "points": "share of the points, %",
    "net": "net score per 100 games",
    "kept": "moves that keep the value, %",
    "opened": "games opened with the move, %",
    "turns won": "turns won, %",
    "turns drawn": "turns drawn, %",
    "turns lost": "turns lost, %",
}
"""Figures of a tally. `points` is the mean of (score + 1) / 2, `net` 100 times the mean score; `kept` is for positions
in place of games, with the score 1 where the move keeps the value under perfect play, else -1; `opened` is that
of `Tally.opened_with`; turns are those of `Tally.turns`, and a game is one observation."""
_TURNS: Mapping[Figure, int] = {"turns won": 0, "turns drawn": 1, "turns lost": 2}
"""Figures of turns, and their place in the text of a game."""
_TIE = 1e-6  # scores are float32


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Scores of a player on one seat against one opponent, who has all other seats."""

    meeting: str
    """Name of the meeting."""
    subject: str
    opponent: str
    seat: int
    """Seat of the subject, counted from 1."""
    seed: int
    trained: bool
    """Whether the subject was trained with this seed, so that seeds and not games are independent."""
    at: int = 0
    """Games of training before; 0 where nothing is trained."""
    scores: Mapping[str, int] = field(default_factory=dict)
    """Number of games by the score of the subject, as text of a number in [-1, 1]."""
    first_moves: Mapping[str, int] = field(default_factory=dict)
    """Number of games by the subject's first move, where it begins from the start position; else empty, as in older results."""
    turns: Mapping[str, int] = field(default_factory=dict)
    """Number of games of rock paper scissors by the turns that the subject won, drew and lost, as text such as `30 35 35`; else
    empty, as in older results."""
    tables: Sequence[Mapping[str, Any]] = ()
    """Tables of behaviour of the games (`zerofleet.strength.behaviour.tables.as_stored`); none in older results."""
    subject_ms: float = 0.0
    """Milliseconds per move of the subject; of a network in play by batches, its share of the time."""
    subject_nodes: float = 0.0
    """Positions or simulations per move."""
    subject_cpu_ms: float = 0.0
    """Milliseconds of processor time per move of the subject; 0 for a network in play by batches, and in older results."""
    opponent_ms: float = 0.0
    opponent_nodes: float = 0.0
    opponent_cpu_ms: float = 0.0

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Self:
        """Return the tally of stored fields."""
        return cls(**{**fields, "tables": tuple(fields.get("tables", ()))})

    def as_json(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self) | {name: dict(getattr(self, name)) for name in ("scores", "first_moves", "turns")}

    def opened_with(self, move: str) -> Self:
        """Return a tally of openings: the score of a game is 1 if the subject's first move is `move`, else -1."""
        count = self.first_moves.get(move, 0)
        other = sum(self.first_moves.values()) - count
        return replace(self, scores={score: games for score, games in (("1", count), ("-1", other)) if games})

    @property
    def games(self) -> int:
        """Number of games."""
        return sum(self.scores.values())


@dataclass(frozen=True, slots=True)
class Estimate:
    """Figure with its 95 % interval, in percentage points, or in the unit of a measure."""

    value: float
    low: float
    high: float
    games: int
    seeds: int
    interval: str
    """`games`: over games; `seeds`: Student's over training seeds, at least that over games; `count`: without sampling."""

    def as_json(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)


def estimate(tallies: Sequence[Tally], figure: Figure) -> Estimate | None:
    """Return the figure of some tallies, all seats and seeds together; None without games, of turns without turns.

    A seed whose tallies have none, as older results of a folder, is left out.
    """
    tallies = _counting(tallies, figure)
    if not tallies:
        return None
    games = sum(_games(tally, figure) for tally in tallies)
    of_games = _of_games(_pooled(tallies, figure), figure)
    trained = _trained_seeds(tallies)
    if len(trained) < 2:
        return Estimate(*of_games, games, len(_seeds(tallies)), "games")
    each = [_seed_value(tallies, seed, figure) for seed in trained]
    low, high = _wider(t_interval(each), of_games[1:])
    lowest = -100.0 if figure == "net" else 0.0
    return Estimate(float(np.mean(each)), max(lowest, low), min(100.0, high), games, len(trained), "seeds")


def measured_estimate(values: Mapping[int, float]) -> Estimate | None:
    """Return the mean of a measure, given by training seed, with Student's interval; that of one seed has none."""
    if not values:
        return None
    found = [values[seed] for seed in sorted(values)]
    if len(found) == 1:
        return Estimate(found[0], found[0], found[0], 0, 1, "count")
    return Estimate(float(np.mean(found)), *t_interval(found), 0, len(found), "seeds")


def difference(first: Sequence[Tally], second: Sequence[Tally], figure: Figure) -> Estimate | None:
    """Return the figure of `first` less that of `second`; None if one is without games.

    With two or more training seeds in common, only their games count: the interval is Student's over the differences of pairs,
    and never narrower than that of the games. The latter is joined from the two intervals (Newcombe 1998, method 10).
    """
    first, second = _counting(first, figure), _counting(second, figure)
    common = sorted(set(_trained_seeds(first)) & set(_trained_seeds(second)))
    if len(common) > 1:
        first, second = ([tally for tally in side if tally.seed in common] for side in (first, second))
    a, b = estimate(first, figure), estimate(second, figure)
    if a is None or b is None:
        return None
    games = a.games + b.games
    if len(common) > 1:
        pairs = [_seed_value(first, seed, figure) - _seed_value(second, seed, figure) for seed in common]
        of_games = difference_interval(*(_of_games(_pooled(side, figure), figure) for side in (first, second)))
        return Estimate(float(np.mean(pairs)), *_wider(t_interval(pairs), of_games), games, len(pairs), "seeds")
    interval = "games" if a.interval == b.interval == "games" else "seeds"
    joined = difference_interval((a.value, a.low, a.high), (b.value, b.low, b.high))
    return Estimate(a.value - b.value, *joined, games, min(a.seeds, b.seeds), interval)


def _wider(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    return min(first[0], second[0]), max(first[1], second[1])


def _counting(tallies: Iterable[Tally], figure: Figure) -> list[Tally]:
    """Return the tallies with games that count in a figure."""
    return [tally for tally in tallies if _games(tally, figure)]


def _games(tally: Tally, figure: Figure) -> int:
    return sum((tally.turns if figure in _TURNS else tally.scores).values())


def _seeds(tallies: Iterable[Tally]) -> list[int]:
    return sorted({tally.seed for tally in tallies})


def _trained_seeds(tallies: Sequence[Tally]) -> list[int]:
    """Return the seeds that are independent observations; none where nothing is trained."""
    return _seeds(tallies) if any(tally.trained for tally in tallies) else []


def _seed_value(tallies: Sequence[Tally], seed: int, figure: Figure) -> float:
    return _of_games(_pooled([tally for tally in tallies if tally.seed == seed], figure), figure)[0]


def _pooled(tallies: Iterable[Tally], figure: Figure) -> Counter[float]:
    """Return the games by score; of a figure of turns, by the share of the turns."""
    counts: Counter[float] = Counter()
    for tally in tallies:
        if figure in _TURNS:
            for text, games in tally.turns.items():
                results = [int(word) for word in text.split()]
                counts[results[_TURNS[figure]] / sum(results)] += games
        else:
            for score, games in tally.scores.items():
                counts[float(score)] += games
    return counts


def _of_games(counts: Mapping[float, int], figure: Figure) -> tuple[float, float, float]:
    """Return value, low and high in percentage points."""
    games = sum(counts.values())
    if figure in _TURNS:
        of_game = np.repeat(list(counts), list(counts.values()))
        low, high = share_interval(of_game)
        return 100.0 * float(of_game.mean()), 100.0 * low, 100.0 * high
    if figure in {"points", "net"}:
        scores = np.repeat([(score + 1.0) / 2.0 for score in counts], list(counts.values()))
        shares = float(scores.mean()), *share_interval(np.clip(scores, 0.0, 1.0))
        low, high = (100.0 * share if figure == "points" else 200.0 * share - 100.0 for share in shares[1:])
        return (100.0 * shares[0] if figure == "points" else 200.0 * shares[0] - 100.0), low, high
    chosen = {"won": lambda score: score > _TIE, "lost": lambda score: score < -_TIE, "drawn": lambda score: abs(score) <= _TIE}
    count = sum(number for score, number in counts.items() if chosen["won" if figure in {"kept", "opened"} else figure](score))
    low, high = wilson(count, games)
    return 100.0 * count / games, 100.0 * low, 100.0 * high

"""Scoreboard of a match: validates and records results, and computes the standing.

Results are keyed by group and seating: recording is idempotent, and the standing does not depend on the order of arrival. Every
result is replayed with the rules; a game that does not start from its group's opening, or whose scores differ from the
rules', is rejected. Groups count in the order in which they began: short games end first, and counting in order of completion
would bias a test towards the player who wins quickly.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from games import positions
from games.errors import GameError
from zerofleet.errors import RecordRejected
from zerofleet.strength.matches.effort import Effort
from zerofleet.strength.matches.openings import Opening
from zerofleet.strength.matches.terms import MatchTerms, Pairing, points
from zerofleet.strength.ratings import share_interval

__all__ = ["GameResult", "Scoreboard", "SeatTally", "Standing"]

DRAW_TOLERANCE = 1e-6  # scores are float32 sums
MOST_MISSING = 10_000
"""Games that may be missing before a group: more than are ever played at once. Each group costs the draw of an opening."""


@dataclass(frozen=True, slots=True)
class GameResult:
    """Finished game of a match, as reported by a worker."""

    match_id: str
    group: int
    seating: tuple[int, ...]
    players: tuple[str, ...]
    """Names of the players by seat."""
    moves: tuple[int, ...]
    """All moves, opening included."""
    scores: tuple[float, ...]
    """Scores by seat, in [-1, 1]."""
    efforts: tuple[Effort, ...] = field(default=(), compare=False)
    """Cost of moves by player; empty if not measured. Not compared: times vary between repetitions of a game."""


@dataclass(slots=True)
class SeatTally:
    """Counts of games of the first player on some seats."""

    wins: int = 0
    draws: int = 0
    losses: int = 0
    full_wins: int = 0
    """Games with its full score of 1 on a seat: six captures in Abalone, first place among three."""
    full_losses: int = 0
    """Games with another player's full score."""
    points: float = 0.0
    """Sum of its shares of the games' points; with partial wins not the same as wins plus half the draws."""

    def add(self, share: float, full: int) -> None:
        """Count a game with the first player's share of its points, and `full` 1 for a full win or -1 for a full loss."""
        if abs(share - 0.5) <= DRAW_TOLERANCE:
            self.draws += 1
        elif share > 0.5:
            self.wins += 1
        else:
            self.losses += 1
        self.full_wins += full > 0
        self.full_losses += full < 0
        self.points += share

    @property
    def games(self) -> int:
        """Number of games."""
        return self.wins + self.draws + self.losses

    @property
    def share(self) -> float:
        """Share of the points; one half without games."""
        return self.points / self.games if self.games else 0.5


@dataclass(frozen=True, slots=True)
class Standing:
    """Standing of a match, from the first player's point of view."""

    group_scores: tuple[float, ...]
    """Share of the points of each complete group, in starting order."""
    seats: dict[tuple[int, ...], SeatTally] = field(default_factory=dict)
    """Games of those groups by seating."""

    @property
    def groups(self) -> int:
        """Number of complete groups."""
        return len(self.group_scores)

    @property
    def games(self) -> int:
        """Number of games in those groups."""
        return self.total.games

    @property
    def total(self) -> SeatTally:
        """Wins, draws and losses over all seatings."""
        parts = self.seats.values()
        return SeatTally(
            wins=sum(t.wins for t in parts),
            draws=sum(t.draws for t in parts),
            losses=sum(t.losses for t in parts),
            full_wins=sum(t.full_wins for t in parts),
            full_losses=sum(t.full_losses for t in parts),
            points=sum(t.points for t in parts),
        )

    @property
    def share(self) -> float:
        """Share of all points, in [0, 1]; one half before the first group."""
        return float(np.mean(self.group_scores)) if self.group_scores else 0.5

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the share."""
        return share_interval(np.array(self.group_scores))

    @property
    def pentanomial(self) -> tuple[int, int, int, int, int]:
        """Groups by share of points: none, a quarter, half, three quarters, all (rounded in games with other scores)."""
        counts = [0] * 5
        for score, groups in Counter(self.group_scores).items():
            counts[round(score * 4)] += groups
        return counts[0], counts[1], counts[2], counts[3], counts[4]


class Scoreboard:
    """Results of one match."""

    def __init__(self, terms: MatchTerms) -> None:
        self.terms = terms
        self.refused = 0
        """Number of rejected results."""
        self.duplicates = 0
        """Number of repeated results."""
        self.closed = False
        self._seatings = terms.seatings
        self._supply = terms.openings()
        self._openings: list[Opening] = []
        self._results: dict[tuple[int, tuple[int, ...]], GameResult] = {}
        self._group_scores: list[float] = []
        """First player's share of the points of each complete group."""
        self._tallies = [tuple(SeatTally() for _ in self._seatings)]
        """Tallies in the order of the seatings after each number of complete groups: a rule is applied after every group."""

    def opening(self, group: int) -> Opening | None:
        """Return the opening of a group, None past the last one. Raises `InvalidRequest` when none can be drawn."""
        while len(self._openings) <= group:
            try:
                following = next(self._supply, None)
            except BaseException:  # a generator that has raised ends: without another one the match would count as exhausted
                self._supply = itertools.islice(self.terms.openings(), len(self._openings), None)
                raise
            if following is None:
                return None
            self._openings.append(following)
        return self._openings[group]

    def open_pairings(self) -> Iterator[Pairing]:
        """Yield the games without a result, group by group; results that arrive during iteration are taken into account."""
        group = 0
        while (opening := self.opening(group)) is not None:
            for pairing in self.terms.pairings(group, opening):
                if (group, pairing.seating) not in self._results:
                    yield pairing
            group += 1

    def record(self, result: GameResult) -> bool:
        """Record a result; returns False, without effect, if it is already known.

        Raises `RecordRejected` with the reason for a result that does not belong to the match or contradicts the rules.
        """
        if not self.is_new(result):
            self.duplicates += 1
            return False
        self._results[result.group, result.seating] = result
        self._count_complete_groups()
        return True

    def restore(self, result: GameResult) -> None:
        """Record a result that was validated before, without replaying it: needs no compiled rules.

        Raises `RecordRejected` for one that can no longer be what it was: of another seating, other players, or with other
        scores than a game has.
        """
        if result.seating not in self._seatings or len(result.scores) != len(result.seating):
            text = f"group {result.group} has seating {result.seating} and scores {result.scores}, want one of {self._seatings}"
            raise RecordRejected("unknown_seating", text)
        self._require_seated(result)
        if any(abs(score) > 1.0 + DRAW_TOLERANCE for score in result.scores):
            raise RecordRejected("wrong_result", f"group {result.group} reports {result.scores}, want scores in [-1, 1]")
        self._results[result.group, result.seating] = result
        self._count_complete_groups()

    def is_new(self, result: GameResult) -> bool:
        """Return whether `record` would add a result, without recording it. Raises the errors of `record`."""
        try:
            self._require_honest(result)
        except RecordRejected:
            self.refused += 1
            raise
        return (result.group, result.seating) not in self._results

    def close(self) -> None:
        """Close the match: later results are rejected."""
        self.closed = True

    def results(self) -> list[GameResult]:
        """Return all results, those of incomplete groups included, in order of arrival."""
        return list(self._results.values())

    def counted_results(self, groups: int | None = None) -> list[GameResult]:
        """Return the results of the counted groups, or of the first `groups`, in order of groups and seatings."""
        counted = range(self.groups)[:groups]
        return [self._results[group, seating] for group in counted for seating in self._seatings]

    def efforts(self, groups: int | None = None) -> tuple[Effort, ...]:
        """Return the cost of each player's moves in `counted_results`."""
        totals = [Effort()] * len(self.terms.players)
        for result in self.counted_results(groups):
            for player, effort in enumerate(result.efforts):
                totals[player] += effort
        return tuple(totals)

    @property
    def groups(self) -> int:
        """Number of counted groups: those before the first incomplete one."""
        return len(self._group_scores)

    def standing(self, groups: int | None = None) -> Standing:
        """Return the standing of the match, or that after its first `groups` groups."""
        counted = tuple(self._group_scores[:groups])
        seats = zip(self._seatings, map(replace, self._tallies[len(counted)]), strict=True)
        return Standing(counted, dict(seats))

    @property
    def exhausted(self) -> bool:
        """Whether every possible group is complete."""
        return self.opening(self.groups) is None

    def _count_complete_groups(self) -> None:
        while all((self.groups, seating) in self._results for seating in self._seatings):
            results = [self._results[self.groups, seating] for seating in self._seatings]
            shares = [points(result.seating, result.scores) for result in results]
            tallies = tuple(map(replace, self._tallies[-1]))
            for tally, result, share in zip(tallies, results, shares, strict=True):
                tally.add(share, _full(result.seating, result.scores))
            self._group_scores.append(sum(shares) / len(shares))
            self._tallies.append(tallies)

    def _require_honest(self, result: GameResult) -> None:
        terms = self.terms
        if result.match_id != terms.match_id:
            raise RecordRejected("foreign_match", f"result of match {result.match_id!r}, this is {terms.match_id!r}")
        known = self._results.get((result.group, result.seating))
        if known is not None and known != result:
            raise RecordRejected("conflict", f"group {result.group}, seating {result.seating} already has another result")
        if self.closed:
            raise RecordRejected("finished_match", f"match {terms.match_id} is over and takes no further results")
        if result.group > len(self._results) + MOST_MISSING:
            text = f"match {terms.match_id} has {len(self._results)} games, too few before group {result.group}"
            raise RecordRejected("unknown_group", text)
        opening = self.opening(result.group) if 0 <= result.group < terms.max_groups else None
        if opening is None:
            raise RecordRejected("unknown_group", f"match {terms.match_id} has no group {result.group}")
        if result.seating not in self._seatings:
            raise RecordRejected("unknown_seating", f"got seating {result.seating}, want one of {self._seatings}")
        self._require_seated(result)
        if result.moves[: len(opening.moves)] != opening.moves:
            raise RecordRejected("wrong_opening", f"group {result.group} starts with {opening.moves}, got {result.moves[:8]}")
        _require_scores(terms, opening, result)

    def _require_seated(self, result: GameResult) -> None:
        wanted = tuple(self.terms.players[player].name for player in result.seating)
        if result.players != wanted:
            raise RecordRejected("wrong_seats", f"got players {', '.join(result.players)}, want {', '.join(wanted)}")


def _full(seating: tuple[int, ...], scores: tuple[float, ...]) -> int:
    """Return 1 if the first player has the full score on a seat, -1 if another has it, otherwise 0."""
    best = [player for player, score in zip(seating, scores, strict=True) if score >= 1.0 - DRAW_TOLERANCE]
    return 0 if not best else 1 if 0 in best else -1


def _require_scores(terms: MatchTerms, opening: Opening, result: GameResult) -> None:
    """Replay the game; raises `RecordRejected` unless it is legal, over, and has the reported scores."""
    try:
        state = positions.replay(terms.game, result.moves, opening.seed)
        scores = positions.final_scores(terms.game, state)
    except GameError as error:
        raise RecordRejected("illegal_game", f"group {result.group}: {error}") from error
    if len(result.scores) != len(scores) or not np.allclose(result.scores, scores, atol=DRAW_TOLERANCE):
        raise RecordRejected("wrong_result", f"group {result.group} reports {result.scores}, by the rules {scores}")

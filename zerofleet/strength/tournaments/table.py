"""Table of a tournament: rating, points and cost of each player, and the results of each pair.

In games of two players, the *share* is that of the points, as in a match. Where each seat has a different player, a game scores
each pair of players: one point for the better placed, half a point for a tie.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from zerofleet.strength.matches import Effort, GameResult, Scoreboard, SeatTally, points
from zerofleet.strength.matches.openings import Opening
from zerofleet.strength.matches.scoreboard import DRAW_TOLERANCE
from zerofleet.strength.ratings import Placement, Rating, Tally, rate, share_interval
from zerofleet.strength.tournaments.centred import centred
from zerofleet.strength.tournaments.terms import TournamentTerms

__all__ = ["ANCHOR", "Duel", "PlayerRow", "TournamentTable", "tabulate"]

ANCHOR = "random"


@dataclass(frozen=True, slots=True)
class PlayerRow:
    """Row of a player."""

    rank: int
    name: str
    elo: float
    """Bayesian Elo; `elo_low` and `elo_high` are its 95 % interval."""
    elo_low: float
    elo_high: float
    games: int
    share: float
    """Share of the points against all opponents."""
    moves: int
    nodes: int
    nodes_per_move: float
    time_s: float
    ms_per_move: float


@dataclass(frozen=True, slots=True)
class Duel:
    """Results of two players against each other, from the first player's point of view."""

    first: str
    second: str
    games: int
    openings: int
    wins: int
    draws: int
    losses: int
    full_wins: int
    full_losses: int
    share: float
    """Share of the points; `share_low` and `share_high` are its 95 % interval, with openings as observations."""
    share_low: float
    share_high: float
    mean_plies: float


@dataclass(frozen=True, slots=True)
class TournamentTable:
    """Standing of a tournament."""

    anchor: str | None
    """Player whose rating is 0; None if the mean of all ratings is 0."""
    players: tuple[PlayerRow, ...]
    """Strongest first."""
    duels: tuple[Duel, ...]
    """One entry per pair of players, in the order of the terms."""

    def share(self, first: str, second: str) -> float | None:
        """Return the share of one player against another, None without games."""
        for duel in self.duels:
            if duel.games and (duel.first, duel.second) == (first, second):
                return duel.share
            if duel.games and (duel.first, duel.second) == (second, first):
                return 1.0 - duel.share
        return None

    def ratings(self) -> list[Rating]:
        """Return the ratings, strongest first."""
        return [Rating(row.name, row.elo, row.elo_low, row.elo_high, row.games) for row in self.players]


def tabulate(terms: TournamentTerms, boards: Sequence[Scoreboard]) -> TournamentTable:
    """Return the table of the results so far; only complete groups of games count."""
    names = [player.name for player in terms.players]
    anchor = ANCHOR if ANCHOR in names else None
    results = {board.terms.match_id: board.counted_results() for board in boards}
    evidence = _evidence(boards, results)
    ratings = rate(evidence, anchor=anchor) if anchor else centred(evidence, names)
    duels = [_duel(first, second, boards, results) for index, first in enumerate(names) for second in names[index + 1 :]]
    efforts = _efforts(boards, results)
    by_name = {rating.name: rating for rating in ratings}
    ranked = sorted(names, key=lambda name: (-by_name[name].elo, name))
    rows = (_row(rank, by_name[name], duels, efforts[name]) for rank, name in enumerate(ranked, start=1))
    return TournamentTable(anchor, tuple(rows), tuple(duels))


def _row(rank: int, rating: Rating, duels: Sequence[Duel], effort: Effort) -> PlayerRow:
    own = [(duel.games, duel.share) for duel in duels if duel.first == rating.name]
    own += [(duel.games, 1.0 - duel.share) for duel in duels if duel.second == rating.name]
    met = sum(games for games, _ in own)
    return PlayerRow(
        rank=rank,
        name=rating.name,
        elo=rating.elo,
        elo_low=rating.low,
        elo_high=rating.high,
        games=rating.games,
        share=sum(games * share for games, share in own) / met if met else 0.5,
        moves=effort.moves,
        nodes=effort.nodes,
        nodes_per_move=effort.nodes_per_move,
        time_s=effort.time_s,
        ms_per_move=effort.ms_per_move,
    )


def _evidence(boards: Sequence[Scoreboard], results: dict[str, list[GameResult]]) -> list[Tally | Placement]:
    """Return the evidence for ratings: points with two seats, placements with more."""
    found: list[Tally | Placement] = []
    for board in boards:
        first, second, *_ = (player.name for player in board.terms.players)
        counted = results[board.terms.match_id]
        if board.terms.game.spec().num_players == 2:
            won = sum(points(result.seating, result.scores) for result in counted)
            found.append(Tally(first, second, won, len(counted)))
            continue
        placements = Counter(Placement.of(result.players, result.scores) for result in counted)
        found += [Placement(p.players, p.places, p.games * count) for p, count in placements.items()]
    return found


def _efforts(boards: Sequence[Scoreboard], results: dict[str, list[GameResult]]) -> defaultdict[str, Effort]:
    found: defaultdict[str, Effort] = defaultdict(Effort)
    for board in boards:
        for result in results[board.terms.match_id]:
            for player, effort in zip(board.terms.players, result.efforts, strict=False):
                found[player.name] += effort
    return found


@dataclass(slots=True)
class _Count:
    """Counts of the games of two players."""

    tally: SeatTally = field(default_factory=SeatTally)
    openings: defaultdict[tuple[Opening, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    """Shares of the first player by opening, over all meetings: with three seats or more several begin from the same one."""
    plies: int = 0


def _duel(first: str, second: str, boards: Sequence[Scoreboard], results: dict[str, list[GameResult]]) -> Duel:
    count = _Count()
    for board in boards:
        names = [player.name for player in board.terms.players]
        if first in names and second in names:
            _count(count, names.index(first), names.index(second), board, results[board.terms.match_id])
    tally, games = count.tally, count.tally.games
    low, high = share_interval(np.array([np.mean(shares) for shares in count.openings.values()]))
    return Duel(
        first=first,
        second=second,
        games=games,
        openings=len(count.openings),
        wins=tally.wins,
        draws=tally.draws,
        losses=tally.losses,
        full_wins=tally.full_wins,
        full_losses=tally.full_losses,
        share=tally.share,
        share_low=low,
        share_high=high,
        mean_plies=count.plies / games if games else 0.0,
    )


def _count(count: _Count, first: int, second: int, board: Scoreboard, results: Sequence[GameResult]) -> None:
    """Add the games of a meeting between its players `first` and `second`."""
    openings = _numbered(board.terms.openings())
    for result in results:
        share, full = _outcome(result, first, second, of_two=len(board.terms.players) == 2)
        count.tally.add(share, full)
        count.plies += len(result.moves)
        count.openings[openings[result.group]].append(share)


def _numbered(openings: Iterable[Opening]) -> list[tuple[Opening, int]]:
    """Return each opening with the number of equal ones before it: randomised players meet several times from one."""
    before: Counter[Opening] = Counter()
    found = []
    for opening in openings:
        found.append((opening, before[opening]))
        before[opening] += 1
    return found


def _outcome(result: GameResult, first: int, second: int, *, of_two: bool) -> tuple[float, int]:
    """Return the first player's share against the second, and 1 or -1 if the first or the second has the full score, else 0."""
    own, other = (
        max(score for player, score in zip(result.seating, result.scores, strict=True) if player == wanted)
        for wanted in (first, second)
    )
    full = 0 if max(own, other) < 1.0 - DRAW_TOLERANCE else 1 if own >= other else -1
    if of_two:
        return points(result.seating, result.scores), full
    if abs(own - other) <= DRAW_TOLERANCE:
        return 0.5, full
    return float(own > other), full

"""Summary of a match in machine-readable numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from zerofleet.strength.matches.effort import Effort
from zerofleet.strength.matches.lone import LoneTally, lone_tally
from zerofleet.strength.matches.scoreboard import GameResult, SeatTally, Standing
from zerofleet.strength.matches.terms import MatchTerms
from zerofleet.strength.ratings import elo_from_share

__all__ = ["MatchSummary", "PlayerEffort", "SeatSummary", "effort_of", "mean_plies", "summarise"]


@dataclass(frozen=True, slots=True)
class SeatSummary:
    """Results of the first player on some seats."""

    seats: tuple[int, ...]  # counted from 1
    games: int
    wins: int
    draws: int
    losses: int
    full_wins: int
    """Games with the full score; at most wins, fewer where a win can be partial."""
    full_losses: int
    share: float
    """Share of the points."""


@dataclass(frozen=True, slots=True)
class PlayerEffort:
    """Cost of a player's moves; see `zerofleet.strength.matches.Effort`."""

    player: str
    moves: int
    nodes: int
    nodes_per_move: float
    time_s: float
    ms_per_move: float


@dataclass(frozen=True, slots=True)
class MatchSummary:
    """Results of a match for its first player."""

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
    """Share of the points, a draw counting half; `share_low` and `share_high` are its 95 % interval."""
    share_low: float
    share_high: float
    elo: float | None
    """Elo difference; None if unbounded, at a share of 0 or 1."""
    elo_low: float | None
    elo_high: float | None
    mean_plies: float
    """Mean length of a game, opening included."""
    by_seat: tuple[SeatSummary, ...]
    efforts: tuple[PlayerEffort, ...] = ()
    alone: tuple[LoneTally, ...] = ()
    """In games of more than two seats: the first player alone against several of the second, and vice versa."""

    def __str__(self) -> str:
        return f"{self.games} games: {self.wins} won, {self.draws} drawn, {self.losses} lost\n{self.verdict}"

    @property
    def verdict(self) -> str:
        """One line each for the share of the points and the Elo difference, with their intervals."""
        return (
            f"{self.first} took {self.share:.1%} of the points against {self.second}"
            f" (95 % interval {self.share_low:.1%} to {self.share_high:.1%})\n"
            f"Elo difference {_elo(self.elo)} ({_elo(self.elo_low)} to {_elo(self.elo_high)})"
        )


def summarise(terms: MatchTerms, standing: Standing, results: Sequence[GameResult]) -> MatchSummary:
    """Summarise the standing of a match between two players and its results."""
    names = (terms.players[0].name, terms.players[1].name)
    low, high = standing.interval
    total = standing.total
    return MatchSummary(
        first=names[0],
        second=names[1],
        games=standing.games,
        openings=standing.groups,
        wins=total.wins,
        draws=total.draws,
        losses=total.losses,
        full_wins=total.full_wins,
        full_losses=total.full_losses,
        share=standing.share,
        share_low=low,
        share_high=high,
        elo=_finite(elo_from_share(standing.share)),
        elo_low=_finite(elo_from_share(low)),
        elo_high=_finite(elo_from_share(high)),
        mean_plies=mean_plies(results),
        by_seat=tuple(_seat_summary(seating, tally) for seating, tally in standing.seats.items()),
        efforts=tuple(effort_of(name, player, results) for player, name in enumerate(names)),
        alone=tuple(lone_tally(results, names, lone) for lone in (0, 1)) if terms.game.spec().num_players > 2 else (),
    )


def mean_plies(results: Sequence[GameResult]) -> float:
    """Return the mean length of games in plies; 0 without games."""
    return sum(len(result.moves) for result in results) / len(results) if results else 0.0


def effort_of(name: str, player: int, results: Sequence[GameResult]) -> PlayerEffort:
    """Return the cost of the moves of a player (0 is the first) in `results`."""
    total = sum((result.efforts[player] for result in results if result.efforts), Effort())
    return PlayerEffort(name, total.moves, total.nodes, total.nodes_per_move, total.time_s, total.ms_per_move)


def _seat_summary(seating: tuple[int, ...], tally: SeatTally) -> SeatSummary:
    return SeatSummary(
        seats=tuple(seat for seat, player in enumerate(seating, start=1) if player == 0),
        games=tally.games,
        wins=tally.wins,
        draws=tally.draws,
        losses=tally.losses,
        full_wins=tally.full_wins,
        full_losses=tally.full_losses,
        share=tally.share,
    )


def _elo(elo: float | None) -> str:
    return "unbounded" if elo is None else f"{elo:+.0f}"


def _finite(elo: float) -> float | None:
    return elo if math.isfinite(elo) else None

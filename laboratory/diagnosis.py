"""Diagnosis of a part of a trial: the difference between two readings of the diagnostics of self-play."""

from __future__ import annotations

from typing import Any

from selfplay_worker.diagnostics import Figures

__all__ = ["since"]


def since(earlier: Figures, now: Figures) -> dict[str, Any]:
    """Return figures of the games of self-play between two readings; shares and means of nothing are None."""
    games, positions = now.games - earlier.games, now.positions - earlier.positions
    samples = now.samples + now.reduced_samples - earlier.samples - earlier.reduced_samples
    overlooked = now.wins_overlooked - earlier.wins_overlooked
    wins = now.wins_taken - earlier.wins_taken + overlooked
    new_positions = now.new_positions - earlier.new_positions
    return {
        "games": games,
        "resigned_share": _ratio(_resigned(now) - _resigned(earlier), games),
        "plies_per_game": _ratio(now.plies - earlier.plies, games),
        "samples": samples,
        "target_entropy_nat": _ratio(now.entropy_sum - earlier.entropy_sum, samples),
        "positions": positions,
        "new_positions": new_positions,
        "new_positions_share": _ratio(new_positions, positions),
        "wins_in_one": wins,
        "wins_in_one_overlooked": overlooked,
        "wins_in_one_overlooked_share": _ratio(overlooked, wins),
    }


def _resigned(figures: Figures) -> int:
    """Return the number of games that were resigned, softly or not."""
    return figures.endings["resigned"] + figures.endings["soft_resigned"]


def _ratio(total: float, count: int) -> float | None:
    return total / count if count else None

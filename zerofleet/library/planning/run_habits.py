"""Habits of a run for a plan: length of its games, evaluations of a move, and the share of evaluations that the gate takes.

    like_run(costs, habits_of(read_metrics(paths.metrics)))

`zerofleet bench serve` measures an untrained network. While a network learns, an evaluation costs the same and a move takes
hardly more of them, but games become longer: those of Connect Four in the preset `laptop` by a fifth in the first two minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from zerofleet.errors import InvalidRequest
from zerofleet.library.planning.costs import Costs

__all__ = ["FEWEST_GAMES", "PERIOD_S", "RunHabits", "habits_of", "like_run"]

PERIOD_S = 600.0
"""Latest part of a run that counts."""
FEWEST_GAMES = 200
"""Fewer games than these do not show a length: the first to end are the short ones."""


@dataclass(frozen=True, slots=True)
class RunHabits:
    """Means over the latest part of a run."""

    games: int
    seconds: float
    moves_per_game: float
    """Searched moves."""
    evaluations_per_game: float
    """Evaluations of self-play."""
    gate_share: float
    """Share of matches, measurements of candidates and the ladder in all evaluations."""


def habits_of(metrics: Mapping[str, np.ndarray]) -> RunHabits:
    """Return the habits of a run by its metrics, over the last `PERIOD_S` of its latest session.

    Raises `InvalidRequest` for a run with fewer than `FEWEST_GAMES` games in that time.
    """
    elapsed = metrics["run.elapsed_s"]
    if len(elapsed) == 0:
        raise InvalidRequest("the run has no metrics; let it play before a fleet is planned like it")
    restarts = np.flatnonzero(np.diff(elapsed) < 0.0)  # the counters begin again with each session
    begins = int(restarts[-1]) + 1 if len(restarts) else 0
    first = begins + int(np.flatnonzero(elapsed[begins:] >= elapsed[-1] - PERIOD_S)[0])

    def growth(name: str) -> float:
        column = metrics[f"run.{name}"] if f"run.{name}" in metrics else np.zeros(len(elapsed))
        return float(column[-1] - column[first])

    games, moves, own = growth("games"), growth("moves"), growth("selfplay_evaluations")
    gate = growth("match_evaluations") + growth("ladder_evaluations")
    if not (games >= FEWEST_GAMES and moves > 0.0 and own > 0.0 and gate >= 0.0):  # NaN for rows without the figure
        raise InvalidRequest(
            f"the run has {games:.0f} games in its last {elapsed[-1] - elapsed[first]:.0f} s with metrics, want {FEWEST_GAMES} "
            "with their evaluations; let it play longer, or give the length of games with --plies"
        )
    return RunHabits(
        games=round(games),
        seconds=float(elapsed[-1] - elapsed[first]),
        moves_per_game=moves / games,
        evaluations_per_game=own / games,
        gate_share=gate / (own + gate),
    )


def like_run(costs: Costs, habits: RunHabits) -> Costs:
    """Return the costs with the games of a run in place of those of an untrained network."""
    return replace(
        costs,
        evaluations_per_game=habits.evaluations_per_game,
        evaluations_per_move=habits.evaluations_per_game / habits.moves_per_game,
        gate_share=habits.gate_share,
    )

"""Figures of self-play, gate and ratings for TensorBoard and Weights & Biases, from the history of `zerofleet run`.

The supervisor appends a line to `metrics/run.jsonl` every few seconds; the trainer, which writes the events of both tools,
adds the latest line to its own rows. Services that run without a supervisor have no such file, and no such figures.
"""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["RunFigures"]

GROUPS = {
    **dict.fromkeys(
        (
            *("games", "games_stored", "games_per_hour", "moves", "evaluations_per_s", "mean_batch", "cache_share"),
            *("latency_s", "device_busy", "rejected", "target_entropy", "distinct_openings", "new_positions"),
            *("wins_taken", "wins_overlooked", "ended_resigned", "network_age_s"),
        ),
        "selfplay",
    ),
    **dict.fromkeys(("champion", "match_candidate", "match_llr", "match_evaluations", "ladder_evaluations"), "gate"),
    **dict.fromkeys(("champion_elo", "champion_elo_low", "champion_elo_high"), "ratings"),
}
"""Group of each figure that is passed on; of the trainer's own ones it has better rows."""


class RunFigures:
    """Follower of the history of a run, from its present end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._read_bytes = path.stat().st_size
        except OSError:
            self._read_bytes = 0

    def latest(self) -> dict[str, float]:
        """Return the known figures of the last line that was added since the last call, by `group/name`; none without one."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read_bytes)
                added = file.read()
        except OSError:
            return {}
        whole = added[: added.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        try:
            figures = json.loads(whole.splitlines()[-1]) if whole else {}
            return {f"{group}/{name}": float(figures[name]) for name, group in GROUPS.items() if figures.get(name) is not None}
        except (ValueError, AttributeError, TypeError, OverflowError, RecursionError):
            return {}  # a damaged line; the next one follows soon

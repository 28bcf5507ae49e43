"""Metrics of a run as columns: the rows of trainer and supervisor in `metrics/`, whether the run is under way or not."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from zerofleet.library.sampled_rows import WHOLE_BYTES, RowFile, Rows

__all__ = ["COLUMNS", "Metrics", "MetricsReader", "read_metrics"]

COLUMNS: Mapping[str, str] = {
    "trainer.time_s": "wall-clock time of the row, seconds since 1970",
    "trainer.step": "training steps of the run",
    "trainer.loss_total": "mean loss of the steps since the row before; nan where there were none",
    "trainer.loss_policy": "its part from the policy, in nats",
    "trainer.loss_value": "its part from the values",
    "trainer.learning_rate": "mean learning rate of those steps",
    "trainer.gradient_norm": "mean gradient norm of those steps",
    "trainer.policy_entropy": "mean entropy of the policy over legal actions in those steps, in nats; nan for other learners",
    "trainer.samples_ever": "samples received",
    "trainer.window_samples": "samples of which batches are drawn",
    "trainer.games_ever": "games stored",
    "trainer.reuse": "times a sample was trained on, on average",
    "trainer.candidate_version": "newest version that was exported",
    "run.time_s": "wall-clock time of the row, seconds since 1970",
    "run.elapsed_s": "seconds since the run was started or continued",
    "run.games": "games finished since then",
    "run.games_stored": "games stored, earlier sessions included",
    "run.games_per_hour": "games per hour over the last half minute",
    "run.evaluations_per_s": "positions evaluated per second",
    "run.ended_result": "games since then that ended by the rules",
    "run.ended_cut": "games since then that ended by the maximum of plies, where positions can recur",
    "run.ended_resigned": "games since then that ended by a resignation",
    "run.ended_soft_resigned": "games since then that were played on after a resignation",
    "run.wins_taken": "moves of self-play since then that won at once",
    "run.wins_overlooked": "moves of self-play since then where another one would have won at once",
    "run.target_entropy": "mean entropy of the policy targets of the latest games, in nats",
    "run.distinct_openings": "different first 8 plies per game, of the latest 1,000 games of a worker",
    "run.new_positions": "share of the latest 50,000 positions of a worker that were new among them",
    "run.selfplay_samples": "policy targets since then, those of reduced weight excluded",
    "run.selfplay_evaluations": "positions evaluated since then for self-play",
    "run.match_evaluations": "positions evaluated since then for matches and measurements of candidates",
    "run.ladder_evaluations": "positions evaluated since then for the ladder",
    "run.network_age_s": "seconds since the export of the playing network; nan before the first",
    "run.adoptions": "new champions adopted since then, counted for each worker",
    "run.adoption_total_s": "sum of the seconds from their export to their adoption",
    "run.champion": "version of the champion; nan before the first",
    "run.champion_elo": "Elo rating of the champion or, before it is anchored, of the newest anchored version; random is 0",
    "run.champion_elo_low": "lower end of the 95 % interval of the rating",
    "run.champion_elo_high": "upper end of the 95 % interval of the rating",
}
"""Columns that are always there, with meaning and unit. Those of one group have a row each for every row of their file."""


class Metrics(Mapping[str, np.ndarray]):
    """Columns by name, float64 each, oldest row first; nan where a row has no number. See `COLUMNS`."""

    def __init__(
        self,
        columns: Mapping[str, np.ndarray],
        damaged_lines: Mapping[str, int] | None = None,
        kept: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self._columns = dict(columns)
        self.damaged_lines = dict(damaged_lines or {})
        """Lines that are no row and were left out, by file; files without any are not listed."""
        self.kept = {
            group: np.arange(len(self._columns[f"{group}.time_s"])) if kept is None else kept[group]
            for group in ("trainer", "run")
        }
        """Indices of the rows that stand for the file, by group: all rows, unless a `MetricsReader` left some out."""

    def __getitem__(self, name: str) -> np.ndarray:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        sizes = {group: len(self._columns[f"{group}.time_s"]) for group in ("trainer", "run")}
        rows = ", ".join(f"{size} rows of {group}" for group, size in sizes.items())
        return f"<Metrics: {len(self)} columns, {rows}>"


class MetricsReader:
    """Reader of the metrics in a run's directory that follows their files, for charts; of large files it leaves out rows.

    What it leaves out, and what remains, is described in `zerofleet.library.sampled_rows`. For one thread at a time.
    """

    def __init__(self, directory: Path, *, whole_bytes: float = WHOLE_BYTES) -> None:
        """Create it without file access; files up to `whole_bytes` are read whole."""
        self._trainer = RowFile(directory / "trainer.jsonl", _trainer_row, whole_bytes=whole_bytes)
        self._run = RowFile(directory / "run.jsonl", _run_row, whole_bytes=whole_bytes)

    def read(self) -> Metrics:
        """Return the present rows. Raises `OSError` for anything but a regular file."""
        found = {"trainer": self._trainer.read(), "run": self._run.read()}
        damaged = {f"{group}.jsonl": rows.damaged for group, rows in found.items() if rows.damaged}
        columns = {name: column for group, rows in found.items() for name, column in _columns(group, rows).items()}
        return Metrics(columns, damaged, {group: rows.kept for group, rows in found.items()})


def read_metrics(directory: Path) -> Metrics:
    """Read the metrics in a run's directory for them; files that are not there have no rows.

    A damaged line, such as one without a time, is left out and counted. Raises `OSError` for anything but a regular file.
    """
    return MetricsReader(directory, whole_bytes=math.inf).read()


def _trainer_row(stored: dict[str, Any]) -> dict[str, Any]:
    return _timed({_trainer_name(name): value for name, value in stored.items()}, "time_s")


def _trainer_name(name: str) -> str:
    return "time_s" if name == "time" else name.replace("losses/", "loss_").removeprefix("charts/")


def _run_row(stored: dict[str, Any]) -> dict[str, Any]:
    return _timed({"time_s": datetime.fromisoformat(stored.pop("at", "")).timestamp(), **stored}, "time_s", "elapsed_s")


def _timed(row: dict[str, Any], *times: str) -> dict[str, Any]:
    """Return a row if it has its times; raises `ValueError` for a damaged one, which would have no place on any axis."""
    for name in times:
        time_s = row.get(name)
        if isinstance(time_s, bool) or not isinstance(time_s, int | float) or not abs(time_s) <= sys.float_info.max:
            raise ValueError(f"{name} is {time_s!r}; want a number of seconds")
    return row


def _columns(group: str, rows: Rows) -> dict[str, np.ndarray]:
    known = [name.removeprefix(f"{group}.") for name in COLUMNS if name.startswith(f"{group}.")]
    count = max((len(column) for column in rows.columns.values()), default=0)
    return {
        f"{group}.{name}": rows.columns[name] if name in rows.columns else np.full(count, np.nan)
        for name in dict.fromkeys([*known, *rows.columns])
    }

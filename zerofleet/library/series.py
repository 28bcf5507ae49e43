"""Series of a run for charts: every figure of its metrics over training steps, games and wall time, and the promotions.

The rows of the trainer and those of the supervisor are two groups; a series belongs to one of them and has a value, or None,
for each of its rows. `zerofleet.library.accuracy_series` adds a third, whose rows are versions, and
`zerofleet.library.seat_results` a fourth, whose rows are windows of games.

Counts of a session become rates and shares over the rows of the latest minute.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from zerofleet.contracts.manifests import Champion
from zerofleet.library.curves import growth
from zerofleet.library.metrics import Metrics
from zerofleet.library.run_list import anchored_rows
from zerofleet.library.values import Value

__all__ = [
    "MOST_POINTS",
    "Axes",
    "Group",
    "Promotion",
    "RunSeries",
    "Series",
    "as_csv",
    "began_s",
    "overlaid_csv",
    "run_series",
]

MOST_POINTS = 1500
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a text that spreadsheets take for a formula."""
WINDOW_ROWS = 6  # a minute of the supervisor's rows
Group = Literal["trainer", "run", "accuracy", "seats"]


class Axes(Value):
    """Positions of the rows of a group on each axis."""

    step: tuple[float | None, ...]
    """Training steps."""
    games: tuple[float | None, ...]
    """Games stored."""
    hours: tuple[float | None, ...]
    """Hours of wall time since the first row of the run."""


class Series(Value):
    """Figure over the rows of a group."""

    name: str
    label: str
    unit: str
    """Unit of the values; empty for a plain number, `share` for one in [0, 1]."""
    chart: str
    """Title of the chart that shows it; series of one chart have one unit."""
    group: Group
    values: tuple[float | None, ...]


class Promotion(Value):
    """Champion from a point of the run on."""

    version: int
    step: float | None
    games: float | None
    hours: float | None
    reason: str


class RunSeries(Value):
    """All series of a run."""

    axes: dict[Group, Axes]
    series: tuple[Series, ...]
    """Those with at least one value."""
    promotions: tuple[Promotion, ...]


class _Kind(NamedTuple):
    label: str
    unit: str
    chart: str
    columns: tuple[str, ...]
    """Column, or the columns whose growth is the numerator."""
    whole: tuple[str, ...] = ()
    """Columns whose growth is the denominator; none for a plain column."""


_ENDED = ("run.ended_result", "run.ended_cut", "run.ended_resigned", "run.ended_soft_resigned")
_SPENT = ("run.selfplay_evaluations", "run.match_evaluations", "run.ladder_evaluations")
_KINDS = {
    "loss_total": _Kind("total", "", "Loss", ("trainer.loss_total",)),
    "loss_policy": _Kind("policy", "", "Loss", ("trainer.loss_policy",)),
    "loss_value": _Kind("value", "", "Loss", ("trainer.loss_value",)),
    "loss_opponents": _Kind("opponents", "", "Losses of extra heads", ("trainer.loss_opponents",)),
    "loss_plies_left": _Kind("plies left", "", "Losses of extra heads", ("trainer.loss_plies_left",)),
    "loss_reply": _Kind("reply", "", "Losses of extra heads", ("trainer.loss_reply",)),
    "held_out_accuracy": _Kind("results predicted", "share", "Held-out games", ("trainer.accuracy",)),
    "held_out_recall_1": _Kind("move ranked first", "share", "Held-out games", ("trainer.recall_1",)),
    "held_out_recall_6": _Kind("move among the first six", "share", "Held-out games", ("trainer.recall_6",)),
    "elo": _Kind("champion", "Elo", "Rating", ("run.champion_elo",)),
    "elo_low": _Kind("95 % low", "Elo", "Rating", ("run.champion_elo_low",)),
    "elo_high": _Kind("95 % high", "Elo", "Rating", ("run.champion_elo_high",)),
    "policy_entropy": _Kind("network", "nat", "Entropy", ("trainer.policy_entropy",)),
    "target_entropy": _Kind("policy targets", "nat", "Entropy", ("run.target_entropy",)),
    "illegal_mass": _Kind("illegal mass", "share", "Illegal mass", ("trainer.illegal_mass",)),
    "gradient_norm": _Kind("gradient norm", "", "Gradient norm", ("trainer.gradient_norm",)),
    "learning_rate": _Kind("learning rate", "", "Learning rate", ("trainer.learning_rate",)),
    "reuse": _Kind("reuse per sample", "", "Reuse", ("trainer.reuse",)),
    "window": _Kind("window", "samples", "Replay window", ("trainer.window_samples",)),
    "samples_per_second": _Kind("samples per second", "/s", "Pace of training", ("trainer.samples_per_second",)),
    "wait_share": _Kind("waiting time", "share", "Waiting of the trainer", ("trainer.wait_share",)),
    "candidate_version": _Kind("newest candidate", "", "Versions", ("trainer.candidate_version",)),
    "champion_version": _Kind("champion", "", "Versions", ("run.champion",)),
    "games_per_hour": _Kind("games per hour", "/h", "Games per hour", ("run.games_per_hour",)),
    "game_length": _Kind("plies per game", "plies", "Length of games", ("run.moves",), ("run.games",)),
    "evaluations": _Kind("evaluations", "/s", "Evaluations", ("run.evaluations_per_s",)),
    "mean_batch": _Kind("mean batch", "positions", "Batch", ("run.mean_batch",)),
    "latency": _Kind("mean of a worker's requests", "s", "Latency", ("run.latency_s",)),
    "cache_share": _Kind("cache hits", "share", "Shares of the server", ("run.cache_share",)),
    "device_busy": _Kind("device busy", "share", "Shares of the server", ("run.device_busy",)),
    "gate_share": _Kind("gate", "share", "Shares of evaluations", ("run.match_evaluations",), _SPENT),
    "ladder_share": _Kind("ladder", "share", "Shares of evaluations", ("run.ladder_evaluations",), _SPENT),
    "evaluations_per_sample": _Kind("evaluations per sample", "", "Evaluations per sample", _SPENT, ("run.selfplay_samples",)),
    "resigned": _Kind(
        "resigned, softly or not", "share", "Games by ending", ("run.ended_resigned", "run.ended_soft_resigned"), _ENDED
    ),
    "soft_resigned": _Kind("soft resigned", "share", "Games by ending", ("run.ended_soft_resigned",), _ENDED),
    "cut": _Kind("cut", "share", "Games by ending", ("run.ended_cut",), _ENDED),
    "overlooked": _Kind(
        "overlooked", "share", "Wins in one", ("run.wins_overlooked",), ("run.wins_taken", "run.wins_overlooked")
    ),
    "distinct_openings": _Kind("distinct openings", "share", "Variety", ("run.distinct_openings",)),
    "new_positions": _Kind("new positions", "share", "Variety", ("run.new_positions",)),
    "network_age": _Kind("network age", "s", "Age of the playing network", ("run.network_age_s",)),
    "adoption": _Kind("export to adoption", "s", "Adoption of networks", ("run.adoption_total_s",), ("run.adoptions",)),
}


def run_series(metrics: Metrics, history: Sequence[Champion], *, points: int = MOST_POINTS) -> RunSeries:
    """Return the series of a run from its metrics and the history of its champions, oldest first.

    A group of more than `points` rows is thinned to every n-th, the newest included; see `_thinned`.
    """
    began = began_s(metrics) or 0.0
    kept = {group: rows[_kept(len(rows), points)] for group, rows in metrics.kept.items()}
    raw: dict[Group, dict[str, np.ndarray]] = {
        "trainer": _axes(metrics, "trainer", "games_ever", began),
        "run": _axes(metrics, "run", "games_stored", began),
    }
    axes: dict[Group, Axes] = {
        group: Axes(**{name: _numbers(column[kept[group]]) for name, column in columns.items()})
        for group, columns in raw.items()
    }
    known = {**_KINDS, **_memory(metrics)}
    series = []
    for name, kind in known.items():
        group: Group = "trainer" if kind.columns[0].startswith("trainer.") else "run"
        column = _column(metrics, kind)
        if column is not None and np.isfinite(column).any():
            values = _thinned(column, kept[group])
            about = {"label": kind.label, "unit": kind.unit, "chart": kind.chart}
            series.append(Series(name=name, group=group, values=values, **about))
    return RunSeries(
        axes=axes, series=tuple(series), promotions=tuple(_promotion(one, raw["trainer"], began) for one in history)
    )


def began_s(metrics: Mapping[str, np.ndarray]) -> float | None:
    """Return the time of hour 0, seconds since 1970; None for a run without rows."""
    return min([*metrics["trainer.time_s"].tolist()[:1], *metrics["run.time_s"].tolist()[:1]], default=None)


def as_csv(found: RunSeries, group: Group) -> str:
    """Return the series of a group as CSV: the three axes, then a column for each series; an empty cell for no value."""
    nothing = Axes(step=(), games=(), hours=())
    axes, series = found.axes.get(group, nothing), [one for one in found.series if one.group == group]
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["step", "games", "hours", *(one.name for one in series)])
    rows.writerows(zip(axes.step, axes.games, axes.hours, *(one.values for one in series), strict=True))
    return text.getvalue()


def overlaid_csv(found: Mapping[str, RunSeries], group: Group) -> str:
    """Return the series of several runs as CSV: the name of the run and the columns of `as_csv`, those of all the runs.

    A cell is empty where the run has no such series. A name that a spreadsheet would execute as a formula begins with an
    apostrophe.
    """
    tables = {name: list(csv.reader(io.StringIO(as_csv(one, group)))) for name, one in found.items()}
    columns = list(dict.fromkeys(column for table in tables.values() for column in table[0]))
    text = io.StringIO()
    rows = csv.DictWriter(text, ["run", *columns], restval="", lineterminator="\n")
    rows.writeheader()
    for name, (head, *cells) in tables.items():
        rows.writerows({"run": _plain(name)} | dict(zip(head, row, strict=True)) for row in cells)
    return text.getvalue()


def _plain(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text


def _axes(metrics: Mapping[str, np.ndarray], group: Group, games: str, began_s: float) -> dict[str, np.ndarray]:
    time_s = metrics[f"{group}.time_s"]
    return {
        "step": metrics.get(f"{group}.step", np.full(len(time_s), np.nan)),
        "games": metrics[f"{group}.{games}"],
        "hours": (time_s - began_s) / 3600.0,
    }


def _column(metrics: Mapping[str, np.ndarray], kind: _Kind) -> np.ndarray | None:
    if not all(name in metrics for name in (*kind.columns, *kind.whole)):
        return None
    if not kind.whole:
        column = metrics[kind.columns[0]]
        if kind.chart == "Rating":
            column = np.where(anchored_rows(metrics), column, np.nan)
        return np.where(column > 0.0, column, np.nan) if kind.unit == "bytes" else column  # 0 bytes: the process was gone
    begins = np.concatenate(([True], np.diff(metrics["run.elapsed_s"]) < 0.0))[: len(metrics["run.elapsed_s"])]
    above, below = (_recent(sum(growth(metrics[name], begins) for name in names)) for names in (kind.columns, kind.whole))
    quotient: np.ndarray = np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0.0)
    return quotient


def _recent(values: np.ndarray | int) -> np.ndarray:
    """Return the sum over the latest `WINDOW_ROWS` rows at each row."""
    total = np.cumsum(np.atleast_1d(values))
    before = np.concatenate((np.zeros(WINDOW_ROWS), total))[: len(total)]
    recent: np.ndarray = total - before
    return recent


def _memory(metrics: Mapping[str, np.ndarray]) -> dict[str, _Kind]:
    names = sorted(name for name in metrics if name.startswith("run.memory_"))
    return {
        name.removeprefix("run."): _Kind(name.removeprefix("run.memory_").replace("_", " "), "bytes", "Memory", (name,))
        for name in names
    }


def _promotion(champion: Champion, axes: Mapping[str, np.ndarray], began_s: float) -> Promotion:
    hours = (champion.promoted_at_ms / 1000 - began_s) / 3600.0
    step, games = (_at(hours, axes["hours"], axes[name]) for name in ("step", "games"))
    return Promotion(version=champion.version, step=step, games=games, hours=_number(hours), reason=champion.reason)


def _at(hours: float, times: np.ndarray, column: np.ndarray) -> float | None:
    known = np.isfinite(column)
    return _number(float(np.interp(hours, times[known], column[known]))) if known.any() else None


def _kept(rows: int, points: int) -> np.ndarray:
    """Return the indices of every n-th row, the newest included."""
    stride = max(1, math.ceil(rows / points))
    indices: np.ndarray = np.arange(rows - 1, -1, -stride)[::-1]
    return indices


def _thinned(column: np.ndarray, kept: np.ndarray) -> tuple[float | None, ...]:
    """Return the values at the kept rows; a row without one has the newest value since the kept row before, if there is any.

    Measures on held-out games are in few rows, and a selection of rows alone would miss most of them.
    """
    newest = np.maximum.accumulate(np.where(np.isfinite(column), np.arange(len(column)), -1))[kept]
    is_known = newest > np.concatenate(([-1], kept[:-1]))
    return _numbers(np.where(is_known, column[np.where(is_known, newest, 0)], np.nan))


def _numbers(column: np.ndarray) -> tuple[float | None, ...]:
    return tuple(_number(value) for value in column.tolist())


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None

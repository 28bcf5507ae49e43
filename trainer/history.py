"""History of a run: periodic rows of figures, always as JSON lines and CSV, elsewhere by setting.

Names are grouped as `losses/policy` and `charts/samples_per_second`; TensorBoard and Weights & Biases draw a group together.
"""

from __future__ import annotations

import csv
import errno
import importlib
import io
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import structlog

from trainer.run_figures import RunFigures
from zerofleet.contracts.plain_files import append_plain
from zerofleet.errors import ConfigurationError
from zerofleet.storage.files import atomic_publish, drop_partial_line

__all__ = ["FIGURES", "HELD_OUT_MEASURES", "History", "open_history"]

HELD_OUT_MEASURES = ("accuracy", "recall_1", "recall_6")
"""Measures on held-out games: shares of predicted results, and of moves that are the best or among the six best."""

FIGURES = (
    "losses/total",
    "losses/policy",
    "losses/value",
    "losses/opponents",
    "losses/plies_left",
    "losses/reply",
    "charts/learning_rate",
    "charts/gradient_norm",
    "charts/policy_entropy",
    "charts/illegal_mass",
    *(f"charts/{name}" for name in HELD_OUT_MEASURES),
    "charts/skipped_steps",
    "charts/samples_per_second",
    "charts/wait_share",
    "charts/window_samples",
    "charts/samples_ever",
    "charts/games_ever",
    "charts/reuse",
    "charts/candidate_version",
)
"""Columns of the CSV, after `time` (seconds since 1970) and `step`."""

WANDB_ID = "wandb_id"
"""File with the id of the run at Weights & Biases."""

log = structlog.get_logger()


class _Sink(Protocol):
    def write(self, step: int, row: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class History:
    """Writer of rows to every sink; a sink that fails is dropped and the run continues. Files survive a full disk."""

    def __init__(self, sinks: Sequence[_Sink]) -> None:
        self._sinks = list(sinks)

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """Write a row; `figures` are keyed by `FIGURES`, missing ones are left empty."""
        for sink in list(self._sinks):
            try:
                sink.write(step, figures)
            except Exception as error:
                self._sinks.remove(sink)
                log.error("history.sink_failed", sink=type(sink).__name__, error=str(error))

    def close(self) -> None:
        """Flush and close every sink."""
        with ExitStack() as stack:
            for sink in self._sinks:
                stack.callback(sink.close)


def open_history(
    directory: Path,
    *,
    tensorboard: bool = False,
    wandb_project: str = "",
    run_name: str = "",
    settings: Mapping[str, object] | None = None,
) -> History:
    """Open the sinks; files are appended to, and one that cannot be written is left out.

    TensorBoard and Weights & Biases get the run's figures of self-play, gate and ratings as well. `settings` are shown by
    Weights & Biases, where a resumed run goes on as the same run: its id is kept in `wandb_id`. A damaged file is replaced.

    Raises `ConfigurationError` when a required extra is not installed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    sinks: list[_Sink] = []
    for sink, path in ((_JsonLines, directory / "trainer.jsonl"), (_Csv, directory / "trainer.csv")):
        try:
            sinks.append(sink(path))
        except OSError as error:
            log.error("history.sink_failed", sink=sink.__name__, error=str(error))
    if tensorboard:
        sinks.append(_WithRun(_TensorBoard(directory / "tensorboard"), directory))
    if wandb_project:
        sinks.append(_WithRun(_WeightsAndBiases(directory, wandb_project, run_name, settings or {}), directory))
    return History(sinks)


class _Lines:
    """A file of lines. A full disk costs lines until space is free; one cut short is dropped before the next."""

    header = ""
    """First line of the file, with its end; none by default."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._full = False
        drop_partial_line(path)

    def append(self, line: str) -> None:
        """Append a line, or report a full disk once. An empty file begins with the header.

        Raises `OSError` for any other failure.
        """
        try:
            if self._full:
                drop_partial_line(self._path)
            is_empty = not self._path.exists() or self._path.stat().st_size == 0
            append_plain(self._path, self.header + line if is_empty else line)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            if not self._full:
                log.error("history.disk_full", path=str(self._path), error=str(error), advice="free space; rows are left out")
            self._full = True
            return
        self._full = False


class _JsonLines:
    def __init__(self, path: Path) -> None:
        self._lines = _Lines(path)

    def write(self, step: int, row: Mapping[str, float]) -> None:
        self._lines.append(json.dumps({"time": round(time.time(), 3), "step": step, **row}) + "\n")

    def close(self) -> None:
        """Nothing is held open."""


class _Csv:
    def __init__(self, path: Path) -> None:
        self._lines = _Lines(path)
        self._columns = _columns(path) or list(FIGURES)
        self._lines.header = _csv_line(["time", "step", *self._columns])
        self._lines.append("")

    def write(self, step: int, row: Mapping[str, float]) -> None:
        self._lines.append(_csv_line([round(time.time(), 3), step, *(row.get(name, "") for name in self._columns)]))

    def close(self) -> None:
        """Nothing is held open."""


def _csv_line(values: Sequence[object]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(values)
    return line.getvalue()


def _columns(path: Path) -> list[str]:
    """Return the figure columns of a file, which may lack the newest if another version began it; none without a file.

    A file whose columns are damaged is moved aside. Raises `OSError`.
    """
    if not path.exists():
        return []
    with path.open("rb") as file:
        header = file.readline()
    try:
        return header.decode().rstrip("\n").split(",")[2:]
    except UnicodeDecodeError as error:
        aside = path.with_name(f"{path.name}.{time.time_ns()}.unreadable")
        log.error("history.file_moved", error=str(error), kept_as=str(aside))
        path.rename(aside)
        return []


class _WithRun:
    """A sink that gets the figures of the whole run beside those of the trainer."""

    def __init__(self, sink: _Sink, directory: Path) -> None:
        self._sink = sink
        self._run = RunFigures(directory / "run.jsonl")

    def write(self, step: int, row: Mapping[str, float]) -> None:
        self._sink.write(step, {**row, **self._run.latest()})

    def close(self) -> None:
        self._sink.close()


class _TensorBoard:
    def __init__(self, directory: Path) -> None:
        self._writer: Any = _extra("torch.utils.tensorboard", "tensorboard").SummaryWriter(str(directory))

    def write(self, step: int, row: Mapping[str, float]) -> None:
        for name, value in row.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class _WeightsAndBiases:
    def __init__(self, directory: Path, project: str, name: str, settings: Mapping[str, object]) -> None:
        self._run: Any = _extra("wandb", "wandb").init(
            project=project,
            name=name or None,
            dir=str(directory),
            id=_wandb_id(directory / WANDB_ID),
            resume="allow",
            config=dict(settings),
        )

    def write(self, step: int, row: Mapping[str, float]) -> None:
        self._run.log(dict(row), step=step)

    def close(self) -> None:
        self._run.finish()


def _wandb_id(path: Path) -> str:
    """Return the id of the run at Weights & Biases, drawn at its first start, and anew when its file is damaged."""
    try:
        if path.exists():
            return path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        log.error("history.id_lost", path=str(path), error=str(error), advice="Weights & Biases shows another run from now on")
    drawn = secrets.token_hex(8)
    atomic_publish(path, drawn)
    return drawn


def _extra(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigurationError(
            f"{extra} is not installed: pip install 'zerofleet[{extra}]', or turn its setting off"
        ) from error

"""Accuracy of a run's versions against perfect play: what `zerofleet accuracy` prints, and its record in the run directory.

    append_accuracy(paths, MeasuredAccuracy(version=7, measured_at=now, accuracy=found))
    for one in read_accuracy(paths): ...

The record is `metrics/accuracy.jsonl`, one measurement a line. A line is appended with one write, so that measurements at the
same time do not mix; a partial line of a killed process is closed by the next one, and left out by readers.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from zerofleet.contracts.plain_files import open_plain, read_plain
from zerofleet.library.values import Value
from zerofleet.storage.run_paths import RunPaths

__all__ = [
    "Accuracy",
    "Figures",
    "MeasuredAccuracy",
    "PlyFigures",
    "Result",
    "ResultKey",
    "ShareValue",
    "accuracy_file",
    "append_accuracy",
    "drawn_set",
    "filed_set",
    "latest_results",
    "read_accuracy",
    "stored_set",
]


class ShareValue(Value):
    """Count out of a total, with the 95 % interval of the share."""

    count: int
    of: int
    share: float | None
    """None when the total is zero."""
    low: float
    high: float


class Figures(Value):
    """Totals of judged moves."""

    kept: ShareValue
    """Moves that keep the value of the position."""
    decided: ShareValue
    """The same where some legal move does not keep it."""
    exact: ShareValue
    """Moves than which none scores better, where some legal move does not keep the value."""
    mean_lost: float | None
    """Mean score lost per move, in the unit of the measurement."""


class PlyFigures(Figures):
    """Totals of the moves of one ply."""

    ply: int


class Result(Value):
    """Moves of one player in the positions of one source."""

    source: str
    """random, self-play, stored or file."""
    mode: str
    """`policy alone`, `N simulations`, or `as it is` for an agent."""
    search: str = ""
    """Root of a model's search, and whether it proves replies, such as `root=gumbel,replies=true`. Empty without a search, for
    an agent, and in records of earlier releases, some of which searched with PUCT."""
    positions: str = ""
    """Name of the set of positions, such as `500 positions, seed 0`; empty in records of earlier releases."""
    all: Figures | None
    """None without positions."""
    plies: tuple[PlyFigures, ...]


class Accuracy(Value):
    """Measurement: the object that `zerofleet accuracy --json` prints."""

    player: str
    game: str
    parameters: dict[str, str]
    seed: int
    unit: str
    """Unit of `mean_lost`."""
    first_ply: int
    simulations: int
    wanted_positions: int | None = None
    """Number of positions asked for from each source; a game may have fewer. None for a file, and in records of earlier
    releases."""
    max_nodes: int | None = None
    """Nodes of the solver above which positions were left out; None without a limit."""
    results: tuple[Result, ...]


class ResultKey(NamedTuple):
    """Version, positions, mode and search of a result: what distinguishes it from other results of a run."""

    version: int
    source: str
    mode: str
    search: str
    """`Result.search`."""
    positions: str
    """Name of the set of positions."""

    @property
    def play(self) -> str:
        """Mode with its search, such as `100 simulations (root=gumbel,replies=true)`; the mode alone where none is stated."""
        return f"{self.mode} ({self.search})" if self.search else self.mode


class MeasuredAccuracy(Value):
    """Measurement of a version in the record of its run."""

    version: int
    measured_at: datetime
    accuracy: Accuracy


def accuracy_file(paths: RunPaths) -> Path:
    """Return the file of the record."""
    return paths.metrics / "accuracy.jsonl"


def append_accuracy(paths: RunPaths, measured: MeasuredAccuracy) -> None:
    """Append a measurement to the record of a run, durably. Raises `OSError`."""
    file = accuracy_file(paths)
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = open_plain(file, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        size_bytes = os.fstat(descriptor).st_size
        is_partial = size_bytes > 0 and os.pread(descriptor, 1, size_bytes - 1) != b"\n"
        os.write(descriptor, b"\n" * is_partial + measured.model_dump_json().encode() + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_accuracy(paths: RunPaths) -> tuple[MeasuredAccuracy, ...]:
    """Return the measurements of a run, oldest first, without invalid lines. Raises `OSError`."""
    try:
        lines = read_plain(accuracy_file(paths)).splitlines()
    except FileNotFoundError:
        return ()
    found = []
    for line in lines:
        try:
            found.append(MeasuredAccuracy.model_validate_json(line))
        except ValidationError:  # a partial line, or one of a later release
            continue
    return tuple(found)


def drawn_set(count: int, *, seed: int, first_ply: int) -> str:
    """Return the name of a set of positions of random games or of self-play; `count` is the number that was asked for."""
    return f"{count:,} positions, seed {seed}{f', from ply {first_ply}' if first_ply else ''}"


def filed_set(file: str, positions: Sequence[Sequence[int]]) -> str:
    """Return the name of the positions of a file, each as its moves; files with the same positions differ by name alone."""
    digest = hashlib.sha256(repr([tuple(moves) for moves in positions]).encode()).hexdigest()
    return f"{len(positions):,} positions, {file} {digest[:8]}"


def stored_set(count: int, *, seed: int, first_ply: int, oldest: int, newest: int) -> str:
    """Return the name of a set of positions of stored games, by the numbers of these games."""
    return f"{drawn_set(count, seed=seed, first_ply=first_ply)}, games {oldest:,} to {newest:,}"


def latest_results(measured: Sequence[MeasuredAccuracy]) -> dict[ResultKey, Result]:
    """Return the newest result of each version, source, mode, search and set of positions, versions ascending.

    Results without positions are left out.
    """
    results = {
        ResultKey(one.version, result.source, result.mode, result.search, _set_of(one.accuracy, result, result.all)): result
        for one in measured
        for result in one.accuracy.results
        if result.all is not None
    }
    return dict(sorted(results.items(), key=lambda item: item[0].version))


def _set_of(found: Accuracy, result: Result, total: Figures) -> str:
    """Return the name of a result's positions; in records of earlier releases files differ by their sizes alone."""
    if result.positions:
        return result.positions
    if result.source == "file":
        return f"{total.kept.of:,} positions"
    return drawn_set(total.kept.of, seed=found.seed, first_ply=found.first_ply)

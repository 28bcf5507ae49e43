"""Games for logs of tests, and the entries of a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zerofleet.storage.game_log import GameLog

SMALL = 600  # bytes of a file: a handful of the games below


def game(number: int, size: int = 50) -> tuple[str, bytes]:
    return f"{number * 7919 + 1:032x}", bytes([number % 256]) * size


def contents(log: GameLog) -> list[tuple[str, bytes]]:
    return [(logged.uid, logged.payload) for logged in log.scan()]


def write(directory: Path, games: Sequence[tuple[str, bytes]], *, segment_bytes: int = SMALL) -> None:
    with GameLog.open(directory, writer=True, segment_bytes=segment_bytes) as log:
        for entry in games:
            log.append([entry])


def iter_entries(path: Path) -> list[int]:
    data = path.read_bytes()
    return [i for i in range(len(data)) if data.startswith(b"\xf5ZGe", i)]

"""SIGKILL in the middle of writing: every game that `append` had returned for is there, whole and once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from zerofleet.storage.crash_points import VARIABLE
from zerofleet.storage.game_log import GameLog

WRITER = """
import sys
from pathlib import Path
from zerofleet.storage.game_log import GameLog

log = GameLog.open(Path(sys.argv[1]), writer=True, segment_bytes=20_000)
print("ready", flush=True)
number = log.end_index
while True:
    batch = [(f"{i:032x}", f"game {i} ".encode() * 40) for i in range(number, number + 7)]
    log.append(batch)
    number += len(batch)
    print(number, flush=True)
"""


def payload(number: int) -> bytes:
    return f"game {number} ".encode() * 40


def start(directory: Path, crash_at: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(directory)],
        env={**os.environ, VARIABLE: crash_at},
        stdout=subprocess.PIPE,
        text=True,
    )


def check(directory: Path, acknowledged: int) -> int:
    """Everything acknowledged is there; what is there is a prefix without gaps. Return its length."""
    with GameLog.open(directory, writer=False) as log:
        found = [(logged.index, logged.uid, logged.payload) for logged in log.scan()]
    assert found == [(i, f"{i:032x}", payload(i)) for i in range(len(found))]
    assert len(found) >= acknowledged
    return len(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "point",
    [
        *("game_log_after_write_before_sync:3", "game_log_after_sync:5", "game_log_between_files", "game_log_between_files:2"),
        *("game_log_before_sorted_uids", "game_log_before_sorted_uids:3", "game_log_after_sorted_uids:2"),
    ],
)
def test_a_log_killed_at_a_named_point_resumes(tmp_path: Path, point: str) -> None:
    writer = start(tmp_path, crash_at=point)
    assert writer.stdout is not None
    lines = writer.stdout.read().split()
    writer.stdout.close()
    assert writer.wait() == -signal.SIGKILL
    acknowledged = int(lines[-1]) if len(lines) > 1 else 0
    check(tmp_path, acknowledged)
    with GameLog.open(tmp_path, writer=True) as log:
        assert len(log) in (acknowledged, acknowledged + 7)
        assert log.append([(f"{i:032x}", payload(i)) for i in range(len(log))]) == 0
        log.append([("ff" * 16, b"next")])
    with GameLog.open(tmp_path, writer=False) as log:
        assert log.find("ff" * 16) is not None


@pytest.mark.slow
def test_repeated_kills_at_random_moments_lose_no_acknowledged_game(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    acknowledged = 0
    for _ in range(5):
        writer = start(tmp_path)
        assert writer.stdout is not None
        for _ in range(int(rng.integers(1, 40))):
            line = writer.stdout.readline().strip()
            acknowledged = int(line) if line.isdecimal() else acknowledged
        writer.kill()
        for line in writer.stdout:
            acknowledged = int(line)
        writer.stdout.close()
        writer.wait()
        acknowledged = check(tmp_path, acknowledged)

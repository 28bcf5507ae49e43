"""Shares of a warm start: every game once among the workers of a machine, whoever dies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from selfplay_worker.shares import Shares

HOLDER = """
import sys
from pathlib import Path
from selfplay_worker.shares import Shares
shares = Shares(Path(sys.argv[1]), 5)
taken = [shares.take() for _ in range(3)]
shares.finish(taken[0])
print(taken, flush=True)
sys.stdin.read()
"""


def test_each_game_is_taken_once_from_any_starting_point(tmp_path: Path) -> None:
    shares = Shares(tmp_path / "warm_start", 4, first=6)
    assert [shares.take() for _ in range(5)] == [2, 3, 0, 1, None]
    shares.close()


def test_a_game_given_back_is_taken_again_and_a_finished_one_is_not(tmp_path: Path) -> None:
    shares = Shares(tmp_path / "warm_start", 2)
    assert (shares.take(), shares.take()) == (0, 1)
    shares.finish(0)
    shares.give_back(1)
    assert shares.finished == 1
    assert (shares.take(), shares.take()) == (1, None)
    shares.close()


def test_a_game_that_cannot_be_marked_on_a_full_disk_stays_with_this_process_until_all_are_played_again(
    tmp_path: Path, monkeypatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    shares = Shares(tmp_path / "warm_start", 2)
    assert shares.take() == 0
    monkeypatch.setattr("selfplay_worker.shares.os.pwrite", fail)
    shares.finish(0)
    assert (shares.take(), shares.take()) == (1, None)
    shares.finish(1)
    assert shares.finished == 2
    shares.forget()
    assert (shares.finished, shares.take(), shares.take()) == (0, 0, 1)
    shares.close()


def test_finished_games_are_known_to_the_next_process_until_they_are_cleared(tmp_path: Path) -> None:
    for expected in (0, 1):
        shares = Shares(tmp_path / "warm_start", 2)
        number = shares.take()
        assert number == expected
        shares.finish(number)
        shares.close()
    shares = Shares(tmp_path / "warm_start", 2)
    assert (shares.finished, shares.take()) == (2, None)
    shares.forget()
    assert (shares.finished, shares.take()) == (0, 0)
    shares.close()


def test_without_a_common_file_each_worker_plays_all_games(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    shares = Shares(tmp_path / "file" / "warm_start", 2)
    assert (shares.take(), shares.take(), shares.take()) == (0, 1, None)
    shares.close()


@pytest.mark.slow
def test_workers_of_a_machine_share_the_games_and_take_over_those_of_a_killed_one(tmp_path: Path) -> None:
    path = tmp_path / "warm_start"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == "[0, 1, 2]\n"
    shares = Shares(path, 5)
    assert [shares.take() for _ in range(3)] == [3, 4, None]
    holder.kill()
    holder.wait()
    holder.stdin.close()
    holder.stdout.close()
    assert [shares.take() for _ in range(3)] == [1, 2, None]  # game 0 was finished
    shares.close()

"""Readers of records, in the calling thread and in processes: the same answers, and processes that are lost."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest

from games.errors import RuleFault
from trainer.readers import processes as module
from trainer.readers.base import Reader, ReadGame, RecordReader
from trainer.readers.messages import Answers, Orders
from trainer.readers.process import answers
from trainer.readers.processes import ReaderError, ReaderProcesses
from trainer.window import SampleWindow
from zerofleet.errors import RecordRejected, Unavailable
from zerofleet.presets import TrainSettings
from zerofleet.presets.warm_start import WarmStartSettings

TIMEOUT_S = 60


@pytest.fixture
def take(game):
    return SampleWindow(game.spec(), TrainSettings()).reading


@pytest.fixture
def orders(game, take) -> Orders:
    return Orders.of(game, WarmStartSettings(), take)


@pytest.fixture(params=["thread", "one process", "three processes"])
def reader(request, game, take, orders) -> Iterator[Reader]:
    if request.param == "thread":
        opened: Reader = RecordReader(game, take)
    else:
        opened = ReaderProcesses(orders, 1 if request.param == "one process" else 3)
    with closing(opened):
        yield opened


def ended(*pids: int) -> bool:
    """Return whether processes end, which need not be children of this one."""
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            if not select.select([descriptor], [], [], TIMEOUT_S)[0]:
                return False
        finally:
            os.close(descriptor)
    return True


def test_every_game_is_answered_in_order(reader, record, connect_four):
    bad = {
        "format": ("0" * 32, b"\xff\xff\xff"),
        "uid": ("0" * 32, record(1)[1]),
        "moves": record(1, moves=np.array([0, 0], np.int32), searched=()),
        "other_game": record(1, of=connect_four),
    }
    entries = [record(0), *bad.values(), record(2, version=7)]
    first, *refused, last = reader.read(entries)
    assert [game.reason for game in refused] == list(bad)
    assert all(str(game) for game in refused)
    assert isinstance(first, ReadGame)
    assert (first.worker_id, first.claimed_version, last.claimed_version) == ("worker", 1, 7)
    assert len(first.samples) == len(first.moves) > 0
    assert reader.read([]) == []


def test_the_samples_are_those_of_the_window(reader, record, game):
    window = SampleWindow(game.spec(), TrainSettings())
    (found,) = reader.read([record(3)])
    wanted = RecordReader(game, window.read).read([record(3)])[0].samples
    for got, array in zip(found.samples.arrays, wanted.arrays, strict=True):
        np.testing.assert_array_equal(got, array)
    window.add(found.samples)
    assert window.total == len(wanted)


def test_games_of_a_lost_process_are_read_again_by_another(orders, record):
    with closing(ReaderProcesses(orders, 2)) as reader:
        reader.read([record(0), record(1)])
        lost = reader.pids
        os.kill(lost[1], signal.SIGKILL)
        assert ended(lost[1])
        with pytest.raises(Unavailable, match=r"exit codes \[0, -9\]"):
            reader.read([record(0), record(1)])
        assert len(reader.read([record(0), record(1)])) == 2
        assert not set(reader.pids) & set(lost)


def test_a_reader_that_loses_its_processes_again_and_again_gives_up(orders, record, monkeypatch):
    monkeypatch.setattr(module.sys, "executable", "/bin/false")
    with closing(ReaderProcesses(orders, 1)) as reader:
        for _ in range(module.MOST_LOSSES - 1):
            with pytest.raises(Unavailable):
                reader.read([record(0)])
        with pytest.raises(ReaderError, match=f"{module.MOST_LOSSES} times in a row"):
            reader.read([record(0)])


class Failing:
    """Reader that fails as told."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def read(self, entries):
        raise self.error

    def close(self) -> None:
        pass


def test_a_fault_of_the_rules_is_told_by_its_place_and_any_other_error_by_its_traceback(orders, record, monkeypatch):
    fault = answers(Failing(RuleFault("is_over of Mine raised ZeroDivisionError\n  mine.py:3")), [record(0)])
    assert fault == Answers(fault="is_over of Mine raised ZeroDivisionError\n  mine.py:3")
    error = answers(Failing(KeyError("lost")), [record(0)])
    assert "KeyError: 'lost'" in error.error
    assert "test_readers.py" in error.error
    for answer, kind in ((fault, RuleFault), (error, ReaderError)):
        monkeypatch.setattr(module._Process, "receive", lambda self, answer=answer: answer)
        with closing(ReaderProcesses(orders, 1)) as reader, pytest.raises(kind, match=r"ZeroDivision|lost"):
            reader.read([record(0)])


def test_a_refusal_keeps_its_reason_on_the_way(record):
    refusal = RecordRejected("moves", "game 'x': illegal")
    assert answers(Failing(refusal), []).error  # refusals are answers, not errors
    kept = Answers([("moves", "game 'x': illegal")]).games[0]
    assert str(RecordRejected(*kept)) == str(refusal)


def test_closing_ends_the_processes(orders, record):
    with closing(ReaderProcesses(orders, 2)) as reader:
        pids = reader.pids
        assert len(set(pids)) == 2
    assert ended(*pids)
    reader.close()  # again


TRAINER = """
import sys, signal
import games
from games.core import make
from trainer.readers.messages import Orders
from trainer.readers.processes import ReaderProcesses
from trainer.window import SampleWindow
from zerofleet.presets import TrainSettings
from zerofleet.presets.warm_start import WarmStartSettings

game = make("tic_tac_toe")
reader = ReaderProcesses(Orders.of(game, WarmStartSettings(), SampleWindow(game.spec(), TrainSettings()).reading), 2)
print(*reader.pids, flush=True)
signal.pause()
"""


@pytest.mark.slow
def test_processes_of_a_killed_trainer_end():
    with subprocess.Popen([sys.executable, "-W", "ignore", "-c", TRAINER], stdout=subprocess.PIPE, text=True) as trainer:
        assert trainer.stdout is not None
        pids = [int(pid) for pid in trainer.stdout.readline().split()]
        trainer.kill()
    assert len(pids) == 2
    assert ended(*pids)

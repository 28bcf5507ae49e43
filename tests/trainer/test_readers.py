"""Readers of records, in the calling thread and in processes: the same answers, and processes that are lost."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from multiprocessing.connection import Connection

import numpy as np
import pytest
from foreign_processes import ended

from games.errors import RuleFault
from trainer.fleet import Fleet
from trainer.intake import Intake
from trainer.readers import processes as module
from trainer.readers.base import Reader, ReadGame, RecordReader
from trainer.readers.messages import Answers, ReaderSettings, receive_answers, send_answers
from trainer.readers.process import answers
from trainer.readers.processes import ReaderProcesses
from trainer.record_check import RecordCheck
from trainer.replay import Replay
from trainer.samples import extract
from trainer.window import SampleWindow
from zerofleet.errors import ReaderFailed, RecordRejected, Unavailable
from zerofleet.presets import TrainSettings
from zerofleet.presets.warm_start import WarmStartSettings
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.streams import MemoryStream

TIMEOUT_S = 60


@pytest.fixture
def settings(game) -> ReaderSettings:
    return ReaderSettings.of(game, TrainSettings(), WarmStartSettings())


@pytest.fixture
def processes(settings, game):
    """Make readers in processes."""
    return partial(ReaderProcesses, settings, spec=game.spec())


@pytest.fixture(params=["thread", pytest.param(1, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def reader(request, game, processes) -> Iterator[Reader]:
    take = SampleWindow(game.spec(), TrainSettings()).read
    with closing(RecordReader(game, take) if request.param == "thread" else processes(request.param)) as opened:
        yield opened


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
    assert len(last.samples) == len(last.moves)
    assert reader.read([]) == []


def test_the_samples_are_those_of_the_window(reader, record, game):
    window = SampleWindow(game.spec(), TrainSettings())
    entries = [record(number) for number in range(5)]
    for found, wanted in zip(reader.read(entries), RecordReader(game, window.read).read(entries), strict=True):
        assert found[:-1] == wanted[:-1]
        for got, array in zip(found.samples.arrays, wanted.samples.arrays, strict=True):
            np.testing.assert_array_equal(got, array)
        window.add(found.samples)
    assert window.total == sum(len(found.samples) for found in reader.read(entries))


@pytest.mark.slow
def test_games_of_a_lost_process_are_read_again_by_another(processes, record):
    with closing(processes(2)) as reader:
        reader.read([record(0), record(1)])
        lost = reader.pids
        os.kill(lost[1], signal.SIGKILL)
        assert ended(lost[1], timeout_s=TIMEOUT_S)
        with pytest.raises(Unavailable, match=r"exit codes \[0, -9\]"):
            reader.read([record(0), record(1)])
        assert [game.moves for game in reader.read([record(0), record(1)])] == [
            game.moves for game in (*reader.read([record(0)]), *reader.read([record(1)]))
        ]
        assert not set(reader.pids) & set(lost)


@pytest.mark.parametrize("program", ["/bin/false", "/absent"])
def test_a_reader_that_loses_its_processes_again_and_again_gives_up(processes, record, monkeypatch, program):
    with closing(processes(1)) as reader:
        monkeypatch.setattr(module.sys, "executable", program)
        os.kill(reader.pids[0], signal.SIGKILL)
        for _ in range(module.MOST_FAILURES - 1):
            with pytest.raises(Unavailable):
                reader.read([record(0)])
        with pytest.raises(ReaderFailed, match=f"{module.MOST_FAILURES} times in a row"):
            reader.read([record(0)])


def test_a_reader_that_cannot_start_all_its_processes_leaves_none(processes, monkeypatch):
    started = []

    class Second(subprocess.Popen):
        def __init__(self, *given, **named):
            if started:
                raise FileNotFoundError("no such program")
            super().__init__(*given, **named)
            started.append(self.pid)

    monkeypatch.setattr(module.subprocess, "Popen", Second)
    with pytest.raises(FileNotFoundError):
        processes(2)
    assert ended(*started, timeout_s=TIMEOUT_S)


@pytest.mark.slow
def test_closing_while_another_thread_reads_ends_the_read(processes, record):
    reader = processes(2)
    reader.read([record(0), record(1)])
    for pid in reader.pids:
        os.kill(pid, signal.SIGSTOP)  # so that no answer comes
    failures: list[BaseException] = []

    def read() -> None:
        try:
            reader.read([record(0), record(1)])
        except Unavailable as error:
            failures.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    pids = reader.pids
    while not reader._turn.locked():
        pass
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    reader.close()
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()
    assert ended(*pids, timeout_s=TIMEOUT_S)
    with pytest.raises(Unavailable, match="is closed"):
        reader.read([record(0)])


class Fixed:
    """Reader that fails, or returns an answer for every entry."""

    def __init__(self, answer) -> None:
        self.answer = answer

    def read(self, entries):
        if isinstance(self.answer, RecordRejected):
            return [self.answer for _ in entries]
        raise self.answer

    def close(self) -> None:
        pass


@pytest.fixture
def sent(game):
    """Send answers through a connection, and return what arrives."""

    def send(given: Answers) -> Answers:
        one, other = (Connection(end.detach()) for end in socket.socketpair())
        with one, other:
            send_answers(one, given)
            return receive_answers(other, game.spec())

    return send


def test_a_fault_of_the_rules_is_told_by_its_place_and_any_other_error_by_its_traceback(processes, record, sent, monkeypatch):
    fault = sent(answers(Fixed(RuleFault("is_over of Mine raised ZeroDivisionError\n  mine.py:3")), [record(0)]))
    assert fault == Answers([], fault="is_over of Mine raised ZeroDivisionError\n  mine.py:3")
    error = sent(answers(Fixed(KeyError("lost")), [record(0)]))
    assert "KeyError: 'lost'" in error.error
    assert "test_readers.py" in error.error
    with closing(processes(1)) as reader:
        for answer, kind in ((fault, RuleFault), (error, ReaderFailed)):
            monkeypatch.setattr(module, "receive_answers", lambda *_, answer=answer: answer)
            with pytest.raises(kind, match=r"ZeroDivision|lost"):
                reader.read([record(0)])


def test_a_refusal_keeps_its_reason_and_its_text_on_the_way(record, sent):
    (refused,) = sent(answers(Fixed(RecordRejected("moves", "game 'x': illegal")), [record(0)])).games
    assert (type(refused), refused.reason, str(refused)) == (RecordRejected, "moves", "game 'x': illegal")


@pytest.mark.parametrize("cut", [0, 1, 100])
def test_a_damaged_answer_is_an_error(game, record, cut):
    reader = RecordReader(game, partial(extract, settings=TrainSettings()))
    one, other = (Connection(end.detach()) for end in socket.socketpair())
    with one, other:
        send_answers(one, answers(reader, [record(0)]))
        head, numbers = other.recv_bytes(), other.recv_bytes()
        one.send_bytes(head if cut else head[:-5])
        one.send_bytes(numbers[: len(numbers) - cut])
        with pytest.raises(ValueError, match=r"."):
            receive_answers(other, game.spec())


@pytest.mark.slow
def test_closing_ends_the_processes(processes):
    with closing(processes(2)) as reader:
        pids = reader.pids
        assert len(set(pids)) == 2
    assert ended(*pids, timeout_s=TIMEOUT_S)
    reader.close()  # again


@pytest.mark.slow
async def test_games_whose_reader_is_killed_are_stored_and_counted_once(game, processes, record, tmp_path):
    stream, replay = (
        MemoryStream(),
        Replay.open(GameLog.open(tmp_path, writer=True), SampleWindow(game.spec(), TrainSettings())),
    )
    fleet = Fleet(max_plies=9)
    with closing(replay), closing(processes(2)) as reader, ThreadPoolExecutor(1) as thread:
        check = RecordCheck(reader, replay, lambda: 3, fleet=fleet)
        intake = Intake(
            stream,
            replay,
            check,
            executor=thread,
            consumer="trainer",
            limit=16,
            wait_s=0.01,
            rng=random.Random(0),
            on_samples=lambda: None,
        )
        for number in range(6):
            await stream.publish(*record(number))
        os.kill(reader.pids[0], signal.SIGKILL)
        await intake.take(await stream.consume(consumer="trainer", limit=16, block_s=0.0))
        assert sorted(logged.uid for logged in replay.log.scan()) == [record(number)[0] for number in range(6)]
        assert (await stream.stats()).length == 0
        assert fleet._workers["worker"].games == 6


TRAINER = """
import signal
import games
from games.core import make
from trainer.readers.messages import ReaderSettings
from trainer.readers.processes import ReaderProcesses
from zerofleet.presets import TrainSettings
from zerofleet.presets.warm_start import WarmStartSettings

game = make("tic_tac_toe")
reader = ReaderProcesses(ReaderSettings.of(game, TrainSettings(), WarmStartSettings()), 2, spec=game.spec())
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
    assert ended(*pids, timeout_s=TIMEOUT_S)

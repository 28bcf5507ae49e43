"""What is appended is there afterwards, whole, in order and once; whatever else happened to the process or the disk."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from pathlib import Path

import pytest
import structlog
from games_in_a_log import SMALL, contents, game, iter_entries, write
from hypothesis import given, settings
from hypothesis import strategies as st

from zerofleet.errors import RunDirectoryError
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.game_log.format import Table
from zerofleet.storage.game_log.uids import UidIndex


def test_appended_games_are_read_back_in_order(tmp_path: Path) -> None:
    games = [game(i, size=i * 10) for i in range(20)]
    with GameLog.open(tmp_path, writer=True) as log:
        assert log.append(games[:5]) == 5
        assert log.append(games[5:]) == 15
        assert contents(log) == games
        assert [logged.index for logged in log.scan(17)] == [17, 18, 19]
        assert list(log.uids()) == [uid for uid, _ in games]
        assert log.get(7).payload == games[7][1]
        found = log.find(games[12][0])
        assert found is not None
        assert (found.index, found.payload) == (12, games[12][1])
        assert len(log) == log.end_index == 20


@settings(max_examples=20, deadline=None)
@given(st.sets(st.binary(min_size=16, max_size=16), max_size=40), st.integers(0, 40), st.integers(1, 8))
def test_the_games_of_a_prefix_are_those_that_begin_with_it(uids: set[bytes], sealed: int, digits: int) -> None:
    index, stored = UidIndex(), [*sorted(uids), b"\0" * 16, b"\xff" * 16]
    for number, uid in enumerate(stored):
        index.add(uid, number)
        if number == sealed:
            index.seal()
    for prefix in {uid.hex()[:digits] for uid in stored}:
        assert index.starting_with(prefix) == [n for n, uid in enumerate(stored) if uid.hex().startswith(prefix)]


def test_a_game_already_stored_is_skipped(tmp_path: Path) -> None:
    with GameLog.open(tmp_path, writer=True) as log:
        log.append([game(1), game(2)])
        assert log.append([game(2), game(3), game(3), (game(1)[0], b"other content")]) == 1
        assert contents(log) == [game(1), game(2), game(3)]


def test_a_reopened_log_finds_every_game_across_files(tmp_path: Path) -> None:
    games = [game(i) for i in range(40)]
    write(tmp_path, games)
    assert len(list(tmp_path.glob("*.games"))) > 3
    with GameLog.open(tmp_path, writer=True, segment_bytes=SMALL) as log:
        assert contents(log) == games
        assert all(uid in log for uid, _ in games)
        assert game(40)[0] not in log
        assert log.append([games[0], game(40)]) == 1
        assert log.get(40).uid == game(40)[0]


def test_a_uid_that_ends_in_zero_bytes_is_found(tmp_path: Path) -> None:
    zeros = ["ab" + "00" * 15, "ab00cd" + "00" * 13, "00" * 16, "00" * 15 + "01"]
    write(tmp_path, [(uid, b"x" * 300) for uid in zeros])
    with GameLog.open(tmp_path, writer=False) as log:
        assert [log.find_index(uid) for uid in zeros] == [0, 1, 2, 3]
        assert "ab" + "00" * 14 + "01" not in log


@pytest.mark.parametrize("uid", ["", "abc", "zz" * 16, "ab" * 15, "ab" * 17])
def test_an_invalid_uid_is_refused(tmp_path: Path, uid: str) -> None:
    with GameLog.open(tmp_path, writer=True) as log:
        with pytest.raises(ValueError, match="hex"):
            log.find(uid)
        with pytest.raises(ValueError, match="hex"):
            log.append([(uid, b"x")])
        assert len(log) == 0


def test_a_game_number_out_of_range_is_refused(tmp_path: Path) -> None:
    write(tmp_path, [game(0)])
    with GameLog.open(tmp_path, writer=False) as log:
        for number in (-1, 1, 10**12):
            with pytest.raises(IndexError, match="holds 0 to 0"):
                log.get(number)


# -- many processes ------------------------------------------------------------------------------------------------


def test_a_second_writer_is_refused_and_readers_are_not(tmp_path: Path) -> None:
    with GameLog.open(tmp_path, writer=True) as log:
        with pytest.raises(RunDirectoryError, match="being written by another process"):
            GameLog.open(tmp_path, writer=True)
        log.append([game(1)])
        with GameLog.open(tmp_path, writer=False) as reader:
            assert contents(reader) == [game(1)]
            with pytest.raises(ValueError, match="reading only"):
                reader.append([game(2)])
    with GameLog.open(tmp_path, writer=True) as log:
        assert len(log) == 1


def test_a_reader_follows_the_writer_across_files(tmp_path: Path) -> None:
    games = [game(i) for i in range(30)]
    with (
        GameLog.open(tmp_path, writer=True, segment_bytes=SMALL) as log,
        GameLog.open(tmp_path, writer=False) as every,
        GameLog.open(tmp_path, writer=False) as late,
    ):
        for number, entry in enumerate(games):
            log.append([entry])
            assert every.refresh() == 1
            assert every.get(number).payload == entry[1]
        assert every.refresh() == 0
        assert late.refresh() == 30
        assert contents(late) == games
        assert games[29][0] in late


@pytest.mark.parametrize(("writer", "each"), [(True, 3), (False, 2)])
def test_a_full_file_takes_one_descriptor_and_one_for_each_of_its_tables(tmp_path: Path, writer: bool, each: int) -> None:
    def descriptors(directory: Path, files: int) -> int:
        write(directory, [game(i) for i in range(files)], segment_bytes=1)
        before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names alone, which are numbers
        with GameLog.open(directory, writer=writer):
            return len(os.listdir("/proc/self/fd")) - before  # noqa: PTH208

    assert descriptors(tmp_path / "twelve", 12) - descriptors(tmp_path / "two", 2) == 10 * each


def test_reading_a_missing_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="no such directory"):
        GameLog.open(tmp_path / "missing", writer=False)


def test_several_threads_may_read_while_one_appends(tmp_path: Path) -> None:
    games = [game(i) for i in range(300)]
    wrong = []
    done = threading.Event()

    with GameLog.open(tmp_path, writer=True, segment_bytes=SMALL) as log:

        def read() -> None:
            while not done.is_set():
                seen = contents(log)
                if seen != games[: len(seen)] or any(uid not in log for uid, _ in seen):
                    wrong.append(seen)

        thread = threading.Thread(target=read)
        thread.start()
        for start in range(0, 300, 5):
            log.append(games[start : start + 5])
        done.set()
        thread.join()
        assert contents(log) == games
    assert not wrong


# -- the end of the file is torn -----------------------------------------------------------------------------------


def test_truncation_at_every_byte_of_the_last_entry_keeps_all_before_it(tmp_path: Path) -> None:
    games = [game(i, size=20) for i in range(4)]
    write(tmp_path / "whole", games, segment_bytes=1 << 20)
    path = tmp_path / "whole" / "00000000.games"
    data = path.read_bytes()
    entry_bytes = 36 + 20
    for cut in range(1, entry_bytes + 1):
        torn = tmp_path / "torn"
        torn.mkdir()
        (torn / path.name).write_bytes(data[:-cut])
        with GameLog.open(torn, writer=False) as reader:
            assert contents(reader) == games[:3]
        with GameLog.open(torn, writer=True) as log:
            assert contents(log) == games[:3]
            log.append([games[3], game(9)])
            assert contents(log) == [*games, game(9)]
        with GameLog.open(torn, writer=False) as reader:
            assert contents(reader) == [*games, game(9)]
        shutil.rmtree(torn)


@pytest.mark.parametrize("size", range(17))
def test_a_file_with_an_unfinished_header_is_completed(tmp_path: Path, size: int) -> None:
    games = [game(i) for i in range(12)]
    write(tmp_path, games)
    last = sorted(tmp_path.glob("*.games"))[-1]
    new = last.with_name("00000009.games")
    last.rename(new.with_name("keep"))  # makes room to fake a crash right after a new file was made
    count = len(games) - sum(1 for _ in iter_entries(new.with_name("keep")))
    header = new.with_name("keep").read_bytes()[:16]
    new.with_name("keep").unlink()
    new.write_bytes(header[:size])
    with GameLog.open(tmp_path, writer=True, segment_bytes=SMALL) as log:
        assert contents(log) == games[:count]
        log.append(games[count:])
    with GameLog.open(tmp_path, writer=False) as log:
        assert contents(log) == games


@settings(deadline=None, max_examples=60)
@given(garbage=st.binary(max_size=200), whole=st.integers(0, 5))
def test_garbage_after_the_last_entry_is_truncated(
    tmp_path_factory: pytest.TempPathFactory, garbage: bytes, whole: int
) -> None:
    directory = tmp_path_factory.mktemp("log")
    games = [game(i) for i in range(whole)]
    write(directory, games or [game(0)], segment_bytes=1 << 20)
    with (directory / "00000000.games").open("ab") as file:
        file.write(garbage)
    with GameLog.open(directory, writer=True) as log:
        assert contents(log) == (games or [game(0)])
        log.append([game(99)])
    with GameLog.open(directory, writer=False) as log:
        assert contents(log)[-1] == game(99)
    shutil.rmtree(directory)


# -- the disk refuses ------------------------------------------------------------------------------------------------


def test_a_full_disk_stores_none_of_the_batch_and_the_log_remains_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwrite

    def disk_full(descriptor: int, data: bytes, offset: int) -> int:
        if len(data) < 60:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data[:-50], offset)

    with GameLog.open(tmp_path, writer=True) as log:
        log.append([game(1)])
        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", disk_full)
            with pytest.raises(OSError, match="No space left"):
                log.append([game(2), game(3)])
        assert game(2)[0] not in log
        log.append([game(4), game(2)])
        assert contents(log) == [game(1), game(4), game(2)]
    with GameLog.open(tmp_path, writer=True) as log:
        assert contents(log) == [game(1), game(4), game(2)]


def test_a_failed_sync_blocks_further_writes_until_reopened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_disk(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with GameLog.open(tmp_path, writer=True) as log:
        log.append([game(1)])
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", broken_disk)
            with pytest.raises(OSError, match="Input/output"):
                log.append([game(2)])
        with pytest.raises(RunDirectoryError, match="reopen the log"):
            log.append([game(3)])
        assert contents(log) == [game(1)]
    with GameLog.open(tmp_path, writer=True) as log:
        assert contents(log) == [game(1)], "a game whose sync failed was not stored"
        assert log.append([game(2), game(3)]) == 2
        assert contents(log) == [game(1), game(2), game(3)]


# -- dropping old files ----------------------------------------------------------------------------------------------


def test_dropped_games_are_unreadable_but_their_uids_remain_known(tmp_path: Path) -> None:
    games = [game(i) for i in range(40)]
    write(tmp_path, games)
    with GameLog.open(tmp_path, writer=True, segment_bytes=SMALL) as log:
        start = log.drop_before(20)
        assert 0 < start <= 20
        assert log.drop_before(20) == start
        assert contents(log) == games[start:]
        with pytest.raises(IndexError, match=f"holds {start} to 39"):
            log.get(0)
    with GameLog.open(tmp_path, writer=True, segment_bytes=SMALL) as log:
        assert (log.start_index, log.end_index, len(log)) == (start, 40, 40)
        assert contents(log) == games[start:]
        assert log.append([games[0], game(40)]) == 1
        assert log.drop_before(10**9) == log.start_index < 41  # the file being written stays
        assert log.get(40).payload == game(40)[1]


def test_a_reader_that_follows_the_writer_closes_the_files_that_it_drops(tmp_path: Path) -> None:
    games = [game(i) for i in range(40)]
    write(tmp_path, games[:5])
    with GameLog.open(tmp_path, writer=False) as reader, GameLog.open(tmp_path, writer=True, segment_bytes=SMALL) as writer:
        writer.append(games[5:20])
        reader.refresh()
        writer.append(games[20:])
        start = writer.drop_before(20)
        assert reader.refresh() == 20
        assert (reader.start_index, len(reader)) == (start, 40)
        assert contents(reader) == games[start:]
        held = [os.fstat(segment.descriptor).st_nlink for segment in reader._segments if segment.descriptor is not None]
        assert set(held) == {1}


def test_a_reader_goes_on_after_files_that_it_never_read_were_dropped(tmp_path: Path) -> None:
    games = [game(i) for i in range(60)]
    write(tmp_path, games[:5])
    with GameLog.open(tmp_path, writer=False) as reader:
        with GameLog.open(tmp_path, writer=True, segment_bytes=SMALL) as writer:
            for entry in games[5:]:
                writer.append([entry])
            start = writer.drop_before(50)
        assert reader.refresh() == 55
        assert (reader.start_index, reader.end_index, len(reader)) == (start, 60, 60)
        assert contents(reader) == games[start:]
        assert [reader.find_index(uid) for uid, _ in games] == [*range(60)]


def test_a_log_with_a_hole_begins_after_it_and_its_writer_drops_the_file_before_it(tmp_path: Path) -> None:
    games = [game(i) for i in range(40)]
    write(tmp_path, games)
    for number in (1, 2):
        (tmp_path / f"{number:08}.games").unlink()
    for is_writer in (False, True):
        with GameLog.open(tmp_path, writer=is_writer, segment_bytes=SMALL) as log:
            start = log.start_index
            assert contents(log) == games[start:]
            assert log.block(start + 1, most=5) == (start, [log.get(start)])
            assert log.find_index(games[0][0]) == 0
            for refused in (lambda log=log: log.get(0), lambda log=log, start=start: log.block(start, most=5)):
                with pytest.raises(IndexError):
                    refused()
            if is_writer:
                log.drop_before(0)
                assert (tmp_path / "00000000.games").exists(), "its games may still be wanted, and the others restored"
                assert log.drop_before(start) == start
                assert min(path.stem for path in tmp_path.glob("*.games")) == "00000003"


def test_a_reader_may_open_a_log_while_its_writer_drops_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    games = [game(i) for i in range(60)]
    write(tmp_path, games)
    load = Table.load
    with GameLog.open(tmp_path, writer=True, segment_bytes=SMALL) as writer:

        def drop_meanwhile(path: Path) -> Table | None:
            if path.stem == "00000003":
                writer.drop_before(45)
            return load(path)

        monkeypatch.setattr(Table, "load", drop_meanwhile)
        with GameLog.open(tmp_path, writer=False) as reader:
            assert (reader.start_index, reader.end_index, len(reader)) == (writer.start_index, 60, 60)
            assert contents(reader) == games[writer.start_index :]


def test_a_file_that_an_operator_deleted_is_dropped_like_the_others(tmp_path: Path) -> None:
    write(tmp_path, [game(i) for i in range(40)])
    with GameLog.open(tmp_path, writer=True, segment_bytes=SMALL) as log:
        (tmp_path / "00000000.games").unlink()
        assert 0 < (start := log.drop_before(20)) <= 20
        assert contents(log) == [game(i) for i in range(start, 40)]


def test_a_file_that_cannot_be_deleted_is_reported_once_and_kept_with_all_later_ones(tmp_path: Path) -> None:
    write(tmp_path, [game(i) for i in range(40)])
    with GameLog.open(tmp_path, writer=True, segment_bytes=SMALL) as log:
        first = tmp_path / "00000000.games"
        first.rename(tmp_path / "moved")
        first.mkdir()  # which no unlink removes
        with structlog.testing.capture_logs() as logged:
            assert [log.drop_before(20), log.drop_before(20)] == [0, 0]
        assert [line["event"] for line in logged] == ["game_log.not_deleted"]
        assert contents(log) == [game(i) for i in range(40)]
        first.rmdir()
        assert log.drop_before(20) > 0


@settings(deadline=None, max_examples=40)
@given(
    batches=st.lists(st.lists(st.integers(0, 30), max_size=6), max_size=12),
    reopen=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_the_log_behaves_like_an_ordered_dictionary(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]], reopen: list[bool]
) -> None:
    directory = tmp_path_factory.mktemp("log")
    model: dict[str, bytes] = {}
    log = GameLog.open(directory, writer=True, segment_bytes=300)
    for batch, again in zip(batches, reopen, strict=False):
        new = {uid: payload for uid, payload in map(game, batch) if uid not in model}
        assert log.append([game(number) for number in batch]) == len(new)
        model |= new
        if again:
            log.close()
            log = GameLog.open(directory, writer=True, segment_bytes=300)
        assert contents(log) == list(model.items())
        assert len(log) == len(model)
    log.close()
    shutil.rmtree(directory)

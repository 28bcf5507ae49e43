"""What is appended is there afterwards, whole, in order and once; whatever else happened to the process or the disk."""

from __future__ import annotations

import errno
import gc
import os
import shutil
import threading
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerofleet.errors import RecordRejected, RunDirectoryError
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.game_log.format import LOST, UID_DTYPE, Table, pack_entry
from zerofleet.storage.game_log.sorted_uids import SortedFile, SortedUids
from zerofleet.storage.game_log.uids import RECENT_GAMES, UidIndex

SMALL = 600  # bytes of a file: a handful of the games below


def game(number: int, size: int = 50) -> tuple[str, bytes]:
    return f"{number * 7919 + 1:032x}", bytes([number % 256]) * size


def contents(log: GameLog) -> list[tuple[str, bytes]]:
    return [(logged.uid, logged.payload) for logged in log.scan()]


def write(directory: Path, games: Sequence[tuple[str, bytes]], *, segment_bytes: int = SMALL) -> None:
    with GameLog.open(directory, writer=True, segment_bytes=segment_bytes) as log:
        for entry in games:
            log.append([entry])


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


def iter_entries(path: Path) -> list[int]:
    data = path.read_bytes()
    return [i for i in range(len(data)) if data.startswith(b"\xf5ZGe", i)]


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


# -- the disk changes what was written -------------------------------------------------------------------------------


def test_a_damaged_entry_is_skipped_and_later_games_keep_their_numbers(tmp_path: Path) -> None:
    games = [game(i) for i in range(5)]
    write(tmp_path, games, segment_bytes=1 << 20)
    path = tmp_path / "00000000.games"
    data = bytearray(path.read_bytes())
    places = iter_entries(path)
    data[places[1] + 40] ^= 1  # payload of game 1
    data[places[2] + 5] ^= 0x40  # length of game 2
    path.write_bytes(bytes(data))
    for writer in (False, True):
        with GameLog.open(tmp_path, writer=writer) as log:
            assert [logged.index for logged in log.scan()] == [0, 3, 4]
            assert log.get(4).payload == games[4][1]
            assert (len(log), log.damaged, log.end_index) == (3, 2, 5)
            with pytest.raises(RecordRejected, match="damaged") as refused:
                log.get(2)
            assert refused.value.reason == "checksum"
            assert games[1][0] not in log
    with GameLog.open(tmp_path, writer=True) as log:
        log.append([games[1]])  # as when the stream delivers it again
        assert log.get(5).uid == games[1][0]


def test_an_entry_within_a_torn_one_with_a_number_that_cannot_be_is_no_game(tmp_path: Path) -> None:
    write(tmp_path, [game(0)])
    hidden = pack_entry(1 << 40, bytes(16), b"of a worker")
    torn = pack_entry(1, bytes(range(16)), hidden + bytes(100))
    with (tmp_path / "00000000.games").open("ab") as file:
        file.write(torn[:-50])
    for writer in (False, True):
        with GameLog.open(tmp_path, writer=writer) as log:
            assert contents(log) == [game(0)]
            assert log.end_index == 1


def test_damage_in_a_full_file_is_detected_on_reading(tmp_path: Path) -> None:
    games = [game(i) for i in range(20)]
    write(tmp_path, games)
    path = tmp_path / "00000000.games"
    data = bytearray(path.read_bytes())
    data[iter_entries(path)[2] + 40] ^= 1
    path.write_bytes(bytes(data))
    with GameLog.open(tmp_path, writer=False) as log:
        assert contents(log) == games[:2] + games[3:]
        with pytest.raises(RecordRejected, match="game 2 was damaged"):
            log.get(2)


@pytest.mark.parametrize("harm", ["remove", "truncate", "flip"])
def test_a_damaged_index_of_a_full_file_is_rebuilt(tmp_path: Path, harm: str) -> None:
    games = [game(i) for i in range(20)]
    write(tmp_path, games)
    index = tmp_path / "00000001.index"
    data = bytearray(index.read_bytes())
    if harm == "remove":
        index.unlink()
    elif harm == "truncate":
        index.write_bytes(data[:-1])
    else:
        data[-20] ^= 1
        index.write_bytes(data)
    for writer in (False, True, False):
        with GameLog.open(tmp_path, writer=writer) as log:
            assert contents(log) == games
            assert all(uid in log for uid, _ in games)
    data[-20] ^= harm == "flip"
    assert index.read_bytes() == data


def test_a_missing_file_in_the_middle_is_reported(tmp_path: Path) -> None:
    write(tmp_path, [game(i) for i in range(20)])
    (tmp_path / "00000001.games").unlink()
    (tmp_path / "00000001.index").unlink()
    with pytest.raises(RunDirectoryError, match="an earlier file is missing"):
        GameLog.open(tmp_path, writer=True)
    with pytest.raises(RunDirectoryError, match="an earlier file is missing"):  # and the lock was given up
        GameLog.open(tmp_path, writer=True)


def test_foreign_files_and_other_versions_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "00000000.games"
    path.write_bytes(b"a text that is not a game log")
    with pytest.raises(RunDirectoryError, match="is not a game log"):
        GameLog.open(tmp_path, writer=True)
    assert path.read_bytes() == b"a text that is not a game log"
    path.write_bytes(b"ZFGAMES2" + bytes(8))
    with pytest.raises(RunDirectoryError, match="of version b'2', this program reads b'1'"):
        GameLog.open(tmp_path, writer=False)


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
        log.append([game(2), game(3)])
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


def test_the_index_takes_few_bytes_per_game_while_a_file_grows():
    rng = np.random.default_rng(5)
    uids = [bytes(uid) for uid in rng.integers(0, 256, (50_000, 16), dtype=np.uint8)]
    gc.collect()
    tracemalloc.start()
    try:
        index = UidIndex()
        for number, uid in enumerate(uids):
            index.add(uid, number)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(index) == len(uids)
    assert all(index.find(uids[number]) == number for number in range(0, len(uids), 999))
    assert index.find(bytes(16)) is None
    assert held < 24 * len(uids) + 200 * RECENT_GAMES


def table_of(uids: Sequence[bytes], first: int, lost: Sequence[int] = ()) -> Table:
    offsets = np.array([LOST if place in lost else 16 + place for place in range(len(uids))], np.uint64)
    kept = [bytes(16) if place in lost else uid for place, uid in enumerate(uids)]
    return Table.of(first, offsets, np.frombuffer(b"".join(kept), UID_DTYPE))


ALIKE = st.lists(st.sampled_from([b"\0\0", b"\0\1", b"\1\0", b"\xff\xff"]), min_size=8, max_size=8).map(b"".join)


@settings(deadline=None, max_examples=40)
@given(
    st.sets(ALIKE | st.binary(min_size=16, max_size=16), min_size=1, max_size=600), st.lists(st.integers(0, 599), max_size=5)
)
def test_sorted_uids_on_disk_find_what_a_dictionary_finds(
    tmp_path_factory: pytest.TempPathFactory, uids: set[bytes], lost: list[int]
) -> None:
    directory, stored = tmp_path_factory.mktemp("uids"), sorted(uids, key=lambda uid: uid[::-1])
    half, known = len(stored) // 2, {uid: 7 + place for place, uid in enumerate(stored) if place not in lost}
    parts = [(7, stored[:half], lost), (7 + half, stored[half:], [place - half for place in lost])]
    for _ in range(2):  # written, then read again
        found = SortedUids()
        for first, part, gone in parts:
            found = found.with_file(SortedFile.of(directory / f"{first}.uids", table_of(part, first, gone)))
        assert len(found) == len(known)
        for uid in stored:
            assert found.find(uid) == known.get(uid)
            assert found.find(uid[1:] + uid[:1]) == known.get(uid[1:] + uid[:1])
            prefix = uid.hex()[:3]
            assert found.starting_with(prefix) == sorted(known[one] for one in known if one.hex().startswith(prefix))
        found.close()
    shutil.rmtree(directory)


@pytest.mark.parametrize("harm", ["remove", "truncate", "flip", "of another index", "a directory"])
def test_damaged_sorted_uids_are_written_again_and_no_game_is_stored_twice(tmp_path: Path, harm: str) -> None:
    games = [game(i) for i in range(20)]
    write(tmp_path, games)
    path = tmp_path / "00000001.uids"
    whole = path.read_bytes()
    if harm in ("remove", "a directory"):
        path.unlink()
    if harm == "truncate":
        path.write_bytes(whole[:-1])
    elif harm == "flip":
        path.write_bytes(whole[:50] + bytes([whole[50] ^ 1]) + whole[51:])
    elif harm == "of another index":
        write(tmp_path / "other", [(f"{i + 1:032x}", bytes(50)) for i in range(20)])
        path.write_bytes((tmp_path / "other" / path.name).read_bytes())
        assert len(path.read_bytes()) == len(whole)
    elif harm == "a directory":
        path.mkdir()
    with GameLog.open(tmp_path, writer=True, segment_bytes=SMALL) as log:
        assert log.append(games) == 0
        assert [log.find_index(uid) for uid, _ in games] == [*range(20)]
        assert len(log) == 20
    if harm != "a directory":  # which stays where it is; its uids are in memory
        assert path.read_bytes() == whole


def test_uids_that_cannot_be_written_stay_in_memory_until_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("zerofleet.storage.game_log.sorted_uids.atomic_publish", refuse)
    games = [game(i) for i in range(40)]
    with GameLog.open(tmp_path, writer=True, segment_bytes=SMALL) as log:
        for entry in games:
            assert log.append([entry]) == 1
        assert log.append(games) == 0
    assert not list(tmp_path.glob("*.uids"))
    monkeypatch.undo()
    with GameLog.open(tmp_path, writer=True, segment_bytes=SMALL) as log:
        assert log.append(games) == 0
    assert len(list(tmp_path.glob("*.uids"))) == len(list(tmp_path.glob("*.index")))


def test_the_memory_of_a_writer_does_not_grow_with_the_games_of_full_files(tmp_path: Path) -> None:
    rng, held = np.random.default_rng(5), []
    batches = [[(uid.tobytes().hex(), b"r") for uid in rng.integers(0, 256, (5_000, 16), np.uint8)] for _ in range(8)]
    with GameLog.open(tmp_path, writer=True, segment_bytes=100_000) as log:  # each batch fills a file
        tracemalloc.start()
        try:
            for batch in batches:
                assert log.append(batch) == len(batch)
                gc.collect()
                held.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
        assert len(log) == 40_000
        assert log.append(batches[3]) == 0
    assert held[7] - held[1] < 3 * 30_000  # 24 bytes a game in an index in memory


@pytest.mark.parametrize("failing", [1, 2])
def test_a_full_disk_leaves_no_unfinished_new_file_and_the_next_attempt_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    syncs = iter(range(1, 10))

    def disk_full(descriptor: int) -> None:
        if next(syncs) == failing:
            raise OSError(errno.ENOSPC, "No space left on device")

    with GameLog.open(tmp_path, writer=True) as log:
        monkeypatch.setattr(os, "fsync", disk_full)
        with pytest.raises(OSError, match="No space"):
            log.append([game(1)])
        assert log.append([game(1)]) == 1
        assert contents(log) == [game(1)]


def test_a_reader_finds_games_of_full_files_by_uid_and_by_prefix(tmp_path: Path) -> None:
    games = [(f"{number % 16:x}" * 31 + f"{number // 16:x}", b"content") for number in range(60)]
    games += [("00" * 15 + "0b", b"zeros"), ("ff" * 16, b"ones"), ("ab" * 8 + "00" * 8, b"zeros at the end")]
    write(tmp_path, games)
    with GameLog.open(tmp_path, writer=False) as log:
        assert len(log) == len(games)
        for number, (uid, _) in enumerate(games):
            assert log.find_index(uid) == number
            assert log.starting_with(uid[:5]) == [n for n, (other, _) in enumerate(games) if other.startswith(uid[:5])]
        assert log.find_index("12" * 16) is None


def test_a_reader_keeps_no_uids_of_files_that_became_full(tmp_path: Path) -> None:
    games = [game(number) for number in range(40)]
    write(tmp_path, games[:2])
    with GameLog.open(tmp_path, writer=False) as reader, GameLog.open(tmp_path, writer=True, segment_bytes=SMALL) as writer:
        for number, entry in enumerate(games[2:], start=3):
            writer.append([entry])
            assert reader.refresh() == 1
            assert (len(reader), reader.find_index(entry[0])) == (number, number - 1)
        assert contents(reader) == games
        assert len(reader._known[0]) < 10  # those of the last file
        assert [reader.find_index(uid) for uid, _ in games] == [*range(40)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["00000000.games", "00000001.games", "00000002.games", "00000000.index", "00000001.index"])
def test_one_damaged_byte_in_the_number_of_a_file_loses_no_game(tmp_path: Path, name: str) -> None:
    games = [game(i) for i in range(16)]
    write(tmp_path / "whole", games)
    place = tmp_path / "whole" / name
    assert len(list(place.parent.glob("*.games"))) == 3
    content = place.read_bytes()
    for at in range(8, 16):  # behind the magic of either kind of file: the number of its first game
        for mask in (0x01, 0x80):
            damaged = tmp_path / f"{at}-{mask}"
            shutil.copytree(place.parent, damaged)
            (damaged / name).write_bytes(content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :])
            with GameLog.open(damaged, writer=False) as log:
                assert contents(log) == games, (at, mask)
            write(damaged, [game(90)])
            with GameLog.open(damaged, writer=False) as log:
                assert contents(log) == [*games, game(90)], (at, mask)


def test_a_log_whose_only_file_has_one_damaged_byte_in_its_header_loses_no_game(tmp_path: Path) -> None:
    write(tmp_path, [game(0), game(1)])
    path = tmp_path / "00000000.games"
    sound = path.read_bytes()
    path.write_bytes(sound[:9] + b"\x80" + sound[10:])
    write(tmp_path, [game(2)])
    assert path.read_bytes()[: len(sound)] == sound, "the writer mends the header"
    with GameLog.open(tmp_path, writer=False) as log:
        assert contents(log) == [game(0), game(1), game(2)]


def test_an_empty_first_file_with_another_number_is_refused(tmp_path: Path) -> None:
    write(tmp_path, [game(0)])
    path = tmp_path / "00000000.games"
    path.write_bytes(path.read_bytes()[:8] + b"\x05" + b"\0" * 7)
    with pytest.raises(RunDirectoryError, match="begins with game 5, want 0"):
        GameLog.open(tmp_path, writer=True)

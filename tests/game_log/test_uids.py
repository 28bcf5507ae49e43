"""Uids of a game log: in memory while a file grows, sorted on disk afterwards."""

from __future__ import annotations

import errno
import gc
import os
import shutil
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from games_in_a_log import SMALL, contents, game, write
from hypothesis import given, settings
from hypothesis import strategies as st

from zerofleet.storage.game_log import GameLog
from zerofleet.storage.game_log.format import LOST, UID_DTYPE, Table
from zerofleet.storage.game_log.sorted_uids import SortedFile, SortedUids
from zerofleet.storage.game_log.uids import RECENT_GAMES, UidIndex


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


def held_by_the_log() -> int:
    """Return the traced bytes that the modules of the log have allocated; threads of other tests may be at work."""
    own = tracemalloc.take_snapshot().filter_traces(
        [tracemalloc.Filter(inclusive=True, filename_pattern="*/storage/game_log/*")]
    )
    return sum(found.size for found in own.statistics("filename"))


def test_the_memory_of_a_writer_does_not_grow_with_the_games_of_full_files(tmp_path: Path) -> None:
    rng, held = np.random.default_rng(5), []
    batches = [[(uid.tobytes().hex(), b"r") for uid in rng.integers(0, 256, (5_000, 16), np.uint8)] for _ in range(8)]
    with GameLog.open(tmp_path, writer=True, segment_bytes=100_000) as log:  # each batch fills a file
        tracemalloc.start()
        try:
            for batch in batches:
                assert log.append(batch) == len(batch)
                gc.collect()
                held.append(held_by_the_log())
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


def test_a_new_file_that_cannot_be_opened_again_leaves_none_and_the_next_attempt_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.open

    def too_many_files(path: Path, flags: int, *mode: int) -> int:
        if flags == os.O_RDWR:
            raise OSError(errno.EMFILE, "Too many open files")
        return whole(path, flags, *mode)

    with GameLog.open(tmp_path, writer=True) as log:
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", too_many_files)
            with pytest.raises(OSError, match="Too many open files"):
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


def test_a_new_game_that_was_looked_for_is_appended_without_a_second_search_and_a_known_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    games = [game(number) for number in range(40)]
    write(tmp_path, games)
    searched, find = [], SortedFile.find

    def counted(self: SortedFile, uid: bytes) -> int | None:
        searched.append(uid.hex())
        return find(self, uid)

    monkeypatch.setattr(SortedFile, "find", counted)
    with GameLog.open(tmp_path, writer=True, segment_bytes=SMALL) as log:
        for entry in map(game, range(40, 60)):  # some begin a file, so that those before them become sorted
            searched.clear()
            assert log.find_index(entry[0]) is None
            files = len(searched)
            assert log.append([entry]) == 1
            assert len(searched) == files > 1
        assert log.append([game(number) for number in range(60)]) == 0
        assert [log.find_index(game(number)[0]) for number in range(60)] == [*range(60)]


def test_few_uids_are_kept_that_were_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zerofleet.storage.game_log.sorted_uids.ABSENT", 3)
    write(tmp_path, [game(number) for number in range(40)])
    with GameLog.open(tmp_path, writer=True) as log:
        for number in range(40, 60):
            assert log.find_index(game(number)[0]) is None
            assert len(log._known[1]._absent) <= 3

"""Damage of a game log on disk: what is whole is read, the rest is reported and skipped, and no number changes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from games_in_a_log import contents, game, iter_entries, write

from zerofleet.errors import RecordRejected, RunDirectoryError
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.game_log.format import pack_entry


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

"""P2 in one process: at each acknowledgement the power fails, and the game must be in what is left of the log."""

from __future__ import annotations

import errno
import os

import pytest
from durable_disk import DurableDisk
from promise_intake import taking
from promise_tools import record

from zerofleet.errors import RunDirectoryError
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.streams import MemoryStream


class Witness(MemoryStream):
    """Checks at each acknowledgement that the games would survive a power loss."""

    def __init__(self, disk, left) -> None:
        super().__init__()
        self._disk, self._left = disk, left
        self.acknowledged: set[str] = set()

    async def acknowledge(self, entry_ids) -> None:
        uids = {self._store.entries[entry_id].uid for entry_id in entry_ids}
        with GameLog.open(self._disk.after_power_loss(self._left / str(len(self.acknowledged))), writer=False) as log:
            assert uids <= set(log.uids())
        self.acknowledged |= uids
        await super().acknowledge(entry_ids)


@pytest.fixture
def disk(tmp_path, monkeypatch):
    return DurableDisk(tmp_path / "replay").installed(monkeypatch)


@pytest.fixture
def stream(tmp_path, disk):
    return Witness(disk, tmp_path / "left")


async def publish(stream, *numbers) -> list[str]:
    for number in numbers:
        await stream.publish(*record(number))
    return [record(number)[0] for number in numbers]


async def test_p2_an_acknowledged_game_survives_a_power_loss(tmp_path, disk, stream):
    with taking(disk.root, stream) as trainer:
        first = await publish(stream, 1, 2)
        await trainer.take()
        second = await publish(stream, 3)
        await trainer.take()
    assert stream.acknowledged == {*first, *second}


async def test_p2_a_game_in_a_file_whose_name_a_killed_process_had_not_synced_survives_a_power_loss(tmp_path, monkeypatch):
    root = tmp_path / "replay"
    with GameLog.open(root, writer=True) as log:
        log.append([record(1)])
    disk = DurableDisk(root).installed(monkeypatch)  # of the syncs before nothing counts
    stream = Witness(disk, tmp_path / "left")
    with taking(root, stream) as trainer:
        uids = await publish(stream, 2)
        await trainer.take()
    assert stream.acknowledged == set(uids)


async def test_p2_a_game_written_in_several_pieces_is_acknowledged_when_all_are_on_disk(disk, stream, monkeypatch):
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, content, offset: whole(file, content[:50], offset))
    with taking(disk.root, stream) as trainer:
        uids = await publish(stream, 1, 2)
        await trainer.take()
    assert stream.acknowledged == set(uids)


async def test_p2_while_the_disk_is_full_no_game_is_acknowledged(disk, stream, monkeypatch):
    monkeypatch.setattr("trainer.intake.FIRST_PAUSE_S", 0.001)
    whole, calls = os.pwrite, []

    def full_twice(file, content, offset):
        calls.append(len(content))
        if len(calls) <= 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return whole(file, content, offset)

    with taking(disk.root, stream) as trainer:
        uids = await publish(stream, 1)
        monkeypatch.setattr(os, "pwrite", full_twice)
        await trainer.take()
    assert len(calls) == 3
    assert stream.acknowledged == set(uids)


async def test_p2_after_a_failed_sync_no_game_is_acknowledged_until_the_log_is_opened_again(disk, stream, monkeypatch):
    monkeypatch.setattr("trainer.intake.FIRST_PAUSE_S", 0.001)

    def fail_once(path) -> None:
        if path.suffix == ".games":
            disk.fault = lambda path: None
            raise OSError(errno.EIO, "Input/output error")

    with taking(disk.root, stream) as trainer:
        await publish(stream, 1)
        await trainer.take()
        uids = await publish(stream, 2)
        disk.fault = fail_once
        with pytest.raises(RunDirectoryError, match="close and reopen"):
            await trainer.take()
        assert not stream.acknowledged & set(uids)
        with GameLog.open(disk.root, writer=False) as log:
            assert uids[0] not in log, "the memory of the machine has it, the disk may not, and the next sync succeeds"
    stream._held.clear()  # as another process of the same consumer
    with taking(disk.root, stream) as trainer:
        await trainer.take()
    assert stream.acknowledged > set(uids)

import errno
import os
from pathlib import Path

import pytest

from gatekeeper.lease import Lease
from zerofleet.errors import StaleEpoch, Unavailable


def test_epochs_increase_monotonically_over_holders_and_restarts(tmp_path):
    seen = []
    for _ in range(3):
        with Lease.acquire(tmp_path) as lease:
            seen += [lease.next_epoch(), lease.next_epoch()]
    assert seen == [1, 2, 3, 4, 5, 6]


def test_an_epoch_is_greater_than_the_one_the_pointer_has(tmp_path):
    with Lease.acquire(tmp_path) as lease:
        assert lease.next_epoch(above=40) == 41
        assert lease.next_epoch(above=7) == 42


def test_a_lease_has_one_holder_at_a_time_who_is_named_to_the_other(tmp_path):
    with Lease.acquire(tmp_path / "models") as first:
        with pytest.raises(Unavailable, match=first.holder):
            Lease.acquire(tmp_path / "models")
        first.next_epoch()
    Lease.acquire(tmp_path / "models").release()


def test_a_holder_suspended_while_the_lock_was_broken_is_fenced_off(tmp_path):
    sleeper = Lease.acquire(tmp_path)
    sleeper.next_epoch()
    (tmp_path / ".gatekeeper.lock").unlink()  # as on a file system whose locks do not reach other machines
    with Lease.acquire(tmp_path) as successor:
        with pytest.raises(StaleEpoch, match="not by"):
            sleeper.next_epoch()
        assert successor.next_epoch() == 2
        with pytest.raises(StaleEpoch):
            sleeper.next_epoch()
    sleeper.release()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"holder": "x"}', '{"holder": "x", "epoch": "many"}'])
def test_an_unreadable_lease_file_has_no_holder(tmp_path, content):
    (tmp_path / "gatekeeper_lease.json").write_text(content)
    with Lease.acquire(tmp_path, above=9) as lease:
        assert lease.next_epoch() == 10
        (tmp_path / "gatekeeper_lease.json").write_text(content)
        with pytest.raises(StaleEpoch, match=r"by (no process|x), not by"):
            lease.next_epoch()


def test_a_lease_file_that_cannot_be_read_for_a_while_is_not_lost(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    with Lease.acquire(tmp_path) as lease:
        with monkeypatch.context() as patch:
            patch.setattr("gatekeeper.lease.read_plain", fail)
            for call in (lease.require_held, lease.next_epoch):
                with pytest.raises(Unavailable, match="Input/output error"):
                    call()
        assert lease.next_epoch() == 1
        (tmp_path / "gatekeeper_lease.json").unlink()
        with pytest.raises(StaleEpoch, match="by no process"):
            lease.require_held()


def test_a_failing_disk_is_unavailable_and_yields_no_epoch(tmp_path, monkeypatch):
    with Lease.acquire(tmp_path) as lease:
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", _refuse)
            with pytest.raises(Unavailable, match="No space left"):
                lease.next_epoch()
        assert lease.next_epoch() == 1
    monkeypatch.setattr("os.fsync", _refuse)
    with pytest.raises(Unavailable):
        Lease.acquire(tmp_path)
    monkeypatch.undo()
    Lease.acquire(tmp_path).release()


def test_the_directory_of_an_epoch_is_still_there_after_a_power_loss(tmp_path, synced):
    with Lease.acquire(tmp_path / "models" / "go"):
        # Names of the new directories, the content of the file, its name.
        assert synced.index(tmp_path / "models") < synced.index(tmp_path) < synced.index(tmp_path / "models" / "go")


def _refuse(descriptor):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    "content",
    [
        '{"holder": "a", "epoch": 1e999}',
        '{"holder": "a", "epoch": 36893488147419103232}',
        '{"holder": "a", "epoch": -3}',
        "[]",
        "7",
        '{"holder": "a"}',
        "{",
    ],
)
def test_a_lease_that_cannot_be_read_begins_again_above_the_pointers_epoch(tmp_path, content):
    with Lease.acquire(tmp_path) as lease:
        lease.next_epoch()
        path = lease._path
    path.write_text(content)
    with Lease.acquire(tmp_path, above=6) as lease:
        assert lease.next_epoch(above=6) == 7


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to(path)])
def test_a_lock_that_is_no_file_makes_the_lease_unavailable_and_is_named(tmp_path, make):
    make(tmp_path / ".gatekeeper.lock")
    with pytest.raises(Unavailable, match=r"gatekeeper\.lock, want a file"):
        Lease.acquire(tmp_path)

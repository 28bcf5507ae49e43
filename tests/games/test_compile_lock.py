"""The lock that lets one process compile for all."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from games import compile_lock
from games.compile_lock import only_one

HOLD = """
import sys, threading
from pathlib import Path
from games.compile_lock import only_one
with only_one(Path(sys.argv[1])):
    print("held", flush=True)
    threading.Event().wait()
"""


def test_the_second_waits_for_the_first_and_no_file_is_left(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    order = []

    def second() -> None:
        with only_one(path):
            order.append("second")

    with only_one(path):
        waiting = threading.Thread(target=second)
        waiting.start()
        waiting.join(timeout=0.2)
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]
    assert list(tmp_path.iterdir()) == []


def test_many_hold_it_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_lock, "_POLL_SECONDS", 0.0)
    inside, most = 0, 0

    def hold() -> None:
        nonlocal inside, most
        for _ in range(50):
            with only_one(tmp_path / "x.lock"):
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=hold) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


@pytest.mark.slow
def test_a_killed_holder_delays_no_process_and_a_suspended_one_only_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "x.lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    holder.send_signal(signal.SIGSTOP)
    with monkeypatch.context() as patch:
        patch.setattr(compile_lock, "_PATIENCE_SECONDS", 0.1)
        patch.setattr(compile_lock, "_QUIET_SECONDS", 0.0)
        with only_one(path):
            assert path.exists()  # the holder's
    waiting, given_up = caplog.messages
    assert waiting == f"another process compiles the same code, lock {path}; waiting up to 0 s"
    assert given_up == f"{path} is still locked after 0 s; compiling without the lock"
    assert path.exists()
    holder.kill()
    holder.communicate()
    with only_one(path):
        pass
    assert not path.exists()


def test_a_process_forked_meanwhile_does_not_keep_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with only_one(path):
        (held,) = [link for link in Path("/proc/self/fd").iterdir() if _leads_to(link, path)]
        forked, waiting = os.dup(int(held.name)), os.open(path, os.O_RDWR)
    fcntl.flock(waiting, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(forked)
    os.close(waiting)


def _leads_to(link: Path, path: Path) -> bool:
    try:
        return link.readlink() == path
    except OSError:
        return False


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    with only_one(tmp_path / "missing" / "x.lock"):
        pass
    assert list(tmp_path.iterdir()) == []

"""Directory of the socket between the device's process and its front ends: nothing stays in the temporary folder for good."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from inference_server.fronts.directory import PREFIX, socket_directory


@pytest.fixture
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the temporary folder of this process and of those that it starts: a short path, as sockets need."""
    tmp_path_factory.getbasetemp()  # made in the usual temporary folder
    with tempfile.TemporaryDirectory(prefix="zf-") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", None)  # found anew
        yield Path(folder)


def left_by_a_killed_process() -> Path:
    """Return the directory of a process that is killed while it uses it."""
    program = (
        "import sys, threading\n"
        "from inference_server.fronts.directory import socket_directory\n"
        "with socket_directory() as path:\n"
        "    (path / 'device.sock').touch()\n"
        "    print(path, flush=True)\n"
        "    threading.Event().wait()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert (path / "device.sock").exists()
    return path


@pytest.mark.slow
def test_a_server_removes_the_directory_that_a_killed_one_left(temporary: Path, tmp_path: Path) -> None:
    program = Path(__file__).with_name("server_process.py")
    command = [sys.executable, str(program), "--inference.front-ends=2", f"--model-store={tmp_path / 'models'}"]
    for _ in range(2):  # of which the second finds what the first has left
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline()
            process.kill()
        assert len([path for path in temporary.iterdir() if (path / "device.sock").exists()]) == 1


@pytest.mark.slow
def test_the_directory_of_a_dead_process_is_removed_and_that_of_a_living_one_stays(temporary: Path) -> None:
    left = left_by_a_killed_process()
    with socket_directory() as living:
        assert not left.exists()
        with socket_directory() as other:
            assert living.is_dir()
            assert other != living
        assert not other.exists()
        assert list(temporary.iterdir()) == [living]
    assert list(temporary.iterdir()) == []


def test_a_directory_is_of_its_user_alone(temporary: Path) -> None:
    with socket_directory() as path:
        assert path.parent == temporary
        assert path.stat().st_mode & 0o777 == 0o700


def test_nothing_but_a_directory_of_this_user_is_removed(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (linked := tmp_path / "linked").mkdir()
    (temporary / f"{PREFIX}link").symlink_to(linked)
    (temporary / f"{PREFIX}file").touch()
    (temporary / "zf-fronts-earlier").mkdir()
    with socket_directory():
        assert linked.is_dir()
    assert len(list(temporary.iterdir())) == 3
    (temporary / f"{PREFIX}foreign").mkdir()
    monkeypatch.setattr("inference_server.fronts.directory.os.getuid", lambda: os.geteuid() + 1)
    with socket_directory():
        assert (temporary / f"{PREFIX}foreign").is_dir()


def test_a_directory_that_another_start_removes_before_its_lock_is_made_again(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    make = tempfile.mkdtemp

    def make_and_lose(prefix: str) -> str:
        made.append(make(prefix=prefix))
        if len(made) == 1:
            Path(made[0]).rmdir()
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", make_and_lose)
    with socket_directory() as path:
        assert [str(path)] == made[1:]

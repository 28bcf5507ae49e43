"""The worker as a process: its settings, what it imports, and its end when nobody is there."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from selfplay_worker.game_register import game_seed, outcome_of
from selfplay_worker.settings import WorkerSettings
from zerofleet.service.compilation_note import note_path, read_note

pytestmark = pytest.mark.slow


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, timeout=60)


def test_print_config_shows_preset_and_run_directory(tmp_path: Path) -> None:
    done = run("-m", "selfplay_worker", "--print-config", "--run-dir", str(tmp_path), "--game", "tic_tac_toe")
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert done.returncode == 0
    assert rows["selfplay.lanes"][1:] == ["preset", "laptop"]
    assert rows["stream_url"] == [f"sqlite:///{tmp_path}/games.db", "run", "directory"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--game", "chess"), "selfplay_worker: no game is called 'chess'"),
        (("--stream-url", "ftp://x"), "selfplay_worker: stream address begins with 'ftp'"),
        (("--worker-id", "two words"), "selfplay_worker: setting worker_id: String should match pattern"),
        (("--game", "connect_four", "--game-parameters.rows", "900"), "rows"),
    ],
)
def test_a_wrong_setting_is_one_line_and_exit_code_2(arguments: tuple[str, ...], text: str, tmp_path: Path) -> None:
    done = run("-m", "selfplay_worker", "--run-dir", str(tmp_path), "--log-level", "error", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_a_worker_imports_no_torch() -> None:
    done = run("-c", "import selfplay_worker.worker, sys; print('torch' in sys.modules)")
    assert done.stdout == "False\n", done.stderr


async def test_a_worker_without_gatekeeper_and_server_waits_and_exits_on_sigterm(tmp_path: Path) -> None:
    words = ["-m", "selfplay_worker", "--run-dir", str(tmp_path), "--game", "tic_tac_toe", "--preset", "tiny"]
    pipe = asyncio.subprocess.PIPE
    async with asyncio.timeout(60):
        child = await asyncio.create_subprocess_exec(sys.executable, *words, stderr=pipe)
        assert child.stderr is not None
        while b"worker.waiting_for_champion" not in await child.stderr.readline():
            pass
        child.terminate()
        rest = await child.stderr.read()
        assert await child.wait() == 0
    assert b"service.ready" not in rest


COMPILES_FOR_EVER = """
import sys, threading
from numba.core import event
from selfplay_worker import __main__, worker
from zerofleet.service import compilation
from zerofleet.service.process_end import end_process

def compile_for_ever(*arguments):
    with event.trigger_event("numba:compile"):
        print("compiling", flush=True)
        threading.Event().wait()

def write_and_tell(path, found, *, pid):
    write_note(path, found, pid=pid)
    print("noted", flush=True)

write_note, compilation.write_note, compilation.PATIENCE_S = compilation.write_note, write_and_tell, 0.0
worker.warm_up = compile_for_ever
end_process(__main__.main())
"""


async def test_a_worker_that_compiles_keeps_a_note_and_exits_on_sigterm_without_finishing(tmp_path: Path) -> None:
    announce = tmp_path / "worker-0.json"
    words = ["--run-dir", str(tmp_path), "--game", "tic_tac_toe", "--preset", "tiny", "--grace-s", "600"]
    words += ["--announce", str(announce)]
    pipe = asyncio.subprocess.PIPE
    async with asyncio.timeout(60):
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", COMPILES_FOR_EVER, *words, stdout=pipe)
        assert child.stdout is not None
        try:
            assert {await child.stdout.readline(), await child.stdout.readline()} == {b"compiling\n", b"noted\n"}
            assert read_note(note_path(announce), child.pid) is not None
            assert not announce.exists()
            child.terminate()
            assert await child.wait() == 0
        except BaseException:
            child.kill()
            raise


def test_seeds_differ_by_run_worker_incarnation_and_number() -> None:
    seeds = {game_seed(run, worker, life, n) for run in (1, 2) for worker in "ab" for life in (1, 2) for n in range(50)}
    assert len(seeds) == 400
    assert all(0 <= seed < 1 << 63 for seed in seeds)
    assert game_seed(1, "a", 1, 1) == game_seed(1, "a", 1, 1)


@pytest.mark.parametrize(
    ("scores", "outcome"),
    [
        ((1.0, -1.0), "first_player"),
        ((-1.0, 1.0), "second_player"),
        ((0.0, 0.0), "draw"),
        ((-1.0, -1.0, 1.0), "third_player"),
        ((-1.0,) * 5 + (1.0,), "sixth_player"),
    ],
)
def test_outcome_labels_are_bounded(scores: tuple[float, ...], outcome: str) -> None:
    assert outcome_of(scores) == outcome


def test_a_worker_without_a_name_is_named_by_host_and_process(tmp_path: Path) -> None:
    settings = WorkerSettings.model_validate({"run_dir": tmp_path, "game": "tic_tac_toe"})
    assert settings.name.rpartition("-")[2].isdigit()

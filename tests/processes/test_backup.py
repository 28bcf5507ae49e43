"""A run is backed up while it goes on, lost, restored, and goes on from there."""

import asyncio
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from zerofleet.storage.backups import restore_backup
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.runs import RunPaths
from zerofleet.storage.streams import open_stream

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1100)]  # a machine that is loaded takes minutes
MODEL = "tic_tac_toe"


async def take_backup(root: Path, to: Path) -> Path:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from zerofleet.cli import main; main()", "backup", str(root), "--to", str(to)),
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return Path(out.decode().strip())


async def games_in(paths: RunPaths) -> set[str]:
    """Return the games that a run has stored or has waiting in its stream."""
    with GameLog.open(paths.replay, writer=False) as log:
        stored = set(log.uids())
    stream = open_stream(
        f"{paths.stream_url}?idle_s=0.001", name="games"
    )  # those delivered and not acknowledged count as waiting
    try:
        return stored | {delivery.uid for delivery in await stream.consume(consumer="test", limit=100_000, block_s=0)}
    finally:
        await stream.aclose()


async def test_a_run_backed_up_while_running_is_restored_and_resumed(
    start_run: Callable[..., AbstractAsyncContextManager[Any]],
    check_promises: Callable[..., Any],
    published: Callable[[RunPaths], set[str]],
    tmp_path: Path,
) -> None:
    async with start_run(timeout_s=400.0) as run:
        await run.until(r"candidate \d+ (promoted|rejected) against")
        before = published(run.paths)
        backup = await take_backup(run.paths.root, tmp_path / "backups")
        await run.end()
    paths = RunPaths(tmp_path / "restored")
    restore_backup(backup, paths.root)
    assert before <= await games_in(paths)
    store = DirectoryStore(paths.models)
    champion = store.champion(MODEL)
    assert champion is not None
    assert store.verify(MODEL, champion.version).version == champion.version
    assert store.history(MODEL)[-1].epoch == champion.epoch

    shutil.rmtree(run.paths.root)
    restore_backup(backup, run.paths.root)
    async with start_run(timeout_s=400.0) as again:
        await again.until(r"candidate \d+ (promoted|rejected) against")  # may be the one that waited when the backup was taken
        while not published(again.paths):  # noqa: ASYNC110  (files wake nobody)
            await asyncio.sleep(0.05)
        text = await again.end()
    assert again.process.returncode == 0, text
    await check_promises(run.paths)

"""A worker and a real inference server, a process of its own, over the transport that the worker chooses by default."""

import asyncio
import json
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from worker_at_work import working

from games.core import Game
from selfplay_worker.settings import WorkerSettings
from trainer.export import Lineage, export_network
from trainer.network import new_network
from zerofleet.contracts.records import decode_record, validate
from zerofleet.evaluators.transports import NearestEvaluator, connected_evaluator
from zerofleet.presets import NetworkSettings
from zerofleet.storage.model_store import DirectoryStore

pytestmark = pytest.mark.slow
SMALL = NetworkSettings(blocks=1, channels=8, policy_channels=2, value_channels=2, value_hidden=8)


@asynccontextmanager
async def serving(address: str, store: DirectoryStore) -> AsyncIterator[asyncio.subprocess.Process]:
    """A server of the champion in `store`, which is ready."""
    words = ("--game", "tic_tac_toe", "--preset", "tiny", "--model-store", str(store.root), "--address", address)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "inference_server", *words, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        while b'"service.ready"' not in (line := await process.stderr.readline()):
            assert line, "the server ended"
        assert json.loads(line)["address"] == address
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_games_go_on_in_shared_memory_when_the_server_is_killed_and_replaced(
    game: Game, settings: WorkerSettings, stream: Any, promotions: Any, tmp_path: Path
) -> None:
    store = DirectoryStore(tmp_path / "models")
    version = export_network(store, game, new_network(game.spec(), SMALL, seed=1), SMALL, lineage=Lineage())
    store.write_champion("tic_tac_toe", version, epoch=1, reason="test")
    promotions.promote(version)
    with tempfile.TemporaryDirectory(prefix="zf-") as folder:
        address = f"unix:{folder}/inference.sock"
        async with connected_evaluator(address, game, transport=settings.transport, retry_s=0.0) as evaluator:
            assert isinstance(evaluator, NearestEvaluator)
            async with working(game, settings, evaluator, stream, promotions):
                async with serving(address, store) as process:
                    await stream.until(20)
                    assert evaluator.transport == "shared_memory"
                    process.send_signal(signal.SIGKILL)
                    await process.wait()
                before = len(stream.published)
                async with serving(address, store):
                    await stream.until(before + 20)
                    assert evaluator.transport == "shared_memory"
    records = [decode_record(payload) for payload in stream.published.values()]
    for record in records:
        validate(record)
        assert {move.model_version for move in record.searched} == {version}
    assert len({record.uid for record in records}) == len(records)

"""100 promotions in a row under load: no evaluation fails, and few wait longer than they would have anyway."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from pathlib import Path

import pytest
import triton_server
from load_figures import Swap
from load_processes import publish, serving

from games.core import make
from zerofleet.contracts.encodings import sample_positions
from zerofleet.contracts.naming import model_name
from zerofleet.errors import ZerofleetError
from zerofleet.evaluators.base import LeafBatch
from zerofleet.evaluators.control import ModelControl
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.storage.model_store import DirectoryStore

PRESET = {"zerofleet": "laptop", "triton": "tiny"}  # Triton's Python backend computes the same network several times slower
ROWS = 64
CLIENTS = 4
VERSIONS = 5  # that take turns; a version that comes again was unloaded before
CALM_S = 20.0
MAX_RATIO = 1.7

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


class Load:
    """Clients that rest as long as they waited, so that the server is busy and not full."""

    def __init__(self, evaluator: KServeEvaluator, batch: LeafBatch, version: int) -> None:
        self._evaluator, self._batch = evaluator, batch
        self.version = version
        self.swapping: bool | None = None  # None: warming up
        self.latencies_ms: dict[bool | None, list[float]] = {None: [], False: [], True: []}
        self.failed: list[str] = []
        self.over = False

    async def client(self) -> None:
        """Ask until it is over."""
        while not self.over:
            wanted, swapping, began_s = self.version, self.swapping, time.perf_counter()
            try:
                answer = await self._evaluator.evaluate(self._batch, version=wanted)
                if answer.version != wanted:
                    self.failed.append(f"asked {wanted}, {answer.version} answered")
            except ZerofleetError as error:
                self.failed.append(str(error))
            waited_s = time.perf_counter() - began_s
            self.latencies_ms[swapping].append(1e3 * waited_s)
            await asyncio.sleep(waited_s)


@contextlib.contextmanager
def target(kind: str, store: DirectoryStore, folder: Path):
    """Run a server of either kind; yield its address."""
    if kind == "zerofleet":
        with serving(store.root, folder / "log") as server:
            yield server.address
    else:
        with triton_server.running(store.root, folder / "log") as address:
            yield address


async def swap(kind: str, address: str, store: DirectoryStore, model: str, promotions: int, batch: LeafBatch) -> Swap:
    """Promote again and again beside the load."""
    order = itertools.cycle(range(1, VERSIONS + 1))
    present, loads_ms = next(order), []
    async with (
        ModelControl(address, store=store) as control,
        KServeEvaluator(address, model, retry_s=0.0, timeout_s=60.0) as evaluator,
    ):
        await control.serve(model, [present])
        load = Load(evaluator, batch, present)
        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(load.client())
            await asyncio.sleep(CALM_S / 4)
            load.swapping = False
            await asyncio.sleep(CALM_S / 2)
            load.swapping, began_s = True, time.perf_counter()
            for _ in range(promotions):
                following, load_began_s = next(order), time.perf_counter()
                await control.serve(model, [present, following])
                loads_ms.append(1e3 * (time.perf_counter() - load_began_s))
                load.version = following
                await asyncio.sleep(0.05)  # games in progress end their moves with the old one
                await control.serve(model, [following])
                present = following
            seconds = time.perf_counter() - began_s
            load.swapping = False
            await asyncio.sleep(CALM_S / 2)
            load.over = True
    found = load.latencies_ms
    return Swap(f"{kind}, network {PRESET[kind]}", promotions, seconds, found[False], found[True], load.failed, loads_ms)


@pytest.mark.parametrize("kind", ["zerofleet", "triton"])
def test_promotions_under_load_fail_no_evaluation_and_at_most_double_the_99th_percentile(kind, request, tmp_path):
    game, store = make("connect_four"), DirectoryStore(tmp_path / "models")
    store.root.mkdir()
    for seed in range(1, VERSIONS + 1):
        publish(store, game, preset_name=PRESET[kind], seed=seed)
    batch = LeafBatch(*(rows[:ROWS] for rows in sample_positions(game, games=20, seed=1)))
    with target(kind, store, tmp_path) as address:
        found = asyncio.run(swap(kind, address, store, model_name(game), request.config.getoption("promotions"), batch))
    print(f"\n{found.page()}", flush=True)
    assert not found.failed
    assert found.ratio <= MAX_RATIO

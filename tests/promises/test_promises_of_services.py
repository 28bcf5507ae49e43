"""P7 to P10: services under load, under signals, beside bad neighbours and under more than they can do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import grpc
import psutil
import pytest
from promise_proxy import Proxy, to_address
from promise_tools import GAME, announced, borrowed, until

from games.core import make
from zerofleet.contracts.encodings import sample_positions
from zerofleet.contracts.naming import model_name
from zerofleet.errors import CorruptModel
from zerofleet.evaluators.base import LeafBatch
from zerofleet.evaluators.control import ModelControl
from zerofleet.evaluators.kserve import KServeEvaluator
from zerofleet.rpc.calls import FIRST_BACKOFF_S, MAX_BACKOFF_S
from zerofleet.rpc.inference_channels import open_inference_channel
from zerofleet.storage.model_store import DirectoryStore

runs = borrowed("promise_runs", "processes/conftest.py")
start_run = runs.start_run
check_promises = runs.check_promises
METHOD = "/inference.GRPCInferenceService/ModelInfer"
QUEUE_POSITIONS = 2048
FLOOD = 60  # callers who never pause
WARM_UP = 20  # answers before memory is looked at
REFUSALS = 1_000  # of callers who never pause; about two seconds
SLOW = {"blocks": 4, "channels": 64}  # a network whose evaluation takes longer than the calls for it
CLIENTS = 40
PATIENT, TRIES = 20, 4  # so many of their requests are refused so often before the flood ends
TURNS_BEFORE_CANCELLATION = (1, 4, 16, 64, 256, 1024)  # of the loop: unsent, in the queue, on the device, answered
REFUSED_WITHIN_S = 20.0  # 19 of 20 refusals, on any machine; the median is compared with that of answers

pytestmark = pytest.mark.slow


class Served:
    """A real inference server over a store of small networks; version v is the network of seed v."""

    def __init__(self, address: str, store: DirectoryStore, pid: int) -> None:
        self.address, self.store = address, store
        self.process = psutil.Process(pid)
        self.game = make(GAME)
        self.model = model_name(self.game)
        self.control: ModelControl
        self.first = 0

    def publish(self, *, blocks: int = 1, channels: int = 8) -> int:
        """Store a next version. Unless told otherwise its network is of the smallest kind."""
        from trainer.export import Lineage, export_network  # noqa: PLC0415 - torch, for those who need it
        from trainer.network import new_network  # noqa: PLC0415
        from zerofleet.presets import NetworkSettings  # noqa: PLC0415

        settings = NetworkSettings(blocks=blocks, channels=channels, policy_channels=2, value_channels=2, value_hidden=8)
        seed = 1 + max(self.store.versions(self.model), default=0)
        network = new_network(self.game.spec(), settings, seed=seed)
        return export_network(self.store, self.game, network, settings, lineage=Lineage())

    def evaluator(self, address: str = "", **settings) -> KServeEvaluator:
        return KServeEvaluator(address or self.address, self.model, **settings)

    def positions(self, rows: int) -> LeafBatch:
        states, legal = sample_positions(self.game, games=2 + rows // 4, seed=1)
        assert len(states) >= rows
        return LeafBatch(states[:rows], legal[:rows])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server process that these tests share; sound after each of them, and ended cleanly."""
    folder = tmp_path_factory.mktemp("server")
    store = DirectoryStore(folder / "models")
    store.root.mkdir()
    arguments = ["--run-dir", str(folder), "--model-store", str(store.root), "--address", "127.0.0.1:0"]
    arguments += ["--announce", str(folder / "server.json"), "--max-queue-positions", str(QUEUE_POSITIONS)]
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen([sys.executable, "-m", "inference_server", *arguments], stderr=log)
    try:
        end_s = time.monotonic() + 120
        while announced(folder / "server.json") is None:
            assert running.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < end_s
            threading.Event().wait(0.05)
        yield Served(str(announced(folder / "server.json")["address"]), store, running.pid)
    finally:
        running.terminate()
        assert running.wait(60) == 0, (folder / "log").read_text()[-2000:]


@pytest.fixture
async def served(server):
    """The server, with a fresh first version served alone."""
    async with ModelControl(server.address, store=server.store) as control:
        server.control = control
        server.first = server.publish()
        await control.serve(server.model, [server.first])
        yield server


async def test_p7_swapping_models_under_load_fails_no_evaluation_and_a_broken_candidate_leaves_the_champion(served):
    version, answered, over = served.first, 0, asyncio.Event()
    batch = served.positions(16)

    async def ask(evaluator) -> None:
        nonlocal answered
        while not over.is_set():
            wanted = version
            answer = await evaluator.evaluate(batch, version=wanted)  # it also checks that the reply names the version
            assert answer.version == wanted
            answered += 1

    async with served.evaluator(retry_s=0.0) as evaluator, asyncio.TaskGroup() as group:
        clients = [group.create_task(ask(evaluator)) for _ in range(8)]
        for _ in range(6):
            following = served.publish()
            await served.control.serve(served.model, [version, following])
            version, seen = following, answered
            await until(lambda seen=seen: answered >= seen + 2 * len(clients))
        broken = served.publish()
        weights = served.store.directory(served.model, broken) / "model.pt"
        weights.write_bytes(weights.read_bytes()[:-1] + b"?")
        with pytest.raises(CorruptModel):
            await served.control.serve(served.model, [version, broken])
        seen = answered
        await until(lambda: answered >= seen + 2 * len(clients))
        over.set()
    assert version in (await served.control.loaded())[served.model]
    assert broken not in (await served.control.loaded())[served.model]


async def test_p8_sigterm_ends_every_service_cleanly_within_its_grace_time_with_nothing_lost(start_run, check_promises):
    async with start_run("--seed", "8", timeout_s=270.0) as run:
        await run.until("candidate 1 promoted")
        await until(lambda: len(runs.published_uids(run.paths)) >= 50, within_s=200.0)  # all are at work
        text = await run.end(signal.SIGTERM)
    assert run.process.returncode == 0, text
    ended = {log.stem: _exit_code(log) for log in run.paths.logs.glob("*.log")}
    assert set(ended) >= {"worker-0", "trainer", "gatekeeper", "inference_server"}
    assert set(ended.values()) == {0}, ended
    assert await check_promises(run.paths, ended_cleanly=True) > 0


def _exit_code(log: Path) -> int | None:
    """Return the exit code that a service wrote as its last word."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert not [line for line in lines if line["event"] == "service.grace_exceeded"]
    return next((line["exit_code"] for line in reversed(lines) if "exit_code" in line), None)


async def test_p9_a_slow_half_open_or_cancelled_client_never_delays_others(served):
    batch, large = served.positions(8), served.positions(512)
    async with (
        Proxy(to_address(served.address)) as proxy,
        served.evaluator(retry_s=0.0) as good,
        served.evaluator(proxy.address, retry_s=0.0, timeout_s=300.0) as bad,
    ):
        await bad.evaluate(large, version=served.first)  # the connection stands
        proxy.delay_s = 0.05  # now its bytes come and go slowly
        slow = [asyncio.create_task(bad.evaluate(large, version=served.first)) for _ in range(2)]
        await asyncio.sleep(0.2)
        proxy.holding = True  # and then not at all
        stuck = [asyncio.create_task(bad.evaluate(large, version=served.first)) for _ in range(2)]
        for turns in TURNS_BEFORE_CANCELLATION:
            doomed = [asyncio.create_task(good.evaluate(batch, version=served.first)) for _ in range(20)]
            for _ in range(turns):
                await asyncio.sleep(0)
            cancelled = [task.cancel() for task in doomed[::2]]
            mates = await asyncio.gather(*doomed, return_exceptions=True)
            assert [isinstance(mate, asyncio.CancelledError) for mate in mates[::2]] == cancelled  # the others were faster
            assert {len(mate.policy) for mate in mates[1::2]} == {len(batch)}
        async with asyncio.timeout(60):
            for _ in range(30):
                await good.evaluate(batch, version=served.first)
        assert not any(task.done() for task in stuck)  # the others were answered while these still waited
        for task in (*slow, *stuck):
            task.cancel()
        await asyncio.gather(*slow, *stuck, return_exceptions=True)
        proxy.heal()
        assert len((await bad.evaluate(batch, version=served.first)).policy) == len(batch)


async def test_p10_overload_is_refused_quickly_within_bounded_memory_and_clients_back_off_with_jitter(served):
    batch = served.positions(512)
    served.first = served.publish(**SLOW)
    await served.control.serve(served.model, [served.first])
    asker = served.evaluator()
    request = asker._request(batch, served.first).SerializeToString()
    await asker.aclose()
    statuses: dict[str, list[float]] = {"OK": [], "RESOURCE_EXHAUSTED": []}

    async def flood(channel, enough: asyncio.Event) -> None:
        call = channel.unary_unary(METHOD)
        while not enough.is_set():
            began_s = time.perf_counter()
            try:
                await call(request, timeout=60)
                status = "OK"
            except grpc.aio.AioRpcError as error:
                status = error.code().name
            statuses[status].append(time.perf_counter() - began_s)  # any other status is an error here

    async with contextlib.AsyncExitStack() as stack:
        channels = [await stack.enter_async_context(open_inference_channel(served.address)) for _ in range(FLOOD)]
        await flooded(flood, channels[:1], until(lambda: len(statuses["OK"]) >= WARM_UP))
        statuses["OK"].clear()  # answers to a caller who had the server to itself
        before_mib = served.process.memory_info().rss / 2**20
        await asyncio.gather(*(channel.channel_ready() for channel in channels))
        await flooded(flood, channels, until(lambda: len(statuses["RESOURCE_EXHAUSTED"]) >= REFUSALS))
        grown_mib = served.process.memory_info().rss / 2**20 - before_mib
        assert statuses["OK"]
        assert len(statuses["RESOURCE_EXHAUSTED"]) > FLOOD
        assert statistics.median(statuses["RESOURCE_EXHAUSTED"]) < statistics.median(statuses["OK"])
        assert statistics.quantiles(statuses["RESOURCE_EXHAUSTED"], n=20)[-1] < REFUSED_WITHIN_S
        assert grown_mib < 128
        await clients_back_off(served, batch, lambda refused: flooded(flood, channels, refused))


async def flooded(flood, channels, until_done) -> None:
    """Flood over these channels for as long as something takes."""
    enough = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for channel in channels:
            group.create_task(flood(channel, enough))
        try:
            await until_done
        finally:
            enough.set()


class Jitter(random.Random):
    """Random numbers as a client has them in a fleet, seeded by the system; tells the pauses that were drawn."""

    def begin(self) -> list[float]:
        self.drawn_s: list[float] = []
        return self.drawn_s

    def uniform(self, a: float, b: float) -> float:
        self.drawn_s.append(super().uniform(a, b))
        return self.drawn_s[-1]


async def clients_back_off(served, batch: LeafBatch, flooded_until) -> None:
    """The fleet's own clients beside the flood: refused, each pauses for longer and longer random whiles; all are answered."""
    pauses: list[list[list[float]]] = [[] for _ in range(CLIENTS)]  # of each client's requests

    async def ask(mine: list[list[float]], enough: asyncio.Event) -> None:
        jitter = Jitter()
        async with contextlib.aclosing(served.evaluator(rng=jitter, timeout_s=60.0)) as evaluator:
            while not enough.is_set():
                mine.append(jitter.begin())
                began_s = time.monotonic()
                assert len((await evaluator.evaluate(batch, version=served.first)).policy) == len(batch)
                assert time.monotonic() - began_s > 0.99 * sum(mine[-1])  # it did wait

    def often() -> list[list[float]]:
        return [request for mine in pauses for request in mine if len(request) >= TRIES]

    async with asyncio.TaskGroup() as group:
        enough = asyncio.Event()
        for mine in pauses:
            group.create_task(ask(mine, enough))
        await flooded_until(until(lambda: len(often()) >= PATIENT and all(map(any, pauses))))
        enough.set()

    for number, at_once in enumerate(zip(*(request[:TRIES] for request in often()), strict=True)):
        longest_s = FIRST_BACKOFF_S * 2**number
        assert len(set(at_once)) == len(at_once)  # no two come back together
        assert min(at_once) < longest_s / 2 < max(at_once) <= longest_s  # spread over a span that doubles
    assert max(pause for mine in pauses for request in mine for pause in request) <= MAX_BACKOFF_S

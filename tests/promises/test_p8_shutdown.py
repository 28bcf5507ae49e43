"""P8 in one process: what a service had finished when SIGTERM came is where it belongs when the service has ended."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from promise_intake import taking
from promise_tools import borrowed, record

from games.core import make
from gatekeeper.disk import Disk
from inference_server.batcher import Batcher
from inference_server.queueing import RequestQueue
from selfplay_worker import worker
from selfplay_worker.game_register import FinishedGame, GameRegister
from selfplay_worker.publisher import Publisher
from selfplay_worker.settings import WorkerSettings
from zerofleet.errors import Unavailable
from zerofleet.service.lifecycle import EXIT_FAILED, EXIT_OK, serve_until_drained
from zerofleet.service.settings import ServiceSettings
from zerofleet.storage.streams import MemoryStream

fakes = borrowed("promise_worker", "selfplay_worker/conftest.py")
batching = borrowed("promise_batching", "inference_server/test_batcher.py")


def sigterm() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


class Settings(ServiceSettings):
    """Settings of a service of this test."""

    SERVICE = "promise"


@pytest.fixture
def settings(tmp_path):
    return Settings(run_dir=tmp_path, grace_s=30.0)


async def test_p8_sigterm_runs_the_drains_in_their_order_and_then_waits_for_the_work(settings):
    events = []

    async def main(service) -> None:
        over = asyncio.Event()

        async def drain(name: str) -> None:
            await asyncio.sleep(0)
            events.append(name)
            if name == "intake":
                raise Unavailable("a drain that fails keeps no other from its work")
            if name == "calls":
                over.set()

        for name in ("games", "intake", "calls"):
            service.on_drain(name, lambda name=name: drain(name))
        service.ready()
        sigterm()
        await over.wait()
        assert not service.is_ready
        await asyncio.sleep(0)
        events.append("end of the work")

    async with asyncio.timeout(60):
        assert await serve_until_drained(main, settings) == EXIT_OK
    assert events == ["games", "intake", "calls", "end of the work"]


async def test_p8_the_grace_time_ends_a_service_that_does_not_drain(settings):
    async def main(service) -> None:
        service.on_drain("stuck", asyncio.Event().wait)
        sigterm()
        await asyncio.Event().wait()

    async with asyncio.timeout(60):
        hasty = settings.model_copy(update={"grace_s": 0.01})
        assert await serve_until_drained(main, hasty) == EXIT_FAILED


async def test_p8_an_intake_that_stops_settles_the_games_it_has_taken(tmp_path):
    stream = MemoryStream()
    with taking(tmp_path, stream) as trainer:
        stopped = asyncio.Event()
        acknowledge = stream.acknowledge

        async def slowly(entry_ids) -> None:
            stopped.set()
            for _ in range(20):
                await asyncio.sleep(0)
            await acknowledge(entry_ids)

        stream.acknowledge = slowly
        running = asyncio.create_task(trainer.intake.run())
        await stream.publish(*record(1))
        await stopped.wait()
        async with asyncio.timeout(60):
            await trainer.intake.stop()
        assert (await stream.stats()).length == 0
        await running


async def test_p8_an_inference_server_that_stops_answers_the_requests_in_its_queue():
    echo = batching.Echo()
    batcher = Batcher(RequestQueue(max_batch=64, max_delay_s=60.0, max_rows=100))
    async with asyncio.timeout(60), batcher, asyncio.TaskGroup() as group:
        await batching.occupy_slow(batcher, echo, group)
        waiting = group.create_task(batching.ask(batcher, echo, 7, rows=1))
        await asyncio.sleep(0)
        closing = group.create_task(batcher.aclose())
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="shutting down"):
            await batching.ask(batcher, echo, 8)
        echo.gate.set()
        await closing
        assert waiting.done()
        np.testing.assert_array_equal(waiting.result().output[1], [[7.0]])


async def test_p8_a_cancelled_gatekeeper_keeps_memory_and_disk_alike():
    done, is_cancelled = SimpleNamespace(disk=False, memory=False), threading.Event()

    def write() -> None:
        done.disk = is_cancelled.wait(60)

    with Disk() as disk:
        task = asyncio.create_task(disk.commit(write, lambda _: setattr(done, "memory", True)))
        await asyncio.sleep(0)
        task.cancel()
        is_cancelled.set()
        await asyncio.wait([task])
    assert task.cancelled()
    assert done.disk == done.memory is True


async def test_p8_the_last_flush_of_a_worker_ends_when_the_stream_has_its_games():
    stream = fakes.MemoryStream()
    stream.open.clear()
    publisher = Publisher(stream, "tic_tac_toe", capacity=9, rng=random.Random(0))
    games = [record(number) for number in range(5)]
    async with asyncio.timeout(60):
        running = asyncio.create_task(publisher.run())
        for game in games:
            publisher.hand_over(FinishedGame(*game))
        flushing = asyncio.create_task(publisher.flush())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not flushing.done()
        stream.open.set()
        await flushing
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert list(stream.published.items()) == games


class SlowStream(fakes.MemoryStream):
    """Stream that takes the first games and then none until `open` is set."""

    takes = 6

    async def _publish(self, uid: str, payload: bytes) -> None:
        if len(self.published) == self.takes:
            self.open.clear()
        await super()._publish(uid, payload)


class Observed:
    """Games that a worker has finished, and the blocks they were played in."""

    def __init__(self, monkeypatch) -> None:
        self.finished: list[str] = []
        self.blocks: list = []
        finish, make_block = GameRegister.finish, worker.make_block

        def note_finish(register, ticket, played):
            self.finished.append(ticket.uid)
            return finish(register, ticket, played)

        def note_block(*arguments):
            self.blocks.append(make_block(*arguments))
            return self.blocks[-1]

        monkeypatch.setattr(GameRegister, "finish", note_finish)
        monkeypatch.setattr(worker, "make_block", note_block)

    def uncollected(self) -> int:
        """Games that ended in a block and were not handed on."""
        return sum(len(block.finished()) for block in self.blocks)


class Halting(fakes.SwitchableEvaluator):
    """Evaluator that answers no more once a game has ended in the present step."""

    def __init__(self, observed: Observed) -> None:
        super().__init__(players=2)
        self.observed, self.halted = observed, asyncio.Event()

    async def evaluate(self, batch, *, version):
        if self.observed.finished or self.observed.uncollected():
            self.halted.set()
        if self.halted.is_set():
            await asyncio.Event().wait()
        return await super().evaluate(batch, version=version)


def worker_settings(directory) -> WorkerSettings:
    small = {"search": {"simulations": 4, "fast_simulations": 2}, "grace_s": 30.0}
    lanes = {"selfplay": {"lanes": 2, "slots": 4, "adoption_delay_s": 0.0}, "run_seed": 3, "incarnation": 1}
    return WorkerSettings.model_validate(
        {"run_dir": directory, "game": "tic_tac_toe", "preset": "tiny", "worker_id": "w0", **small, **lanes}
    )


async def work(settings, evaluator, stream, *, until) -> None:
    """Run a worker, send SIGTERM when `until` returns, and check that it ends cleanly."""
    promotions, running, workers = fakes.Promotions(), asyncio.Event(), []
    promotions.promote(1)

    async def main(service) -> None:
        selfplay = worker.SelfPlay(make("tic_tac_toe"), settings, evaluator=evaluator, stream=stream)
        workers.append(selfplay)
        running.set()
        await selfplay.run(service, promotions.watch())

    async with asyncio.timeout(240), asyncio.TaskGroup() as group:  # the search may have to be compiled first
        ending = group.create_task(serve_until_drained(main, settings))
        await running.wait()
        await until()
        sigterm()
        await workers[0]._lanes_ended.wait()
        for _ in range(20):  # turns of the loop in which a worker without a last flush would end
            await asyncio.sleep(0)
        stream.open.set()
        assert await ending == EXIT_OK


@pytest.mark.slow
async def test_p8_every_game_a_worker_has_finished_is_in_the_stream_when_it_has_ended(tmp_path, monkeypatch):
    observed, stream = Observed(monkeypatch), SlowStream()

    async def games_wait() -> None:
        while len(observed.finished) < stream.takes + 3:
            await evaluator.until_asked()

    evaluator = fakes.SwitchableEvaluator(players=2)
    await work(worker_settings(tmp_path), evaluator, stream, until=games_wait)
    assert len(stream.published) >= stream.takes + 3
    assert sorted(stream.published) == sorted(observed.finished)
    assert observed.uncollected() == 0


@pytest.mark.slow
async def test_p8_games_that_end_in_the_step_that_sigterm_interrupts_are_not_dropped(tmp_path, monkeypatch):
    observed, stream = Observed(monkeypatch), fakes.MemoryStream()
    evaluator = Halting(observed)
    await work(worker_settings(tmp_path), evaluator, stream, until=evaluator.halted.wait)
    assert observed.uncollected() == 0
    assert sorted(stream.published) == sorted(observed.finished)

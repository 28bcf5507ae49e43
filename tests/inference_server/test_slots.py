"""Several batches on the device at once: order, cancellation, faults, a lost device, closing."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import pytest
from fake_network import MODEL, infer_request, refusal
from grpc_health.v1 import health_pb2
from test_batcher import FOREVER, Echo, _outcome, ask
from tritonclient.grpc import service_pb2_grpc

from inference_server import kserve
from inference_server import server as server_module
from inference_server.batcher import Batcher
from inference_server.queueing import SLICE_S, RequestQueue
from inference_server.settings import ServerSettings
from zerofleet.contracts.priorities import Priority
from zerofleet.errors import DeviceLost, Unavailable
from zerofleet.rpc.health import HealthService
from zerofleet.rpc.inference_channels import open_inference_channel
from zerofleet.service.lifecycle import Service

SLOTS = 2


class Later:
    """A batch that is done when the test says so; `error` is raised by `wait` and `collect`."""

    def __init__(self, network: Device, states: np.ndarray, legal: np.ndarray) -> None:
        self.marks = states[:, 0].tolist()
        self.collected = False
        self._network, self._batch = network, ([states], [legal])
        self._done = threading.Event()
        self._error: Exception | None = None

    def finish(self, error: Exception | None = None) -> None:
        self._error = error
        self._done.set()

    def wait(self) -> None:
        assert self._done.wait(60)
        if self._error is not None:
            raise self._error

    def collect(self):
        self.wait()
        self.collected = True
        return self._network.evaluate(*self._batch)


class Detached(Echo):
    """An `Echo` that begins batches at once and keeps none of them; each is done when `done` is set."""

    def __init__(self, done: threading.Event) -> None:
        super().__init__()
        self._done = done

    def begin(self, states, legal) -> Detached.Batch:
        return Detached.Batch(self, states, legal, self._done)

    class Batch:
        def __init__(self, network: Detached, states, legal, done: threading.Event) -> None:
            self._network, self._batch, self._done = network, (states, legal), done

        def wait(self) -> None:
            assert self._done.wait(60)

        def collect(self):
            self.wait()
            return self._network.evaluate(*self._batch)


class Device(Echo):
    """An `Echo` that begins batches at once; `refuses` is raised by the next `begin`."""

    def __init__(self) -> None:
        super().__init__()
        self.flights: list[Later] = []
        self.refuses: Exception | None = None
        self._begun = threading.Semaphore(0)

    def begin(self, states, legal) -> Later:
        if (error := self.refuses) is not None:
            self.refuses = None
            raise error
        self.flights.append(Later(self, np.concatenate(states), np.concatenate(legal)))
        self._begun.release()
        return self.flights[-1]

    async def has_begun(self, count: int) -> None:
        """Wait until `count` more batches have begun."""
        for _ in range(count):
            assert await asyncio.to_thread(self._begun.acquire, timeout=60)


@pytest.fixture
def device() -> Device:
    return Device()


@asynccontextmanager
async def running(**settings) -> AsyncIterator[Batcher]:
    async with Batcher(RequestQueue(max_batch=64, max_delay_s=0.0, max_rows=1000), slots=SLOTS, **settings) as batcher:
        yield batcher


async def begin_each(batcher: Batcher, device: Device, group: asyncio.TaskGroup, *marks: int) -> list[asyncio.Task]:
    """Send requests, each of which begins before the next is sent."""
    tasks = []
    for mark in marks:
        tasks.append(group.create_task(_outcome(ask(batcher, device, mark))))
        await device.has_begun(1)
    return tasks


async def test_as_many_batches_as_slots_are_on_the_device_and_further_requests_wait_in_one_batch(device):
    async with running() as batcher, asyncio.TaskGroup() as group:
        first, second = await begin_each(batcher, device, group, 1, 2)
        others = [group.create_task(ask(batcher, device, mark)) for mark in (3, 4)]
        await asyncio.sleep(0)
        assert (len(device.flights), batcher.waiting_rows) == (2, 4)
        device.flights[0].finish()
        await device.has_begun(1)
        assert (await first).output[1][0, 0] == 1
        assert device.flights[2].marks == [3, 3, 4, 4]
        for flight in device.flights[1:]:
            flight.finish()
    assert second.result().output[1][0, 0] == 2
    assert [task.result().output[1][0, 0] for task in others] == [3, 4]


async def test_batches_are_answered_in_the_order_in_which_they_began(device):
    answered = []
    async with running() as batcher, asyncio.TaskGroup() as group:
        tasks = await begin_each(batcher, device, group, 1, 2)
        for mark, task in enumerate(tasks, start=1):
            task.add_done_callback(lambda _, mark=mark: answered.append(mark))
        device.flights[1].finish()
        device.flights[0].finish()
    assert answered == [1, 2]
    assert device.batches == [[2], [2]]


async def test_a_caller_that_leaves_while_its_batch_is_on_the_device_affects_no_other(device):
    async with running() as batcher, asyncio.TaskGroup() as group:
        tasks = await begin_each(batcher, device, group, 1, 2)
        tasks[0].cancel()
        await asyncio.wait([tasks[0]])
        for flight in device.flights:
            flight.finish()
    assert tasks[1].result().output[1][0, 0] == 2
    assert all(flight.collected for flight in device.flights)  # its slot is free again


@pytest.mark.parametrize("place", ["begin", "device"])
async def test_a_batch_that_fails_is_evaluated_request_by_request_behind_the_batches_before_it(device, place):
    device.poison = 13
    async with running() as batcher, asyncio.TaskGroup() as group:
        first = await begin_each(batcher, device, group, 1, 2)
        tasks = [group.create_task(_outcome(ask(batcher, device, mark))) for mark in (12, 13, 14)]
        await asyncio.sleep(0)
        fault = RuntimeError("out of memory")
        if place == "begin":
            device.refuses = fault
        device.flights[0].finish()
        if place == "device":
            await device.has_begun(1)
            device.flights[2].finish(fault)
        await asyncio.wait([first[0]])
        assert not any(task.done() for task in tasks)
        device.flights[1].finish()
    assert [type(task.result()) for task in tasks][1] is RuntimeError
    assert [tasks[0].result().output[1][0, 0], tasks[2].result().output[1][0, 0]] == [12, 14]
    assert [task.result().output[1][0, 0] for task in first] == [1, 2]


async def test_a_split_request_is_answered_whole_from_parts_in_several_slots(device):
    async with running() as batcher, asyncio.TaskGroup() as group:
        await begin_each(batcher, device, group, 98, 99)
        batcher._queue.note_speed(64, 4 * SLICE_S)
        urgent = np.zeros((1, 3), np.uint8), np.zeros((1, 9), np.int16)
        group.create_task(batcher.evaluate(device, *urgent, expires_s=FOREVER, priority=Priority.HIGH))
        states = np.repeat(np.arange(50, dtype=np.uint8)[:, None], 3, axis=1)
        task = group.create_task(batcher.evaluate(device, states, np.zeros((50, 9), np.int16), expires_s=FOREVER))
        await asyncio.sleep(0)
        for begun in range(7):  # 98, 99, the urgent one, and parts of 16, 16, 16 and 2 rows
            device.flights[begun].finish()
            if begun + SLOTS < 7:
                await device.has_begun(1)
    assert [len(flight.marks) for flight in device.flights] == [2, 2, 1, 16, 16, 16, 2]
    assert task.result().output[1][:, 0].tolist() == list(range(50))


async def test_the_times_of_batches_on_the_device_do_not_overlap(device):
    now = [0.0]
    async with running(clock=lambda: now[0]) as batcher, asyncio.TaskGroup() as group:
        tasks = await begin_each(batcher, device, group, 1, 2)
        now[0] = 1.0
        device.flights[0].finish()
        await asyncio.wait([tasks[0]])
        now[0] = 1.5
        device.flights[1].finish()
    assert [task.result().compute_s for task in tasks] == [1.0, 0.5]
    assert [report.compute_s for report in device.reports] == [1.0, 0.5]


async def test_a_network_that_evaluates_at_once_shares_the_slots_of_one_that_does_not(device):
    echo = Echo()
    async with running() as batcher, asyncio.TaskGroup() as group:
        (first,) = await begin_each(batcher, device, group, 1)
        second = group.create_task(ask(batcher, echo, 2))
        assert await asyncio.to_thread(echo.entered.wait, 60)
        device.flights[0].finish()
    assert first.result().output[1][0, 0] == 1
    assert second.result().output[1][0, 0] == 2


async def test_closing_answers_the_batches_on_the_device_and_the_queued_requests(device):
    async with running() as batcher, asyncio.TaskGroup() as group:
        tasks = await begin_each(batcher, device, group, 1, 2)
        tasks.append(group.create_task(ask(batcher, device, 3)))
        await asyncio.sleep(0)
        closing = group.create_task(batcher.aclose())
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="shutting down"):
            await ask(batcher, device, 4)
        device.flights[0].finish()
        await device.has_begun(1)
        for flight in device.flights[1:]:
            flight.finish()
        await closing
    assert [task.result().output[1][0, 0] for task in tasks] == [1, 2, 3]


@pytest.mark.parametrize("slots", [1, SLOTS])
async def test_a_network_out_of_service_is_freed_with_its_last_batch_and_not_with_the_next_one_of_another(slots):
    done, freed = threading.Event(), threading.Event()
    network = Detached(done)
    weakref.finalize(network, freed.set)
    async with Batcher(RequestQueue(max_batch=64, max_delay_s=0.0, max_rows=1000), slots=slots) as batcher:
        task = asyncio.create_task(ask(batcher, network, 1))
        await asyncio.sleep(0)
        done.set()
        assert (await task).output[1][0, 0] == 1
        del network, task
        assert await asyncio.to_thread(freed.wait, 20)


async def test_a_lost_device_fails_every_request_once_and_is_reported(device):
    lost = []
    async with running(on_lost=lost.append) as batcher, asyncio.TaskGroup() as group:
        tasks = await begin_each(batcher, device, group, 1, 2)
        tasks.append(group.create_task(_outcome(ask(batcher, device, 3))))
        await asyncio.sleep(0)
        device.flights[0].finish(DeviceLost("device-side assert"))
        device.flights[1].finish(DeviceLost("device-side assert"))
        await asyncio.wait(tasks)
        with pytest.raises(Unavailable, match="shutting down"):
            await ask(batcher, device, 4)
        await batcher.aclose()
    assert [str(error) for error in lost] == ["device-side assert"]
    assert [type(task.result()) for task in tasks] == [Unavailable] * 3
    assert "the device of this server failed" in str(tasks[2].result())
    assert batcher.waiting_rows == 0
    assert len(device.flights) == 2


async def test_a_device_lost_in_one_call_is_not_tried_request_by_request():
    class Lost(Echo):
        def evaluate(self, states, legal):
            super().evaluate(states, legal)
            raise DeviceLost("illegal memory access")

    echo, lost = Lost(), []
    queue = RequestQueue(max_batch=64, max_delay_s=0.0, max_rows=100)
    async with Batcher(queue, on_lost=lost.append) as batcher, asyncio.TaskGroup() as group:
        echo.gate.clear()
        tasks = [group.create_task(_outcome(ask(batcher, echo, 1)))]
        assert await asyncio.to_thread(echo.entered.wait, 60)
        tasks += [group.create_task(_outcome(ask(batcher, echo, mark))) for mark in (2, 3)]
        await asyncio.sleep(0)
        echo.gate.set()
        await asyncio.wait(tasks)
        await batcher.aclose()
    assert [type(task.result()) for task in tasks] == [Unavailable] * 3
    assert (len(lost), echo.batches) == (1, [[2]])


@pytest.mark.parametrize("slots", [1, SLOTS])
async def test_an_output_without_rows_ends_the_device_thread_and_fails_every_request(slots):
    class Rowless(Echo):
        def evaluate(self, states, legal):
            super().evaluate(states, legal)
            return (np.float32(0),)

    echo, lost = Rowless(), []
    queue = RequestQueue(max_batch=64, max_delay_s=0.0, max_rows=100)
    async with Batcher(queue, slots=slots, on_lost=lost.append) as batcher, asyncio.TaskGroup() as group:
        echo.gate.clear()
        tasks = [group.create_task(_outcome(ask(batcher, echo, 1)))]
        assert await asyncio.to_thread(echo.entered.wait, 60)
        tasks += [group.create_task(_outcome(ask(batcher, echo, mark))) for mark in (2, 3)]
        await asyncio.sleep(0)
        echo.gate.set()
        await asyncio.wait(tasks)
        with pytest.raises(Unavailable, match="shutting down"):
            await ask(batcher, echo, 4)
        await batcher.aclose()
    assert [type(task.result()) for task in tasks] == [Unavailable] * 3
    assert [str(error).partition(" (")[0] for error in lost] == ["the device thread failed"]
    assert batcher.waiting_rows == 0


async def test_memory_that_is_exhausted_in_the_device_thread_is_reported(monkeypatch):
    lost, queue = asyncio.Queue(), RequestQueue(max_batch=64, max_delay_s=0.0, max_rows=100)
    take, failures = queue.take, iter([MemoryError()])

    def exhausted(now_s):
        if queue.rows and (error := next(failures, None)) is not None:
            raise error
        return take(now_s)

    monkeypatch.setattr(queue, "take", exhausted)
    async with Batcher(queue, on_lost=lost.put_nowait) as batcher:
        with pytest.raises(Unavailable, match="the device of this server failed"):
            await ask(batcher, Echo(), 1)
        assert str(await lost.get()).startswith("the device thread failed (MemoryError); the process ends")


async def test_a_server_whose_device_is_lost_answers_what_is_in_progress_is_not_ready_and_ends_with_the_error(
    publish, loader, store, positions, monkeypatch
):
    monkeypatch.setattr(server_module, "open_backend", lambda *_, **__: loader)
    store.write_champion(MODEL, publish(), epoch=1, reason="test")
    settings = ServerSettings(address="127.0.0.1:0", model_store=store.root)
    service, addresses = Service(settings), asyncio.Queue()
    monkeypatch.setattr(service, "ready", lambda address: (Service.ready(service, address), addresses.put_nowait(address)))
    serving = asyncio.create_task(server_module.serve(service, settings))
    address = await addresses.get()
    loader.networks[1].fault = lambda states: DeviceLost("CUDA error: device-side assert triggered")
    async with open_inference_channel(address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        code, text = await refusal(stub.ModelInfer(infer_request(positions[0][:1], positions[1][:1]), timeout=60))
    with pytest.raises(DeviceLost, match="device-side assert"):
        await serving
    assert (code.name, "failed" in text) == ("UNAVAILABLE", True)
    assert not service.is_ready


async def test_a_server_whose_device_is_lost_by_the_first_load_is_never_ready(publish, loader, store, monkeypatch):
    def lost(*_: object, **__: object) -> None:
        raise DeviceLost("CUDA error: unspecified launch failure")

    monkeypatch.setattr(server_module, "open_backend", lambda *_, **__: loader)
    monkeypatch.setattr(loader, "load", lost)
    store.write_champion(MODEL, publish(), epoch=1, reason="test")
    settings = ServerSettings(address="127.0.0.1:0", model_store=store.root)
    service, health = Service(settings), []
    told = HealthService.set
    monkeypatch.setattr(
        HealthService, "set", lambda self, name, status: health.append((name, status)) or told(self, name, status)
    )
    with pytest.raises(DeviceLost, match="launch failure"):
        await server_module.serve(service, settings)
    assert not service.was_ready
    assert (kserve.SERVICE, health_pb2.HealthCheckResponse.SERVING) not in health


async def test_an_error_of_one_batch_leaves_the_server_ready(wire, loader, positions):
    loader.networks[1].fault = lambda states: RuntimeError("one bad batch")
    code, _ = await refusal(wire.infer(positions[0][:1], positions[1][:1]))
    loader.networks[1].fault = lambda states: None
    assert code.name == "INTERNAL"
    assert len((await wire.infer(positions[0][:1], positions[1][:1]))[1]) == 1
    assert not wire.server.lost.done()


async def test_a_load_that_finds_the_device_lost_reports_it(open_wire, publish, loader, monkeypatch):
    def lost(*_: object, **__: object) -> None:
        raise DeviceLost("CUDA error: unspecified launch failure")

    version = publish()
    async with open_wire() as wire:
        monkeypatch.setattr(loader, "load", lost)
        with pytest.raises(DeviceLost, match="launch failure"):
            await wire.server.plane.registry.serve(MODEL, [version])
        assert "launch failure" in str(await wire.server.lost)

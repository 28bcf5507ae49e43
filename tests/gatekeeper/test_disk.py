import asyncio
import threading

import pytest

from gatekeeper.disk import Disk
from zerofleet.contracts.promotions import CandidateStatus
from zerofleet.storage.model_store import DirectoryStore

MODEL = "tic_tac_toe"


async def test_work_and_its_consequence_happen_together_or_not_at_all():
    seen = []
    with Disk() as disk:
        assert await disk.commit(lambda: 7, seen.append) == 7
        with pytest.raises(OSError, match="full"):
            await disk.commit(_fail, seen.append)
    assert seen == [7]


def _fail():
    raise OSError("full")


async def test_cancellation_waits_for_the_disk_and_comes_after_the_consequence():
    began, may_end, seen = threading.Event(), threading.Event(), []

    def slow():
        began.set()
        may_end.wait()
        return "written"

    with Disk() as disk:
        task = asyncio.ensure_future(disk.commit(slow, seen.append))
        await asyncio.to_thread(began.wait)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert seen == ["written"]


async def test_a_start_reads_the_store_in_the_thread_of_the_disk(open_gate, monkeypatch):
    threads = set()

    def noted(read):
        return lambda *model, **how: threads.add(threading.current_thread().name) or read(*model, **how)

    for name in ("champion", "settled_champion", "history"):
        monkeypatch.setattr(DirectoryStore, name, noted(getattr(DirectoryStore, name)))
    async with open_gate(by_hand_only=True):
        assert threads == {"gatekeeper-disk_0"}


async def test_a_cancellation_counts_although_the_work_fails():
    began, may_end, seen = threading.Event(), threading.Event(), []

    def fails():
        began.set()
        may_end.wait()
        raise OSError("disk full")

    with Disk() as disk:
        task = asyncio.ensure_future(disk.commit(fails, seen.append))
        await asyncio.to_thread(began.wait)
        task.cancel()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert seen == []


async def test_jobs_run_one_after_another_in_their_order():
    order = []
    with Disk() as disk:
        await asyncio.gather(*(disk.run(lambda i=i: order.append(i)) for i in range(20)))
    assert order == list(range(20))


async def test_a_read_delays_no_write_and_no_other_read():
    may_end = threading.Event()
    with Disk() as disk:
        reading = asyncio.ensure_future(disk.read(lambda: may_end.wait(60)))
        assert await disk.run(lambda: "written") == "written"
        assert await disk.read(lambda: "read") == "read"
        assert not reading.done()
        may_end.set()
        assert await reading


async def test_a_candidate_is_accepted_while_another_one_is_verified(open_gate, monkeypatch):
    began, may_end, verify = threading.Event(), threading.Event(), DirectoryStore.verify

    def slow(*arguments, **options):
        began.set()
        assert may_end.wait(60)
        return verify(*arguments, **options)

    async with open_gate(mode="off") as gate:
        await gate.offer()
        (first, sha256), later = gate.models.publish(), gate.models.publish()
        monkeypatch.setattr(DirectoryStore, "verify", slow)
        await gate.client.submit(MODEL, first, sha256)
        await asyncio.to_thread(began.wait)
        accepted = await gate.client.submit(MODEL, *later)
        may_end.set()
        assert accepted.status is CandidateStatus.QUEUED
        assert (await gate.settled(accepted.version)).status is CandidateStatus.PROMOTED


async def test_a_promotion_cancelled_by_its_caller_keeps_disk_and_memory_consistent(open_gate, monkeypatch):
    began, may_end = threading.Event(), threading.Event()
    async with open_gate(mode="off") as gate:
        await gate.offer()
        version, _ = gate.models.publish()
        write = gate.pointer._write

        def slow(*arguments):
            began.set()
            may_end.wait()
            return write(*arguments)

        monkeypatch.setattr(gate.pointer, "_write", slow)
        call = asyncio.ensure_future(gate.client.promote(MODEL, version, reason="impatient"))
        await asyncio.to_thread(began.wait)
        call.cancel()
        await asyncio.wait({call})
        watching = gate.pointer.watch()
        assert (await anext(watching)).version == 1
        may_end.set()
        assert (await anext(watching)).version == version
        assert gate.models.store.champion(MODEL).version == version

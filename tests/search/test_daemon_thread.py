"""Work in daemon threads: its result, its exception, and the end of its wait."""

import asyncio
import threading

import pytest

from zerofleet.search.daemon_thread import DaemonPool, in_daemon_thread


async def test_the_result_comes_from_a_daemon_thread() -> None:
    thread = await in_daemon_thread(threading.current_thread)
    assert thread.daemon
    assert thread is not threading.current_thread()


async def test_an_exception_reaches_the_caller_after_the_end_was_reported() -> None:
    ended: list[str] = []
    with pytest.raises(ZeroDivisionError):
        await in_daemon_thread(lambda: 1 // 0, at_end=lambda: ended.append("end"))
    assert ended == ["end"]


async def test_a_cancelled_caller_waits_no_longer_and_the_end_of_the_work_is_still_reported() -> None:
    go, has_ended = threading.Event(), asyncio.Event()
    task = asyncio.create_task(in_daemon_thread(go.wait, at_end=has_ended.set))
    await asyncio.wait({task}, timeout=0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not has_ended.is_set()
    go.set()
    async with asyncio.timeout(10):
        await has_ended.wait()


def test_a_pool_takes_one_piece_of_work_after_another_in_the_same_daemon_threads() -> None:
    pool, used = DaemonPool(2, name="pooled"), []
    together, first = threading.Barrier(3), threading.Semaphore(0)

    def work() -> None:
        used.append(threading.current_thread())
        first.release()

    pool.call(together.wait)
    pool.call(together.wait)
    together.wait(20)  # both run at once
    for _ in range(20):
        pool.call(work)
        assert first.acquire(timeout=20)
    pool.close()
    pool.join()
    assert len(used) == 20
    assert len(set(used)) <= 2
    assert all(thread.daemon and thread.name == "pooled" and not thread.is_alive() for thread in used)


def test_a_pool_starts_no_thread_without_need_and_ends_after_the_work_that_waits() -> None:
    pool, go, done = DaemonPool(1, name="single"), threading.Event(), []
    pool.join()
    pool.call(go.wait)
    for number in range(5):
        pool.call(lambda number=number: done.append(number))
    assert [thread.name for thread in threading.enumerate()].count("single") == 1
    pool.close()
    go.set()
    pool.join()
    assert done == [0, 1, 2, 3, 4]

"""Work in daemon threads: its result, its exception, and the end of its wait."""

import asyncio
import threading

import pytest

from zerofleet.search.daemon_thread import in_daemon_thread


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

"""Polls that browsers share, and their end when the last browser leaves."""

from __future__ import annotations

import asyncio

import anyio

from ui.shared_poll import SharedPolls


async def test_the_last_browser_that_leaves_closes_the_source_though_its_departure_cancels_every_wait():
    looked, closed = asyncio.Event(), []

    class Source:
        async def look(self):
            looked.set()
            await asyncio.Event().wait()

        async def aclose(self):
            await asyncio.sleep(0)  # as a connection that says goodbye
            closed.append(self)

    polls = SharedPolls(0.0)

    async def follow():
        async for _ in polls.follow("run", Source):
            pass

    async with anyio.create_task_group() as requests:  # as the server's: it cancels a stream again and again
        requests.start_soon(follow)
        await looked.wait()
        requests.cancel_scope.cancel()
    assert len(closed) == 1
    assert polls.count == 0

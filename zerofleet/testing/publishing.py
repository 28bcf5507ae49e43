"""The part of the contract of a `GameStream` that publishers rely on; `zerofleet.testing.streams` includes it."""

from __future__ import annotations

import asyncio

import pytest

from zerofleet.contracts.naming import MAX_RECORD_BYTES
from zerofleet.errors import InvalidRequest
from zerofleet.storage.streams import Publication
from zerofleet.testing.stream_backends import MakeStreamBackend, ids, publish, take, uids

__all__ = ["PublishingContract"]


class PublishingContract:
    """Tests of `publish_all` and `publish`; see `StreamContract`."""

    pytestmark = pytest.mark.asyncio

    async def test_games_published_together_come_out_in_order_with_their_traces(self, make_backend: MakeStreamBackend) -> None:
        backend = make_backend()
        trace = f"00-{1:032x}-{2:016x}-01"
        games = [Publication(f"game-{i}", f"payload {i}".encode(), trace if i == 1 else "") for i in range(3)]
        left = list(games)
        await backend.open().publish_all(left)
        assert left == []
        found = await take(backend.open())
        assert [Publication(delivery.uid, delivery.payload, delivery.traceparent) for delivery in found] == games

    async def test_of_games_published_together_none_arrives_if_one_is_refused(self, make_backend: MakeStreamBackend) -> None:
        stream = make_backend().open()
        games = [Publication("game-0", b"x"), Publication("game-1", bytes(MAX_RECORD_BYTES + 1))]
        with pytest.raises(InvalidRequest):
            await stream.publish_all(games)
        assert (len(games), (await stream.stats()).length) == (2, 0)

    async def test_the_games_that_a_cancelled_publisher_has_left_are_those_not_in_the_stream(
        self, make_backend: MakeStreamBackend
    ) -> None:
        stream = make_backend(high_water=2).open()
        games = [Publication(f"game-{i}", b"x") for i in range(5)]
        publishing = asyncio.create_task(stream.publish_all(games))
        async with asyncio.timeout(60):
            while len(games) > 3:  # noqa: ASYNC110  (a list sends no event)
                await asyncio.sleep(0)
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)
        assert [game.uid for game in games] == ["game-2", "game-3", "game-4"]
        assert uids(await take(stream)) == ["game-0", "game-1"]

    async def test_publishing_nothing_is_harmless(self, make_backend: MakeStreamBackend) -> None:
        stream = make_backend(high_water=1).open()
        await stream.publish("game-0", b"x")
        await stream.publish_all([])
        assert (await stream.stats()).length == 1

    async def test_games_published_together_wait_for_room_from_the_high_water_mark_on(
        self, make_backend: MakeStreamBackend
    ) -> None:
        backend = make_backend(high_water=2)
        publisher, consumer = backend.open(), backend.open()
        found: list[str] = []
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            tasks.create_task(publisher.publish_all([Publication(f"game-{i}", b"x") for i in range(5)]))
            while len(found) < 5:
                deliveries = await consumer.consume(consumer="a", limit=100, block_s=5.0)
                assert len(deliveries) <= 2
                found += uids(deliveries)
                await consumer.acknowledge(ids(deliveries))
        assert found == [f"game-{i}" for i in range(5)]

    async def test_publisher_waits_at_the_high_water_mark_until_there_is_room(self, make_backend: MakeStreamBackend) -> None:
        backend = make_backend(high_water=2)
        stream, other = backend.open(), backend.open()
        await publish(stream, 0, 1)
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(publish(other, 2))
            done, _ = await asyncio.wait([waiting], timeout=0.03)
            assert not done
            delivered = await take(stream)  # delivered is not yet gone
            done, _ = await asyncio.wait([waiting], timeout=0.03)
            assert not done
            await stream.acknowledge(ids(delivered[:1]))
        assert (await stream.stats()).length == 2

    async def test_dead_letter_makes_room_too(self, make_backend: MakeStreamBackend) -> None:
        backend = make_backend(high_water=1)
        stream, other = backend.open(), backend.open()
        await publish(stream, 0)
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            tasks.create_task(publish(other, 1))
            await stream.dead_letter((await take(stream))[0], reason="moves")
        assert uids(await take(stream)) == ["game-1"]

    async def test_publisher_cancelled_while_it_waits_has_published_nothing(self, make_backend: MakeStreamBackend) -> None:
        backend = make_backend(high_water=1)
        stream = backend.open()
        await publish(stream, 0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await publish(stream, 1)
        await stream.acknowledge(ids(await take(stream)))
        assert await stream.consume(consumer="a", limit=1, block_s=0.02) == []

    async def test_publisher_cancelled_at_any_moment_ends(self, make_backend: MakeStreamBackend) -> None:
        """Clients have been seen to forget a cancellation that arrives together with an answer."""
        stream = make_backend(high_water=1, poll_s=0.001).open()
        await publish(stream, 0)
        for turn in range(60):
            waiting = asyncio.ensure_future(publish(stream, 1))
            await asyncio.wait([waiting], timeout=0.001 + turn * 5e-5)
            waiting.cancel()
            done, _ = await asyncio.wait([waiting], timeout=5)
            assert done
            assert waiting.cancelled()
        assert (await stream.stats()).length == 1

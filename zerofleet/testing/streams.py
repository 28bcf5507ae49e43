"""The contract of a `GameStream`, as tests for a stream of your own.

    class TestMyStream(StreamContract):
        @pytest.fixture
        def make_backend(self, tmp_path):
            return lambda **settings: MyBackend(tmp_path / "games", StreamSettings(**settings))

Each test makes one fresh, empty stream and opens it several times, as publishers and consumers in several processes do.
"""

from __future__ import annotations

import asyncio

import pytest

from zerofleet.contracts.naming import MAX_RECORD_BYTES
from zerofleet.errors import InvalidRequest
from zerofleet.storage.streams import DEAD_PAYLOAD_BYTES, POISON
from zerofleet.storage.streams.base import StreamStats
from zerofleet.testing.publishing import PublishingContract
from zerofleet.testing.stream_backends import MakeStreamBackend, StreamBackend, ids, publish, take, uids

__all__ = ["MakeStreamBackend", "StreamBackend", "StreamContract"]


class StreamContract(PublishingContract):
    """Tests of a `GameStream`. A subclass has the fixture `make_backend`, a `MakeStreamBackend`; it closes the streams."""

    async def test_games_come_out_as_they_went_in_and_in_order(self, make_backend: MakeStreamBackend) -> None:
        backend = make_backend()
        await publish(backend.open(), 0, 1, 2, 3)
        consumer = backend.open()
        first = await take(consumer, limit=3)
        assert [(d.uid, d.payload, d.deliveries) for d in first] == [
            (f"game-{i}", f"payload {i}".encode(), 1) for i in range(3)
        ]
        assert uids(await take(consumer, limit=3)) == ["game-3"]
        assert await take(consumer) == []

    async def test_any_bytes_travel_unchanged(self, make_backend: MakeStreamBackend) -> None:
        stream = make_backend().open()
        payloads = [b"", b"\0", bytes(range(256)), b"\xff" * MAX_RECORD_BYTES]
        for number, payload in enumerate(payloads):
            await stream.publish(str(number), payload)
        assert [delivery.payload for delivery in await take(stream)] == payloads

    @pytest.mark.parametrize(("uid", "size"), [("", 1), ("x" * 129, 1), ("a\nb", 1), ("game", MAX_RECORD_BYTES + 1)])
    async def test_what_cannot_be_a_game_is_refused(self, make_backend: MakeStreamBackend, uid: str, size: int) -> None:
        stream = make_backend().open()
        with pytest.raises(InvalidRequest):
            await stream.publish(uid, bytes(size))
        assert (await stream.stats()).length == 0

    async def test_untouched_stream_is_empty(self, make_backend: MakeStreamBackend) -> None:
        stream = make_backend().open()
        assert await stream.stats() == StreamStats(length=0, pending=0, dead=0, oldest_pending_s=0.0)
        assert await stream.dead() == []
        await stream.acknowledge([])

    async def test_acknowledged_game_is_gone_for_everybody(self, make_backend: MakeStreamBackend) -> None:
        backend = make_backend()
        stream = backend.open()
        await publish(stream, 0, 1)
        first, second = await take(stream)
        await stream.acknowledge([first.entry_id])
        await stream.acknowledge([first.entry_id])
        await backend.age(1000)
        assert uids(await take(backend.open(), "b")) == [second.uid]
        assert (await stream.stats()).length == await stream.length() == 1

    async def test_delivered_game_is_nobody_elses_until_it_is_idle(self, make_backend: MakeStreamBackend) -> None:
        backend = make_backend(idle_s=100.0)
        ours, theirs = backend.open(), backend.open()
        await publish(ours, 0, 1)
        await take(ours, "ours")
        await backend.age(50)
        assert await take(theirs, "theirs") == []
        assert await take(ours, "ours") == []
        await backend.age(51)
        again = await take(theirs, "theirs")
        assert [(d.uid, d.deliveries) for d in again] == [("game-0", 2), ("game-1", 2)]
        assert await take(ours, "ours") == []

    async def test_idle_games_come_before_new_ones(self, make_backend: MakeStreamBackend) -> None:
        backend = make_backend(idle_s=100.0)
        stream = backend.open()
        await publish(stream, 0, 1)
        await take(stream, "dead")
        await backend.age(101)
        await publish(stream, 2)
        assert uids(await take(backend.open(), "alive", limit=1)) == ["game-0"]
        rest = backend.open()
        assert uids(await take(rest, "alive-2", limit=1) + await take(rest, "alive-2", limit=1)) == ["game-1", "game-2"]

    async def test_restarted_consumer_gets_at_once_what_it_left(self, make_backend: MakeStreamBackend) -> None:
        backend = make_backend(idle_s=100.0)
        before = backend.open()
        await publish(before, 0, 1, 2, 3, 4)
        left = await take(before, "trainer-0", limit=4)
        await before.acknowledge([left[1].entry_id])
        after = backend.open()
        taken = await take(after, "trainer-0", limit=2) + await take(after, "trainer-0", limit=2)
        assert [(d.uid, d.deliveries) for d in taken] == [("game-0", 2), ("game-2", 2), ("game-3", 2), ("game-4", 1)][
            : len(taken)
        ]
        taken += await take(after, "trainer-0")
        assert uids(taken) == ["game-0", "game-2", "game-3", "game-4"]

    async def test_game_acknowledged_by_a_consumer_that_was_thought_dead_is_gone(self, make_backend: MakeStreamBackend) -> None:
        backend = make_backend(idle_s=100.0)
        slow, quick = backend.open(), backend.open()
        await publish(slow, 0)
        delivery = (await take(slow, "slow"))[0]
        await backend.age(101)
        assert uids(await take(quick, "quick")) == ["game-0"]
        await slow.acknowledge([delivery.entry_id])
        await backend.age(101)
        assert await take(quick, "quick") == []
        assert (await quick.stats()).length == 0

    async def test_same_game_published_twice_is_delivered_twice(self, make_backend: MakeStreamBackend) -> None:
        """A worker publishes again when an answer was lost; the trainer tells the copies by uid."""
        stream = make_backend().open()
        await publish(stream, 7, 7)
        assert uids(await take(stream)) == ["game-7", "game-7"]

    async def test_consumers_share_the_games_out(self, make_backend: MakeStreamBackend) -> None:
        backend = make_backend()
        await publish(backend.open(), *range(40))
        streams = [backend.open() for _ in range(4)]
        shares = await asyncio.gather(*(take(stream, f"c{i}", limit=15) for i, stream in enumerate(streams)))
        assert sorted(uid for share in shares for uid in uids(share)) == sorted(f"game-{i}" for i in range(40))

    # -- given back --

    async def test_games_given_back_come_at_once_to_anyone_and_before_new_ones(self, make_backend: MakeStreamBackend) -> None:
        backend = make_backend(idle_s=1000.0)
        ours, theirs = backend.open(), backend.open()
        await publish(ours, 0, 1, 2)
        held = await take(ours, "ours", limit=2)
        await ours.give_back(held)
        assert [(d.uid, d.deliveries) for d in await take(theirs, "theirs", limit=1)] == [("game-0", 1)]
        assert uids(await take(ours, "ours", limit=1)) == ["game-1"]
        assert uids(await take(ours, "ours")) == ["game-2"]

    async def test_a_game_given_back_any_number_of_times_is_no_poison(self, make_backend: MakeStreamBackend) -> None:
        backend = make_backend(max_deliveries=2)
        await publish(backend.open(), 0)
        for _ in range(5):
            restarted = backend.open()
            held = await take(restarted, "trainer-0")
            assert [(d.uid, d.deliveries) for d in held] == [("game-0", 1)]
            await restarted.give_back(held)
        assert await backend.open().dead() == []

    async def test_a_game_that_is_gone_or_has_another_consumer_cannot_be_given_back(
        self, make_backend: MakeStreamBackend
    ) -> None:
        backend = make_backend(idle_s=100.0)
        slow, quick = backend.open(), backend.open()
        await publish(slow, 0, 1)
        gone, lent = await take(slow, "slow")
        await slow.acknowledge([gone.entry_id])
        await backend.age(101)
        assert uids(await take(quick, "quick")) == ["game-1"]
        await slow.give_back([gone, lent])
        assert await take(backend.open(), "third") == []
        await backend.age(101)
        assert [(d.uid, d.deliveries) for d in await take(backend.open(), "third")] == [("game-1", 3)]

    # -- waiting --

    async def test_consumer_waits_no_longer_than_it_was_told(self, make_backend: MakeStreamBackend) -> None:
        stream = make_backend().open()
        loop = asyncio.get_running_loop()
        before_s = loop.time()
        assert await stream.consume(consumer="a", limit=1, block_s=0.05) == []
        assert 0.045 <= loop.time() - before_s < 2.0

    async def test_waiting_consumer_is_woken_by_a_new_game(self, make_backend: MakeStreamBackend) -> None:
        backend = make_backend()
        stream, other = backend.open(), backend.open()
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(stream.consume(consumer="a", limit=5, block_s=30.0))
            await take(other, "b")
            await publish(other, 0)
        assert uids(waiting.result()) == ["game-0"]

    # -- cancellation --

    async def test_cancelled_consumer_loses_nothing(self, make_backend: MakeStreamBackend) -> None:
        """Cancelled at every moment around the arrival of a game: it is there for the next call of the same process."""
        backend = make_backend(idle_s=1000.0, max_deliveries=1000)
        stream, other = backend.open(), backend.open()
        await take(stream)
        for turns in range(30):
            async with asyncio.timeout(10):
                waiting = asyncio.ensure_future(stream.consume(consumer="a", limit=5, block_s=30.0))
                await asyncio.sleep(0)
                await publish(other, turns)
                for _ in range(turns):
                    await asyncio.sleep(0)
                waiting.cancel()
                (taken,) = await asyncio.gather(waiting, return_exceptions=True)
                deliveries = taken if isinstance(taken, list) else await stream.consume(consumer="a", limit=5, block_s=5.0)
            assert uids(deliveries) == [f"game-{turns}"]
            await stream.acknowledge(ids(deliveries))
        assert (await stream.stats()).length == 0

    async def test_cancelled_consumer_does_not_get_again_what_it_holds(self, make_backend: MakeStreamBackend) -> None:
        backend = make_backend(idle_s=1000.0)
        stream = backend.open()
        await publish(stream, 0)
        held = await take(stream)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await stream.consume(consumer="a", limit=5, block_s=30.0)
        await publish(stream, 1)
        assert uids(held + await take(stream)) == ["game-0", "game-1"]

    # -- dead letters --

    async def test_bad_game_goes_to_the_dead_with_its_reason(self, make_backend: MakeStreamBackend) -> None:
        backend = make_backend()
        stream = backend.open()
        await publish(stream, 0, 1, 2)
        deliveries = await take(stream)
        await stream.dead_letter(deliveries[0], reason="moves")
        await stream.dead_letter(deliveries[2], reason="result")
        await stream.dead_letter(deliveries[2], reason="result")
        dead = await backend.open().dead()
        assert [(d.uid, d.payload, d.reason, d.deliveries) for d in dead] == [
            ("game-2", b"payload 2", "result", 1),
            ("game-0", b"payload 0", "moves", 1),
        ]
        assert [d.uid for d in await stream.dead(limit=1)] == ["game-2"]
        stats = await stream.stats()
        assert (stats.length, stats.pending, stats.dead) == (1, 1, 2)

    async def test_acknowledged_game_cannot_be_buried(self, make_backend: MakeStreamBackend) -> None:
        stream = make_backend().open()
        await publish(stream, 0)
        delivery = (await take(stream))[0]
        await stream.acknowledge([delivery.entry_id])
        await stream.dead_letter(delivery, reason="late")
        assert await stream.dead() == []

    async def test_game_that_kills_every_consumer_is_given_up(self, make_backend: MakeStreamBackend) -> None:
        backend = make_backend(max_deliveries=3)
        await publish(backend.open(), 0)
        for count in (1, 2, 3):
            crashing = backend.open()
            assert [(d.uid, d.deliveries) for d in await take(crashing, "trainer-0")] == [("game-0", count)]
        await publish(backend.open(), 1)
        survivor = backend.open()
        assert uids(await survivor.consume(consumer="trainer-0", limit=10, block_s=1.0)) == ["game-1"]
        assert [(d.uid, d.reason, d.deliveries) for d in await survivor.dead()] == [("game-0", POISON, 3)]

    async def test_only_the_newest_dead_are_kept(self, make_backend: MakeStreamBackend) -> None:
        stream = make_backend(dead_limit=3).open()
        await publish(stream, *range(5))
        for delivery in await take(stream):
            await stream.dead_letter(delivery, reason="moves")
        assert [d.uid for d in await stream.dead()] == ["game-4", "game-3", "game-2"]
        assert (await stream.stats()).dead == 3

    async def test_a_large_bad_game_leaves_its_beginning_its_length_and_its_reason(
        self, make_backend: MakeStreamBackend
    ) -> None:
        backend = make_backend()
        stream = backend.open()
        payload = bytes(range(256)) * (MAX_RECORD_BYTES // 256)
        await stream.publish("large", payload)
        (delivery,) = await take(stream)
        assert delivery.payload == payload
        await stream.dead_letter(delivery, reason="moves: of worker w-7")
        (letter,) = await backend.open().dead()
        assert (letter.uid, letter.reason, letter.deliveries) == ("large", "moves: of worker w-7", 1)
        assert letter.payload == payload[:DEAD_PAYLOAD_BYTES]
        assert letter.size_bytes == MAX_RECORD_BYTES

    async def test_a_large_game_that_is_poison_leaves_its_beginning_too(self, make_backend: MakeStreamBackend) -> None:
        backend = make_backend(max_deliveries=1)
        await backend.open().publish("large", bytes(MAX_RECORD_BYTES))
        await take(backend.open())
        assert await take(backend.open()) == []
        (letter,) = await backend.open().dead()
        assert (letter.reason, len(letter.payload), letter.size_bytes) == (POISON, DEAD_PAYLOAD_BYTES, MAX_RECORD_BYTES)

    async def test_a_reason_without_end_is_cut(self, make_backend: MakeStreamBackend) -> None:
        stream = make_backend().open()
        await publish(stream, 0)
        await stream.dead_letter((await take(stream))[0], reason="é" * 100_000)
        (letter,) = await stream.dead()
        assert letter.reason == "é" * 1024
        assert letter.size_bytes == len(letter.payload)

    async def test_statistics_tell_waiting_from_pending(self, make_backend: MakeStreamBackend) -> None:
        backend = make_backend()
        stream = backend.open()
        await publish(stream, *range(5))
        assert ((await stream.stats()).pending, (await stream.stats()).lag) == (0, 5)
        deliveries = await take(stream, limit=3)
        await stream.acknowledge(ids(deliveries[:1]))
        stats = await stream.stats()
        assert (stats.length, stats.pending, stats.lag, stats.dead) == (4, 2, 2, 0)
        assert stats.oldest_pending_s >= 0.0

    async def test_closing_twice_is_harmless(self, make_backend: MakeStreamBackend) -> None:
        stream = make_backend().open()
        await publish(stream, 0)
        await stream.aclose()
        await stream.aclose()

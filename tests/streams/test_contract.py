"""The contract of `GameStream`, the same for the fake in memory, for SQLite and for a real Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import pytest

from zerofleet.contracts.naming import MAX_RECORD_BYTES
from zerofleet.errors import InvalidRequest
from zerofleet.storage.streams import DEAD_PAYLOAD_BYTES, POISON, Delivery, GameStream, StreamSettings
from zerofleet.storage.streams.base import StreamStats


class Backend(Protocol):
    def open(self) -> GameStream: ...

    async def age(self, seconds: float) -> None: ...


MakeBackend = Callable[..., Backend]


async def publish(stream: GameStream, *numbers: int) -> None:
    for number in numbers:
        await stream.publish(f"game-{number}", f"payload {number}".encode())


async def take(stream: GameStream, consumer: str = "a", limit: int = 100) -> list[Delivery]:
    return await stream.consume(consumer=consumer, limit=limit, block_s=0.0)


def uids(deliveries: list[Delivery]) -> list[str]:
    return [delivery.uid for delivery in deliveries]


def ids(deliveries: list[Delivery]) -> list[str]:
    return [delivery.entry_id for delivery in deliveries]


async def test_games_are_delivered_unchanged_and_in_order(make_backend: MakeBackend) -> None:
    backend = make_backend()
    await publish(backend.open(), 0, 1, 2, 3)
    consumer = backend.open()
    first = await take(consumer, limit=3)
    assert [(d.uid, d.payload, d.deliveries) for d in first] == [(f"game-{i}", f"payload {i}".encode(), 1) for i in range(3)]
    assert uids(await take(consumer, limit=3)) == ["game-3"]
    assert await take(consumer) == []


async def test_any_bytes_travel_unchanged(make_backend: MakeBackend) -> None:
    stream = make_backend().open()
    payloads = [b"", b"\0", bytes(range(256)), b"\xff" * MAX_RECORD_BYTES]
    for number, payload in enumerate(payloads):
        await stream.publish(str(number), payload)
    assert [delivery.payload for delivery in await take(stream)] == payloads


@pytest.mark.parametrize(("uid", "size"), [("", 1), ("x" * 129, 1), ("a\nb", 1), ("game", MAX_RECORD_BYTES + 1)])
async def test_an_invalid_uid_or_payload_is_refused(make_backend: MakeBackend, uid: str, size: int) -> None:
    stream = make_backend().open()
    with pytest.raises(InvalidRequest):
        await stream.publish(uid, bytes(size))
    assert (await stream.stats()).length == 0


async def test_untouched_stream_is_empty(make_backend: MakeBackend) -> None:
    stream = make_backend().open()
    assert await stream.stats() == StreamStats(length=0, pending=0, dead=0, oldest_pending_s=0.0)
    assert await stream.dead() == []
    await stream.acknowledge([])


async def test_an_acknowledged_game_is_delivered_to_no_consumer(make_backend: MakeBackend) -> None:
    backend = make_backend()
    stream = backend.open()
    await publish(stream, 0, 1)
    first, second = await take(stream)
    await stream.acknowledge([first.entry_id])
    await stream.acknowledge([first.entry_id])
    await backend.age(1000)
    assert uids(await take(backend.open(), "b")) == [second.uid]
    assert (await stream.stats()).length == 1


async def test_a_delivered_game_is_exclusive_until_it_is_idle(make_backend: MakeBackend) -> None:
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


async def test_idle_games_come_before_new_ones(make_backend: MakeBackend) -> None:
    backend = make_backend(idle_s=100.0)
    stream = backend.open()
    await publish(stream, 0, 1)
    await take(stream, "dead")
    await backend.age(101)
    await publish(stream, 2)
    assert uids(await take(backend.open(), "alive", limit=1)) == ["game-0"]
    rest = backend.open()
    assert uids(await take(rest, "alive-2", limit=1) + await take(rest, "alive-2", limit=1)) == ["game-1", "game-2"]


async def test_a_restarted_consumer_gets_its_pending_games_at_once(make_backend: MakeBackend) -> None:
    backend = make_backend(idle_s=100.0)
    before = backend.open()
    await publish(before, 0, 1, 2, 3, 4)
    left = await take(before, "trainer-0", limit=4)
    await before.acknowledge([left[1].entry_id])
    after = backend.open()
    taken = await take(after, "trainer-0", limit=2) + await take(after, "trainer-0", limit=2)
    assert [(d.uid, d.deliveries) for d in taken] == [("game-0", 2), ("game-2", 2), ("game-3", 2), ("game-4", 1)][: len(taken)]
    taken += await take(after, "trainer-0")
    assert uids(taken) == ["game-0", "game-2", "game-3", "game-4"]


async def test_a_game_acknowledged_by_a_consumer_presumed_dead_is_settled(make_backend: MakeBackend) -> None:
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


async def test_same_game_published_twice_is_delivered_twice(make_backend: MakeBackend) -> None:
    """A worker publishes again when an answer was lost; the trainer tells the copies by uid."""
    stream = make_backend().open()
    await publish(stream, 7, 7)
    assert uids(await take(stream)) == ["game-7", "game-7"]


async def test_consumers_share_the_games(make_backend: MakeBackend) -> None:
    backend = make_backend()
    await publish(backend.open(), *range(40))
    streams = [backend.open() for _ in range(4)]
    shares = await asyncio.gather(*(take(stream, f"c{i}", limit=15) for i, stream in enumerate(streams)))
    assert sorted(uid for share in shares for uid in uids(share)) == sorted(f"game-{i}" for i in range(40))


# -- waiting -------------------------------------------------------------------------------------------------------


async def test_a_consumer_waits_no_longer_than_its_timeout(make_backend: MakeBackend) -> None:
    stream = make_backend().open()
    loop = asyncio.get_running_loop()
    before_s = loop.time()
    assert await stream.consume(consumer="a", limit=1, block_s=0.05) == []
    assert 0.045 <= loop.time() - before_s < 2.0


async def test_waiting_consumer_is_woken_by_a_new_game(make_backend: MakeBackend) -> None:
    backend = make_backend()
    stream, other = backend.open(), backend.open()
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(stream.consume(consumer="a", limit=5, block_s=30.0))
        await take(other, "b")
        await publish(other, 0)
    assert uids(waiting.result()) == ["game-0"]


async def test_publisher_waits_at_the_high_water_mark_until_there_is_room(make_backend: MakeBackend) -> None:
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


async def test_dead_letter_makes_room_too(make_backend: MakeBackend) -> None:
    backend = make_backend(high_water=1)
    stream, other = backend.open(), backend.open()
    await publish(stream, 0)
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        tasks.create_task(publish(other, 1))
        await stream.dead_letter((await take(stream))[0], reason="moves")
    assert uids(await take(stream)) == ["game-1"]


async def test_publisher_cancelled_while_it_waits_has_published_nothing(make_backend: MakeBackend) -> None:
    backend = make_backend(high_water=1)
    stream = backend.open()
    await publish(stream, 0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await publish(stream, 1)
    await stream.acknowledge(ids(await take(stream)))
    assert await stream.consume(consumer="a", limit=1, block_s=0.02) == []


async def test_publisher_cancelled_at_any_moment_ends(make_backend: MakeBackend) -> None:
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


# -- cancellation --------------------------------------------------------------------------------------------------


async def test_cancelled_consumer_loses_nothing(make_backend: MakeBackend) -> None:
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


async def test_cancelled_consumer_does_not_get_again_what_it_holds(make_backend: MakeBackend) -> None:
    backend = make_backend(idle_s=1000.0)
    stream = backend.open()
    await publish(stream, 0)
    held = await take(stream)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await stream.consume(consumer="a", limit=5, block_s=30.0)
    await publish(stream, 1)
    assert uids(held + await take(stream)) == ["game-0", "game-1"]


# -- dead letters --------------------------------------------------------------------------------------------------


async def test_a_bad_game_becomes_a_dead_letter_with_its_reason(make_backend: MakeBackend) -> None:
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


async def test_an_acknowledged_game_cannot_become_a_dead_letter(make_backend: MakeBackend) -> None:
    stream = make_backend().open()
    await publish(stream, 0)
    delivery = (await take(stream))[0]
    await stream.acknowledge([delivery.entry_id])
    await stream.dead_letter(delivery, reason="late")
    assert await stream.dead() == []


async def test_a_game_that_kills_every_consumer_becomes_a_dead_letter(make_backend: MakeBackend) -> None:
    backend = make_backend(max_deliveries=3)
    await publish(backend.open(), 0)
    for count in (1, 2, 3):
        crashing = backend.open()
        assert [(d.uid, d.deliveries) for d in await take(crashing, "trainer-0")] == [("game-0", count)]
    await publish(backend.open(), 1)
    survivor = backend.open()
    assert uids(await survivor.consume(consumer="trainer-0", limit=10, block_s=1.0)) == ["game-1"]
    assert [(d.uid, d.reason, d.deliveries) for d in await survivor.dead()] == [("game-0", POISON, 3)]


async def test_only_the_newest_dead_letters_are_kept(make_backend: MakeBackend) -> None:
    stream = make_backend(dead_limit=3).open()
    await publish(stream, *range(5))
    for delivery in await take(stream):
        await stream.dead_letter(delivery, reason="moves")
    assert [d.uid for d in await stream.dead()] == ["game-4", "game-3", "game-2"]
    assert (await stream.stats()).dead == 3


async def test_the_dead_letter_of_a_large_game_has_its_beginning_length_and_reason(make_backend: MakeBackend) -> None:
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


async def test_the_dead_letter_of_a_large_poison_game_has_its_beginning(make_backend: MakeBackend) -> None:
    backend = make_backend(max_deliveries=1)
    await backend.open().publish("large", bytes(MAX_RECORD_BYTES))
    await take(backend.open())
    assert await take(backend.open()) == []
    (letter,) = await backend.open().dead()
    assert (letter.reason, len(letter.payload), letter.size_bytes) == (POISON, DEAD_PAYLOAD_BYTES, MAX_RECORD_BYTES)


async def test_an_overlong_reason_is_truncated(make_backend: MakeBackend) -> None:
    stream = make_backend().open()
    await publish(stream, 0)
    await stream.dead_letter((await take(stream))[0], reason="é" * 100_000)
    (letter,) = await stream.dead()
    assert letter.reason == "é" * 1024
    assert letter.size_bytes == len(letter.payload)


def test_all_dead_letters_together_take_a_small_part_of_a_redis_of_384_mb() -> None:
    assert StreamSettings().dead_limit * DEAD_PAYLOAD_BYTES <= 64 << 20


async def test_statistics_distinguish_waiting_from_pending(make_backend: MakeBackend) -> None:
    backend = make_backend()
    stream = backend.open()
    await publish(stream, *range(5))
    assert ((await stream.stats()).pending, (await stream.stats()).lag) == (0, 5)
    deliveries = await take(stream, limit=3)
    await stream.acknowledge(ids(deliveries[:1]))
    stats = await stream.stats()
    assert (stats.length, stats.pending, stats.lag, stats.dead) == (4, 2, 2, 0)
    assert stats.oldest_pending_s >= 0.0


async def test_closing_twice_is_harmless(make_backend: MakeBackend) -> None:
    stream = make_backend().open()
    await publish(stream, 0)
    await stream.aclose()
    await stream.aclose()

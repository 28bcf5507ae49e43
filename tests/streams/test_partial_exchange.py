"""Exchanges with Redis that take some of the games that are published together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from redis.asyncio.client import Pipeline
from redis.exceptions import OutOfMemoryError
from redis.exceptions import TimeoutError as SocketTimeout

from zerofleet.errors import Unavailable
from zerofleet.storage.streams import Publication, RedisStream, StreamSettings
from zerofleet.storage.streams.redis import EXCHANGE_BYTES

pytestmark = pytest.mark.slow


@pytest.fixture
def redis(make_redis_server: Callable[[], Any]) -> str:
    """Return the address of an empty Redis."""
    server = make_redis_server()
    server.start()
    return str(server.url)


async def test_only_the_games_that_a_full_redis_refused_are_added_again(redis: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = RedisStream(redis, name="games")
    execute = Pipeline.execute

    async def refuse_the_second(commands: Any, raise_on_error: bool = True) -> list[Any]:
        monkeypatch.setattr(Pipeline, "execute", execute)  # of the first exchange alone
        del commands.command_stack[1]
        added, also_added = await execute(commands, raise_on_error)
        return [added, OutOfMemoryError("command not allowed when used memory > 'maxmemory'"), also_added]

    monkeypatch.setattr(Pipeline, "execute", refuse_the_second)
    games = [Publication(f"game-{number}", b"x") for number in range(3)]
    await stream.publish_all(games)
    assert games == []
    deliveries = await stream.consume(consumer="a", limit=10, block_s=0.0)
    assert [delivery.uid for delivery in deliveries] == ["game-0", "game-2", "game-1"]
    await stream.aclose()


async def test_a_full_redis_leaves_in_the_list_only_the_games_that_it_refused(
    redis: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = RedisStream(redis, name="games", settings=StreamSettings(retry_for_s=0.0))
    execute = Pipeline.execute

    async def take_one(commands: Any, raise_on_error: bool = True) -> list[Any]:
        monkeypatch.setattr(Pipeline, "execute", take_none)
        del commands.command_stack[1:]
        return [*await execute(commands, raise_on_error), OutOfMemoryError("full"), OutOfMemoryError("full")]

    async def take_none(commands: Any, raise_on_error: bool = True) -> list[Any]:
        return [OutOfMemoryError("full") for _ in commands.command_stack]

    monkeypatch.setattr(Pipeline, "execute", take_one)
    games = [Publication(f"game-{number}", b"x") for number in range(3)]
    with pytest.raises(Unavailable):
        await stream.publish_all(games)
    assert [game.uid for game in games] == ["game-1", "game-2"]
    monkeypatch.setattr(Pipeline, "execute", execute)
    await stream.publish_all(games)
    deliveries = await stream.consume(consumer="a", limit=10, block_s=0.0)
    assert [delivery.uid for delivery in deliveries] == ["game-0", "game-1", "game-2"]
    await stream.aclose()


async def test_a_link_that_fails_repeats_one_exchange_and_not_the_games_of_those_before(
    redis: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = RedisStream(redis, name="games")
    execute, exchanges = Pipeline.execute, []

    async def lose_the_second_reply(commands: Any, raise_on_error: bool = True) -> list[Any]:
        exchanges.append(len(commands.command_stack))
        replies: list[Any] = await execute(commands, raise_on_error)
        if len(exchanges) == 2:
            raise SocketTimeout("Timeout writing to socket")
        return replies

    monkeypatch.setattr(Pipeline, "execute", lose_the_second_reply)
    await stream.publish_all([Publication(f"game-{number}", bytes(EXCHANGE_BYTES // 2)) for number in range(6)])
    assert exchanges == [2, 2, 2, 2]
    deliveries = await stream.consume(consumer="a", limit=10, block_s=0.0)
    assert [int(delivery.uid[-1]) for delivery in deliveries] == [0, 1, 2, 3, 2, 3, 4, 5]
    await stream.aclose()

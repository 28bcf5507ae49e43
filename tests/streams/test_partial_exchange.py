"""An exchange with Redis in which some games are added and others refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from redis.asyncio.client import Pipeline
from redis.exceptions import OutOfMemoryError

from zerofleet.storage.streams import Publication, RedisStream


@pytest.mark.slow
async def test_only_the_games_that_a_full_redis_refused_are_added_again(
    make_redis_server: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make_redis_server()
    server.start()
    stream = RedisStream(server.url, name="games")
    execute = Pipeline.execute

    async def refuse_the_second(commands: Any, raise_on_error: bool = True) -> list[Any]:
        monkeypatch.setattr(Pipeline, "execute", execute)  # of the first exchange alone
        del commands.command_stack[1]
        added, also_added = await execute(commands, raise_on_error)
        return [added, OutOfMemoryError("command not allowed when used memory > 'maxmemory'"), also_added]

    monkeypatch.setattr(Pipeline, "execute", refuse_the_second)
    await stream.publish_all([Publication(f"game-{number}", b"x") for number in range(3)])
    deliveries = await stream.consume(consumer="a", limit=10, block_s=0.0)
    assert [delivery.uid for delivery in deliveries] == ["game-0", "game-2", "game-1"]
    await stream.aclose()

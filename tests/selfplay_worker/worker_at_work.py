"""A whole worker in the loop of a test, and settings that differ from those of the fixture."""

import asyncio
import functools
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from games.core import Game
from selfplay_worker.settings import WorkerSettings
from selfplay_worker.worker import SelfPlay
from zerofleet.service.lifecycle import Service, serve_until_drained


def value_of(metric: Any) -> float:
    """Return the value of a gauge or counter."""
    return float(metric.collect()[0].samples[0].value)


def changed(settings: WorkerSettings, **values: Any) -> WorkerSettings:
    selfplay = settings.selfplay.model_copy(update=values.pop("selfplay", {}))
    search = settings.search.model_copy(update=values.pop("search", {}))
    return settings.model_copy(update={"selfplay": selfplay, "search": search} | values)


@asynccontextmanager
async def working(
    game: Game, settings: WorkerSettings, evaluator: Any, stream: Any, promotions: Any
) -> AsyncIterator[asyncio.Task[int]]:
    """Run a worker as its process would; leaving the block asks it to end and checks that it did so cleanly."""

    running = asyncio.Event()

    async def main(service: Service) -> None:
        running.set()
        await SelfPlay(game, settings, evaluator=evaluator, stream=stream).run(service, promotions.watch())

    async with asyncio.TaskGroup() as group:
        task = group.create_task(serve_until_drained(main, settings))
        task.add_done_callback(functools.partial(_stop_waiting, asyncio.current_task()))
        await running.wait()
        yield task
        if not task.done():
            os.kill(os.getpid(), signal.SIGTERM)
        assert await task == 0


def _stop_waiting(test: asyncio.Task[None], worker: asyncio.Task[int]) -> None:
    if not worker.cancelled() and worker.result() != 0:
        test.cancel("the worker failed")

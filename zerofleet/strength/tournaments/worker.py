"""Process of a `ProcessWorker`: plays the games on its input. See `zerofleet.strength.tournaments.workers`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator

from games.core import Game
from games.errors import GameError
from zerofleet.agents import make_agent
from zerofleet.errors import ZerofleetError
from zerofleet.evaluators.base import Evaluator, ModelVersion
from zerofleet.evaluators.in_process.evaluator import InProcessEvaluator
from zerofleet.evaluators.of_runs import evaluating_runs
from zerofleet.storage.model_store import open_model_store
from zerofleet.strength.tournaments.workers import LONGEST_LINE, PAIRINGS, REPLY, SETUP, LocalWorker, Reply, Setup

__all__ = ["main"]


async def main() -> None:
    """Play until the input ends. Cancellation: games in progress are lost."""
    lines = asyncio.StreamReader(limit=LONGEST_LINE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin.buffer)
    setup = SETUP.validate_json(await lines.readline())
    game = setup.made()
    async with _evaluating(setup, game) as evaluator:
        worker = LocalWorker(game, evaluator, make_agent=make_agent, simulations=setup.simulations, search=setup.search)
        following = asyncio.create_task(lines.readline())
        while line := await following:
            following = asyncio.create_task(lines.readline())
            playing = asyncio.create_task(_portion(worker, line))
            await asyncio.wait({playing, following}, return_when=asyncio.FIRST_COMPLETED)
            if not playing.done():  # the input was closed: the parent has gone
                os._exit(0)  # an agent's search may be long, and a thread cannot be stopped
            await playing


@contextlib.asynccontextmanager
async def _evaluating(setup: Setup, game: Game) -> AsyncIterator[Evaluator]:
    """Yield the evaluator of the models. Cancellation: the connections are closed."""
    if setup.models:
        local = InProcessEvaluator(open_model_store(setup.models), game)
        for version in setup.versions:
            await asyncio.to_thread(local.load, ModelVersion(version))
        yield local
        return
    async with evaluating_runs(setup.addresses, game) as evaluator:
        yield evaluator


async def _portion(worker: LocalWorker, line: bytes) -> None:
    try:
        async for result in worker.play(PAIRINGS.validate_json(line)):
            _say(Reply(result=result))
    except (ZerofleetError, GameError) as error:
        _say(Reply(error=str(error)))
    else:
        _say(Reply())


def _say(reply: Reply) -> None:
    sys.stdout.buffer.write(REPLY.dump_json(reply) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    asyncio.run(main())

"""`python -m benchmarks.stack.worker`: the lanes of a self-play worker, whose records are dropped, for `benchmarks.stack`.

Search, openings, requests, register, diagnostics and records are those of the product. What is missing is the stream and the
gatekeeper: version 1 is played throughout. For each line of standard input it writes a reading.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from concurrent.futures import ThreadPoolExecutor

from benchmarks.stack.figures import Reading
from benchmarks.stack.pipes import answer_lines, now_reading, write_line
from games.core import make
from selfplay_worker.game_register import FinishedGame
from selfplay_worker.lane import Lane
from selfplay_worker.settings import WorkerSettings
from selfplay_worker.warmup import warm_up
from selfplay_worker.worker import make_block, make_crew
from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion
from zerofleet.evaluators.transports import connected_evaluator
from zerofleet.presets import preset
from zerofleet.search import SearchBlock
from zerofleet.service import logs

_GAME = make("connect_four")


class Counter:
    """Evaluator that counts positions."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self.positions = 0
        self.answered = asyncio.Event()

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`."""
        found = await self._evaluator.evaluate(batch, version=version)
        self.positions += len(batch)
        self.answered.set()
        return found


class Bin:
    """Outlet that counts finished games and drops their records."""

    def __init__(self) -> None:
        self.games = 0

    def hand_over(self, game: FinishedGame) -> None:
        """See `Outlet.hand_over`."""
        self.games += 1

    async def room(self) -> None:
        """See `Outlet.room`. Cancellation: never suspends."""


def settings_of(given: argparse.Namespace) -> WorkerSettings:
    """Return the settings of a worker of the chosen preset, with the options of the command line."""
    chosen = preset(_GAME, given.preset)
    search = {"simulations": given.simulations, "fast_simulations": given.simulations} if given.simulations else {}
    if given.cache is not None:
        search["cache_positions"] = given.cache
    return WorkerSettings.model_validate(
        {
            "game": "connect_four",
            "preset": given.preset,
            "worker_id": f"stack-{given.seed}",
            "incarnation": 1 + given.seed,
            "transport": given.transport,
            "inference_address": given.target,
            "search": {**chosen.search.model_dump(), **search},
            "selfplay": {**chosen.selfplay.model_dump(), "lanes": given.lanes, "slots": given.slots},
        }
    )


async def _play(given: argparse.Namespace) -> None:
    settings, outlet = settings_of(given), Bin()
    thread = ThreadPoolExecutor(1, thread_name_prefix="search")
    async with connected_evaluator(given.target, _GAME, transport=given.transport, timeout_s=60.0) as evaluator:
        counter = Counter(evaluator)
        crew = make_crew(
            _GAME,
            settings,
            evaluator=counter,
            outlet=outlet,
            thread=thread,
            rng=random.Random(given.seed),  # noqa: S311
        )
        warm_up(_GAME, settings, crew.openings)
        crew.adopted.adopt(1)
        blocks = [make_block(_GAME, settings) for _ in range(given.lanes)]

        def read() -> Reading:
            simulations = sum(block.counters.simulations for block in blocks if isinstance(block, SearchBlock))
            return now_reading(counter.positions, simulations, outlet.games)

        async with asyncio.TaskGroup() as group:
            lanes = [group.create_task(Lane(block, crew).run()) for block in blocks]
            await counter.answered.wait()
            write_line("playing")
            await answer_lines(read)
            crew.stop.stop_now()
            await asyncio.wait(lanes)
    thread.shutdown()


def main() -> None:
    """Play until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", required=True)
    parser.add_argument("--transport", required=True)
    parser.add_argument("--preset", default="laptop")
    parser.add_argument("--lanes", type=int, required=True)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--simulations", type=int, default=0)
    parser.add_argument("--cache", type=int)
    parser.add_argument("--seed", type=int, default=0)
    logs.configure("warning", "json", "stack")  # standard output is for readings
    asyncio.run(_play(parser.parse_args()))


if __name__ == "__main__":
    main()

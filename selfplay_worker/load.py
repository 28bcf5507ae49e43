"""`python -m selfplay_worker.load`: a self-play worker without a run, as load for `zerofleet bench serve`.

Its lanes are those of the product, with openings, diagnostics and records of finished games, so that a position costs what it
costs in a run; only the gatekeeper and the stream are missing: one version is played, and records are dropped. For each line on
standard input, a number of seconds, it plays for that time and writes a line of JSON: positions, games, searched moves,
requests, seconds, and the latencies of a sample of the requests. In between it is idle.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args

from games.core import Game, make
from games.positions import parameters_text
from selfplay_worker.game_register import FinishedGame
from selfplay_worker.lane import Block, Lane
from selfplay_worker.settings import WorkerSettings
from selfplay_worker.warmup import warm_up
from selfplay_worker.worker import make_block, make_crew
from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion
from zerofleet.evaluators.transports import Transport, connected_evaluator
from zerofleet.service import logs

__all__ = ["MOST_LATENCIES", "Meter", "main", "play"]

MOST_LATENCIES = 20_000
"""Latencies of a line of figures, a uniform sample of more requests; the line stays below the 1 MiB that its reader accepts."""


class Meter:
    """Evaluator that measures the latency of requests, and outlet that counts games. Lanes play while `playing` is set."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self.positions = self.games = self.requests = self.bytes_asked = self.bytes_answered = 0
        self.blocks: list[Block] = []
        """Blocks of the lanes, which count their searched moves."""
        self._moves_taken = 0
        self._latencies_s: list[float] = []
        self._rng = random.Random(0)  # noqa: S311 - a sample of latencies
        self.answered = asyncio.Event()
        self.playing = asyncio.Event()

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`."""
        began_s = time.perf_counter()
        answer = await self._evaluator.evaluate(batch, version=version)
        self._note(time.perf_counter() - began_s)
        self.positions += len(batch)
        self.bytes_asked += batch.states.nbytes + batch.legal.nbytes
        self.bytes_answered += answer.policy.nbytes + answer.value.nbytes + sum(head.nbytes for head in answer.extra_heads)
        self.answered.set()
        return answer

    def _note(self, latency_s: float) -> None:
        """Count a request, and keep its latency in a sample in which each request is as likely (reservoir sampling)."""
        self.requests += 1
        if len(self._latencies_s) < MOST_LATENCIES:
            self._latencies_s.append(latency_s)
        elif (place := self._rng.randrange(self.requests)) < MOST_LATENCIES:
            self._latencies_s[place] = latency_s

    def hand_over(self, game: FinishedGame) -> None:
        """Count a finished game, and drop its record; see `Outlet`."""
        self.games += 1

    async def room(self) -> None:
        """Wait until lanes may play; see `Outlet`. Cancellation: no effect."""
        await self.playing.wait()

    def take(self) -> dict[str, Any]:
        """Return the figures since the last call, and reset them."""
        moves = sum(block.counters.moves for block in self.blocks)
        taken = {
            "positions": self.positions,
            "games": self.games,
            "moves": moves - self._moves_taken,
            "requests": self.requests,
            "bytes_asked": self.bytes_asked,
            "bytes_answered": self.bytes_answered,
            "latencies_s": self._latencies_s,
        }
        self.positions = self.games = self.requests = self.bytes_asked = self.bytes_answered = 0
        self._moves_taken = moves
        self._latencies_s = []
        return taken


async def play(game: Game, settings: WorkerSettings, meter: Meter, *, version: int) -> None:
    """Play with a version until cancelled. Cancellation: games in progress are dropped."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="search")
    rng = random.Random(settings.run_seed)  # noqa: S311 - pauses, not secrets
    crew = make_crew(game, settings, evaluator=meter, outlet=meter, thread=thread, rng=rng)
    await asyncio.to_thread(warm_up, game, settings, crew.openings)
    crew.adopted.adopt(version)
    meter.blocks = [make_block(game, settings) for _ in range(settings.selfplay.lanes)]
    try:
        async with asyncio.TaskGroup() as group:
            for block in meter.blocks:
                group.create_task(Lane(block, crew).run())
    finally:
        thread.shutdown(wait=False, cancel_futures=True)


async def _serve(given: argparse.Namespace) -> None:
    game = make(given.game, **dict(text.split("=", 1) for text in given.set))
    values = {
        "game": given.game,
        "game_parameters": parameters_text(game),
        "preset": given.preset,
        "inference_address": given.target,
        "transport": given.transport,
        "run_seed": given.seed,
        "incarnation": 1,
        "worker_id": "load",
    }
    settings = WorkerSettings.model_validate(values)
    async with (
        connected_evaluator(given.target, game, transport=given.transport, retry_s=0.0) as evaluator,  # the lanes retry
        asyncio.TaskGroup() as group,
    ):
        meter = Meter(evaluator)
        playing = group.create_task(play(game, settings, meter, version=given.version))
        meter.playing.set()
        await meter.answered.wait()  # the search compiles before the first answer
        meter.playing.clear()
        while line := await asyncio.to_thread(sys.stdin.readline):
            meter.take()
            began_s = time.perf_counter()
            meter.playing.set()
            await asyncio.sleep(float(line))
            meter.playing.clear()
            _write({**meter.take(), "seconds": time.perf_counter() - began_s})
        playing.cancel()


def _write(figures: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Play as directed by the command line and standard input; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m selfplay_worker.load", description="Generate the load of a self-play worker on an inference server."
    )
    parser.add_argument("--target", required=True, help="inference server")
    parser.add_argument("--game", default="connect_four")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="parameter of the game")
    parser.add_argument("--preset", default="laptop")
    parser.add_argument("--transport", choices=get_args(Transport), default="auto")
    parser.add_argument("--version", type=int, default=1, help="model version")
    parser.add_argument("--seed", type=int, default=0)
    logs.configure("warning", "json", "load")  # on standard error; standard output is for figures
    asyncio.run(_serve(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

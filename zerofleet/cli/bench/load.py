"""`python -m zerofleet.cli.bench.load`: a self-play worker without a run, as load for `zerofleet bench serve`.

It searches blocks of games in lanes as a worker does (one search thread, one request per block) and requests the evaluation of
every leaf from the server, but publishes nothing. For each line on standard input, a number of seconds, it plays for that time
and writes a line of JSON: positions, seconds, and the latency of each request. In between it is idle.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args

import structlog

from games.core import Game
from zerofleet.cli.options import chosen_game
from zerofleet.evaluators.base import Evaluation, Evaluator, LeafBatch, ModelVersion
from zerofleet.evaluators.by_version import evaluate_by_version
from zerofleet.evaluators.transports import Transport, connected_evaluator
from zerofleet.presets import Preset, preset
from zerofleet.search import SearchBlock

__all__ = ["main"]

PATIENCE_S = 600.0  # time for which a request is retried while the server is overloaded


class Meter:
    """Evaluator that records the latency of each request."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self.positions = self.bytes_asked = self.bytes_answered = 0
        self.latencies_s: list[float] = []
        self.answered = asyncio.Event()

    async def evaluate(self, batch: LeafBatch, *, version: ModelVersion) -> Evaluation:
        """See `Evaluator.evaluate`."""
        began_s = time.perf_counter()
        answer = await self._evaluator.evaluate(batch, version=version)
        self.latencies_s.append(time.perf_counter() - began_s)
        self.positions += len(batch)
        self.bytes_asked += batch.states.nbytes + batch.legal.nbytes
        self.bytes_answered += answer.policy.nbytes + answer.value.nbytes + sum(head.nbytes for head in answer.extra_heads)
        self.answered.set()
        return answer

    def take(self) -> dict[str, Any]:
        """Return the figures since the last call, and reset them."""
        taken = {
            "positions": self.positions,
            "bytes_asked": self.bytes_asked,
            "bytes_answered": self.bytes_answered,
            "latencies_s": self.latencies_s,
        }
        self.positions = self.bytes_asked = self.bytes_answered = 0
        self.latencies_s = []
        return taken


class Player:
    """Lanes of games that play while `playing` is set."""

    def __init__(self, game: Game, chosen: Preset, *, version: int, seed: int) -> None:
        self._seats = [version] * game.spec().num_players
        self._next_seed = seed
        self._blocks = [SearchBlock(game, chosen.search, slots=chosen.selfplay.slots) for _ in range(chosen.selfplay.lanes)]
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="search")
        self.playing = asyncio.Event()

    async def run(self, meter: Meter) -> None:
        """Play until cancelled. Cancellation: games in progress are dropped."""
        async with asyncio.TaskGroup() as group:
            for block in self._blocks:
                group.create_task(self._lane(block, meter))

    async def _lane(self, block: SearchBlock, meter: Meter) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self.playing.wait()
            for slot in block.idle():
                block.begin(slot, seed=self._next_seed, versions=self._seats)
                self._next_seed += 1
            leaves = await loop.run_in_executor(self._thread, block.advance)
            if len(leaves.batch):
                found = await evaluate_by_version(meter.evaluate, leaves.batch, leaves.versions)
                await loop.run_in_executor(self._thread, block.absorb, found.policy, found.value, found.extra_heads)
            for slot in block.finished():
                block.take(slot)


async def _serve(given: argparse.Namespace) -> None:
    game = chosen_game(given.game, given.set)
    player = Player(game, preset(game, given.preset), version=given.version, seed=given.seed)
    loop = asyncio.get_running_loop()
    async with (
        connected_evaluator(given.target, game, transport=given.transport, retry_s=PATIENCE_S) as evaluator,
        asyncio.TaskGroup() as group,
    ):
        meter = Meter(evaluator)
        playing = group.create_task(player.run(meter))
        player.playing.set()
        await meter.answered.wait()  # the search compiles before the first answer
        player.playing.clear()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            meter.take()
            began_s = time.perf_counter()
            player.playing.set()
            await asyncio.sleep(float(line))
            player.playing.clear()
            _write({**meter.take(), "seconds": time.perf_counter() - began_s})
        playing.cancel()


def _write(figures: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Play as directed by the command line and standard input; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m zerofleet.cli.bench.load", description="Generate the load of a self-play worker on an inference server."
    )
    parser.add_argument("--target", required=True, help="inference server")
    parser.add_argument("--game", default="connect_four")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="parameter of the game")
    parser.add_argument("--preset", default="laptop")
    parser.add_argument("--transport", choices=get_args(Transport), default="auto")
    parser.add_argument("--version", type=int, default=1, help="model version")
    parser.add_argument("--seed", type=int, default=0)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # standard output is for figures
    asyncio.run(_serve(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())

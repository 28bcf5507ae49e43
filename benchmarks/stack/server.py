"""`python -m benchmarks.stack.server`: an inference server whose device is timed, for `benchmarks.stack`.

It writes its address, and for each line of standard input a reading of its processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
from pathlib import Path

from benchmarks.stack.figures import Reading
from benchmarks.stack.pipes import answer_lines, now_reading, write_line
from games.core import make
from inference_server.server import open_server
from inference_server.settings import ServerSettings
from zerofleet.presets import InferenceSettings
from zerofleet.service import logs
from zerofleet.service.allocator import keep_freed_memory
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.testing.devices import TimedBackend
from zerofleet.testing.models import manifest_of, sample_files, uniform_golden

__all__ = ["MODEL", "publish"]

MODEL = "connect_four"
_QUEUE_ROWS = 1 << 20


def publish(store: DirectoryStore) -> None:
    """Store a version; the timed device reads none of its files."""
    game = make(MODEL)
    store.publish(MODEL, sample_files(), manifest_of(game, uniform_golden(game)))


async def _serve(given: argparse.Namespace) -> None:
    part = InferenceSettings(max_batch=given.max_batch, max_delay_us=0, front_ends=given.front_ends)
    values = {"address": given.address, "model_store": given.store, "inference": part, "max_queue_positions": _QUEUE_ROWS}
    keep_freed_memory()
    async with open_server(ServerSettings.model_validate(values), _device(given)) as server:
        await server.plane.registry.serve(MODEL, [1])
        gc.collect()
        gc.freeze()  # as the service does
        write_line(server.address)
        await answer_lines(_reading)


def _device(given: argparse.Namespace) -> TimedBackend:
    return TimedBackend(batch_s=given.batch_us * 1e-6, row_s=given.row_ns * 1e-9, slots=given.in_flight)


def _reading() -> Reading:
    return now_reading()


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--front-ends", type=int, default=0)
    parser.add_argument("--max-batch", type=int, default=4096)
    parser.add_argument("--batch-us", type=float, default=0.0)
    parser.add_argument("--row-ns", type=float, default=0.0)
    parser.add_argument("--in-flight", type=int, default=1)
    logs.configure("warning", "json", "stack")  # standard output is for readings
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()

"""A process of many clients that ask an inference server without pause: few processes, so that theirs is not the delay.

For each line of JSON that comes in, {"seconds": 60, "clients": 50, "pause_s": 0}, that many clients ask for that long,
each over a connection of its own; then a line of JSON goes out: how often which status came, and every latency by status.
A client asks again as soon as it is answered, refused or not, unless it is told to pause.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import time
from collections import defaultdict
from pathlib import Path

import grpc

from zerofleet.rpc.inference_channels import open_inference_channel

METHOD = "/inference.GRPCInferenceService/ModelInfer"
TIMEOUT_S = 30.0


async def ask(call, request: bytes, found: dict[str, list[float]], *, end_s: float, pause_s: float) -> None:
    """Ask until `end_s`; note the latency of each call under its status. What is answered after the end is not counted."""
    while time.perf_counter() < end_s:
        began_s = time.perf_counter()
        try:
            await call(request, timeout=TIMEOUT_S)
            status = "OK"
        except grpc.aio.AioRpcError as error:
            status = error.code().name
        now_s = time.perf_counter()
        if now_s <= end_s:
            found[status].append(round(1e3 * (now_s - began_s), 2))
        if pause_s:
            await asyncio.sleep(pause_s)


async def session(target: str, request: bytes, seconds: float, clients: int, pause_s: float) -> dict[str, list[float]]:
    """Let the clients ask, and return their latencies in ms by status."""
    found: dict[str, list[float]] = defaultdict(list)
    async with contextlib.AsyncExitStack() as stack:
        channels = [await stack.enter_async_context(open_inference_channel(target)) for _ in range(clients)]
        await asyncio.gather(*(channel.channel_ready() for channel in channels))
        end_s = time.perf_counter() + seconds
        async with asyncio.TaskGroup() as group:
            for channel in channels:  # bytes go as they are: no protobuf work falls on the clients
                group.create_task(ask(channel.unary_unary(METHOD), request, found, end_s=end_s, pause_s=pause_s))
    return found


def main() -> int:
    """Work through the lines of standard input."""
    parser = argparse.ArgumentParser(description="Ask an inference server without pause.")
    parser.add_argument("--target", required=True)
    parser.add_argument("--request", type=Path, required=True, help="file with a serialised ModelInferRequest")
    parser.add_argument("--nice", type=int, default=0)
    given = parser.parse_args()
    os.nice(given.nice)
    request = given.request.read_bytes()
    for line in sys.stdin:
        wanted = json.loads(line)
        found = asyncio.run(session(given.target, request, wanted["seconds"], wanted["clients"], wanted.get("pause_s", 0.0)))
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())

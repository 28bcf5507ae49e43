"""A client that sends all of its requests but their last byte: what a server holds of them, it holds for nothing.

It obeys the flow control of HTTP/2 (RFC 9113, section 5.2), for a server cuts off a client that does not. As a script it
measures the memory of a server process: `python withheld_bodies.py [STREAMS ...]`.
"""

from __future__ import annotations

import asyncio
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Self

import psutil

sys.path.insert(0, str(Path(__file__).parent))

from raw_http2 import (
    DATA,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    PREFACE,
    SETTINGS,
    call,
    frame,
    settings,
)

RST_STREAM, PING, GOAWAY, WINDOW_UPDATE = 3, 6, 7, 8
ACK = 1
MAX_FRAME = 16_384
FIRST_WINDOW = 65_535
QUIET_S = 0.5
"""Time without any frame after which a server wants no more of the bodies."""

METHODS = {
    "ModelInfer": "/inference.GRPCInferenceService/ModelInfer",
    "Evaluate": "/zerofleet.v1.Evaluation/Evaluate",
    "Check": "/grpc.health.v1.Health/Check",
    "Watch": "/grpc.health.v1.Health/Watch",
}


class WithheldBodies:
    """One connection with a number of calls, each of which announces `size_bytes` and lacks the last byte of them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, method: str, calls: int, size_bytes: int):
        self._reader, self._writer = reader, writer
        self._windows = dict.fromkeys(range(1, 2 * calls, 2), FIRST_WINDOW)
        self._left = dict.fromkeys(self._windows, size_bytes + 4)  # of the 5 bytes of the head and the message
        self._connection_window = FIRST_WINDOW
        self._first_window = FIRST_WINDOW
        self._head = b"\0" + struct.pack(">I", size_bytes)
        self._full = size_bytes + 4
        self.ended: Counter[str] = Counter()
        """Calls that the server has ended."""
        self.sent_bytes = 0
        writer.write(PREFACE + settings(None))
        for stream in self._windows:
            writer.write(call(stream, method, None))

    @classmethod
    @asynccontextmanager
    async def open(cls, address: str, method: str, calls: int, size_bytes: int) -> AsyncIterator[Self]:
        """Connect; cut the connection at the end."""
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            yield cls(reader, writer, method, calls, size_bytes)
        finally:
            writer.transport.abort()

    @property
    def open_calls(self) -> int:
        """Number of calls that the server has not ended."""
        return len(self._windows)

    async def send_all(self, *, quiet_s: float = QUIET_S) -> None:
        """Send what the server takes, until it is quiet or has cut the connection."""
        while True:
            await self._pump()
            try:
                async with asyncio.timeout(quiet_s):
                    head = await self._reader.readexactly(9)
            except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
                return
            payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
            self._take(head[3], head[4], int.from_bytes(head[5:], "big"), payload)

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:  # noqa: C901 - one branch a kind
        if kind == WINDOW_UPDATE:
            more = int.from_bytes(payload, "big")
            if stream == 0:
                self._connection_window += more
            elif stream in self._windows:
                self._windows[stream] += more
        elif kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack(">HI", payload[at : at + 6])
                if name == INITIAL_WINDOW_SIZE:
                    for each in self._windows:
                        self._windows[each] += value - self._first_window
                    self._first_window = value
            self._writer.write(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self._writer.write(frame(PING, ACK, 0, payload))
        elif kind == GOAWAY:
            self.ended["connection"] += 1
        elif (kind == RST_STREAM or (kind in (HEADERS, DATA) and flags & 1)) and self._windows.pop(stream, None) is not None:
            self.ended["call"] += 1

    async def _pump(self) -> None:
        """Send as much as the windows allow."""
        for stream in list(self._windows):
            window = self._windows[stream]
            while stream in self._windows and (size := min(window, self._connection_window, self._left[stream], MAX_FRAME)) > 0:
                first = self._left[stream] == self._full
                if first and size < len(self._head):
                    break
                self._writer.write(frame(DATA, 0, stream, (self._head if first else b"").ljust(size, b"\0")))
                window -= size
                self._windows[stream] = window
                self._left[stream] -= size
                self._connection_window -= size
                self.sent_bytes += size
            if self._writer.transport.get_write_buffer_size() > 1 << 20:
                await self._writer.drain()


@asynccontextmanager
async def server_process(model_store: Path, **settings: str) -> AsyncIterator[tuple[str, psutil.Process]]:
    """A server without models in a process of its own; its address and the process."""
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).parent / "server_process.py"),
        f"--model-store={model_store}",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        address = (await process.stdout.readline()).decode().strip()
        assert address, "the server did not start"
        yield address, psutil.Process(process.pid)
    finally:
        process.kill()
        await process.wait()


async def grown_mib(
    method: str, calls: int, size_bytes: int, store: Path, **settings: str
) -> tuple[float, float, Counter[str]]:
    """Return the growth of a fresh server under these calls, what is left of it after they end, and the calls it ended."""
    async with server_process(store, **settings) as (address, process), AsyncExitStack() as stack:
        before = process.memory_info().rss
        bodies = await stack.enter_async_context(WithheldBodies.open(address, method, calls, size_bytes))
        await bodies.send_all()
        most = process.memory_info().rss
        await stack.aclose()
        await asyncio.sleep(QUIET_S)
        return (most - before) / 2**20, (process.memory_info().rss - before) / 2**20, bodies.ended


async def main(streams: list[int], size_bytes: int, **settings: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("ModelInfer", "Check", "Watch"):
            for calls in streams:
                grown, left, ended = await grown_mib(METHODS[name], calls, size_bytes, Path(folder), **settings)
                print(f"{name:<10} {calls:>5} calls  {grown:>7.0f} MiB more, {left:>7.0f} MiB after  ended: {dict(ended)}")


if __name__ == "__main__":
    given = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    options = dict(argument.removeprefix("--").split("=", 1) for argument in sys.argv[1:] if argument.startswith("--"))
    size = int(options.pop("size", 8 << 20))
    asyncio.run(main([int(text) for text in given] or [32, 128, 256], size, **options))

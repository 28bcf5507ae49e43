"""Just enough HTTP/2 to be a client that behaves badly: frames by hand, and what comes back counted, not understood."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS = 0, 1, 4
END_STREAM, END_HEADERS = 1, 4
INITIAL_WINDOW_SIZE = 4


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def settings(window: int | None) -> bytes:
    """A SETTINGS frame that says how many bytes of an answer the server may send unasked."""
    payload = b"" if window is None else struct.pack(">HI", INITIAL_WINDOW_SIZE, window)
    return frame(SETTINGS, 0, 0, payload)


def call(stream: int, method: str, message: bytes | None, *, headers: dict[str, str] | None = None) -> bytes:
    """The frames of a unary call; without a message its body never comes."""
    fields = {":method": "POST", ":scheme": "http", ":path": method, ":authority": "x", "te": "trailers"}
    fields |= {"content-type": "application/grpc", **(headers or {})}
    block = b"".join(
        b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode() for name, value in fields.items()
    )
    frames = frame(HEADERS, END_HEADERS, stream, block)
    if message is not None:
        frames += frame(DATA, END_STREAM, stream, b"\0" + struct.pack(">I", len(message)) + message)
    return frames


class RawConnection:
    """A connection that sends what it is told and notes the frames that come: kinds, and bytes of DATA."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.seen: Counter[int] = Counter()
        self.data_bytes = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, address: str, *, window: int | None = None) -> AsyncIterator[Self]:
        """A connection that is cut at the end. `window`: bytes the server may send of each answer."""
        host, _, port = address.rpartition(":")
        connection = cls(*await asyncio.open_connection(host, int(port)))
        connection.send(PREFACE + settings(window))
        try:
            yield connection
        finally:
            connection.drop()

    def send(self, frames: bytes) -> None:
        self._writer.write(frames)

    async def read_until(self, kind: int, count: int) -> None:
        """Read frames until so many of a kind have come."""
        async with asyncio.timeout(60):
            while self.seen[kind] < count:
                head = await self._reader.readexactly(9)
                size = int.from_bytes(head[:3], "big")
                await self._reader.readexactly(size)
                self.seen[head[3]] += 1
                self.data_bytes += size if head[3] == DATA else 0
                if head[3] == SETTINGS and not head[4]:
                    self.send(frame(SETTINGS, 1, 0))

    def drop(self) -> None:
        """Cut the connection."""
        self._writer.transport.abort()

"""Client of a service's HTTP port: one GET, bounded in size and time."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

__all__ = ["Reply", "fetch"]

_MOST_HEAD_BYTES = 16 << 10


class Reply(NamedTuple):
    """Answer of a service."""

    status: int
    body: bytes


async def fetch(host: str, port: int, path: str, *, token: str | None, most_bytes: int, timeout_s: float) -> Reply:
    """Return the answer of a path, whose body has at most `most_bytes`.

    Raises `OSError`, `TimeoutError`; `ValueError` for what is no answer, or a longer one.
    Cancellation: the connection is closed.
    """
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            shown = f"Authorization: Bearer {token}\r\n" if token else ""
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{shown}Connection: close\r\n\r\n".encode())
            answer = bytearray()
            while part := await reader.read(1 << 16):
                answer += part
                if len(answer) > _MOST_HEAD_BYTES + most_bytes:
                    raise ValueError(f"the answer of {path} has more than {most_bytes} bytes")
        finally:
            writer.close()
    head, _, body = bytes(answer).partition(b"\r\n\r\n")
    protocol, status, *_ = [*head.partition(b"\r\n")[0].split(), b"", b""]
    if not protocol.startswith(b"HTTP/") or not status.isdigit() or len(status) != 3:
        raise ValueError(f"what answers at port {port} is no HTTP server")
    return Reply(int(status), body)

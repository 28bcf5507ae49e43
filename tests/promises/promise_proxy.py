"""A TCP proxy that hurts what passes through it: delays it, swallows it, or cuts it off."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Self

CHUNK = 1 << 16
Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class Proxy:
    """Listens on loopback and passes bytes on to what `connect` opens.

    delay_s   every chunk waits so long, in both directions
    holding   True: connections stay up and nothing passes, as when a cable is pulled
    cut()     ends every connection at once and refuses new ones until `heal()`
    """

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self.delay_s = 0.0
        self.accepted = 0
        self._passing = asyncio.Event()
        self._passing.set()
        self._refusing = False
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *error) -> None:
        self._server.close()
        self.holding = False
        self.cut()
        await self._server.wait_closed()

    @property
    def holding(self) -> bool:
        return not self._passing.is_set()

    @holding.setter
    def holding(self, hold: bool) -> None:
        (self._passing.clear if hold else self._passing.set)()

    def cut(self) -> None:
        """End every connection, and new ones at once."""
        self._refusing = True
        for writer in list(self._writers):
            writer.transport.abort()

    def heal(self) -> None:
        """Let everything pass again."""
        self._refusing = False
        self.holding = False
        self.delay_s = 0.0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._writers.add(writer)
        try:
            if self._refusing:
                return
            there_reader, there_writer = await self._connect()
            self._writers.add(there_writer)
            try:
                await asyncio.gather(self._pass(reader, there_writer), self._pass(there_reader, writer))
            finally:
                self._writers.discard(there_writer)
                there_writer.transport.abort()
        except OSError:
            pass  # one side has gone, so the other one goes
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while content := await source.read(CHUNK):
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            await self._passing.wait()
            target.write(content)
            await target.drain()
        with contextlib.suppress(OSError):
            target.write_eof()


def to_socket(path: object) -> Connect:
    """Return what connects to a unix socket."""
    return lambda: asyncio.open_unix_connection(str(path))


def to_address(address: str) -> Connect:
    """Return what connects to `host:port`."""
    host, _, port = address.rpartition(":")
    return lambda: asyncio.open_connection(host, int(port))

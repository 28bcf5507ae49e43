"""Device's side of all front ends: their port, their processes, restarts, drain.

A front end that ends is started again, after pauses that grow while it ends soon. The others keep serving meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import structlog

from inference_server.data_plane import DataPlane
from inference_server.fronts.frames import Kind, open_channel
from inference_server.fronts.link import FrontLink
from inference_server.fronts.orders import Orders
from inference_server.ports import reserve
from inference_server.settings import ServerSettings
from zerofleet.errors import ConfigurationError, InvalidRequest
from zerofleet.rpc.backoff import Backoff
from zerofleet.rpc.security.credentials import without_credentials
from zerofleet.telemetry import metrics

__all__ = ["FrontEnds", "open_front_ends"]

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 10.0
STEADY_S = 30.0
"""Time after which a front end that ends counts as a first failure."""
LISTEN_S = 60.0
"""Time in which a front end has to listen."""
END_S = 2.0
"""Time for a front end to end without its connection, before it is killed."""

log = structlog.get_logger()


class FrontEnds:
    """Front ends of a server, by number from 1. Made by `open_front_ends`."""

    def __init__(self, settings: ServerSettings, plane: DataPlane, address: str, *, device: str, message_bytes: int) -> None:
        self.address = address
        """Address of all front ends: `host:port`."""
        self.on_change: Callable[[int], None] = lambda listening: None
        """Called with the number of listening front ends whenever it changes."""
        self._settings = settings
        self._plane = plane
        self._device = device
        self._message_bytes = message_bytes
        self._stopping = asyncio.Event()
        self._links: dict[int, FrontLink] = {}  # those that listen
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._rng = random.Random()  # noqa: S311 - jitter, not a secret

    def __len__(self) -> int:
        """Return the number of listening front ends."""
        return len(self._links)

    @property
    def pids(self) -> dict[int, int]:
        """Process ids of the front ends that run, by number."""
        return {index: process.pid for index, process in self._processes.items()}

    async def start(self) -> None:
        """Start all, and wait until they listen; raises `ConfigurationError` with the reason of one that cannot.

        Cancellation: `aclose` ends those that run.
        """
        loop = asyncio.get_running_loop()
        first = {index: loop.create_future() for index in range(1, self._settings.inference.front_ends + 1)}
        self._tasks = [loop.create_task(self._keep(index, listening)) for index, listening in first.items()]
        await asyncio.gather(*first.values())

    async def drain(self, grace_s: float) -> None:
        """Let the front ends complete their calls within `grace_s`, and end. Cancellation: `aclose` ends them."""
        self._stopping.set()
        for link in self._links.values():
            link.drain(grace_s)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_s + END_S)

    async def aclose(self) -> None:
        """End all front ends. Cancellation: they end without their connections."""
        self._stopping.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _keep(self, index: int, first: asyncio.Future[None]) -> None:
        """Run a front end again and again; `first` is done once it listens for the first time, or cannot."""
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, rng=self._rng)
        while not self._stopping.is_set():
            began_s = time.monotonic()
            try:
                reason = await self._run(index, first)
            except OSError as error:  # no process or socket to be had
                reason = str(error)
            if not first.done():
                first.set_exception(ConfigurationError(f"front end {index} cannot start: {reason}"))
                return
            if self._stopping.is_set():
                return
            metrics.FRONT_RESTARTS.labels(front=str(index)).inc()
            if time.monotonic() - began_s > STEADY_S:
                backoff.reset()
            log.warning("front.ended", front=index, reason=reason)
            await backoff.pause_unless(self._stopping)

    async def _run(self, index: int, first: asyncio.Future[None]) -> str:
        """Run a front end until it ends; return the reason. Cancellation: it is ended."""
        process, link = await self._started(index)
        self._processes[index] = process
        ended: asyncio.Future[Any] = asyncio.ensure_future(process.wait())
        try:
            async with asyncio.timeout(LISTEN_S):
                await link.listening
            self._links[index] = link
            self._changed()
            if not first.done():
                first.set_result(None)
            if self._stopping.is_set():  # it began to listen after the drain began
                return "the server is shutting down"
            await asyncio.wait([ended, link.ended], return_when=asyncio.FIRST_COMPLETED)
        except InvalidRequest as error:
            return str(error)
        except TimeoutError:
            return f"it did not listen within {LISTEN_S:g} s"
        finally:
            if self._links.pop(index, None) is not None:
                self._changed()
            link.close()
            await _end(process, ended)
            del self._processes[index]
        return f"exit code {process.returncode}"

    async def _started(self, index: int) -> tuple[asyncio.subprocess.Process, FrontLink]:
        """Start the process of a front end and send its orders. Cancellation: it ends, since its connection does."""
        own, theirs = socket.socketpair()
        with theirs:
            channel = await open_channel(own)
            link = FrontLink(index, channel, self._plane)
            try:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "inference_server.fronts", str(theirs.fileno()), str(os.getpid())),
                    stdin=asyncio.subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    env=without_credentials(os.environ),
                )
            except BaseException:
                link.close()
                raise
        orders = Orders.of(self._settings, index, address=self.address, device=self._device, message_bytes=self._message_bytes)
        channel.send(Kind.ORDERS, fields=orders.fields())
        return process, link

    def _changed(self) -> None:
        metrics.FRONT_ENDS.set(len(self._links))
        self.on_change(len(self._links))


async def _end(process: asyncio.subprocess.Process, ended: asyncio.Future[Any]) -> None:
    """Wait for a process whose connection is closed, and kill it if it stays. Cancellation: it is killed."""
    try:
        await asyncio.wait({ended}, timeout=END_S)
    finally:
        if process.returncode is None:
            process.kill()
    await ended


@asynccontextmanager
async def open_front_ends(
    settings: ServerSettings, plane: DataPlane, *, device: str, message_bytes: int
) -> AsyncIterator[FrontEnds]:
    """Start the front ends of the device process at address `device`; on exit, end them.

    Raises `ConfigurationError` when the address is in use, or a front end cannot start.
    """
    port, address = reserve(settings.address)
    with port:
        fronts = FrontEnds(settings, plane, address, device=device, message_bytes=message_bytes)
        try:
            await fronts.start()
            yield fronts
        finally:
            await fronts.aclose()

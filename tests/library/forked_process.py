"""Program of `test_forked_processes`: a process uses the library, forks, and prints what its child and itself found.

Its own process, since a fork of the tests' process would take their threads' locks along. The server of a run is a stand-in.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from games import make
from zerofleet.errors import ConfigurationError, Unavailable
from zerofleet.library import background, servers
from zerofleet.library.servers import KeptServer
from zerofleet.rpc.evaluation_client import EvaluationClient
from zerofleet.storage.run_paths import RunPaths
from zerofleet.supervisor import borrowed
from zerofleet.supervisor.borrowed import OwnServer


async def answer() -> str:
    return "an answer"


def asked() -> str:
    """Call the library."""
    try:
        return background.wait_for(answer())
    except ConfigurationError as error:
        return f"refused: {error}"


def in_child(find: Callable[[], object]) -> object:
    """Return what a forked process finds, which then ends as any process does."""
    reader, writer = os.pipe()
    if not (child := os.fork()):
        os.close(reader)
        os.write(writer, json.dumps(find()).encode())
        sys.exit()
    os.close(writer)
    with os.fdopen(reader) as found:
        text = found.read()
    os.waitpid(child, 0)
    return json.loads(text)


def idle() -> list[object]:
    return [asked(), in_child(asked), in_child(lambda: in_child(asked)), asked()]


async def unanswered() -> str:
    async with EvaluationClient("unix:/nowhere/at/all.sock", timeout_s=5.0) as client:
        await client.evaluate("tic_tac_toe")
    return "an answer"


def failed() -> str:
    """Call a server that does not exist."""
    try:
        return background.wait_for(unanswered())
    except Unavailable:
        return "unavailable"


def after_a_failure() -> list[object]:
    return [failed(), in_child(failed), failed()]


class Owner:
    """Part of a cycle, which the fork collects."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        background.start(answer())


def collected() -> list[object]:
    gc.disable()
    asked()
    Owner()
    return [in_child(asked), asked()]


def at_work() -> list[object]:
    async def work() -> str:
        begun.set()
        return await end

    begun, end = asyncio.Event(), asyncio.Future(loop=background._loop())
    running = background.start(work())
    background.wait_for(begun.wait())
    found = in_child(asked)
    background._loop().call_soon_threadsafe(end.set_result, "the end")
    return [found, running.result()]


class Stood(OwnServer):
    async def serve(self, versions: list[int]) -> None:
        """Serve nothing."""


@contextlib.asynccontextmanager
async def stand_in(*_: object, max_versions: int) -> AsyncIterator[OwnServer]:
    with borrowed._directory() as directory, socket.socket(socket.AF_UNIX) as listener:
        path = directory / "server.sock"
        listener.bind(str(path))
        listener.listen()
        yield Stood(f"unix:{path}", "", "tic_tac_toe", None)  # type: ignore[arg-type]


async def verify(*_: object) -> None:
    """Verify nothing."""


def stored_versions(*_: object) -> list[int]:
    return [1]


def with_a_server() -> list[object]:
    servers.own_server, servers.verify, servers.stored_versions = stand_in, verify, stored_versions  # type: ignore[assignment]
    kept = KeptServer(RunPaths(Path()), make("tic_tac_toe"))

    async def lent() -> str:
        async with kept.serving({1}) as found:
            return found

    def address() -> str:
        return background.wait_for(lent())

    def closed() -> str:
        background.wait_for(kept.aclose())
        return "closed"

    first = address()
    return [in_child(lambda: address() == first), in_child(closed), address() == first, in_child(lambda: kept.is_started)]


if __name__ == "__main__":
    print(json.dumps({one.__name__: one for one in (idle, after_a_failure, collected, at_work, with_a_server)}[sys.argv[1]]()))

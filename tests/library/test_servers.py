"""The inference server that an opened run keeps."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from games import make
from zerofleet.library import servers
from zerofleet.library.servers import MOST_VERSIONS, KeptServer
from zerofleet.storage.run_paths import RunPaths
from zerofleet.supervisor.borrowed import OwnServer


class Servers:
    """Stand-ins for servers of its own that a run starts: sockets that listen, and the versions that they were asked for."""

    def __init__(self, directory: Path) -> None:
        self.listeners: list[socket.socket] = []
        self.served: list[tuple[str, list[int]]] = []
        self._directory = directory

    @contextlib.asynccontextmanager
    async def start(self, *_: object) -> AsyncIterator[OwnServer]:
        """Yield a server, in place of `own_server`."""
        served = self.served

        class Own(OwnServer):
            async def serve(self, versions: list[int]) -> None:
                served.append((self.address, versions))

        path = self._directory / f"{len(self.listeners)}.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            self.listeners.append(listener)
            yield Own(f"unix:{path}", "", "tic_tac_toe", None)  # type: ignore[arg-type]


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Servers:
    async def none_live(*_: object) -> None:
        return None

    found = Servers(tmp_path)
    monkeypatch.setattr(servers, "own_server", found.start)
    monkeypatch.setattr(servers, "live_server", none_live)
    return found


async def test_a_server_that_died_is_replaced_by_one_with_its_versions(tmp_path: Path, started: Servers) -> None:
    kept = KeptServer(RunPaths(tmp_path), make("tic_tac_toe"))
    first = await kept.address({1})
    assert await kept.address({1}) == first
    started.listeners[0].close()  # as when the process is killed
    second = await kept.address({2})
    assert second != first
    assert started.served == [(first, [1]), (second, [1, 2])]
    await kept.aclose()


async def test_a_server_keeps_the_versions_asked_last_and_those_in_use(tmp_path: Path, started: Servers) -> None:
    kept = KeptServer(RunPaths(tmp_path), make("tic_tac_toe"))
    for version in range(1, MOST_VERSIONS + 10):
        await kept.address({version}, in_use={1, version})
        assert len(started.served[-1][1]) <= MOST_VERSIONS
        assert {1, version} <= set(started.served[-1][1])
    await kept.address({5})
    assert started.served[-1][1] == [1, 5, *range(12, 26)]
    await kept.aclose()

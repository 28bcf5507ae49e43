"""The inference server that an opened run keeps."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from games import make
from zerofleet.library import servers
from zerofleet.library.servers import KeptServer
from zerofleet.storage.run_paths import RunPaths
from zerofleet.supervisor.borrowed import OwnServer


async def test_a_server_that_died_is_replaced_by_one_with_its_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listeners: list[socket.socket] = []
    served: list[tuple[str, list[int]]] = []

    class Own(OwnServer):
        async def serve(self, versions: list[int]) -> None:
            served.append((self.address, versions))

    @contextlib.asynccontextmanager
    async def started(*_: object) -> AsyncIterator[OwnServer]:
        path = tmp_path / f"{len(listeners)}.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            listeners.append(listener)
            yield Own(f"unix:{path}", "", "tic_tac_toe", None)  # type: ignore[arg-type]

    async def none_live(*_: object) -> None:
        return None

    monkeypatch.setattr(servers, "own_server", started)
    monkeypatch.setattr(servers, "live_server", none_live)
    kept = KeptServer(RunPaths(tmp_path), make("tic_tac_toe"))
    first = await kept.address({1})
    assert await kept.address({1}) == first
    listeners[0].close()  # as when the process is killed
    second = await kept.address({2})
    assert second != first
    assert served == [(first, [1]), (second, [1, 2])]
    await kept.aclose()

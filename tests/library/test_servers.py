"""The inference server that an opened run keeps, and the requests that go to the run's own."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import zerofleet as zf
from games import make
from games.core import Game
from zerofleet.errors import ModelNotFound
from zerofleet.library import servers
from zerofleet.library.servers import MOST_VERSIONS, KeptServer
from zerofleet.storage.run_paths import RunPaths
from zerofleet.storage.runs import RunDirectory
from zerofleet.supervisor.borrowed import OwnServer


class Servers:
    """Stand-ins for servers of its own that a run starts: sockets that listen, and the versions that they were asked for.

    Beside them the run's own server at the address `live`, and the store.
    """

    def __init__(self, directory: Path) -> None:
        self.listeners: list[socket.socket] = []
        self.served: list[tuple[str, list[int]]] = []
        self.live: set[int] = set()
        """Versions of the run's own server."""
        self.stored = set(range(1, 100))
        self._directory = directory

    async def live_server(self, paths: RunPaths, game: Game, versions: list[int]) -> str | None:
        """Return the address of the run's own server if it has those versions."""
        return "live" if self.live.issuperset(versions) else None

    async def verify(self, paths: RunPaths, game: Game, versions: list[int]) -> None:
        """Raise `ModelNotFound` for a version that is not stored."""
        if missing := set(versions) - self.stored:
            raise ModelNotFound(f"no version {missing} in the store")

    @contextlib.asynccontextmanager
    async def start(self, *_: object, max_versions: int) -> AsyncIterator[OwnServer]:
        """Yield a server, in place of `own_server`, which loads what is stored and keeps what it has loaded."""
        served, stored, loaded = self.served, self.stored, set[int]()

        class Own(OwnServer):
            async def serve(self, versions: list[int]) -> None:
                assert len(versions) <= max_versions
                if missing := set(versions) - stored - loaded:
                    raise ModelNotFound(f"no version {missing} in the store")
                loaded.intersection_update(versions)
                loaded.update(versions)
                served.append((self.address, versions))

        path = self._directory / f"{len(self.listeners)}.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            self.listeners.append(listener)
            yield Own(f"unix:{path}", "", "tic_tac_toe", None)  # type: ignore[arg-type]


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Servers:
    found = Servers(tmp_path)
    monkeypatch.setattr(servers, "own_server", found.start)
    monkeypatch.setattr(servers, "live_server", found.live_server)
    monkeypatch.setattr(servers, "verify", found.verify)
    monkeypatch.setattr(servers, "stored_versions", lambda paths, game: sorted(found.stored))
    return found


async def address(kept: KeptServer, version: int, *, once: bool = False) -> str:
    """Return the address of a question that has been answered."""
    async with kept.serving({version}, once=once) as found:
        return found


async def test_a_server_that_died_is_replaced_by_one_with_the_versions_in_use(tmp_path: Path, started: Servers) -> None:
    kept = KeptServer(RunPaths(tmp_path), make("tic_tac_toe"))
    first = await address(kept, 1)
    assert await address(kept, 1) == first
    await address(kept, 2)
    async with kept.serving({2}):
        started.listeners[0].close()  # as when the process is killed
        second = await address(kept, 3)
    assert second != first
    assert started.served == [(first, [1]), (first, [1, 2]), (second, [2, 3])]
    await kept.aclose()


async def test_a_server_keeps_the_versions_asked_last_and_those_in_use(tmp_path: Path, started: Servers) -> None:
    kept = KeptServer(RunPaths(tmp_path), make("tic_tac_toe"))
    async with kept.serving({1}):
        for version in range(1, MOST_VERSIONS + 10):
            await address(kept, version)
            assert {1, version} <= set(started.served[-1][1])
    await address(kept, 5)
    assert started.served[-1][1] == [1, 5, *range(12, 26)]
    await kept.aclose()


async def test_the_runs_own_server_gets_single_requests_alone(tmp_path: Path, started: Servers) -> None:
    kept = KeptServer(RunPaths(tmp_path), make("tic_tac_toe"))
    started.live = {1, 2}
    assert await address(kept, 1, once=True) == "live"
    assert not kept.is_started
    own = await address(kept, 1)
    assert own != "live"
    assert await address(kept, 1, once=True) == own
    async with kept.serving({2}, once=True) as live:
        assert live == "live"
        assert await address(kept, 3) == own
    assert await address(kept, 2) == own
    assert started.served == [(own, [1]), (own, [1, 3]), (own, [1, 2, 3])]
    await kept.aclose()


async def test_a_version_that_was_deleted_is_kept_while_it_is_loaded_and_hinders_no_other(
    tmp_path: Path, started: Servers
) -> None:
    kept = KeptServer(RunPaths(tmp_path), make("tic_tac_toe"))
    first = await address(kept, 1)
    started.stored.remove(1)
    await address(kept, 2)
    assert await address(kept, 1) == first
    async with kept.serving({1}):
        started.listeners[0].close()  # as when the process is killed
        second = await address(kept, 3)
        assert await address(kept, 3) == second
    assert started.served == [(first, [1]), (first, [1, 2]), (second, [3])]
    with pytest.raises(ModelNotFound):
        await address(kept, 1)
    await kept.aclose()


def test_a_match_keeps_its_version_while_others_are_asked(
    tmp_path: Path, started: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunDirectory.create_or_open(tmp_path / "run", "tic_tac_toe", {}, preset="tiny", seed=1):
        pass
    others = range(2, MOST_VERSIONS + 4)

    async def meet(terms: object, addresses: list[str], **_: object) -> SimpleNamespace:
        for version in others:
            async with run.serving([version]) as found:
                assert [found] == addresses
        return SimpleNamespace(summary=lambda: started.served[-1][1])

    monkeypatch.setattr("zerofleet.library.matches.meet", meet)
    with zf.open_run(tmp_path / "run") as run:
        assert zf.match(zf.Model(run, 1), "random", games=2, progress=False) == [1, *others[3:]]

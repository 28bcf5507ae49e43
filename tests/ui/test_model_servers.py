"""The inference servers that tables, trees and comparisons share, and what keeps them."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

from ui.catalogue import Catalogue
from ui.model_servers import ModelServers
from ui.seats import Seats
from ui.studies import Studies, Wish
from ui.tables import Tables
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.library.seated_game import SeatedGame
from zerofleet.library.servers import MOST_VERSIONS


class Fleet:
    """Stand-ins for the servers of a run, and for the connections to them."""

    def __init__(self) -> None:
        self.started: list[SimpleNamespace] = []
        self.connected: list[str] = []
        """Address of each connection that was made."""
        self.closed: list[str] = []
        """Names of the connections and servers that were ended, in order."""

    @contextlib.asynccontextmanager
    async def own_server(self, paths, game, *, max_versions):
        async def serve(versions):
            if len(versions) > max_versions:
                raise InvalidRequest(f"{len(versions)} versions, this server serves at most {max_versions}")
            server.served = list(versions)

        server = SimpleNamespace(address=f"unix:{len(self.started)}", is_listening=True, serve=serve, served=[])
        self.started.append(server)
        yield server
        self.closed.append(f"server at {server.address}")

    @contextlib.asynccontextmanager
    async def evaluating(self, address, game):
        self.connected.append(address)
        yield UniformEvaluator(game.spec().num_players, game.spec().num_actions)
        self.closed.append(f"connection to {address}")


@pytest.fixture
def fleet(monkeypatch):
    async def verify(*_):
        """Verify nothing."""

    found = Fleet()
    monkeypatch.setattr("zerofleet.library.servers.own_server", found.own_server)
    monkeypatch.setattr("zerofleet.library.servers.verify", verify)
    monkeypatch.setattr("zerofleet.library.servers.stored_versions", lambda paths, game: list(range(1, 100)))
    monkeypatch.setattr("ui.model_servers.evaluating", found.evaluating)
    return found


@pytest.fixture
def run(runs):
    catalogue = Catalogue(runs, None)
    yield catalogue.get("golden")
    catalogue.close()


async def until(holds):
    """Let the event loop go on until a condition holds."""
    async with asyncio.timeout(30.0):
        while not holds():  # noqa: ASYNC110 - there is no event at the end of a task of the pages
            await asyncio.sleep(0)


def against(model: str, *, seat: int = 0) -> Seats:
    budget = None if "mcts" in model else 2
    return Seats(model, seat, budget)


async def test_questions_to_one_run_share_a_server_and_a_connection_until_none_comes_for_a_while(fleet, run):
    servers = ModelServers(idle_s=0.0)
    async with servers.serving(run, 1) as first, servers.serving(run, 2) as second:
        assert second is first
        assert fleet.started[0].served == [1, 2]
    async with servers.serving(run, 3):  # before the end of the idle time
        assert fleet.closed == []
    await until(lambda: len(fleet.closed) == 2)
    assert fleet.closed == ["connection to unix:0", "server at unix:0"]
    async with servers.serving(run, 1):
        assert fleet.connected == ["unix:0", "unix:1"]
    await servers.aclose()
    assert fleet.closed[2:] == ["connection to unix:1", "server at unix:1"]


async def test_games_may_be_played_against_more_versions_than_a_server_has_at_a_time(fleet, run):
    servers = ModelServers()
    tables = Tables(2 * MOST_VERSIONS, servers)
    for version in range(1, MOST_VERSIONS + 4):
        table = await tables.open(run.game, against(f"model:{version}", seat=1), run)
        await table.wait()
        assert (table.fault, len(table.played.moves)) == ("", 1)
    assert fleet.started[0].served == list(range(4, MOST_VERSIONS + 4))
    assert fleet.connected == ["unix:0"]
    await tables.aclose()
    await servers.aclose()


@pytest.mark.parametrize("opponent", ["model:1", "mcts:2,model=1"])
async def test_the_server_of_a_game_that_waits_for_its_person_or_has_ended_stops_and_another_starts_when_it_goes_on(
    fleet, run, opponent
):
    servers = ModelServers(idle_s=0.0)
    table = await Tables(1, servers).open(run.game, against(opponent), run)
    await until(lambda: "server at unix:0" in fleet.closed)
    await table.play("b2")
    await table.wait()
    assert (table.fault, len(table.played.moves)) == ("", 2)
    await until(lambda: "server at unix:1" in fleet.closed)
    await table.advise()
    await table.resign()
    await until(lambda: len(fleet.closed) == 2 * len(fleet.started))


async def test_a_server_that_died_is_replaced_at_the_next_move(fleet, run):
    servers = ModelServers()
    table = await Tables(1, servers).open(run.game, against("model:1"), run)
    fleet.started[0].is_listening = False
    await table.play("b2")
    await table.wait()
    assert (table.fault, fleet.connected) == ("", ["unix:0", "unix:1"])
    await servers.aclose()


async def test_a_tree_needs_the_server_for_its_search_alone(fleet, run):
    studies = Studies(ModelServers(idle_s=0.0))
    study = await studies.open(Wish(SeatedGame(run.game, seat=0, seed=0), run, "model:1", 4))
    await until(lambda: "server at unix:0" in fleet.closed)
    assert study.is_done
    assert await study.search.analysis() is not None
    await studies.aclose()

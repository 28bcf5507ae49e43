"""Games in progress: a worker's answer on the boards, one request in the interval for all browsers, and no other hand."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import games
from games.errors import IllegalMove
from games.kit import svg
from games.pictures import seen_picture
from games.positions import new_state, replay
from ui import service
from ui.app import create_app
from ui.catalogue import Catalogue, UnknownRun
from ui.running import IDLE_KEPT, LOOKS_KEPT, WatchedGames
from ui.settings import UiSettings
from ui.worker_games import WorkerAccess
from zerofleet.contracts.games_in_progress import MOST_ANSWER_BYTES, GameInProgress, games_path, read_games, written_games
from zerofleet.errors import ConfigurationError, InvalidRequest, Unavailable
from zerofleet.service.lifecycle import Service
from zerofleet.service.probes import Answer, ProbeServer
from zerofleet.service.settings import read_settings
from zerofleet.storage.run_paths import RunPaths
from zerofleet.storage.runs import RunDirectory

TIC_TAC_TOE, TAKE_SIX = games.make("tic_tac_toe"), games.make("take_six")
A, B = "a" * 32, "b" * 32
SECRET = "s" * 24


def moved(uid: str, moves: tuple[int, ...], *, board: int = 0, **more: Any) -> GameInProgress:
    return GameInProgress(board=board, uid=uid, versions=(3, 3), ply=len(moves), moves=moves, seed=0, **more)


class Worker:
    """HTTP port of a worker whose answer a test sets."""

    def __init__(self, run: Path, name: str = "worker-0") -> None:
        self.game = "tic_tac_toe"
        self.games: list[GameInProgress] = []
        self.body: bytes | None = None
        self.requests: list[int] = []
        """Seats that were asked for."""
        self._paths = RunPaths(run)
        self._name = name
        self._server: ProbeServer | None = None

    async def start(self, token: str | None = None) -> None:
        """Listen and announce it."""
        self._server = ProbeServer({})
        for seat in (1, 2):
            self._server.add(games_path(seat), lambda seat=seat: self._answer(seat), token=token)
        await self._server.start("127.0.0.1", 0)
        said = {"service": "selfplay_worker", "pid": os.getpid(), "address": "", "metrics_port": self._server.port}
        self._paths.services.mkdir(parents=True, exist_ok=True)
        self._paths.announce(self._name).write_text(json.dumps(said))

    @property
    def address(self) -> str:
        """Host and port."""
        assert self._server is not None
        return f"127.0.0.1:{self._server.port}"

    def _answer(self, seat: int) -> Answer:
        self.requests.append(seat)
        return Answer(200, self.body or written_games(self._name, self.game, self.games), "application/json")

    async def stop(self) -> None:
        """Stop, as a crash does: the announce file stays."""
        if self._server is not None:
            await self._server.aclose()


@pytest.fixture
async def worker(runs: Path, tmp_path: Path) -> AsyncIterator[Worker]:
    """Return the worker of the run `live`, which does not listen yet."""
    shutil.copytree(runs / "golden", tmp_path / "live")
    made = Worker(tmp_path / "live")
    yield made
    await made.stop()


@contextlib.asynccontextmanager
async def serving(tmp_path: Path, connected: Any, access: WorkerAccess | None = None) -> AsyncIterator[Any]:
    """Yield a client of the application over the runs of a folder, which polls without a pause."""
    app = create_app(Catalogue(tmp_path, None), watched=WatchedGames(access, every_s=0.0))
    async with app.router.lifespan_context(app), connected(app) as client:
        yield client


async def shown(client: Any, run: str = "live", seat: int = 1) -> dict[str, Any]:
    answer = await client.get(f"/api/v1/runs/{run}/running?seat={seat}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_the_games_of_a_worker_are_listed_without_moves_and_drawn_from_them(worker, tmp_path, connected):
    worker.games = [moved(A, (4, 0), values=(0.25, -0.25)), moved(B, (4, 0, 2, 6, 8), board=1, scores=(1.0, -1.0))]
    await worker.start()
    async with serving(tmp_path, connected) as client:
        found = await shown(client)
        assert (found["is_live"], found["reason"], found["worker"]) == (True, "", "worker-0")
        assert (found["players"], found["is_hidden"]) == (2, False)
        first, second = found["games"]
        assert first == {"board": 0, "uid": A, "ply": 2, "versions": [3, 3], "values": [0.25, -0.25], "scores": None}
        assert (second["board"], second["scores"]) == (1, [1.0, -1.0])
        drawn = await client.get(f"/api/v1/runs/live/running/{A}/2")
        assert drawn.headers["content-type"] == "image/svg+xml"
        assert drawn.text == svg.picture(TIC_TAC_TOE, replay(TIC_TAC_TOE, [4, 0]))
        worker.games = [moved(A, (4, 0, 2))]
        assert [game["ply"] for game in (await shown(client))["games"]] == [3]
        assert (await client.get(f"/api/v1/runs/live/running/{A}/2")).text == drawn.text  # of the look before
        for place in (f"{A}/4", f"{'c' * 32}/0", f"{A}/x"):
            assert (await client.get(f"/api/v1/runs/live/running/{place}")).status_code == 400
        assert (await client.get("/api/v1/runs/live/running?seat=3")).status_code == 400


async def test_any_number_of_browsers_share_one_request_in_the_interval_and_without_them_there_is_none(worker, tmp_path):
    worker.games = [moved(A, (4,))]
    await worker.start()
    catalogue, watched = Catalogue(tmp_path, None), WatchedGames(every_s=600.0)
    run = catalogue.get("live")
    followers = [watched.follow(run, seat) for seat in (1, 2, 1)]  # of a game that looks the same from both
    assert {(await anext(one)).games[0].uid for one in followers} == {A}
    assert (worker.requests, watched.polls) == ([1], 1)
    for one in followers:
        await one.aclose()
    assert watched.polls == 0
    async with contextlib.aclosing(watched.follow(run, 1)) as again:  # a browser that loads the page again
        assert (await anext(again)).games[0].uid == A
        assert watched.picture(run, 1, A, 1)
    assert worker.requests == [1]
    catalogue.close()


async def test_a_worker_that_is_away_is_named_and_another_or_a_restarted_one_is_asked(worker, tmp_path, connected):
    second = Worker(tmp_path / "live", "worker-1")
    worker.games, second.games = [moved(A, (4,))], [moved(B, (0,))]
    async with serving(tmp_path, connected) as client:
        before = await shown(client)
        assert (before["is_live"], before["reason"], before["games"]) == (
            False, "No worker of this run is alive on this machine.", [],
        )  # fmt: skip
        await worker.start()
        assert [game["uid"] for game in (await shown(client))["games"]] == [A]
        await worker.stop()
        assert "does not answer" in (await shown(client))["reason"]
        await second.start()
        found = await shown(client)
        assert (found["worker"], [game["uid"] for game in found["games"]]) == ("worker-1", [B])
        await second.stop()
        await worker.start()
        assert (await shown(client))["worker"] == "worker-0"


async def test_a_worker_without_a_game_yet_is_live_and_says_so(worker, tmp_path, connected):
    await worker.start()
    async with serving(tmp_path, connected) as client:
        found = await shown(client)
    assert (found["is_live"], found["games"]) == (True, [])
    assert "worker-0 shows no game at present" in found["reason"]


async def test_the_token_of_games_is_sent_and_a_refusal_names_the_setting(worker, tmp_path, connected):
    worker.games = [moved(A, (4,))]
    await worker.start(token=SECRET)
    async with serving(tmp_path, connected) as client:
        refused = await shown(client)
        assert (refused["is_live"], "the same games_token" in refused["reason"]) == (False, True)
    async with serving(tmp_path, connected, WorkerAccess(token=SECRET)) as client:
        assert (await shown(client))["is_live"]


async def test_services_elsewhere_are_reached_by_their_addresses_alone(worker, tmp_path, connected):
    worker.games = [moved(A, (4,))]
    await worker.start(token=SECRET)
    settings, _ = read_settings(
        UiSettings,
        ["--run-dir", str(tmp_path / "live"), "--worker-addresses", worker.address, "--games-token", SECRET],
        {},
    )
    RunPaths(tmp_path / "live").announce("worker-0").unlink()
    async with serving(tmp_path, connected, WorkerAccess(is_elsewhere=True)) as client:
        assert "set worker_addresses and games_token" in (await shown(client))["reason"]
    access = WorkerAccess(settings.probed_workers, SECRET, is_elsewhere=True)
    async with serving(tmp_path, connected, access) as client:
        assert (await shown(client))["is_live"]


async def test_the_settings_of_the_pages_reach_their_polls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def refuse(catalogue: Catalogue, **given: Any) -> None:
        seen.update(given)
        raise Unavailable("enough")

    monkeypatch.setattr(service, "create_app", refuse)
    arguments = ["--run-dir", str(tmp_path), "--worker-addresses", "a:9100", "--games-token", SECRET]
    settings, _ = read_settings(UiSettings, [*arguments, "--services-elsewhere", "true"], {})
    with pytest.raises(Unavailable, match="enough"):
        await service.serve(Service(settings), settings)
    assert seen["watched"]._access == WorkerAccess((("a", 9100),), SECRET, is_elsewhere=True)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--worker-addresses", "worker:9100"], "worker_addresses need games_token"),
        (["--worker-addresses", "worker", "--games-token", SECRET], "got 'worker'; give host:port"),
        (["--worker-addresses", "w:0", "--games-token", SECRET], "got 'w:0'; give host:port"),
        (["--worker-addresses", "http://w:9100", "--games-token", SECRET], "give host:port"),
        (["--worker-addresses", "w:9100", "--games-token", SECRET, "--runs", "runs"], "belong to one run"),
        (["--games-token", "short"], "give at least 16"),
    ],
)
def test_addresses_of_workers_that_cannot_be_asked_are_refused(arguments: list[str], fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        read_settings(UiSettings, arguments, {})


def test_addresses_of_workers_are_hosts_and_ports() -> None:
    given = ["--worker-addresses", "a:9100, [::1]:9101", "--games-token", SECRET]
    assert read_settings(UiSettings, given, {})[0].probed_workers == (("a", 9100), ("::1", 9101))


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"not JSON", "not a list of games"),
        (b'{"worker": "w", "game": "othello", "games": []}', "plays 'othello', and this run tic_tac_toe"),
        (b'{"worker": "w", "game": "tic_tac_toe", "games": [{"board": 16}]}', "games.0.board"),
        (b" " * (MOST_ANSWER_BYTES + (32 << 10)), "more than"),
    ],
)
async def test_an_answer_that_is_no_list_of_games_of_this_run_is_refused_with_the_reason(
    body, fault, worker, tmp_path, connected
):
    worker.body = body
    await worker.start()
    async with serving(tmp_path, connected) as client:
        found = await shown(client)
    assert (found["is_live"], found["games"]) == (False, [])
    assert fault in found["reason"]


@pytest.mark.parametrize(
    "entry",
    [
        {"moves": [4, 0], "ply": 3},
        {"moves": None, "ply": 0},
        {"moves": [4], "ply": 1, "picture": "<svg/>"},
    ],
)
def test_a_game_has_either_all_its_moves_or_a_picture(entry: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="either its"):
        read_games(answer_with(entry))


def answer_with(entry: dict[str, Any]) -> bytes:
    game = {"board": 0, "uid": A, "versions": [1, 1], "ply": 1, "moves": [4], "seed": 0} | entry
    return json.dumps({"worker": "w", "game": "tic_tac_toe", "games": [game]}).encode()


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ({"values": [float("nan"), 0.0]}, "values.0: Input should be a finite number"),
        ({"scores": [float("inf"), 0.0]}, "scores.0: Input should be a finite number"),
        ({"values": [0.5]}, "other numbers of values or scores than of versions"),
        ({"scores": []}, "other numbers of values or scores than of versions"),
        ({"versions": []}, "versions"),
        ({"versions": [-1, 1]}, "versions.0"),
        ({"moves": [-1]}, "moves.0"),
        ({"seed": -1}, "seed"),
        ({"seed": 1 << 64}, "seed"),
    ],
)
def test_figures_that_a_page_cannot_show_or_the_rules_cannot_take_are_refused(entry: dict[str, Any], fault: str) -> None:
    assert read_games(answer_with({})).games
    with pytest.raises(InvalidRequest, match=fault):
        read_games(answer_with(entry))


async def test_a_game_with_another_number_of_players_is_refused(worker, tmp_path, connected):
    worker.games = [GameInProgress(board=0, uid=A, versions=(3, 3, 3), ply=0, moves=(), seed=0)]
    await worker.start()
    async with serving(tmp_path, connected) as client:
        found = await shown(client)
    assert (found["is_live"], "number of players is not 2" in found["reason"]) == (False, True)


async def test_a_worker_whose_announced_port_is_none_is_passed_over(worker, tmp_path, connected):
    said = {"service": "selfplay_worker", "pid": os.getpid(), "address": "", "metrics_port": 70_000}
    RunPaths(tmp_path / "live").services.mkdir(parents=True, exist_ok=True)
    RunPaths(tmp_path / "live").announce("worker-a").write_text(json.dumps(said))
    async with serving(tmp_path, connected) as client:
        assert "No worker of this run is alive" in (await shown(client))["reason"]
        worker.games = [moved(A, (4,))]
        await worker.start()
        assert (await shown(client))["is_live"]


async def test_games_of_a_run_that_was_made_again_are_not_those_of_the_old_one(worker, tmp_path, runs):
    worker.games = [moved(A, (4,))]
    await worker.start()
    catalogue, watched = Catalogue(tmp_path, None), WatchedGames(every_s=0.0)
    old = watched.follow(catalogue.get("live"), 1)
    assert (await anext(old)).games[0].uid == A
    shutil.rmtree(tmp_path / "live")
    shutil.copytree(runs / "golden", tmp_path / "live")
    run = catalogue.get("live")
    async with contextlib.aclosing(watched.follow(run, 1)) as new:
        assert not (await anext(new)).is_live
        with pytest.raises(InvalidRequest, match="no game in progress"):
            watched.picture(run, 1, A, 1)
    with pytest.raises(UnknownRun, match="was removed or made again"):
        await anext(old)
    catalogue.close()


async def test_positions_are_kept_for_the_last_answers_alone(worker, tmp_path):
    await worker.start()
    catalogue, watched = Catalogue(tmp_path, None), WatchedGames(every_s=0.0)
    run = catalogue.get("live")
    async with contextlib.aclosing(watched.follow(run, 1)) as looks:
        worker.games = [moved(A, (4,))]
        await anext(looks)
        worker.games = [moved(B, (0,))]
        for _ in range(LOOKS_KEPT - 1):
            await anext(looks)
        assert watched.picture(run, 1, A, 1)
        await anext(looks)
        with pytest.raises(InvalidRequest, match="no game in progress has this position"):
            watched.picture(run, 1, A, 1)
        assert watched.picture(run, 1, B, 1)
    catalogue.close()


async def test_runs_that_nobody_follows_any_more_are_forgotten_but_for_the_last_ones(tmp_path, runs):
    names = [f"run-{number}" for number in range(IDLE_KEPT + 3)]
    for name in names:
        shutil.copytree(runs / "golden", tmp_path / name)
    catalogue, watched = Catalogue(tmp_path, None), WatchedGames(every_s=0.0)
    async with contextlib.aclosing(watched.follow(catalogue.get(names[0]), 1)) as first:
        await anext(first)
        for name in names[1:]:
            async with contextlib.aclosing(watched.follow(catalogue.get(name), 1)) as looks:
                await anext(looks)
        assert [run for run, *_ in watched._seen] == [names[0], *names[-IDLE_KEPT - 1 :]]
        assert len(watched._polls._last) <= 1
    catalogue.close()


def test_the_token_of_games_is_in_no_text_of_the_access() -> None:
    assert SECRET not in repr(WorkerAccess(token=SECRET))


def test_games_beyond_the_bound_of_an_answer_are_left_out() -> None:
    large = [
        GameInProgress(board=board, uid=A, versions=(1, 1), ply=1, picture="x" * (MOST_ANSWER_BYTES // 4)) for board in range(5)
    ]
    body = written_games("w", "take_six", large)
    assert len(body) <= MOST_ANSWER_BYTES
    assert [game.board for game in read_games(body).games] == [0, 1, 2]


async def test_moves_that_the_rules_forbid_are_not_drawn(worker, tmp_path, connected):
    worker.games = [moved(A, (4, 4)), GameInProgress(board=1, uid=B, versions=(3, 3), ply=1, picture="<svg/>")]
    await worker.start()
    async with serving(tmp_path, connected) as client:
        assert (await shown(client))["is_live"]
        illegal = await client.get(f"/api/v1/runs/live/running/{A}/2")
        assert (illegal.status_code, "move 2" in illegal.json()["error"]) == (400, True)
        assert (await client.get(f"/api/v1/runs/live/running/{B}/1")).status_code == 400
    with pytest.raises(IllegalMove):
        replay(TIC_TAC_TOE, [4, 4])


@pytest.mark.slow
async def test_with_hidden_information_a_board_is_the_workers_picture_for_the_chosen_seat(tmp_path, connected):
    with RunDirectory.create_or_open(tmp_path / "cards", "take_six", {}, preset="tiny", seed=1):
        pass
    state = new_state(TAKE_SIX, 5)
    pictures = {seat: seen_picture(TAKE_SIX, state, seat - 1) for seat in (1, 2)}
    worker = Worker(tmp_path / "cards")
    worker.game = "take_six"
    worker.games = [GameInProgress(board=0, uid=A, versions=(3, 3, 3), ply=0, picture=pictures[2])]
    await worker.start()
    async with serving(tmp_path, connected) as client:
        found = await shown(client, "cards", seat=2)
        assert (found["is_hidden"], found["games"][0]["values"]) == (True, None)
        assert (await client.get(f"/api/v1/runs/cards/running/{A}/0?seat=2")).text == pictures[2]
        assert (await client.get(f"/api/v1/runs/cards/running/{A}/0?seat=1")).status_code == 400  # nobody looked as player 1
        worker.games = [GameInProgress(board=0, uid=B, versions=(3, 3, 3), ply=0, moves=(), seed=0)]  # which show every hand
        assert (await shown(client, "cards", seat=2))["is_live"]
        assert (await client.get(f"/api/v1/runs/cards/running/{B}/0?seat=2")).status_code == 400
    assert worker.requests == [2, 2]
    await worker.stop()


async def test_the_document_of_the_api_has_a_schema_of_games_in_progress(client):
    document = (await client.get("/api/v1/openapi.json")).json()
    answer = document["paths"]["/api/v1/runs/{run}/running"]["get"]["responses"]["200"]["content"]["application/json"]
    assert answer["schema"] == {"$ref": "#/components/schemas/RunningGames"}
    fields = document["components"]["schemas"]["RunningGame"]["properties"]
    assert set(fields) == {"board", "uid", "ply", "versions", "values", "scores"}

"""Games that a worker shows while it plays them: moves of their records, copies on request alone, no hand of another seat."""

from __future__ import annotations

import asyncio
import functools
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from worker_at_work import changed, working

import games
from games.core import Game
from games.pictures import seen_picture
from games.positions import replay
from selfplay_worker import spectators
from selfplay_worker.game_register import Ticket
from selfplay_worker.settings import WorkerSettings
from selfplay_worker.spectators import Spectators
from zerofleet.contracts.games_in_progress import MOST_ANSWER_BYTES, MOST_BOARDS, GamesInProgress, games_path, read_games
from zerofleet.contracts.records import decode_record
from zerofleet.errors import ConfigurationError
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.search import SearchBlock
from zerofleet.service.lifecycle import Service
from zerofleet.service.settings import read_settings
from zerofleet.supervisor.probe_client import Reply, fetch

SECRET = "s" * 24


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def seen_services(monkeypatch: pytest.MonkeyPatch) -> list[Service]:
    """Return the services whose worker is open to spectators."""
    found: list[Service] = []
    opened = Spectators.open

    def note(self: Spectators, service: Service, settings: WorkerSettings) -> None:
        opened(self, service, settings)
        found.append(service)

    monkeypatch.setattr(Spectators, "open", note)
    return found


async def asked(service: Service, path: str = games_path(1), token: str | None = None) -> Reply:
    return await fetch("127.0.0.1", service.metrics_port, path, token=token, most_bytes=MOST_ANSWER_BYTES, timeout_s=20)


async def shown(service: Service, seat: int = 1) -> GamesInProgress:
    reply = await asked(service, games_path(seat))
    assert reply.status == 200
    return read_games(reply.body)


async def looks(service: Service, stream: Any, until_games: int) -> list[GamesInProgress]:
    """Ask again and again until that many games are published."""
    found = []
    while len(stream.published) < until_games:
        found.append(await shown(service))
        await asyncio.sleep(0)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["search", "afterstates"])
async def test_a_worker_shows_the_moves_of_games_that_it_later_publishes(
    mode: str, game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any, seen_services: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(spectators, "FRESH_S", 0.0)
    settings = changed(settings, selfplay={"mode": mode})
    promotions.promote(1)
    async with working(game, settings, evaluator, stream, promotions):
        found = await looks(seen_services[0], stream, until_games=60)
    records = {uid: decode_record(payload) for uid, payload in stream.published.items()}
    entries = [one for look in found for one in look.games]
    compared = [(one, records[one.uid]) for one in entries if one.uid in records]
    assert len({one.uid for one, _ in compared}) > 8
    for one, record in compared:
        moves = list(one.moves or ())
        assert moves == list(record.moves)[: one.ply]
        assert (one.seed, one.versions) == (record.seed, (1, 1))
        searched = {move.ply: move for move in record.searched}
        if one.ply - 1 in searched and mode == "search":
            assert one.values == pytest.approx(tuple(searched[one.ply - 1].root_value), abs=1e-6)
        if one.scores is not None:
            assert moves == list(record.moves)
    assert {one.board for one in entries} == set(range(8))  # two lanes of four
    assert any(0 < one.ply < len(record.moves) for one, record in compared)
    assert any(one.scores is not None for one, _ in compared)
    assert {look.worker for look in found} == {"w0"}


@pytest.mark.slow
async def test_nothing_is_copied_while_nobody_asks_and_again_nothing_once_nobody_has_asked_for_a_time(
    game: Game, settings: WorkerSettings, stream: Any, evaluator: Any, promotions: Any, seen_services: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(spectators, "WATCHED_S", 4321.25)  # as no other timer
    expiries = timers_of(monkeypatch, spectators.WATCHED_S)
    monkeypatch.setattr(spectators, "FIRST_COPY_S", 600.0)
    reads = {"moves": 0, "note": 0}

    def counting(owner: type, name: str) -> None:
        real = getattr(owner, name)

        def counted(*arguments: Any) -> Any:
            reads[name] += 1
            return real(*arguments)

        monkeypatch.setattr(owner, name, counted)

    counting(SearchBlock, "moves")
    counting(Spectators, "note")
    promotions.promote(1)
    async with working(game, settings, evaluator, stream, promotions):
        await stream.until(20)
        assert reads == {"moves": 0, "note": 0}
        assert (await shown(seen_services[0])).games
        assert min(reads.values()) > 0
        expiries[-1]()
        last = dict(reads)
        await stream.until(len(stream.published) + 40)
        assert last == reads


def timers_of(monkeypatch: pytest.MonkeyPatch, delay_s: float) -> list[Callable[[], object]]:
    """Return the list that receives the callback of each timer with this delay, for the test to call in place of the time."""
    loop, found = asyncio.get_running_loop(), list[Callable[[], object]]()
    call_later = loop.call_later

    def note(delay: float, callback: Callable[..., object], *arguments: Any, **options: Any) -> asyncio.TimerHandle:
        if delay == delay_s:
            found.append(functools.partial(callback, *arguments))
        return call_later(delay, callback, *arguments, **options)

    monkeypatch.setattr(loop, "call_later", note)
    return found


class Slots:
    """A block of games at their start, of which a test asks what the spectators read."""

    def __init__(self, game: Game, count: int, moves: Sequence[int] = ()) -> None:
        self.block = SearchBlock(game, WorkerSettings(game=game.spec().name, preset="tiny").search, slots=count)
        versions = [1] * game.spec().num_players
        for slot in range(count):
            self.block.begin(slot, seed=slot, versions=versions, opening=moves)
        self.tickets = {slot: Ticket(slot, slot, f"{slot:032x}", 1) for slot in range(count)}


async def test_at_most_sixteen_boards_are_shown_whatever_the_number_of_lanes_and_games(game: Game) -> None:
    watched = Spectators(game, "w")
    boards = [watched.reserve(12), watched.reserve(12), watched.reserve(12)]
    assert boards == [range(12), range(12, 16), range(16, 16)]
    slots = Slots(game, 12)
    task = asyncio.create_task(watched.answer(1))
    await asyncio.sleep(0)
    for lane in boards:
        watched.note(lane, slots.block, slots.tickets)
    found = read_games((await task).body)
    assert len(found.games) == MOST_BOARDS == 16


async def test_an_answer_is_rendered_once_for_all_requests_of_half_a_second(
    game: Game, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    watched = Spectators(game, "w", clock=clock)
    slots, boards = Slots(game, 2), watched.reserve(2)
    written = []
    real = Spectators._written
    monkeypatch.setattr(Spectators, "_written", lambda *given: written.append(1) or real(*given))
    first = asyncio.create_task(watched.answer(1))
    await asyncio.sleep(0)
    watched.note(boards, slots.block, slots.tickets)
    others = await asyncio.gather(*(watched.answer(1) for _ in range(50)), first)
    assert len(written) == 1
    assert len({one.body for one in others}) == 1
    clock.now_s += spectators.FRESH_S
    await watched.answer(1)
    assert len(written) == 2


async def test_a_game_that_has_ended_is_shown_with_its_scores_before_the_next_one_and_then_no_more(game: Game) -> None:
    clock = Clock()
    watched = Spectators(game, "w", clock=clock)
    slots, boards = Slots(game, 1, moves=[4, 0]), watched.reserve(1)
    asking = asyncio.create_task(watched.answer(1))
    await asyncio.sleep(0)
    watched.note(boards, slots.block, slots.tickets)
    watched.end(0, (1.0, -1.0))
    await asking
    slots.block.abandon(0)
    slots.block.begin(0, seed=7, versions=[1, 1])
    watched.note(boards, slots.block, {0: Ticket(9, 7, "9" * 32, 1)})
    clock.now_s += spectators.FRESH_S
    ended, running = read_games((await watched.answer(1)).body).games
    assert (ended.scores, ended.moves, ended.board) == ((1.0, -1.0), (4, 0), 0)
    assert (running.scores, running.moves, running.uid, running.board) == (None, (), "9" * 32, 0)
    clock.now_s += spectators.ENDED_S
    assert [one.uid for one in read_games((await watched.answer(1)).body).games] == ["9" * 32]


async def test_a_slot_whose_opening_waits_for_an_evaluation_shows_no_game(game: Game) -> None:
    watched = Spectators(game, "w")
    slots, boards = Slots(game, 2), watched.reserve(2)
    slots.block.abandon(1)
    asking = asyncio.create_task(watched.answer(1))
    await asyncio.sleep(0)
    watched.note(boards, slots.block, slots.tickets)
    assert [one.board for one in read_games((await asking).body).games] == [0]


def numbers(picture: str) -> set[str]:
    return set(re.findall(r">(\d+)</text>", picture))


@pytest.mark.slow
async def test_no_hand_but_that_of_the_seat_occurs_in_an_answer_and_neither_moves_nor_seed_nor_values_do() -> None:
    game = games.make("take_six")
    watched = Spectators(game, "w")
    boards = watched.reserve(4)
    slots = Slots(game, 4)
    seats = range(1, game.spec().num_players + 1)
    assert len(seats) == 3
    for seat in seats:
        asking = asyncio.create_task(watched.answer(seat))
        await asyncio.sleep(0)
        watched.note(boards, slots.block, slots.tickets)
        body = (await asking).body
        found = read_games(body)
        assert len(found.games) == 4
        for entry in json.loads(body)["games"]:
            assert (entry["moves"], entry["seed"], entry["values"]) == (None, None, None)
            state = replay(game, [], entry["board"])
            hands = {player: set(map(str, hand(game, state, player - 1))) for player in seats}
            own = hands.pop(seat)
            other = set().union(*hands.values())
            assert (len(own), len(other)) == (10, 20)
            assert own <= numbers(entry["picture"])
            rest = json.dumps({name: value for name, value in entry.items() if name != "uid"})
            assert not other & set(re.findall(r"(?<![\d.#])\d+(?![\d.])(?=</text>)", rest))


def hand(game: Game, state: Any, player: int) -> list[int]:
    line = next(line for line in game.draw_for(state, player).splitlines() if line.startswith(f"player {player + 1}"))  # type: ignore[attr-defined]
    return [int(card) for card in re.findall(r"\d+", line.split("|")[1])]


@pytest.mark.slow
async def test_a_worker_of_hidden_information_shows_pictures_until_its_games_end(
    tmp_path: Any, stream: Any, promotions: Any, seen_services: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spectators, "FRESH_S", 0.0)
    game = games.make("take_six")
    settings = WorkerSettings.model_validate(
        {"run_dir": tmp_path, "game": "take_six", "preset": "tiny", "worker_id": "w0", "incarnation": 1}
        | {"search": {"simulations": 4, "fast_simulations": 2}, "selfplay": {"lanes": 1, "slots": 2, "adoption_delay_s": 0.0}}
    )
    promotions.promote(1)
    async with working(game, settings, UniformEvaluator(game.spec().num_players), stream, promotions):
        found = await looks(seen_services[0], stream, until_games=2)
    entries = [one for look in found for one in look.games]
    assert {one.moves for one in entries} == {None}
    records = {uid: decode_record(payload) for uid, payload in stream.published.items()}
    compared = [(one, records[one.uid]) for one in entries if one.uid in records]
    for one, record in compared:
        state = replay(game, list(record.moves)[: one.ply], record.seed)
        assert one.picture == seen_picture(game, state, 0)
    assert any(one.scores is not None for one, _ in compared)
    assert len({one.ply for one in entries}) > 2


@pytest.mark.parametrize(
    ("host", "token", "shown_token", "status"),
    [
        ("127.0.0.1", None, None, 200),
        ("127.0.0.1", SECRET, None, 401),
        ("127.0.0.1", SECRET, "wrong" * 5, 401),
        ("127.0.0.1", SECRET, SECRET, 200),
        ("0.0.0.0", None, None, 404),
        ("0.0.0.0", SECRET, None, 401),
        ("0.0.0.0", SECRET, SECRET, 200),
    ],
)
async def test_games_are_shown_to_holders_of_the_token_and_without_one_on_loopback_alone(
    host: str, token: str | None, shown_token: str | None, status: int, game: Game, settings: WorkerSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(spectators, "FIRST_COPY_S", 0.01)
    given = WorkerSettings.model_validate(settings.model_dump() | {"metrics_host": host, "games_token": token})
    service = Service(given)
    Spectators(game, "w").open(service, given)
    await service.probes.start("127.0.0.1", 0)
    service.metrics_port = service.probes.port
    try:
        assert (await asked(service, token=shown_token)).status == status
        assert (await asked(service, "/livez")).status == 200
        assert (await asked(service, "/games/3")).status == 404  # of two players
    finally:
        await service.probes.aclose()


def test_a_short_token_of_games_is_refused_without_being_shown() -> None:
    with pytest.raises(ConfigurationError, match="games_token: got 7 characters; give at least 16") as refused:
        read_settings(WorkerSettings, ["--games-token", "hunter2"], {})
    assert "hunter2" not in str(refused.value)

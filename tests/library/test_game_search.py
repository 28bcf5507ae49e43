"""Searches for stored games: a plain filter over all records, exact continuation, bounds, and refusals of a query."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import games
from zerofleet.contracts.endings import ending_of
from zerofleet.contracts.played import FULL_SEARCH, REDUCED
from zerofleet.contracts.records import GameRecord, decode_record, encode_record
from zerofleet.contracts.records.samples import random_game
from zerofleet.errors import InvalidRequest
from zerofleet.library.game_query import WANTED, GameQuery
from zerofleet.library.game_search import Bounds, GameSearch
from zerofleet.library.stored_games import GameList
from zerofleet.storage.game_log import GameLog

GAME = games.make("tic_tac_toe")
SPEC = GAME.spec()
STORED = 60
DAMAGED, OF_ANOTHER_RELEASE = 17, 31
UNBOUNDED = Bounds(games=None, size_bytes=None, duration_s=None)


def uid(number: int) -> str:
    return f"{number:04x}" + "ab" * 14


def payload(number: int) -> bytes:
    """Return a record: every fifth game is resigned, every seventh played on, versions and workers alternate."""
    played = random_game(GAME, number, version=1 + number // 10)
    if number % 5 == 0:
        plies = 3 + number % 2
        loser = plies % 2
        scores = tuple(np.where(np.arange(2) == loser, -1.0, 1.0).tolist())
        kept = {"moves": played.moves[:plies], "searched": played.searched[:plies]}
        played = replace(played, **kept, resigned_seat=loser, scores=scores)
    elif number % 7 == 0:
        played = replace(played, searched=(replace(played.searched[0], flags=FULL_SEARCH | REDUCED), *played.searched[1:]))
    return encode_record(played, worker_id=f"worker-{number % 3}", uid=uid(number), finished_at_ms=0)


def of_another_release(data: bytes) -> bytes:
    record = decode_record(data)
    record.schema = 2
    return record.SerializeToString()


def append(log: GameLog, numbers: Sequence[int]) -> None:
    for number in numbers:  # one by one, so that a file ends where it is full
        data = payload(number)
        log.append([(uid(number), of_another_release(data) if number == OF_ANOTHER_RELEASE else data)])


def damage(directory: Path, number: int) -> None:
    """Change a byte in the worker's name of a stored game."""
    for path in directory.glob("*.games"):
        data = bytearray(path.read_bytes())
        at = data.find(uid(number).encode())
        if at >= 0:
            data[data.index(b"worker-", at)] ^= 1
            path.write_bytes(data)
            return
    raise AssertionError(f"game {number} is in no file")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log of several small files with a damaged game and one of another release; tests only read it."""
    made = tmp_path_factory.mktemp("log") / "replay"
    with GameLog.open(made, writer=True, segment_bytes=5000) as log:
        append(log, range(STORED))
    assert len(list(made.glob("*.games"))) > 3
    damage(made, DAMAGED)
    return made


def endings_of(record: GameRecord) -> str:
    if record.resigned_seat:
        return "resigned"
    return "soft_resigned" if any(move.flags & REDUCED for move in record.searched) else "result"


def results_of(record: GameRecord) -> str:
    first, second = record.scores
    return "draw" if first == second else "1" if first > second else "2"


def expected(numbers: Iterator[int] | Sequence[int], query: GameQuery) -> list[int]:
    """Return the numbers of the games that fit a query, newest first, by a plain filter."""
    found = []
    for number in sorted(numbers, reverse=True):
        record = decode_record(payload(number))
        if (
            number not in (DAMAGED, OF_ANOTHER_RELEASE)
            and (query.before is None or number < query.before)
            and query.model in (None, *record.seat_versions)
            and query.result in (None, results_of(record))
            and query.ending in (None, endings_of(record))
            and query.worker in (None, record.worker_id)
            and (query.min_plies or 0) <= len(record.moves) <= (99 if query.max_plies is None else query.max_plies)
        ):
            found.append(number)
    return found


def search(log: GameLog, query: GameQuery, bounds: Bounds = UNBOUNDED) -> GameList:
    found = GameSearch(query, SPEC, bounds=bounds)
    while not found.is_over:
        found.advance(log)
    return found.found(log)


def search_on(log: GameLog, query: GameQuery, bounds: Bounds) -> Iterator[GameList]:
    """Yield the answers to a query and to those that go on, until none is left."""
    while True:
        found = search(log, query, bounds)
        yield found
        if found.next_before is None:
            return
        query = query.model_copy(update={"before": found.next_before})


QUERIES = st.fixed_dictionaries(
    {},
    optional={
        "before": st.integers(0, STORED + 5),
        "model": st.integers(1, 7),
        "result": st.sampled_from(["draw", "1", "2"]),
        "ending": st.sampled_from(["result", "cut", "resigned", "soft_resigned"]),
        "min_plies": st.integers(0, 6),
        "max_plies": st.integers(6, 9),
        "worker": st.sampled_from([f"worker-{place}" for place in range(4)]),
    },
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=QUERIES, limit=st.integers(1, 30), most=st.integers(1, 40))
def test_a_search_in_parts_finds_the_games_of_a_plain_filter(directory: Path, wanted: dict, limit: int, most: int) -> None:
    query = GameQuery.read({"limit": limit, **wanted})
    with GameLog.open(directory, writer=False) as log:
        parts = list(search_on(log, query, Bounds(games=most, size_bytes=None, duration_s=None)))
    assert [row.index for part in parts for row in part.games] == expected(range(STORED), query)
    assert all(len(part.games) <= limit and part.searched <= most for part in parts)
    assert sum(part.searched for part in parts) == min(STORED, STORED if query.before is None else query.before)


def test_damaged_games_and_those_of_another_release_are_counted_and_do_not_end_a_search(directory: Path) -> None:
    with GameLog.open(directory, writer=False) as log:
        found = search(log, GameQuery(limit=STORED, worker=f"worker-{DAMAGED % 3}"))
    assert found.unreadable == 2
    assert found.searched == STORED
    assert DAMAGED not in [row.index for row in found.games]


def test_games_that_arrive_meanwhile_are_neither_missed_nor_repeated(tmp_path: Path) -> None:
    query, bounds = GameQuery(limit=3, worker="worker-0"), Bounds(games=4, size_bytes=None, duration_s=None)
    with GameLog.open(tmp_path, writer=True, segment_bytes=3000) as writer:
        append(writer, range(20))
        arriving = itertools.count(40)
        with GameLog.open(tmp_path, writer=False) as log:
            indices = []
            for found in search_on(log, query, bounds):
                indices += [row.index for row in found.games]
                append(writer, [next(arriving) for _ in range(3)])
                log.refresh()
            assert indices == expected(range(20), query)
            assert log.end_index > 30


def test_dropped_games_end_a_search(tmp_path: Path) -> None:
    with GameLog.open(tmp_path, writer=True, segment_bytes=3000) as log:
        append(log, range(16))
        start = log.drop_before(9)
        assert 0 < start <= 9
        found = search(log, GameQuery(limit=50, min_plies=0))
        assert [row.index for row in found.games] == expected(range(start, 16), GameQuery())
        assert found.next_before is None
        assert search(log, GameQuery(before=start, min_plies=0)).games == ()


@pytest.mark.parametrize("bounds", [Bounds(None, 1, None), Bounds(7, None, None)])
def test_bounds_of_bytes_and_games_end_a_search_of_which_the_next_goes_on(directory: Path, bounds: Bounds) -> None:
    with GameLog.open(directory, writer=False) as log:
        query = GameQuery(worker="nobody")
        first = search(log, query, bounds)
        assert 0 < first.searched < STORED
        assert first.next_before == STORED - first.searched
        assert sum(part.searched for part in search_on(log, query, bounds)) == STORED


def test_a_bound_of_time_ends_a_search_after_one_read(directory: Path) -> None:
    clock = itertools.count().__next__  # a second passes between any two looks
    with GameLog.open(directory, writer=False) as log:
        found = GameSearch(GameQuery(worker="nobody"), SPEC, bounds=Bounds(None, None, 0.5), clock=clock)
        found.advance(log)
        assert found.is_over
        assert 0 < found.searched < STORED


def test_an_ending_is_a_cut_where_positions_recur_and_the_plies_are_at_the_maximum() -> None:
    cases = [
        (True, 9, False, False, "cut"),
        (True, 8, False, False, "result"),
        (False, 9, False, False, "result"),
        (True, 9, False, True, "soft_resigned"),
        (True, 9, True, True, "resigned"),
    ]
    for repeats, plies, resigned, reduced, ending in cases:
        spec = replace(SPEC, repeats=repeats, max_plies=9)
        assert ending_of(spec, plies=plies, has_resigned=resigned, has_reduced=reduced) == ending


@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        ({"limit": "0"}, "limit='0' is not accepted; give a positive integer"),
        ({"model": "x"}, "model='x' is not accepted; give a version"),
        ({"model": ""}, "model='' is not accepted"),
        ({"model": "9" * 5000}, "is not accepted"),
        ({"result": "0"}, "give `draw`, or the number of the player who won"),
        ({"result": "draw\n"}, "is not accepted"),
        ({"ending": "lost"}, "give `result`, `cut`, `resigned` or `soft_resigned`"),
        ({"min_plies": "-1"}, "min_plies='-1' is not accepted"),
        ({"min_plies": "9", "max_plies": "3"}, "min_plies 9 is above max_plies 3"),
        ({"worker": "<b>"}, "worker='<b>' is not accepted"),
        ({"wroker": "a"}, "games have no 'wroker'; choose from limit, before, model"),
    ],
)
def test_a_query_with_a_wrong_value_is_refused_with_the_values_wanted(wanted: dict[str, str], complaint: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        GameQuery.read(wanted)
    assert complaint in str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_player_that_the_game_lacks_wins_no_game() -> None:
    with pytest.raises(InvalidRequest, match="this game has players 1 to 2"):
        GameSearch(GameQuery(result="3"), SPEC)


def test_every_condition_has_a_description_of_its_values() -> None:
    assert set(WANTED) == set(GameQuery.model_fields)

"""Tournaments in this process and in others: stopped and gone on with, the table is that of one undisturbed run."""

import asyncio
import os
import signal
import sys
from dataclasses import replace

import pytest

from games.core import make
from zerofleet.errors import InvalidRequest, RecordRejected, RunDirectoryError, Unavailable
from zerofleet.search.settings import default_simulations
from zerofleet.strength.tournaments import ProcessWorker, ResultJournal, play_tournament, tabulate, workers
from zerofleet.strength.tournaments.play import Schedule, restored
from zerofleet.strength.tournaments.workers import Setup


def without_times(table):
    """Return a table but for what takes another time each time."""
    return replace(table, players=tuple(replace(row, time_s=0.0, ms_per_move=0.0) for row in table.players))


async def played(terms, workers, journal=None):
    boards = restored(terms, journal.results if journal else ())
    await play_tournament(boards, workers, journal=journal)
    return without_times(tabulate(terms, boards))


class Stopping:
    """A worker that is gone after some games."""

    def __init__(self, inner, games):
        self.inner, self.left = inner, games

    async def play(self, games):
        async for result in self.inner.play(games):
            if not self.left:
                raise Unavailable("gone")
            self.left -= 1
            yield result


async def test_every_game_of_a_tournament_is_played_once_and_counts(terms, worker):
    chosen = terms()
    boards = restored(chosen, ())
    seen = []
    await play_tournament(boards, [worker(chosen), worker(chosen)], journal=None, progress=seen.append)
    assert len(seen) == 24 == len({(r.match_id, r.group, r.seating) for r in seen})
    assert all(board.exhausted for board in boards)


async def test_a_stopped_tournament_resumes_to_the_same_table(terms, worker, tmp_path):
    chosen = terms()
    whole = await played(chosen, [worker(chosen)])
    for games in (5, 9):
        with ResultJournal(tmp_path, chosen.said()) as journal:
            before = len(journal.results)
            with pytest.raises(Unavailable, match="gone"):
                await played(chosen, [Stopping(worker(chosen), games)], journal)
        with ResultJournal(tmp_path, chosen.said()) as journal:
            assert before <= len(journal.results) <= before + games
    with ResultJournal(tmp_path, chosen.said()) as journal:
        assert await played(chosen, [worker(chosen)], journal) == whole
    with ResultJournal(tmp_path, chosen.said()) as journal:
        assert len(journal.results) == 24
        assert await played(chosen, [], journal) == whole


async def test_a_cancelled_tournament_keeps_its_journalled_results(terms, worker, tmp_path):
    chosen = terms()
    with ResultJournal(tmp_path, chosen.said()) as journal:
        some = asyncio.Event()
        boards = restored(chosen, ())
        playing = asyncio.create_task(
            play_tournament(boards, [worker(chosen)], journal=journal, progress=lambda result: some.set())
        )
        await some.wait()
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
    with ResultJournal(tmp_path, chosen.said()) as journal:
        assert await played(chosen, [worker(chosen)], journal) == await played(chosen, [worker(chosen)])


def test_a_journal_with_invalid_results_is_rejected(terms, worker):
    chosen = terms()
    boards = restored(chosen, ())
    asyncio.run(play_tournament(boards, [worker(chosen)], journal=None))
    good = boards[0].results()[0]
    with pytest.raises(RunDirectoryError, match="not a meeting"):
        restored(chosen, [replace(good, match_id="a / b")])
    with pytest.raises(RunDirectoryError, match="holds an invalid game") as refused:
        restored(chosen, [replace(good, moves=good.moves[:-1])])
    assert isinstance(refused.value.__cause__, RecordRejected)


def test_games_are_scheduled_by_group_in_shrinking_portions(terms):
    chosen = terms(games=200)
    schedule, portions = Schedule(restored(chosen, ()), workers=2), []
    while portion := schedule.next():
        portions.append(portion)
    assert all(len({pairing.match_id for pairing in portion}) == 1 for portion in portions)
    assert all(len(portion) % 2 == 0 for portion in portions)
    assert sum(map(len, portions)) == 600
    assert max(map(len, portions)) <= 64
    assert [len(portion) for portion in portions[-8:]] == [2] * 8
    given = [(p.match_id, p.group, p.seating) for portion in portions for p in portion]
    assert len(set(given)) == 600


@pytest.mark.slow
async def test_worker_processes_play_the_same_tournament_as_a_local_worker(terms, worker):
    chosen = terms()
    setup = Setup.of(chosen.game, chosen.simulations, ())
    async with ProcessWorker(setup) as first, ProcessWorker(setup) as second:
        table = await played(chosen, [first, second])
    assert table == await played(chosen, [worker(chosen)])


@pytest.mark.slow
async def test_errors_of_agents_and_exits_of_worker_processes_are_reported(terms):
    chosen = terms("random", "nobody:3")
    setup = Setup.of(chosen.game, chosen.simulations, ())
    async with ProcessWorker(setup) as process:
        with pytest.raises(InvalidRequest, match="no agent is called 'nobody'"):
            await played(chosen, [process])
    async with ProcessWorker(replace(setup, game="no_such_game")) as process:
        with pytest.raises(Unavailable, match=r"(?s)exited with code 1\n.*no game is called 'no_such_game'"):
            await played(terms(), [process])


@pytest.mark.slow
async def test_a_worker_process_exits_when_its_parent_is_gone(terms, monkeypatch):
    """Though its agent would think for an hour."""
    monkeypatch.setattr(workers, "STOP_TIMEOUT_S", 300.0)  # it is not killed, however slow its start
    chosen = terms("alpha_beta:3600s", "random", game="abalone")
    async with ProcessWorker(Setup.of(chosen.game, 4, ())) as process:
        playing = asyncio.create_task(played(chosen, [process]))
        await asyncio.sleep(0)
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
    assert process._process.returncode == 0


@pytest.mark.slow
async def test_a_tournament_killed_after_some_games_resumes_to_the_table_of_an_undisturbed_one(terms, worker, tmp_path):
    chosen = terms(games=60, opening_plies=2, simulations=default_simulations(make("tic_tac_toe").spec()))
    names = [player.name for player in chosen.players]
    words = ["tournament", *names, "--game", "tic_tac_toe", "--games", "60", "--seed", "5"]
    command = [sys.executable, "-c", "from zerofleet.cli import main; main()", *words, "--workers", "2", "--dir", str(tmp_path)]
    environment = os.environ | {"ZEROFLEET_TEST_CRASH_AT": "tournament_after_results:2"}
    killed = await asyncio.create_subprocess_exec(*command, env=environment, stderr=asyncio.subprocess.DEVNULL)
    assert await killed.wait() == -signal.SIGKILL
    with ResultJournal(tmp_path, chosen.said()) as journal:
        assert 2 <= len(journal.results) < 180
        resumed = await played(chosen, [worker(chosen)], journal)
    assert resumed == await played(chosen, [worker(chosen)])
    assert sum(row.games for row in resumed.players) == 2 * 180

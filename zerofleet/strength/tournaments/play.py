"""Play of a tournament: idle workers take the next games; results are journalled before they count.

boards ──► Schedule ──► workers play portions of games ──► Recorder: journal, then boards
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from zerofleet.errors import RecordRejected, RunDirectoryError, first_error
from zerofleet.strength.matches import GameResult, Pairing, Scoreboard
from zerofleet.strength.tournaments.journal import ResultJournal
from zerofleet.strength.tournaments.terms import TournamentTerms
from zerofleet.strength.tournaments.workers import Worker

__all__ = ["GAMES_AT_ONCE", "Schedule", "play_tournament", "restored"]

GAMES_AT_ONCE = 64
"""Concurrent games of a worker, for large requests to models."""
SHARES = 4  # a portion is at most a quarter of a worker's share of the remaining games, so that all workers finish together
_WAITING_RESULTS = 1000

Progress = Callable[[GameResult], None]


def restored(terms: TournamentTerms, known: Sequence[GameResult]) -> list[Scoreboard]:
    """Return a board for each meeting, with the known results.

    Raises `RunDirectoryError` for a result that does not belong to the tournament or contradicts the rules.
    """
    boards = {meeting.match_id: Scoreboard(meeting) for meeting in terms.meetings}
    for result in known:
        if result.match_id not in boards:
            raise RunDirectoryError(
                f"the journal holds a game of {result.match_id!r}, which is not a meeting of the tournament"
            )
        try:
            boards[result.match_id].record(result)
        except RecordRejected as error:
            raise RunDirectoryError(
                f"the journal holds an invalid game of {result.match_id!r}: {error}; choose another --dir"
            ) from error
    return list(boards.values())


async def play_tournament(
    boards: Sequence[Scoreboard], workers: Sequence[Worker], *, journal: ResultJournal | None, progress: Progress | None = None
) -> None:
    """Play every game without a result.

    Propagates errors of workers and journal; the boards keep their results, and the tournament can be resumed.
    Cancellation: likewise; games in progress are lost.
    """
    schedule = Schedule(boards, len(workers))
    recorder = _Recorder({board.terms.match_id: board for board in boards}, journal, progress)
    try:
        async with asyncio.TaskGroup() as group:
            noting = group.create_task(recorder.run())
            async with asyncio.TaskGroup() as playing:
                for worker in workers:
                    playing.create_task(_keep_busy(worker, schedule, recorder))
            recorder.finish()
            await noting
    except ExceptionGroup as failures:
        raise first_error(failures) from failures


class Schedule:
    """Queue of groups of games to play, every meeting in turn."""

    def __init__(self, boards: Sequence[Scoreboard], workers: int) -> None:
        self._meetings = deque(groups for board in boards if (groups := _open_groups(board)))
        self._left = sum(map(len, self._meetings))
        self._workers = workers

    def next(self) -> list[Pairing]:
        """Return the next whole groups of games of one meeting; empty when none are left.

        Portions shrink to single groups towards the end, so that workers finish together.
        """
        if not self._meetings:
            return []
        groups = self._meetings.popleft()
        most = max(1, GAMES_AT_ONCE // len(groups[0]))
        taken = groups[: max(1, min(most, self._left // (SHARES * self._workers)))]
        self._left -= len(taken)
        if len(taken) < len(groups):
            self._meetings.append(groups[len(taken) :])
        return [pairing for group in taken for pairing in group]


class _Recorder:
    """Writer of results in batches: each holds the results that arrived during the previous write."""

    def __init__(self, boards: dict[str, Scoreboard], journal: ResultJournal | None, progress: Progress | None) -> None:
        self._boards = boards
        self._journal = journal
        self._progress = progress
        self._queue: asyncio.Queue[GameResult | None] = asyncio.Queue(_WAITING_RESULTS)
        self._ending = asyncio.Event()

    async def put(self, result: GameResult) -> None:
        """Queue a result. Cancellation: it is queued or lost."""
        await self._queue.put(result)

    def finish(self) -> None:
        """Signal the end of the results."""
        self._ending.set()
        if self._queue.empty():
            self._queue.put_nowait(None)

    async def run(self) -> None:
        """Record results until the end. Cancellation: unrecorded results are lost."""
        while not (self._ending.is_set() and self._queue.empty()):
            batch = [await self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get_nowait())
            results = [result for result in batch if result is not None]
            if self._journal is not None and results:
                await asyncio.to_thread(self._journal.append, results)
            for result in results:
                self._boards[result.match_id].record(result)
                if self._progress is not None:
                    self._progress(result)


async def _keep_busy(worker: Worker, schedule: Schedule, recorder: _Recorder) -> None:
    while games := schedule.next():
        async for result in worker.play(games):
            await recorder.put(result)


def _open_groups(board: Scoreboard) -> list[list[Pairing]]:
    """Return the games of a board without a result, by group."""
    groups: dict[int, list[Pairing]] = {}
    for pairing in board.open_pairings():
        groups.setdefault(pairing.group, []).append(pairing)
    return list(groups.values())

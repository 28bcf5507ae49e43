"""Games in progress for any number of browsers: one request a second to a worker for each seat that is looked at, else none.

A position is drawn from the moves that the worker sent, which the rules check. With hidden information it is the worker's
picture for the seat: neither the pages nor their memory hold another hand.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Mapping

from games.core import Game
from games.kit import svg
from games.positions import replay
from ui.catalogue import OpenRun, require_present
from ui.shared_poll import SharedPolls
from ui.worker_games import WorkerAccess, WorkerGames
from zerofleet.contracts.games_in_progress import GameInProgress, GamesInProgress
from zerofleet.errors import InvalidRequest, ZerofleetError
from zerofleet.library.run_files import Signature
from zerofleet.library.values import Value

__all__ = ["RunningGame", "RunningGames", "WatchedGames"]

LOOK_EVERY_S = 1.0
LOOKS_KEPT = 8  # of a run and a seat: a slow connection still finds the positions of these answers, of 2 MiB each at most
IDLE_KEPT = 8  # runs and seats without a browser, whose last positions are kept

_Key = tuple[str, Signature, int]  # name and header of the run, and the seat


class RunningGame(Value):
    """A game in progress, or one that has just ended."""

    board: int
    """Number of the board on which games of the worker follow one another, from 0."""
    uid: str
    ply: int
    """Number of moves played."""
    versions: tuple[int, ...]
    """Model version of each seat; 0 for a seat without a model."""
    values: tuple[float, ...] | None
    """Value of the last move's search for each seat; None without a search, or where players hide something."""
    scores: tuple[float, ...] | None
    """Score of each seat; None while the game goes on."""


class RunningGames(Value):
    """Games in progress of one worker of a run."""

    is_live: bool
    """Whether a worker answers."""
    reason: str
    """Why there are no games; empty where there are some."""
    worker: str
    players: int
    is_hidden: bool
    """Whether players hide something from each other."""
    games: tuple[RunningGame, ...]
    """By board; a game that has just ended comes before the next one on its board."""


class WatchedGames:
    """Games in progress of the runs that browsers look at."""

    def __init__(self, access: WorkerAccess | None = None, *, every_s: float = LOOK_EVERY_S) -> None:
        self._access = access or WorkerAccess()
        self._polls: SharedPolls[RunningGames] = SharedPolls(every_s)
        self._seen: dict[_Key, _Seen] = {}

    @property
    def polls(self) -> int:
        """Number of polls in progress."""
        return self._polls.count

    async def follow(self, run: OpenRun, seat: int) -> AsyncGenerator[RunningGames]:
        """Yield the games in progress at once and then every second; `seat` is that of games with hidden information, from 1.

        A worker that is away is a value too. Raises `UnknownRun` once the run was removed or made again. Cancellation: the last
        browser that leaves ends the poll.
        """
        key = _key(run, seat)
        async with contextlib.aclosing(self._polls.follow(key, lambda: self._source(run, key))) as found:
            async for one in found:
                yield one

    def picture(self, run: OpenRun, seat: int, uid: str, ply: int) -> str:
        """Return a position that an answer of the last seconds had, as SVG.

        Raises `InvalidRequest` for any other one, `IllegalMove` for moves that the rules do not allow.
        """
        seen = self._seen.get(_key(run, seat))
        game = None if seen is None else seen.position(uid, ply)
        if game is None:
            raise InvalidRequest("no game in progress has this position; the list names the present ones")
        return _drawn(run.game, game)

    def _source(self, run: OpenRun, key: _Key) -> _Seen:
        found, before = _Seen(run, WorkerGames(run, key[-1], self._access)), self._seen.get(key)
        if before is not None:  # a browser that comes at once begins with the last look
            found.looks.extend(before.looks)
        self._seen.pop(key, None)  # to the end of the order
        self._seen[key] = found
        idle = [one for one in self._seen if one != key and not self._polls.is_followed(one)]
        for one in idle[: max(0, len(idle) - IDLE_KEPT)]:
            del self._seen[one]
        return found


class _Seen:
    """Games of a run's worker in the view of a seat, and the positions of its last answers."""

    def __init__(self, run: OpenRun, source: WorkerGames) -> None:
        self.looks: deque[Mapping[tuple[str, int], GameInProgress]] = deque(maxlen=LOOKS_KEPT)
        """Games of the last answers by uid and ply, the newest answer last."""
        self._run = run
        self._spec = run.game.spec()
        self._source = source

    async def look(self) -> RunningGames:
        """Return the games, or why there are none. Raises `UnknownRun` once the run is gone. Cancellation: no effect."""
        await asyncio.to_thread(require_present, self._run)
        try:
            found = await self._source.look()
        except ZerofleetError as error:
            text = str(error)
            return self._view((), is_live=False, reason=f"{text[:1].upper()}{text[1:]}.")
        self.looks.append({(game.uid, game.ply): game for game in found.games})
        return self._view(found.games, is_live=True, reason=_reason(found), worker=found.worker)

    def position(self, uid: str, ply: int) -> GameInProgress | None:
        """Return a position of the last answers; None for any other one."""
        return next((look[uid, ply] for look in reversed(tuple(self.looks)) if (uid, ply) in look), None)

    async def aclose(self) -> None:
        """Close the source. The last positions stay: their pictures may still be asked for."""
        await self._source.aclose()

    def _view(self, games: tuple[GameInProgress, ...], *, is_live: bool, reason: str, worker: str = "") -> RunningGames:
        return RunningGames(
            is_live=is_live,
            reason=reason,
            worker=worker,
            players=self._spec.num_players,
            is_hidden=self._spec.information != "perfect",
            games=tuple(
                RunningGame(
                    board=game.board,
                    uid=game.uid,
                    ply=game.ply,
                    versions=game.versions,
                    values=game.values,
                    scores=game.scores,
                )
                for game in games
            ),
        )


def _key(run: OpenRun, seat: int) -> _Key:
    """Return the key of a poll: games that hide nothing look the same from every seat."""
    return run.name, run.signature, 1 if run.game.spec().information == "perfect" else seat


def _reason(found: GamesInProgress) -> str:
    waiting = f"{found.worker} shows no game at present: it waits for a champion or an evaluation, or plays its warm start."
    return "" if found.games else waiting


def _drawn(game: Game, shown: GameInProgress) -> str:
    """Return a position as SVG; of a game with hidden information, only the worker's own picture."""
    if game.spec().information != "perfect":
        if shown.picture is None:
            raise InvalidRequest("the worker sent the moves of a game whose players hide something, which are not shown")
        return shown.picture
    if shown.moves is None:
        raise InvalidRequest("the worker sent a picture in place of moves, which is not shown")
    return svg.picture(game, replay(game, shown.moves, shown.seed or 0))

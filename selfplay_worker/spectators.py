"""Spectators of a worker: copies of a few games in progress, made only after a request for them.

Without a request in the last `WATCHED_S` the lanes check one flag in each step and copy nothing. With one, each lane copies its
shown games after a step, between two advances of its block. An answer is rendered in a thread, once in `FRESH_S` for any number
of requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from games.core import Game, State
from games.pictures import seen_picture
from selfplay_worker.game_register import Ticket
from selfplay_worker.settings import WorkerSettings
from zerofleet.contracts.games_in_progress import MOST_BOARDS, GameInProgress, games_path, written_games
from zerofleet.rpc.addresses import is_loopback
from zerofleet.rpc.security.credentials import plain
from zerofleet.search import EXTERNAL, SearchBlock
from zerofleet.search.afterstates.block import AfterstateBlock
from zerofleet.search.daemon_thread import in_daemon_thread
from zerofleet.service.lifecycle import Service
from zerofleet.service.probes import Answer

__all__ = ["FRESH_S", "WATCHED_S", "Spectators"]

WATCHED_S = 3.0
"""Time after a request in which games are still copied, for the next request."""
FRESH_S = 0.5
"""Time in which all requests for a seat receive one answer."""
FIRST_COPY_S = 2.0
"""Time that a first request waits for the copies of a step."""
ENDED_S = 3.0
"""Time in which answers show a game that has ended, so that each of several readers a second receives it."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Copy:
    """A game as it was after a step. It stays in this process: of hidden information, only a picture leaves it."""

    uid: str
    seed: int
    versions: tuple[int, ...]
    moves: tuple[int, ...]
    values: tuple[float, ...] | None
    state: State | None
    """Position, where information is hidden."""
    scores: tuple[float, ...] | None = None
    ended_at_s: float = 0.0


@dataclass(slots=True)
class _Rendering:
    """Answer for a seat, finished or not."""

    began_at_s: float
    task: asyncio.Task[Answer]


class Spectators:
    """Games that a worker shows. Not thread-safe: lanes and requests run in one event loop."""

    def __init__(self, game: Game, worker: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.is_watched = False
        """Whether lanes copy their shown games after a step."""
        self._game = game
        self._is_hidden = game.spec().information != "perfect"
        self._worker = worker
        self._clock = clock
        self._reserved = 0
        self._running: dict[int, _Copy] = {}  # by board
        self._ended: dict[int, _Copy] = {}
        self._renderings: dict[int, _Rendering] = {}  # by seat
        self._pictures: dict[tuple[int, str, int], str] = {}  # by seat, uid and ply
        self._one_rendering = asyncio.Lock()
        self._has_copies = asyncio.Event()
        self._until: asyncio.TimerHandle | None = None

    def open(self, service: Service, settings: WorkerSettings) -> None:
        """Answer requests at the HTTP port of the service; without a token, only where it listens on loopback."""
        token = plain(settings.games_token)
        if token is None and not is_loopback(settings.metrics_host):
            log.info("spectators.off", why="games_token is unset, and the HTTP port is reached from other machines")
            return
        for seat in range(1, self._game.spec().num_players + 1):
            service.probes.add(games_path(seat), functools.partial(self.answer, seat), token=token)

    def reserve(self, slots: int) -> range:
        """Return the boards of a lane: its first slots, until `MOST_BOARDS` of the worker are shown."""
        first = self._reserved
        self._reserved = min(first + slots, MOST_BOARDS)
        return range(first, self._reserved)

    def note(self, boards: range, block: SearchBlock | AfterstateBlock, tickets: Mapping[int, Ticket]) -> None:
        """Copy the shown games of a lane whose block is not being searched; `tickets` are its games by slot."""
        self._has_copies.set()
        idle = set(block.idle())  # with a ticket: an opening that waits for its evaluation
        for slot, board in enumerate(boards):
            ticket = tickets.get(slot)
            if ticket is None or slot in idle:
                self._running.pop(board, None)
                continue
            hidden_state = block.state(slot) if self._is_hidden and isinstance(block, SearchBlock) else None
            self._running[board] = _Copy(
                uid=ticket.uid,
                seed=ticket.seed,
                versions=tuple(0 if version == EXTERNAL else version for version in block.versions(slot)),
                moves=tuple(block.moves(slot)),
                values=None if self._is_hidden else block.last_values(slot),
                state=hidden_state,
            )

    def end(self, board: int, scores: Sequence[float]) -> None:
        """Note that the copied game of a board has ended."""
        game = self._running.pop(board)
        self._ended[board] = replace(game, scores=tuple(scores), ended_at_s=self._clock())

    async def answer(self, seat: int) -> Answer:
        """Return the shown games in the view of a seat, from 1; games are copied from now on.

        Cancellation: the rendering ends for the next request.
        """
        self._renew()
        now_s, known = self._clock(), self._renderings.get(seat)
        if known is None or (known.task.done() and now_s - known.began_at_s >= FRESH_S):
            known = self._renderings[seat] = _Rendering(now_s, asyncio.create_task(self._render(seat)))
        return await asyncio.shield(known.task)

    def _renew(self) -> None:
        if self._until is not None:
            self._until.cancel()
        self.is_watched = True
        self._until = asyncio.get_running_loop().call_later(WATCHED_S, self._forget)

    def _forget(self) -> None:
        """Drop every copy, as there was no request for a time."""
        self.is_watched, self._until = False, None
        self._has_copies.clear()
        for kept in (self._running, self._ended, self._renderings, self._pictures):
            kept.clear()

    async def _render(self, seat: int) -> Answer:
        with contextlib.suppress(TimeoutError):  # a worker without a champion, or without an evaluation, has nothing to show
            async with asyncio.timeout(FIRST_COPY_S):
                await self._has_copies.wait()
        async with self._one_rendering:  # one core of a worker is enough
            now_s = self._clock()
            self._ended = {board: one for board, one in self._ended.items() if now_s - one.ended_at_s < ENDED_S}
            shown = [
                (board, game)
                for board in range(self._reserved)
                for game in (self._ended.get(board), self._running.get(board))
                if game is not None
            ]
            known = {key: picture for key, picture in self._pictures.items() if key[0] == seat}
            body, pictures = await in_daemon_thread(functools.partial(self._written, shown, seat, known))
            if self.is_watched:
                self._pictures = {key: text for key, text in self._pictures.items() if key[0] != seat} | pictures
            return Answer(200, body, "application/json")

    def _written(
        self, shown: Sequence[tuple[int, _Copy]], seat: int, known: Mapping[tuple[int, str, int], str]
    ) -> tuple[bytes, dict[tuple[int, str, int], str]]:
        """Return the body, and the pictures in it. Runs in a thread: a first picture may compile rules."""
        games, pictures = [], {}
        for board, copy in shown:
            ply = len(copy.moves)
            facts = {"board": board, "uid": copy.uid, "versions": copy.versions, "ply": ply, "scores": copy.scores}
            if not self._is_hidden:
                facts |= {"moves": copy.moves, "seed": copy.seed, "values": copy.values}
            elif copy.state is not None:
                key = (seat, copy.uid, ply)
                picture = known.get(key) or seen_picture(self._game, copy.state, seat - 1)
                pictures[key] = facts["picture"] = picture
            games.append(GameInProgress.model_validate(facts))
        return written_games(self._worker, self._game.spec().name, games), pictures

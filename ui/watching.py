"""Endpoints of the page that watches self-play: games in progress, the newest finished games, and their positions.

An answer holds neither moves nor hands: of a game with hidden information a page receives the pictures of one seat alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Sequence

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from games.pictures import seen_picture
from ui.catalogue import Catalogue, OpenRun
from ui.endpoints import Endpoint, Parameter
from ui.event_stream import Events, streamed
from ui.numbers import number_of, position_of
from ui.running import RunningGames, WatchedGames
from zerofleet.contracts.games_in_progress import MOST_BOARDS
from zerofleet.library.stored_games import FinishedGames

__all__ = ["WatchEndpoints"]

BOARD_AGE_S = 3600
RETRY_MS = 3000
_MOST_PLIES = 1 << 16
PICTURES_KEPT = 512  # some 6 kB each


class WatchEndpoints:
    """Handlers over the stored games of the runs of a catalogue, and the games in progress of their workers."""

    def __init__(self, catalogue: Catalogue, watched: WatchedGames) -> None:
        self._catalogue = catalogue
        self._watched = watched
        self._guard = threading.Lock()
        self._pictures: dict[tuple[str, str, int, int], bytes] = {}  # the least recently used first

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints."""
        asked = (
            Parameter("limit", "integer", f"Maximum number of games, 1 to {MOST_BOARDS}."),
            Parameter("after", "integer", "Number of a game: only newer ones are listed."),
        )
        seat = Parameter("seat", "integer", "Seat in whose view a position with hidden information is drawn, from 1.")
        board, running = "/runs/{run}/watch/{uid}/{ply}", "/runs/{run}/running"
        drawn = f"{running}/{{uid}}/{{ply}}"
        return (
            Endpoint(running, self.running, "Games in progress of one worker", RunningGames, query=(seat,)),
            Endpoint(
                f"{running}/events", self.running_events, "Games in progress every second", "text/event-stream", query=(seat,)
            ),
            Endpoint(drawn, self.running_board, "Position of a game in progress", "image/svg+xml", query=(seat,)),
            Endpoint("/runs/{run}/watch", self.newest, "Newest finished games, without moves", FinishedGames, query=asked),
            Endpoint(board, self.watched_board, "Position of a game as a seat sees it", "image/svg+xml", query=(seat,)),
        )

    async def newest(self, request: Request) -> BaseModel:
        """List the newest finished games."""
        run, limit = await self._run(request), number_of(request, "limit", MOST_BOARDS, 1, MOST_BOARDS)
        after = number_of(request, "after", 0, 0, 1 << 62) if "after" in request.query_params else -1
        return await asyncio.to_thread(lambda: run.finished(limit=limit, after=after))

    async def watched_board(self, request: Request) -> Response:
        """Draw a position of a stored game in the view of a seat; `ply` 0 is the start."""
        return _image(await asyncio.to_thread(self._picture, request))

    async def running(self, request: Request) -> BaseModel:
        """List the games in progress."""
        run = await self._run(request)
        async with contextlib.aclosing(self._watched.follow(run, _seat(request, run))) as found:
            return await anext(found)

    async def running_events(self, request: Request) -> Response:
        """Stream the games in progress."""
        run = await self._run(request)
        return streamed(_changes(self._watched.follow(run, _seat(request, run))), retry_ms=RETRY_MS)

    async def running_board(self, request: Request) -> Response:
        """Draw a position of a game in progress in the view of a seat."""
        run, uid, ply = await self._run(request), request.path_params["uid"], position_of(request, _MOST_PLIES + 1)
        return _image(await asyncio.to_thread(self._watched.picture, run, _seat(request, run), uid, ply))

    def _picture(self, request: Request) -> bytes:
        """Return the picture that a request asks for; browsers that watch at once ask for the same ones."""
        run, uid = self._catalogue.get(request.path_params["run"]), request.path_params["uid"]
        seat = _seat(request, run)
        _, stored = run.stored(uid)
        key = (run.name, stored.record.uid, position_of(request, len(stored.states)), seat)
        with self._guard:
            known = self._pictures.pop(key, None)
        picture = known or seen_picture(stored.game, stored.states[key[2]], seat - 1).encode()
        with self._guard:
            self._pictures[key] = picture  # the newest is the last
            while len(self._pictures) > PICTURES_KEPT:
                del self._pictures[next(iter(self._pictures))]
        return picture

    async def _run(self, request: Request) -> OpenRun:
        return await asyncio.to_thread(self._catalogue.get, request.path_params["run"])


async def _changes(looks: AsyncGenerator[RunningGames]) -> Events:
    async with contextlib.aclosing(looks):  # a browser that leaves ends the poll at once
        async for found in looks:
            yield "games", found


def _seat(request: Request, run: OpenRun) -> int:
    return number_of(request, "seat", 1, 1, run.game.spec().num_players)


def _image(picture: str | bytes) -> Response:
    return Response(picture, media_type="image/svg+xml", headers={"Cache-Control": f"private, max-age={BOARD_AGE_S}"})

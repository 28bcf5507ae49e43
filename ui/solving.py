"""Endpoints of perfect play: scores of the moves of a Connect Four position, and the mistakes of a game.

A search ends soon after its client has disconnected.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

import games
from games.core import Game
from games.kit import svg
from games.positions import move_names, read_moves, replay, titled
from ui.catalogue import Catalogue
from ui.endpoints import Endpoint, Parameter, StrictValue, moves_in
from ui.event_stream import Events, streamed
from ui.searches import MOST_SEARCHES, Searches, run_while_connected
from zerofleet.agents.exact.solver import fits
from zerofleet.errors import InvalidRequest
from zerofleet.library.solutions import MoveMark, SolvedLine, mark_moves, solve_position, solved_line

__all__ = ["SolvingEndpoints"]

MOST_TEXT = 2000  # characters of the moves of a game
SOLVED = "connect_four"


class Landing(StrictValue):
    """Cell of the picture where a stone can land."""

    id: str
    x: float
    y: float
    radius: float


class SolvedPosition(StrictValue):
    """Position of the solver's page, without its solution."""

    game: str
    after: tuple[str, ...]
    player: int | None
    """Player to move, counted from 1; None when the game is over."""
    cells: tuple[Landing, ...]
    text: str
    """Position as text."""


class MarkView(StrictValue):
    """Move of a game compared with perfect play; scores are for the player who moves."""

    ply: int
    player: int
    move: str
    best: int
    """Highest score of a move here."""
    score: int
    is_blunder: bool
    """Whether the move changes a win, draw or loss for the worse."""


class MarksEnd(StrictValue):
    """End of the marks of a game."""

    marked: int
    blunders: int


class SolvingEndpoints:
    """Handlers of the solver."""

    def __init__(self, catalogue: Catalogue, searches: Searches) -> None:
        self._catalogue = catalogue
        self._searches = searches
        self._marked = asyncio.Semaphore(MOST_SEARCHES)  # each game keeps a table of 34 MB between its moves

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints."""
        query = (
            Parameter("moves", "string", "Moves from the start, separated by commas."),
            Parameter("run", "string", "Run with the board; without it, rows, columns and connect."),
            *(Parameter(name, "integer", "Parameter of the board.") for name in ("rows", "columns", "connect")),
        )
        marks = "Marks of the moves of a game, the last one first, as events `mark`; `end` is the last"
        return (
            Endpoint("/solver", self.solution, "Score of each column under perfect play", SolvedLine, query=query),
            Endpoint("/solver/position", self.solver_position, "The position with its cells", SolvedPosition, query=query),
            Endpoint("/solver/board", self.solver_board, "The position as a picture", "image/svg+xml", query=query),
            Endpoint("/solver/marks", self.marks, marks, "text/event-stream", query=query),
        )

    async def solution(self, request: Request) -> BaseModel:
        """Solve a position; the search ends when the client disconnects."""
        game, moves = await self._position(request)
        solved: SolvedLine = await run_while_connected(request, self._searches, _solution, game, moves)
        return solved

    async def solver_position(self, request: Request) -> BaseModel:
        """Return a position."""
        return await asyncio.to_thread(_position_view, *await self._position(request))

    async def solver_board(self, request: Request) -> Response:
        """Draw a position."""
        game, moves = await self._position(request)
        picture = await asyncio.to_thread(lambda: svg.picture(game, replay(game, moves)))
        return Response(picture, media_type="image/svg+xml", headers={"Cache-Control": "no-store"})

    async def marks(self, request: Request) -> Response:
        """Stream the marks of a game."""
        game, moves = await self._position(request)
        return streamed(self._marks(game, moves))

    async def _marks(self, game: Game, moves: Sequence[int]) -> Events:
        stopped, blunders = threading.Event(), 0
        marks = mark_moves(game, moves, is_stopped=stopped.is_set)
        async with self._marked:
            try:
                while (mark := await self._searches.run(_next, marks)) is not None:
                    blunders += mark.is_blunder
                    yield "mark", MarkView(**asdict(mark))
                yield "end", MarksEnd(marked=len(moves), blunders=blunders)
            finally:
                stopped.set()

    async def _position(self, request: Request) -> tuple[Game, list[int]]:
        """Return the board and the moves of a request. Raises `InvalidRequest`, `GameError`, `UnknownRun`."""
        asked, text = request.query_params, moves_in(request, MOST_TEXT)
        board = {name: asked[name] for name in ("rows", "columns", "connect") if name in asked}
        game = await asyncio.to_thread(self._catalogue.game, asked.get("run"), SOLVED, board)
        if not fits(game):
            raise InvalidRequest(f"{titled(game)} has no exact solver; it is for Connect Four on boards of at most 64 bits")
        return game, await asyncio.to_thread(read_moves, game, text)


def _next(marks: Iterator[MoveMark]) -> MoveMark | None:
    return next(marks, None)


def _solution(game: Game, moves: Sequence[int], stopped: threading.Event) -> SolvedLine:
    return solved_line(game, moves, solve_position(game, replay(game, moves), is_stopped=stopped.is_set))


def _position_view(game: Game, moves: Sequence[int]) -> SolvedPosition:
    state = replay(game, moves)
    is_over = games.core.is_over(game, state)
    return SolvedPosition(
        game=game.spec().name,
        after=tuple(move_names(game, moves)),
        player=None if is_over else int(games.core.to_move(game, state)) + 1,
        cells=() if is_over else tuple(Landing(**cell._asdict()) for cell in game.cells(state)),  # type: ignore[attr-defined]
        text=game.draw(state),
    )

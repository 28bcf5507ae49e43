"""Endpoints of positions that are drawn: the cells of a board, and where play begins with the stones on them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Self

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from games import core
from games.core import Game, State
from games.errors import InvalidDrawing
from games.positions import move_names, replay
from ui.catalogue import Catalogue
from ui.endpoints import Endpoint, Parameter, StrictValue, read_body
from ui.searches import Searches, run_while_connected
from zerofleet.errors import InvalidRequest
from zerofleet.library.drawn_positions import DrawingBoard, drawing_board, drawing_in, drawn_start, moves_to

__all__ = ["BOARD", "DrawnPosition", "SetupEndpoints", "chosen_game"]

DEFAULT_GAME = "connect_four"  # as in the form of play
BOARD = (
    Parameter("game", "string", f"Name of the game, {DEFAULT_GAME} without one; that of the run, if one is given."),
    Parameter("run", "string", "Run with the board."),
)
"""Parameters of a request that `chosen_game` reads."""
MOST_DRAWINGS = 2  # searches at a time: each is Python code and remembers up to a million positions, about 100 MB
MOST_STONES = 1000  # of a drawing: boards have fewer cells
_NO_BOARD = DrawingBoard(cells=(), picture="", colours=(), start={}, asks_mover=False)


class Place(StrictValue):
    """Cell of the picture on which a stone can be drawn."""

    id: str
    x: float
    y: float
    radius: float


class SetupBoard(StrictValue):
    """Empty board to draw on."""

    game: str
    players: int
    colours: tuple[str, ...]
    """Colour of the stones of each player, as in the pictures of the game."""
    cells: tuple[Place, ...]
    """Empty for a game that is set up by moves only."""
    reason: str
    """Reason why it is; empty where a position can be drawn."""
    start: dict[str, int]
    """Player of each stone of the starting position, counted from 1, by its cell."""
    asks_mover: bool
    """Whether a drawing names the player to move; else the numbers of stones do."""


class DrawnPosition(StrictValue):
    """Position where play begins, in place of the start."""

    stones: dict[str, int] = Field(max_length=MOST_STONES)
    """Player of each stone, counted from 1, by its cell."""
    player: int = Field(default=1, ge=1)
    """Player to move."""

    @classmethod
    def of(cls, game: Game, start: State) -> Self:
        """Return the drawing of a position that `read` returned."""
        return cls(stones=_from_one(drawing_in(game, start)), player=int(core.to_move(game, start)) + 1)

    def read(self, game: Game) -> State:
        """Return the position. Raises `InvalidDrawing`, `InvalidRequest`."""
        start = drawn_start(game, _seats(self.stones), self.player - 1)
        if start is None:
            raise InvalidRequest(f"{game.spec().name} begins at the moves to a drawing; give those of /setup/moves as moves")
        return start


class Drawing(StrictValue):
    """Drawn position of a game."""

    game: str
    """Name of the game; that of the run, if one is given."""
    parameters: dict[str, str] = Field(default_factory=dict)
    """Parameters that differ from the game's defaults; those of the run, if one is given."""
    run: str | None = None
    """Run with the board."""
    stones: dict[str, int] = Field(max_length=MOST_STONES)
    """Player of each stone, counted from 1, by its cell."""
    player: int = Field(default=1, ge=1)
    """Player to move, where a drawing names it."""


class SetupMoves(StrictValue):
    """Beginning of play at a drawn position: the position itself, or legal moves to it."""

    moves: tuple[str, ...] | None
    """Moves from the start; None if the position is refused, and where play begins at it."""
    position: DrawnPosition | None
    """Position where play begins; None if it is refused, and where moves lead to it."""
    player: int | None
    """Player to move there, counted from 1; None when the game is over, and if the position is refused."""
    reason: str
    """Reason why the position is refused; empty where it is not."""


class SetupEndpoints:
    """Handlers of the drawing board."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._searches = Searches(MOST_DRAWINGS)

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints."""
        found = "Where play begins with a drawn position"
        return (
            Endpoint("/setup", self.setup, "Board on which a position can be drawn", SetupBoard, query=BOARD),
            Endpoint("/setup/board", self.setup_board, "The empty board as a picture", "image/svg+xml", query=BOARD),
            Endpoint("/setup/moves", self.setup_moves, found, SetupMoves, method="POST", body=Drawing),
        )

    async def setup(self, request: Request) -> BaseModel:
        """Return the board."""
        return await asyncio.to_thread(_board, await self._asked(request))

    async def setup_board(self, request: Request) -> Response:
        """Draw the empty board; a game that cannot be drawn, which may begin with a deal of hands, is refused."""
        picture = await asyncio.to_thread(_empty_board, await self._asked(request))
        return Response(picture, media_type="image/svg+xml", headers={"Cache-Control": "no-store"})

    async def setup_moves(self, request: Request) -> BaseModel:
        """Read the position, or search for moves to it; the search ends when the client disconnects."""
        drawing = await read_body(request, Drawing)
        game = await asyncio.to_thread(self._catalogue.game, drawing.run, drawing.game, drawing.parameters)
        found: SetupMoves = await run_while_connected(request, self._searches, _beginning, game, drawing)
        return found

    async def _asked(self, request: Request) -> Game:
        return await asyncio.to_thread(chosen_game, self._catalogue, request)


def chosen_game(catalogue: Catalogue, request: Request) -> Game:
    """Return the game whose board a request asks for. Raises `GameError`, `UnknownRun`."""
    return catalogue.game(request.query_params.get("run"), request.query_params.get("game", DEFAULT_GAME), {})


def _board(game: Game) -> SetupBoard:
    spec = game.spec()
    try:
        board, reason = drawing_board(game), ""
    except InvalidRequest as refused:
        board, reason = _NO_BOARD, str(refused)
    return SetupBoard(
        game=spec.name,
        players=spec.num_players,
        colours=board.colours,
        cells=tuple(Place(**cell._asdict()) for cell in board.cells),
        reason=reason,
        start=_from_one(board.start),
        asks_mover=board.asks_mover,
    )


def _empty_board(game: Game) -> str:
    return drawing_board(game).picture


def _beginning(game: Game, drawing: Drawing, stopped: threading.Event) -> SetupMoves:
    stones = _seats(drawing.stones)
    try:
        start = drawn_start(game, stones, drawing.player - 1)
        actions = moves_to(game, stones, is_stopped=stopped.is_set) if start is None else []
    except (InvalidRequest, InvalidDrawing) as refused:
        return SetupMoves(moves=None, position=None, player=None, reason=str(refused))
    state = replay(game, actions, start=start)
    player = None if core.is_over(game, state) else int(core.to_move(game, state)) + 1
    if start is not None:
        return SetupMoves(moves=None, position=DrawnPosition.of(game, start), player=player, reason="")
    return SetupMoves(moves=tuple(move_names(game, actions)), position=None, player=player, reason="")


def _seats(stones: Mapping[str, int]) -> dict[str, int]:
    """Return the seats of players that are counted from 1."""
    return {cell: player - 1 for cell, player in stones.items()}


def _from_one(stones: Mapping[str, int]) -> dict[str, int]:
    """Return the players, counted from 1, of seats."""
    return {cell: seat + 1 for cell, seat in stones.items()}

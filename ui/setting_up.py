"""Endpoints of positions that are drawn: the cells of a board, and legal moves to the stones on them."""

from __future__ import annotations

import asyncio
import threading

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

import games
from games import core
from games.core import Game
from games.kit import svg
from games.positions import move_names, new_state, replay
from ui.catalogue import Catalogue
from ui.endpoints import Endpoint, Parameter, StrictValue, read_body
from ui.searches import Searches, run_while_connected
from zerofleet.errors import InvalidRequest
from zerofleet.library.drawn_positions import drawable_cells, moves_to

__all__ = ["SetupEndpoints"]

DEFAULT_GAME = "connect_four"  # as in the form of play
MOST_DRAWINGS = 2  # searches at a time: each is Python code and remembers up to a million positions, about 100 MB


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


class Drawing(StrictValue):
    """Drawn position."""

    game: str
    """Name of the game; that of the run, if one is given."""
    parameters: dict[str, str] = Field(default_factory=dict)
    """Parameters that differ from the game's defaults; those of the run, if one is given."""
    run: str | None = None
    """Run with the board."""
    stones: dict[str, int]
    """Player of each stone, counted from 1, by its cell."""


class SetupMoves(StrictValue):
    """Legal moves to a drawn position."""

    moves: tuple[str, ...] | None
    """Moves from the start; None if there are none."""
    player: int | None
    """Player to move after them, counted from 1; None when the game is over, and without moves."""
    reason: str
    """Reason why there are no moves; empty where there are."""


class SetupEndpoints:
    """Handlers of the drawing board."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._searches = Searches(MOST_DRAWINGS)

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints."""
        query = (
            Parameter("game", "string", "Name of the game, connect_four without one; that of the run, if one is given."),
            Parameter("run", "string", "Run with the board."),
        )
        found = "Legal moves to a drawn position"
        return (
            Endpoint("/setup", self.setup, "Board on which a position can be drawn", SetupBoard, query=query),
            Endpoint("/setup/board", self.setup_board, "The empty board as a picture", "image/svg+xml", query=query),
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
        """Search for moves; the search ends when the client disconnects."""
        drawing = await read_body(request, Drawing)
        game = await self._game(drawing.run, drawing.game, drawing.parameters)
        stones = {cell: player - 1 for cell, player in drawing.stones.items()}
        found: SetupMoves = await run_while_connected(request, self._searches, _moves, game, stones)
        return found

    async def _asked(self, request: Request) -> Game:
        return await self._game(request.query_params.get("run"), request.query_params.get("game", DEFAULT_GAME), {})

    async def _game(self, run: str | None, name: str, parameters: dict[str, str]) -> Game:
        """Return the game of a request. Raises `GameError`, `UnknownRun`."""
        if run is not None:
            return (await asyncio.to_thread(self._catalogue.get, run)).game
        return await asyncio.to_thread(games.make, name, **parameters)


def _board(game: Game) -> SetupBoard:
    spec = game.spec()
    try:
        cells, reason = tuple(Place(**cell._asdict()) for cell in drawable_cells(game)), ""
    except InvalidRequest as refused:
        cells, reason = (), str(refused)
    return SetupBoard(
        game=spec.name,
        players=spec.num_players,
        colours=svg.PLAYER_COLOURS[: spec.num_players],
        cells=cells,
        reason=reason,
    )


def _empty_board(game: Game) -> str:
    drawable_cells(game)
    return svg.picture(game, new_state(game))


def _moves(game: Game, stones: dict[str, int], stopped: threading.Event) -> SetupMoves:
    try:
        actions = moves_to(game, stones, is_stopped=stopped.is_set)
    except InvalidRequest as refused:
        return SetupMoves(moves=None, player=None, reason=str(refused))
    state = replay(game, actions)
    player = None if core.is_over(game, state) else int(core.to_move(game, state)) + 1
    return SetupMoves(moves=tuple(move_names(game, actions)), player=player, reason="")

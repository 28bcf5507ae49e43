"""Endpoints of the position where play would begin with the values of the form, before a game begins.

Nothing is dealt for them: of a game with hidden hands they hold the table before the deal.
"""

from __future__ import annotations

import asyncio

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from games.core import Game, State
from games.pictures import is_drawn_undealt, undealt_picture
from games.positions import move_names, replay
from ui.catalogue import Catalogue
from ui.endpoints import Endpoint, Parameter, StrictValue, moves_in, read_json
from ui.setting_up import BOARD, DrawnPosition, chosen_game
from ui.tables import first_moves
from zerofleet.errors import InvalidRequest

__all__ = ["StartEndpoints"]


class StartView(StrictValue):
    """Position where play would begin."""

    game: str
    moves: tuple[str, ...]
    """Moves to it, in notation."""
    has_picture: bool
    """Whether it can be drawn: a game with a deal may have no picture of the table before it."""


class StartEndpoints:
    """Handlers of the position where play would begin."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints."""
        query = (
            *BOARD,
            Parameter(
                "moves", "string", "Moves to the position, separated by spaces or commas; only with perfect information."
            ),
            Parameter("position", "string", "Drawn position in place of the start, as JSON, as `/setup/moves` returns it."),
        )
        return (
            Endpoint("/start", self.start, "Position where play would begin", StartView, query=query),
            Endpoint("/start/board", self.start_board, "That position as a picture", "image/svg+xml", query=query),
        )

    async def start(self, request: Request) -> BaseModel:
        """Return the position. Raises `InvalidRequest`, `GameError`, `UnknownRun`."""
        return await asyncio.to_thread(self._view, request)

    async def start_board(self, request: Request) -> Response:
        """Draw the position. Raises as `start`, and `InvalidRequest` where it has no picture."""
        picture = await asyncio.to_thread(self._picture, request)
        return Response(picture, media_type="image/svg+xml", headers={"Cache-Control": "no-store"})

    def _view(self, request: Request) -> StartView:
        game, start, actions = self._read(request)
        moves = tuple(move_names(game, actions, start=start))
        return StartView(game=game.spec().name, moves=moves, has_picture=is_drawn_undealt(game))

    def _picture(self, request: Request) -> str:
        game, start, actions = self._read(request)
        if not is_drawn_undealt(game):
            raise InvalidRequest(f"{game.spec().name} has no picture of the table before the deal (`draw_svg_undealt`)")
        return undealt_picture(game, replay(game, actions, start=start))

    def _read(self, request: Request) -> tuple[Game, State | None, list[int]]:
        """Return the game, the drawn position or None for the start, and the moves from there."""
        moves, position = moves_in(request), request.query_params.get("position", "")
        game = chosen_game(self._catalogue, request)
        start = read_json(position, DrawnPosition, "position").read(game) if position else None
        return game, start, first_moves(game, moves, start=start)

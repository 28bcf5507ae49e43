"""Endpoints of the position where play would begin with the values of the form, before a game begins.

Nothing is dealt for them: of a game with hidden hands they hold the table before the deal.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

import games
from games.core import Game, State
from games.pictures import undealt_picture
from games.positions import move_names, read_moves, replay
from ui.catalogue import Catalogue
from ui.endpoints import MOST_TEXT, Endpoint, Parameter, StrictValue, read_json
from ui.setting_up import DEFAULT_GAME, DrawnPosition
from zerofleet.errors import InvalidRequest

__all__ = ["StartEndpoints"]


class StartView(StrictValue):
    """Position where play would begin."""

    game: str
    moves: tuple[str, ...]
    """Moves to it, in notation."""
    has_picture: bool
    """Whether it can be drawn: a game with a deal may have no picture of the table before it."""


class _Start(NamedTuple):
    game: Game
    moves: tuple[str, ...]
    picture: str | None


class StartEndpoints:
    """Handlers of the position where play would begin."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Return the endpoints."""
        query = (
            Parameter("game", "string", "Name of the game, connect_four without one; that of the run, if one is given."),
            Parameter("run", "string", "Run with the board."),
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
        found = await asyncio.to_thread(self._read, request)
        return StartView(game=found.game.spec().name, moves=found.moves, has_picture=found.picture is not None)

    async def start_board(self, request: Request) -> Response:
        """Draw the position. Raises as `start`, and `InvalidRequest` where it has no picture."""
        found = await asyncio.to_thread(self._read, request)
        if found.picture is None:
            raise InvalidRequest(f"{found.game.spec().name} has no picture of the table before the deal (`draw_svg_undealt`)")
        return Response(found.picture, media_type="image/svg+xml", headers={"Cache-Control": "no-store"})

    def _read(self, request: Request) -> _Start:
        asked = request.query_params
        run, moves, position = asked.get("run"), asked.get("moves", "").strip(), asked.get("position", "")
        if len(moves) > MOST_TEXT:
            raise InvalidRequest(f"the moves have more than {MOST_TEXT} characters")
        game = games.make(asked.get("game", DEFAULT_GAME)) if run is None else self._catalogue.get(run).game
        start = read_json(position, DrawnPosition, "position").read(game) if position else None
        return _start(game, moves, start)


def _start(game: Game, text: str, start: State | None) -> _Start:
    """Return the position after moves from the start or a drawn position."""
    if text and game.spec().information != "perfect":
        raise InvalidRequest(f"{game.spec().name} has hidden information, so play begins at the start; leave out moves")
    actions = read_moves(game, text, start=start)
    picture = undealt_picture(game, replay(game, actions, start=start))
    return _Start(game, tuple(move_names(game, actions, start=start)), picture)

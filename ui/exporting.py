"""Endpoints that export games as files, stored ones and those of matches, two at a time. They are over: nothing is hidden."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response

from games.core import Game
from ui.catalogue import Catalogue
from ui.endpoints import Endpoint, Parameter
from ui.numbers import game_of_match, number_of
from ui.searches import Searches, run_while_connected
from zerofleet.library.game_export import KINDS, GameFile, export_game
from zerofleet.library.match_games import export_match_game

__all__ = ["GAME_OF_MATCH", "NOTE_HEADER", "ExportEndpoints"]

GAME_OF_MATCH = (
    Parameter("id", "string", "Id of the match in the list of matches.", is_required=True),
    Parameter("pair", "integer", "Number of the pair of games, from 1."),
    Parameter("game", "integer", "Number of the game of the pair, from 1."),
)
MOST_EXPORTS = 2
NOTE_HEADER = "X-Zerofleet-Note"
"""Header with the positions that the pictures of a long game show."""


class ExportEndpoints:
    """Handlers over the stored games of the runs of a catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._exports = Searches(MOST_EXPORTS)

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints."""
        query = (
            Parameter("kind", "string", f"Kind of file: {', '.join(KINDS)}.", is_required=True),
            Parameter("seat", "integer", "Seat whose view the pictures show, from 1; without it, every hand."),
        )
        note, kind = f"as a file; `{NOTE_HEADER}` names the positions shown of a long one", "application/octet-stream"
        of_match = (*GAME_OF_MATCH, *query)
        return (
            Endpoint("/runs/{run}/games/{uid}/export", self.export, f"A stored game {note}", kind, query=query),
            Endpoint("/runs/{run}/match/export", self.export_of_match, f"A game of a match {note}", kind, query=of_match),
        )

    async def export(self, request: Request) -> Response:
        """Export a stored game; the work ends soon after the client has disconnected."""
        run = await asyncio.to_thread(self._catalogue.get, request.path_params["run"])
        index, stored = await asyncio.to_thread(run.stored, request.path_params["uid"])
        kind, viewer = _wish(request, stored.game)

        def export(stopped: threading.Event) -> GameFile:
            return export_game(index, stored, kind, viewer=viewer, is_stopped=stopped.is_set)

        return await self._answer(request, export, f"{stored.game.spec().name}-{stored.record.uid[:12]}.{kind}")

    async def export_of_match(self, request: Request) -> Response:
        """Export a game of a match; the work ends soon after the client has disconnected."""
        run = await asyncio.to_thread(self._catalogue.get, request.path_params["run"])
        match_id, (pair, number) = request.query_params.get("id", ""), game_of_match(request)
        played = await asyncio.to_thread(lambda: run.match_game(match_id, pair=pair, number=number))
        kind, viewer = _wish(request, run.game)

        def export(stopped: threading.Event) -> GameFile:
            return export_match_game(played, kind, viewer=viewer, is_stopped=stopped.is_set)

        name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{run.header.game}-{match_id}-pair-{pair}-game-{number}.{kind}")
        return await self._answer(request, export, name)

    async def _answer(self, request: Request, export: Callable[[threading.Event], GameFile], name: str) -> Response:
        made: GameFile = await run_while_connected(request, self._exports, export)
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
        if made.note:
            headers[NOTE_HEADER] = made.note
        return Response(made.content, media_type=made.media_type, headers=headers)


def _wish(request: Request, game: Game) -> tuple[str, int | None]:
    """Return the kind of file, and the seat whose view is wanted, from 0. Raises `InvalidRequest`."""
    seats = game.spec().num_players
    viewer = number_of(request, "seat", 1, 1, seats) - 1 if "seat" in request.query_params else None
    return request.query_params.get("kind", ""), viewer

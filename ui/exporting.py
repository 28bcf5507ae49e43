"""Endpoint that exports a stored game as a file, at most two at a time. A stored game is over, so nothing of it is hidden."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from ui.catalogue import Catalogue
from ui.endpoints import Endpoint, Parameter
from ui.numbers import number_of
from ui.searches import Searches, run_while_connected
from zerofleet.library.game_export import KINDS, GameFile, export_game

__all__ = ["NOTE_HEADER", "ExportEndpoints"]

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
        about = f"A stored game as a file; `{NOTE_HEADER}` names the positions shown of a long one"
        return (Endpoint("/runs/{run}/games/{uid}/export", self.export, about, "application/octet-stream", query=query),)

    async def export(self, request: Request) -> Response:
        """Export a stored game; the work ends soon after the client has disconnected."""
        run = await asyncio.to_thread(self._catalogue.get, request.path_params["run"])
        index, stored = await asyncio.to_thread(run.stored, request.path_params["uid"])
        kind, seats = request.query_params.get("kind", ""), stored.game.spec().num_players
        viewer = number_of(request, "seat", 1, 1, seats) - 1 if "seat" in request.query_params else None

        def export(stopped: threading.Event) -> GameFile:
            return export_game(index, stored, kind, viewer=viewer, is_stopped=stopped.is_set)

        made: GameFile = await run_while_connected(request, self._exports, export)
        name = f"{stored.game.spec().name}-{stored.record.uid[:12]}.{kind}"
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
        if made.note:
            headers[NOTE_HEADER] = made.note
        return Response(made.content, media_type=made.media_type, headers=headers)

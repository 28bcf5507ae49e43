"""Endpoints that read runs: list, overview, curves and games. They work with every service stopped and never use torch."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Sequence
from typing import get_args

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from games.kit import svg
from ui.catalogue import Catalogue, OpenRun
from ui.endpoints import Endpoint, Parameter
from ui.event_stream import Events, streamed
from ui.exporting import GAME_OF_MATCH
from ui.live import LiveRuns, Look
from ui.numbers import game_of_match, number_of, position_of
from zerofleet.contracts.naming import MAX_VERSION, is_version
from zerofleet.errors import InvalidRequest
from zerofleet.library.game_query import GameQuery, refusal
from zerofleet.library.heat_map import HeatMap, heat_map
from zerofleet.library.ladder_list import Ladder
from zerofleet.library.match_list import MatchDetail, MatchList
from zerofleet.library.match_rows import KINDS, VERDICTS, MatchQuery, page_of
from zerofleet.library.model_list import ModelDetail, ModelList, ModelQuery
from zerofleet.library.overview import Overview
from zerofleet.library.run_list import RunList, RunStatus
from zerofleet.library.series import MOST_POINTS, Group, RunSeries, as_csv, overlaid_csv
from zerofleet.library.stored_games import GameList, GameReplay, replay_of

__all__ = ["ReadingEndpoints"]

MOST_GAMES = 200
DEFAULT_ROWS, MOST_ROWS = 100, 500
"""Versions of an answer, of that of matches too."""
MOST_RUNS = 6
BOARD_AGE_S = 3600
RETRY_MS = 3000  # a run that cannot be read is looked at again after this time


class ReadingEndpoints:
    """Handlers over the runs of a catalogue."""

    def __init__(self, catalogue: Catalogue, live: LiveRuns) -> None:
        self._catalogue = catalogue
        self._live = live

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints."""
        points = Parameter("points", "integer", f"Maximum number of rows of a group, 2 to {MOST_POINTS}.")
        place = (*GAME_OF_MATCH, Parameter("ply", "integer", "Number of moves played, from 0."))
        group = Parameter(
            "group",
            "string",
            "Rows of the trainer, the run, measured versions or windows of games: `trainer`, `run`, `accuracy` or `seats`.",
        )
        others = Parameter(
            "with", "string", f"Name of a further run, at most {MOST_RUNS - 1} times; rows then begin with their run."
        )
        return (
            Endpoint("/runs", self.runs, "Runs, newest first", RunList),
            Endpoint("/runs/{run}", self.run, "One run, and its state from its files", RunStatus),
            Endpoint("/runs/{run}/overview", self.overview, "State of a run, from its files", Overview),
            Endpoint("/runs/{run}/events", self.events, "State of a run every second, as events", "text/event-stream"),
            Endpoint("/runs/{run}/curves", self.curves, "Series of a run over three axes", RunSeries, query=(points,)),
            Endpoint("/runs/{run}/curves.csv", self.curves_csv, "Series of runs as CSV", "text/csv", query=(group, others)),
            Endpoint("/runs/{run}/models", self.models, "Versions of a run, newest first", ModelList, query=_of_models()),
            Endpoint("/runs/{run}/models/{version}", self.model, "A version with its manifest", ModelDetail),
            Endpoint("/runs/{run}/games", self.games, "Stored games, newest first", GameList, query=_of_games()),
            Endpoint("/runs/{run}/games/{uid}", self.game, "A stored game with its search", GameReplay),
            Endpoint("/runs/{run}/games/{uid}/boards/{ply}", self.game_board, "Position before a move", "image/svg+xml"),
            Endpoint("/runs/{run}/games/{uid}/heat/{ply}", self.heat, "Visits of a search by cell of the board", HeatMap),
            Endpoint("/runs/{run}/ladder", self.ladder, "Ratings of champions and rungs", Ladder),
            Endpoint("/runs/{run}/matches", self.matches, "Matches of the gate, newest first", MatchList, query=_of_matches()),
            Endpoint("/runs/{run}/match", self.match, "A match with its games", MatchDetail, query=GAME_OF_MATCH[:1]),
            Endpoint("/runs/{run}/match/board", self.match_board, "Position of a match", "image/svg+xml", query=place),
        )

    async def runs(self, request: Request) -> BaseModel:
        """List the runs."""
        return await asyncio.to_thread(self._catalogue.runs)

    async def run(self, request: Request) -> BaseModel:
        """Return one run with its state from its files."""
        run = await self._run(request)
        return await asyncio.to_thread(run.status)

    async def overview(self, request: Request) -> BaseModel:
        """Return the state of a run from its files."""
        run = await self._run(request)
        return await asyncio.to_thread(run.overview)

    async def events(self, request: Request) -> Response:
        """Stream the state of a run."""
        run = await self._run(request)
        return streamed(_overviews(self._live.follow(run)), retry_ms=RETRY_MS)

    async def curves(self, request: Request) -> BaseModel:
        """Return the series of a run."""
        run, points = await self._run(request), number_of(request, "points", MOST_POINTS, 2, MOST_POINTS)
        return await asyncio.to_thread(lambda: run.series(points=points))

    async def curves_csv(self, request: Request) -> Response:
        """Return the series of a run and of those beside it as CSV, every row of them."""
        run, group = await self._run(request), request.query_params.get("group", "trainer")
        known: Group | None = next((one for one in get_args(Group) if one == group), None)
        if known is None:
            raise InvalidRequest(f"group {group!r} is unknown; choose trainer, run, accuracy or seats")
        names = [name for name in dict.fromkeys(request.query_params.getlist("with")) if name != run.name]
        if len(names) >= MOST_RUNS:
            raise InvalidRequest(
                f"{len(names) + 1} runs are too many beside each other; name at most {MOST_RUNS - 1} with `with`"
            )
        text = await asyncio.to_thread(self._csv, run, names, known)
        name = re.sub(r"[^A-Za-z0-9._-]", "_", run.name)
        headers = {"Content-Disposition": f'attachment; filename="{name}-{group}.csv"'}
        return Response(text, media_type="text/csv", headers=headers)

    def _csv(self, run: OpenRun, names: Sequence[str], group: Group) -> str:
        found = {one.name: one.series(points=None) for one in (run, *map(self._catalogue.get, names))}
        return as_csv(found[run.name], group) if not names else overlaid_csv(found, group)

    async def models(self, request: Request) -> BaseModel:
        """List versions of a run."""
        run, given = await self._run(request), request.query_params
        query = ModelQuery(
            limit=number_of(request, "limit", DEFAULT_ROWS, 1, MOST_ROWS),
            before=number_of(request, "before", 0, 0, MAX_VERSION) if "before" in given else None,
            has_champions_only=bool(number_of(request, "champions", 0, 0, 1)),
        )
        return await asyncio.to_thread(run.models, query)

    async def model(self, request: Request) -> BaseModel:
        """Return a version."""
        run, version = await self._run(request), request.path_params["version"]
        if not is_version(version):
            raise InvalidRequest(f"{version!r} is not a version; give a positive integer")
        return await asyncio.to_thread(run.version, int(version))

    async def games(self, request: Request) -> BaseModel:
        """List stored games that fit a query, those among the first games within the bounds of a search."""
        run, limit = await self._run(request), number_of(request, "limit", 25, 1, MOST_GAMES)
        if len(request.query_params) != len(request.query_params.multi_items()):
            raise InvalidRequest("a condition occurs twice; give each at most once")
        query = GameQuery.read({**request.query_params, "limit": limit})
        return await asyncio.to_thread(run.found_games, query)

    async def game(self, request: Request) -> BaseModel:
        """Return a stored game."""
        run, uid = await self._run(request), request.path_params["uid"]
        return await asyncio.to_thread(lambda: replay_of(*run.stored(uid)))

    async def game_board(self, request: Request) -> Response:
        """Draw a position of a stored game; `ply` 0 is the start. A stored game is over, so nothing is hidden."""
        run, uid = await self._run(request), request.path_params["uid"]
        _, stored = await asyncio.to_thread(run.stored, uid)
        ply = position_of(request, len(stored.states))
        picture = await asyncio.to_thread(svg.picture, stored.game, stored.states[ply])
        headers = {"Cache-Control": f"private, max-age={BOARD_AGE_S}"}
        return Response(picture, media_type="image/svg+xml", headers=headers)

    async def heat(self, request: Request) -> BaseModel:
        """Return the heat map of the search at a position of a stored game."""
        run, uid = await self._run(request), request.path_params["uid"]
        _, stored = await asyncio.to_thread(run.stored, uid)
        return await asyncio.to_thread(heat_map, stored, position_of(request, len(stored.states)))

    async def ladder(self, request: Request) -> BaseModel:
        """Return the ladder of a run."""
        run = await self._run(request)
        return (await asyncio.to_thread(run.gate)).ladder

    async def matches(self, request: Request) -> BaseModel:
        """List matches of the gate."""
        run, given = await self._run(request), request.query_params
        query = MatchQuery(
            limit=number_of(request, "limit", DEFAULT_ROWS, 1, MOST_ROWS),
            before=number_of(request, "before", 0, 0, MAX_VERSION) if "before" in given else None,
            version=number_of(request, "version", 0, 0, MAX_VERSION) if "version" in given else None,
            opponent=number_of(request, "opponent", 0, 0, MAX_VERSION) if "opponent" in given else None,
            verdict=_choice_of(request, "verdict", VERDICTS),
            kind=_choice_of(request, "kind", KINDS),
        )
        return page_of((await asyncio.to_thread(run.gate)).matches, query)

    async def match(self, request: Request) -> BaseModel:
        """Return a match."""
        run, match_id = await self._run(request), request.query_params.get("id", "")
        return await asyncio.to_thread(run.match, match_id)

    async def match_board(self, request: Request) -> Response:
        """Draw a position of a match, which shows every hand: the game is over."""
        run, match_id = await self._run(request), request.query_params.get("id", "")
        (pair, game), ply = game_of_match(request), number_of(request, "ply", 0, 0, 1 << 31)
        state = await asyncio.to_thread(lambda: run.match_position(match_id, pair=pair, number=game, ply=ply))
        picture = await asyncio.to_thread(svg.picture, run.game, state)
        headers = {"Cache-Control": "no-store"}  # a run that is made again has a match of the same id
        return Response(picture, media_type="image/svg+xml", headers=headers)

    async def _run(self, request: Request) -> OpenRun:
        return await asyncio.to_thread(self._catalogue.get, request.path_params["run"])


def _of_games() -> tuple[Parameter, ...]:
    """Return the parameters of a query for games."""
    text = {"result", "ending", "worker"}
    fields = GameQuery.model_fields.items()
    abouts = {name: " ".join((field.description or "").split()) for name, field in fields}
    abouts["limit"] = f"Maximum number of games, 1 to {MOST_GAMES}."
    return tuple(Parameter(name, "string" if name in text else "integer", about) for name, about in abouts.items())


def _of_models() -> tuple[Parameter, ...]:
    """Return the parameters of a query for versions."""
    return (
        Parameter("limit", "integer", f"Maximum number of versions, 1 to {MOST_ROWS}; by default {DEFAULT_ROWS}."),
        Parameter("before", "integer", "Version: only older ones are listed."),
        Parameter("champions", "integer", "1: only versions that are or were champion."),
    )


def _of_matches() -> tuple[Parameter, ...]:
    """Return the parameters of a query for matches."""
    return (
        Parameter("limit", "integer", f"Maximum number of versions, 1 to {MOST_ROWS}; by default {DEFAULT_ROWS}."),
        Parameter("before", "integer", "Version: only matches of older ones are listed."),
        Parameter("version", "integer", "Version whose matches are listed."),
        Parameter("opponent", "integer", "Version against which they were played."),
        Parameter(
            "verdict", "string", f"Status of the version of a decided match, or state of any other: {_either(VERDICTS)}."
        ),
        Parameter("kind", "string", f"Match before a promotion, or measurement after one: {_either(KINDS)}."),
    )


def _choice_of(request: Request, name: str, choices: Sequence[str]) -> str | None:
    """Return the value of a query parameter, None without one. Raises `InvalidRequest` for none of `choices`."""
    text = request.query_params.get(name)
    if text is not None and text not in choices:
        raise refusal(name, text, _either(choices))
    return text


def _either(choices: Sequence[str]) -> str:
    *others, last = (f"`{choice}`" for choice in choices)
    return f"{', '.join(others)} or {last}"


async def _overviews(looks: AsyncGenerator[Look]) -> Events:
    async with contextlib.aclosing(looks):  # a browser that leaves ends the poll at once
        async for look in looks:
            yield "overview", look.overview()

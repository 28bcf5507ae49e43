"""Endpoints of the ladder of `zerofleet ladder`: its table, the number of its missing games, and their play.

The gatekeeper plays its own ladder, so missing games are played for a run without a live gatekeeper alone. Only an operator may
start or cancel them, after a confirmation of their number.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from ui.catalogue import Catalogue, OpenRun
from ui.endpoints import Endpoint, Parameter, StrictValue, read_body
from ui.event_stream import Events, streamed
from ui.ladder_jobs import LadderJob, LadderJobs
from ui.numbers import number_of
from ui.operators import Operators, Session
from zerofleet.errors import InvalidRequest, ModelNotFound
from zerofleet.library.ladder_play import run_ladder
from zerofleet.library.ladder_table import LadderTable
from zerofleet.supervisor.overview import live_service

__all__ = ["ClimbEndpoints"]

MOST_GAMES, MOST_EVERY = 1000, 1 << 20
GAMES = 20
"""Games per pair of players, unless a request names another number."""
MOST_COUNTS = 2  # at a time
MOST_CHAMPIONS = 200  # rows of the table
MOST_PLANNED = 20_000  # games of a ladder: to count the missing ones takes seconds, since their openings are drawn


class PlayedLadder(StrictValue):
    """Ladder of the games that `zerofleet ladder` and this page have played."""

    table: LadderTable | None
    """None before the first champion; of very many champions it has the newest."""
    older: int
    """Number of champions of the ladder that the table leaves out."""
    missing: int
    """Games of the table that have not been played; 0 where `refusal` states that they were not counted."""
    refusal: str
    """Reason why the missing games cannot be played from here; empty where they can."""
    job: LadderJob | None
    """Games that are being played, or the last ones that were, since the start of the application."""


class PlayMissing(StrictValue):
    """Order to play the missing games."""

    games: int = Field(default=GAMES, ge=1, le=MOST_GAMES)
    """Games per pair of players."""
    every: int = Field(default=1, ge=1, le=MOST_EVERY)
    """Distance of the champions that are rated, counted from the last; the first is always one of them."""
    confirmed: int = Field(ge=1)
    """Number of missing games that was shown and confirmed; more than these are not played."""


class ClimbEndpoints:
    """Handlers over the runs of a catalogue."""

    def __init__(self, catalogue: Catalogue, jobs: LadderJobs, operators: Operators, *, is_elsewhere: bool) -> None:
        self._catalogue = catalogue
        self._jobs = jobs
        self._operators = operators
        self._is_elsewhere = is_elsewhere
        self._counts = asyncio.Semaphore(MOST_COUNTS)

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints."""
        query = (
            Parameter("games", "integer", f"Games per pair of players, 1 to {MOST_GAMES}; {GAMES} by default."),
            Parameter("every", "integer", "Distance of the champions that are rated, from 1."),
        )
        home = "/runs/{run}/ladder/games"
        playing = "Missing games that are being played, as events `job`"
        return (
            Endpoint("/session", self.session, "Whether the caller is an operator", Session),
            Endpoint(home, self.played, "Ladder of `zerofleet ladder`, and its missing games", PlayedLadder, query=query),
            Endpoint(home, self.play, "Play the missing games", LadderJob, method="POST", body=PlayMissing),
            Endpoint(f"{home}/cancel", self.cancel, "End the play of missing games", LadderJob, method="POST"),
            Endpoint(f"{home}/events", self.progress, playing, "text/event-stream"),
        )

    async def session(self, request: Request) -> BaseModel:
        """Return the rights of the caller."""
        return self._operators.session(request)

    async def played(self, request: Request) -> BaseModel:
        """Return the ladder with its missing games."""
        run = await self._run(request)
        games = number_of(request, "games", GAMES, 1, MOST_GAMES)
        return await self._ladder(run, games, number_of(request, "every", 1, 1, MOST_EVERY))

    async def play(self, request: Request) -> BaseModel:
        """Begin to play the missing games of a run."""
        self._operators.require(request)
        run, wish = await self._run(request), await read_body(request, PlayMissing)
        now = await self._ladder(run, wish.games, wish.every)
        if now.refusal:
            raise InvalidRequest(now.refusal)
        if now.missing > wish.confirmed:
            raise InvalidRequest(f"{now.missing} games are missing by now, {wish.confirmed} were confirmed: confirm again")
        return self._jobs.begin(run, games=wish.games, every=wish.every, most=wish.confirmed)

    async def cancel(self, request: Request) -> BaseModel:
        """End the play of a run's missing games."""
        self._operators.require(request)
        run = await self._run(request)
        return await self._jobs.cancel(run.name)

    async def progress(self, request: Request) -> Response:
        """Stream the play of a run's missing games, until it ends."""
        run = await self._run(request)
        return streamed(self._steps(run.name))

    async def _steps(self, run: str) -> Events:
        """Yield the job until it ends. Raises `InvalidRequest` without one: a browser would ask again after an empty stream."""
        job: LadderJob | None = None
        async with contextlib.aclosing(self._jobs.follow(run)) as steps:
            async for job in steps:
                yield "job", job
        if job is None or not job.is_done:
            raise InvalidRequest(f"no missing games of {run} are being played")

    async def _ladder(self, run: OpenRun, games: int, every: int) -> PlayedLadder:
        async with self._counts:
            table, older, missing, refusal = await asyncio.to_thread(_counted, run, games, every)
        refusal = refusal or await asyncio.to_thread(self._refusal, run)
        if not refusal and not missing:
            refusal = "no game is missing: ask for more games per pair, or for more champions"
        return PlayedLadder(table=table, older=older, missing=missing, refusal=refusal, job=self._jobs.of(run.name))

    def _refusal(self, run: OpenRun) -> str:
        if self._is_elsewhere:
            return "the services of this run are elsewhere: play the games there, by zerofleet ladder"
        if live_service(run.paths.announce("gatekeeper")) is not None:
            return "the run is alive, and its gatekeeper plays the ladder itself; stop the run first"
        return ""

    async def _run(self, request: Request) -> OpenRun:
        return await asyncio.to_thread(self._catalogue.get, request.path_params["run"])


def _counted(run: OpenRun, games: int, every: int) -> tuple[LadderTable | None, int, int, str]:
    """Return the table, the champions that it leaves out, the missing games, and the reason why they are not counted."""
    try:
        chosen = run_ladder(run.game, run.paths, games=games, every=every)
    except ModelNotFound as error:
        return None, 0, 0, str(error)
    planned, older = chosen.plan.most_games, max(0, len(chosen.champions) - MOST_CHAMPIONS)
    with chosen.book(is_writer=False) as book:
        table = chosen.table(book, newest=MOST_CHAMPIONS)
        if planned > MOST_PLANNED:
            fewer = "ask for fewer games per pair or fewer champions, or use zerofleet ladder"
            return table, older, 0, f"this ladder has {planned:,} games, at most {MOST_PLANNED:,} are played here: {fewer}"
        return table, older, chosen.missing(book), ""

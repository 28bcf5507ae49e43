"""Application: pages, API and its protection, as one ASGI application.

app = create_app(Catalogue(runs, None), host_names=["127.0.0.1", "localhost"])
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Sequence
from importlib.metadata import version
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ui.catalogue import Catalogue
from ui.climbs import ClimbEndpoints
from ui.comparing import ComparisonEndpoints, Comparisons
from ui.compiling import CompilingEndpoints
from ui.endpoints import API, openapi, routes
from ui.exporting import ExportEndpoints
from ui.ladder_jobs import LadderJobs
from ui.live import LiveRuns
from ui.model_servers import ModelServers
from ui.operators import Operators
from ui.pages import Pages, static_files
from ui.planning import ClusterEndpoints
from ui.playing import PlayEndpoints
from ui.priors import PriorEndpoints
from ui.promoting import PromotionEndpoints, Promotions
from ui.reading import ReadingEndpoints
from ui.running import WatchedGames
from ui.searches import Searches
from ui.security import Guard
from ui.setting_up import SetupEndpoints
from ui.solving import SolvingEndpoints
from ui.starting import StartEndpoints
from ui.studies import Studies
from ui.studying import StudyEndpoints
from ui.tables import Tables
from ui.watching import WatchEndpoints
from ui.worker_games import WorkerAccess

__all__ = ["LOOPBACK_NAMES", "create_app"]

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")


def create_app(
    catalogue: Catalogue,
    *,
    host_names: Sequence[str] = LOOPBACK_NAMES,
    token: str = "",
    operator_token: str = "",
    live: LiveRuns | None = None,
    jobs: LadderJobs | None = None,
    watched: WatchedGames | None = None,
    max_tables: int = 32,
    costs: Path | None = None,
    is_elsewhere: bool = False,
) -> Starlette:
    """Return the application over the runs of a catalogue, which it closes at its end.

    Args:
        catalogue: The runs.
        host_names: Accepted names in the Host header; `*` for all of them.
        token: Secret that every request must show; empty for none.
        operator_token: Secret of operators, which counts as `token` too; empty for none.
        live: Pollers of the services.
        jobs: Player of missing ladder games.
        watched: Polls of the games in progress.
        max_tables: Maximum number of games in progress.
        is_elsewhere: Whether the services of the runs are where these pages do not see them.
        costs: Cost file for the page of the cluster; None for the shipped example.
    """
    pages = Pages(catalogue, tokens=tuple(filter(None, (token, operator_token))), is_elsewhere=is_elsewhere)
    servers = ModelServers()
    tables, studies, asked = Tables(max_tables, servers), Studies(servers), Studies(servers, once=True)
    live, jobs = live or LiveRuns(), jobs or LadderJobs()
    reading, playing = ReadingEndpoints(catalogue, live), PlayEndpoints(catalogue, tables)
    watching = WatchEndpoints(catalogue, watched or WatchedGames(WorkerAccess(is_elsewhere=is_elsewhere)))
    endpoints = [*reading.endpoints(), *watching.endpoints(), *playing.endpoints()]
    endpoints += ExportEndpoints(catalogue).endpoints()
    operators, promotions = Operators(token, operator_token), Promotions()
    endpoints += ClimbEndpoints(catalogue, jobs, operators, is_elsewhere=is_elsewhere).endpoints()
    endpoints += PromotionEndpoints(catalogue, promotions, operators, is_elsewhere=is_elsewhere).endpoints()
    endpoints += ClusterEndpoints(catalogue, live, costs).endpoints()
    endpoints += [*StudyEndpoints(catalogue, studies, tables).endpoints(), *SolvingEndpoints(catalogue, Searches()).endpoints()]
    endpoints += PriorEndpoints(catalogue, asked).endpoints()
    endpoints += [
        *StartEndpoints(catalogue).endpoints(),
        *SetupEndpoints(catalogue).endpoints(),
        *CompilingEndpoints().endpoints(),
    ]
    endpoints += ComparisonEndpoints(catalogue, Comparisons(servers)).endpoints()
    document = functools.cache(lambda: openapi(endpoints, version("zerofleet")))

    async def describe_api(request: Request) -> Response:
        return JSONResponse(document())

    async def not_found(request: Request, error: Exception) -> Response:
        text = f"there is nothing at {request.url.path}"
        if request.url.path.startswith(API):
            return JSONResponse({"error": text}, 404)
        return pages.render("fault.html", 404, fault=text)

    async def wrong_method(request: Request, error: Exception) -> Response:
        text, headers = f"{request.url.path} has no method {request.method}", getattr(error, "headers", None)
        if request.url.path.startswith(API):
            return JSONResponse({"error": text}, 405, headers=headers)
        page = pages.render("fault.html", 405, fault=text)
        page.headers.update(headers or {})
        return page

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await promotions.aclose()
        await jobs.aclose()
        await tables.aclose()
        await studies.aclose()
        await asked.aclose()
        await servers.aclose()
        catalogue.close()

    return Starlette(
        routes=[
            *pages.routes(),
            *routes(endpoints),
            Route(f"{API}/openapi.json", describe_api),
            static_files(),
        ],
        middleware=[Middleware(Guard, host_names=host_names, token=token, operator_token=operator_token)],
        exception_handlers={404: not_found, 405: wrong_method},
        lifespan=lifespan,
    )

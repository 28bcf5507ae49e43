"""Pages: HTML shells whose modules fetch the API. Every value is escaped by the templates."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from games.errors import GameError
from games.faults import fault_of
from ui.catalogue import Catalogue
from ui.endpoints import body_of, status_of
from ui.security import COOKIE, cookie_of, own_page
from zerofleet.errors import InvalidRequest, ZerofleetError

__all__ = ["Pages", "static_files"]

HERE = Path(__file__).parent
RUN_PAGES = ("overview", "curves", "ladder", "models", "matches", "games", "watch", "cluster")
COOKIE_AGE_S = 30 * 24 * 3600


class _StaticFiles(StaticFiles):
    """Files that a browser asks for again: modules of two releases do not fit together, and their addresses are the same."""

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        """Return a file, or that the browser has it."""
        answer = super().file_response(*arguments, **options)
        answer.headers["Cache-Control"] = "no-cache"
        return answer


def static_files() -> Mount:
    """Return the route of style sheets, modules and vendored libraries."""
    return Mount("/static", _StaticFiles(directory=HERE / "static"))


class Pages:
    """HTML pages of the application."""

    def __init__(self, catalogue: Catalogue, *, tokens: Sequence[str] = (), is_elsewhere: bool = False) -> None:
        self._catalogue = catalogue
        self._is_elsewhere = is_elsewhere
        self._tokens = tokens
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(HERE / "templates"), autoescape=True, undefined=jinja2.StrictUndefined
        )
        self._templates.filters["path"] = lambda text: quote(text, safe="")

    def routes(self) -> list[Route]:
        """Return the routes of the pages."""
        return [
            Route("/", self._showing("runs.html")),
            Route("/play", self._showing("play.html")),
            Route("/tree", self._showing("tree.html")),
            Route("/solver", self._showing("solver.html")),
            Route("/api", self._showing("api.html")),
            Route("/login", self.login, methods=["GET", "POST"]),
            Route("/runs/{run}", self.first_page),
            *(Route(f"/runs/{{run}}/{name}", self._showing(f"{name}.html")) for name in RUN_PAGES),
            Route("/runs/{run}/compare", self._showing("compare.html")),
            Route("/runs/{run}/games/{uid}", self._showing("replay.html")),
        ]

    def render(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """Return a page."""
        defaults: dict[str, Any] = {
            "run": None,
            "is_elsewhere": self._is_elsewhere,
            "page": template.partition(".")[0],
            "game": None,
            "uid": None,
            "players": 0,
        }
        return HTMLResponse(self._templates.get_template(template).render(**{**defaults, **values}), status)

    async def first_page(self, request: Request) -> Response:
        """Redirect to the overview of a run."""
        return RedirectResponse(f"/runs/{quote(request.path_params['run'], safe='')}/overview", 307)

    async def login(self, request: Request) -> Response:
        """Ask for a token, and keep a cookie in a browser that knows one."""
        if request.method in ("GET", "HEAD"):
            return self.render("login.html", wrong=False, following=own_page(request.query_params.get("next", "/")))
        try:
            content = await body_of(request)
        except InvalidRequest:
            return self.render("login.html", 413, wrong=True, following="/")
        form = content.decode(errors="replace")
        given, following = _form_field(form, "token"), own_page(_form_field(form, "next"))
        if cookie_of(given) not in map(cookie_of, self._tokens):
            return self.render("login.html", 401, wrong=True, following=following)
        answer = RedirectResponse(following, 303)
        answer.set_cookie(
            COOKIE,
            cookie_of(given),
            max_age=COOKIE_AGE_S,
            httponly=True,
            samesite="lax",  # a link from a mail opens its page; the guard refuses changes of other sites
            secure=request.url.scheme == "https",  # also behind a proxy of this machine whose headers state it
        )
        return answer

    def _showing(self, template: str) -> Callable[[Request], Awaitable[Response]]:
        async def show(request: Request) -> Response:
            name, uid = request.path_params.get("run"), request.path_params.get("uid")
            if name is None:
                return self.render(template, run=None, uid=uid)
            try:
                game, players = await asyncio.to_thread(self._facts, name, template)
            except (ZerofleetError, GameError) as error:
                return self.render("fault.html", status_of(error), fault=str(error))
            except Exception as error:
                if (fault := fault_of(error)) is None:
                    raise
                return self.render("fault.html", 500, fault=str(fault))
            return self.render(template, run=name, uid=uid, game=game, players=players)

        return show

    def _facts(self, name: str, template: str) -> tuple[str, int]:
        """Return the game of a run and, for the page that names the players, their number.

        Only that page opens the run: the others are answered at once, and say what is being read.
        """
        if template != "games.html":
            return self._catalogue.header(name).game, 0
        run = self._catalogue.get(name)
        return run.header.game, run.game.spec().num_players


def _form_field(body: str, name: str) -> str:
    return parse_qs(body, keep_blank_values=True).get(name, [""])[0]

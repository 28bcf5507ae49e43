"""Protection of the pages: response headers, names of the host, token, and origin of changes.

The middleware refuses a request before a route sees it:

    foreign Host header        400   DNS rebinding: a foreign page may not reach the application through a name of its own
    no token where one is set  401   programs send `Authorization: Bearer`, browsers a cookie from the form of /login
    POST of another origin     403   `Sec-Fetch-Site` or `Origin` of another site
    API read from another site 403   `Sec-Fetch-Site`: a foreign page cannot start work here by an image or a frame
    POST without JSON          415   forms of foreign pages cannot send JSON
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Literal
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["CONTENT_SECURITY_POLICY", "COOKIE", "Guard", "cookie_of", "host_of", "own_page", "shown"]

CONTENT_SECURITY_POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
COOKIE = "zerofleet_ui"
OPEN_PATHS = ("/login", "/static/")
OWN_PATH = "/api/"
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with `no-referrer` a form is sent with `Origin: null`, as from a foreign page
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_SAFE = ("GET", "HEAD")
_OWN_SITES = ("same-origin", "none")


class Guard:
    """ASGI middleware with the rules of the module."""

    def __init__(self, app: ASGIApp, *, host_names: Sequence[str], token: str = "", operator_token: str = "") -> None:
        self._app = app
        self._host_names = frozenset(host_names)
        self._tokens = tuple(filter(None, (token, operator_token))) if token else ()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request. Cancellation: that of the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        refused = self._refusal(scope)
        await (refused or self._app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers, path, method = Headers(scope=scope), str(scope["path"]), str(scope["method"])
        host = host_of(f"//{headers.get('host', '')}")
        if "*" not in self._host_names and host not in self._host_names:
            return _refused(400, f"host {host!r} is not served here; add it to the setting page_host_names")
        if not path.startswith(OPEN_PATHS) and not self._is_known(headers):
            if method in _SAFE and "text/html" in headers.get("accept", ""):
                return RedirectResponse(_login_for(scope), 303)
            return _refused(401, "a token is required: enter it at /login, or send it as Authorization: Bearer")
        if method not in _SAFE:
            return self._foreign_change(headers, path)
        if path.startswith(OWN_PATH) and headers.get("sec-fetch-site", "none") not in _OWN_SITES:
            return _refused(403, "values are given to the pages of this application and to programs alone")
        return None

    def _is_known(self, headers: Headers) -> bool:
        return not self._tokens or any(shown(headers, token) for token in self._tokens)

    @staticmethod
    def _foreign_change(headers: Headers, path: str) -> Response | None:
        site, origin = headers.get("sec-fetch-site", "none"), headers.get("origin")
        if site not in _OWN_SITES or (origin is not None and origin.partition("://")[2] != headers.get("host")):
            return _refused(403, "changes are accepted from the pages of this application alone")
        if path != "/login" and headers.get("content-type", "").partition(";")[0] != "application/json":
            return _refused(415, "send the body as application/json")
        return None


def shown(headers: Headers, token: str) -> Literal["bearer", "cookie"] | None:
    """Return how a request shows a token; None where it does not."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and hmac.compare_digest(given.encode(), token.encode()):
        return "bearer"
    kept = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
    return "cookie" if hmac.compare_digest(kept.encode(), cookie_of(token).encode()) else None


def cookie_of(token: str) -> str:
    """Return the value of the cookie of a browser that knows the token; the token cannot be derived from it."""
    return hmac.new(token.encode(), b"zerofleet ui cookie", hashlib.sha256).hexdigest()


def host_of(address: str) -> str:
    """Return the host of an address; empty for a malformed one."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def own_page(address: str) -> str:
    """Return an address if it is that of a page here, else `/`: a link must not lead elsewhere after the login."""
    is_own = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if is_own else "/"


def _login_for(scope: Scope) -> str:
    """Return the address of the form for a token, which names the page that was asked for."""
    query = scope["query_string"].decode("latin-1")
    page = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
    return "/login" if page == "/" else f"/login?{urlencode({'next': page})}"


def _refused(status: int, text: str) -> JSONResponse:
    return JSONResponse({"error": text}, status)

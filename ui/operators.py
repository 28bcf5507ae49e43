"""Permission for what an operator alone may start, and the proof that the request comes from a page of this application.

    page_operator_token set     the operator's token, as Authorization: Bearer or as the cookie of the form of /login
    page_token alone            there is no operator
    neither                     every user of the pages, which are then served to this machine alone

A browser sends cookies by itself; so, beside the rules of `ui.security`, a request without a Bearer token must show the
session's token as a header, which a foreign page cannot read. It changes with each start of the application.
"""

from __future__ import annotations

import hmac
import secrets

from starlette.requests import Request

from ui.endpoints import StrictValue
from ui.security import shown
from zerofleet.errors import PermissionRefused

__all__ = ["CSRF_HEADER", "Operators", "Session"]

CSRF_HEADER = "X-CSRF-Token"


class Session(StrictValue):
    """Rights of the caller."""

    is_operator: bool
    refusal: str
    """Reason and next step for a caller who is not an operator; empty otherwise."""
    csrf_token: str
    """Value of the header `X-CSRF-Token` of requests that an operator alone may send."""


class Operators:
    """Tokens of the application, and the rules of the module."""

    def __init__(self, token: str, operator_token: str) -> None:
        self._token = token
        self._operator_token = operator_token
        self._csrf_token = secrets.token_urlsafe(32)

    def session(self, request: Request) -> Session:
        """Return the rights of the caller."""
        refusal = self._refusal(request)
        return Session(is_operator=not refusal, refusal=refusal, csrf_token=self._csrf_token)

    def require(self, request: Request) -> None:
        """Raise `PermissionRefused` unless an operator sent the request from a page of this application, or as a program."""
        refusal = self._refusal(request)
        if refusal:
            raise PermissionRefused(refusal)
        if self._operator_token and shown(request.headers, self._operator_token) == "bearer":
            return
        if not hmac.compare_digest(request.headers.get(CSRF_HEADER, "").encode(), self._csrf_token.encode()):
            raise PermissionRefused(f"the header {CSRF_HEADER} is not that of this session: load the page again")

    def _refusal(self, request: Request) -> str:
        if self._operator_token:
            if shown(request.headers, self._operator_token):
                return ""
            return "only an operator may do this: enter the operator's token at /login, or send it as Authorization: Bearer"
        return "only an operator may do this: set page_operator_token of zerofleet ui" if self._token else ""

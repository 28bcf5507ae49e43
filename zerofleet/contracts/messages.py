"""Messages built from the values of a user."""

from __future__ import annotations

from typing import Any, TypeVar

from zerofleet.errors import InvalidRequest

__all__ = ["build_request"]

Request = TypeVar("Request")


def build_request(message: type[Request], /, **fields: Any) -> Request:
    """Return a message with these fields; raises `InvalidRequest` for a number or text that it cannot hold."""
    try:
        return message(**fields)
    except ValueError as error:  # also of text that is not Unicode
        raise InvalidRequest(f"the request cannot be sent: {error}") from error

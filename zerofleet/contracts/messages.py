"""Messages built from the values of a user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from zerofleet.errors import InvalidRequest

__all__ = ["build_request", "texts_of"]

Request = TypeVar("Request")
_SHOWN = 60


def build_request(message: type[Request], /, **fields: Any) -> Request:
    """Return a message with these fields; raises `InvalidRequest` with the name of one that it cannot hold."""
    empty = message()
    for name, value in fields.items():
        if isinstance(value, str) and hasattr(getattr(empty, name), "append"):  # it would be read letter by letter
            raise _refusal(empty, name, value, "")
    try:
        return message(**fields)
    except (TypeError, ValueError):  # also of text that is not Unicode
        for name, value in fields.items():
            try:
                message(**{name: value})
            except (TypeError, ValueError) as error:
                reason = f" ({error})" if isinstance(error, ValueError) else ""  # a type error names no field
                raise _refusal(empty, name, value, reason) from error
        raise


def texts_of(parameters: Mapping[str, str | float] | None) -> dict[str, str]:
    """Return parameters of a game as messages hold them; raises `InvalidRequest` unless they are given by name."""
    if not isinstance(parameters or {}, Mapping):
        raise InvalidRequest(f"parameters is {repr(parameters)[:_SHOWN]}, want values by name, such as {{'rows': 5}}")
    return {name: str(value) for name, value in (parameters or {}).items()}


def _refusal(empty: Any, name: str, value: Any, reason: str) -> InvalidRequest:
    """Return the error for the value of a field, whose default in an empty message has the type that it can hold."""
    default = getattr(empty, name)
    words = {str: "a text", bool: "true or false", int: "a whole number from 0"}
    wanted = "values by name" if isinstance(default, Mapping) else words.get(type(default), "a list of texts")
    return InvalidRequest(f"the request cannot be sent: {name} is {repr(value)[:_SHOWN]}, want {wanted}{reason}")

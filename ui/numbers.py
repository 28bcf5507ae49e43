"""Numbers in requests: query parameters, and the position of a game that a path names."""

from __future__ import annotations

from starlette.requests import Request

from zerofleet.errors import InvalidRequest

__all__ = ["game_of_match", "number_of", "position_of"]

_MOST_DIGITS = 19
_MOST_GAMES = 1 << 31


def number_of(request: Request, name: str, default: int, least: int, most: int) -> int:
    """Return the integer of a query parameter. Raises `InvalidRequest` outside of `least` to `most`."""
    text = request.query_params.get(name, str(default))
    if not (_is_number(text) and least <= int(text) <= most):
        raise InvalidRequest(f"{name}={text!r} is out of range; give an integer from {least} to {most}")
    return int(text)


def position_of(request: Request, positions: int) -> int:
    """Return the `ply` of a path, of a game with this number of positions. Raises `InvalidRequest`."""
    ply = request.path_params["ply"]
    if not (_is_number(ply) and int(ply) < positions):
        raise InvalidRequest(f"there is no position {ply[:20]!r}; the game has positions 0 to {positions - 1}")
    return int(ply)


def game_of_match(request: Request) -> tuple[int, int]:
    """Return the numbers of a pair and of its game, each from 1. Raises `InvalidRequest`."""
    return number_of(request, "pair", 1, 1, _MOST_GAMES), number_of(request, "game", 1, 1, _MOST_GAMES)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS

"""Games in progress of a worker, as its HTTP port answers them for one seat: JSON of bounded size.

A game of perfect information is sent as its moves. Of a game with hidden information the answer has neither moves nor seed nor
values of a search, from which another hand could be derived, but the picture in the view of the seat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from zerofleet.contracts.records import UID_PATTERN
from zerofleet.errors import InvalidRequest

__all__ = ["MOST_ANSWER_BYTES", "MOST_BOARDS", "GameInProgress", "GamesInProgress", "games_path", "read_games", "written_games"]

MOST_BOARDS = 16
MOST_ANSWER_BYTES = 2 << 20
_MOST_ENTRIES = 2 * MOST_BOARDS  # of a board, the game in progress and the one that has just ended
_MOST_PLIES = 1 << 16
_MOST_PICTURE = 1 << 20
_MOST_PLAYERS = 64
_LONGEST_NAME = 128
_MOST_SEED = (1 << 64) - 1

_Count = Annotated[int, Field(ge=0, le=(1 << 63) - 1)]
_Number = Annotated[float, Field(allow_inf_nan=False)]


class GameInProgress(BaseModel):
    """A game on a board, or the last one that ended there."""

    model_config = ConfigDict(frozen=True)

    board: int = Field(ge=0, lt=MOST_BOARDS)
    """Number of the board; games follow one another on it."""
    uid: str = Field(pattern=f"^{UID_PATTERN.pattern}$")
    versions: tuple[_Count, ...] = Field(min_length=1, max_length=_MOST_PLAYERS)
    """Model version of each seat; 0 for a seat without a model."""
    ply: int = Field(ge=0, le=_MOST_PLIES)
    """Number of moves played."""
    moves: tuple[_Count, ...] | None = Field(default=None, max_length=_MOST_PLIES)
    """Actions from the start; None where information is hidden."""
    seed: int | None = Field(default=None, ge=0, le=_MOST_SEED)
    """Seed of the start; None where information is hidden."""
    picture: str | None = Field(default=None, max_length=_MOST_PICTURE)
    """Position as SVG in the view of the seat, where information is hidden; else None."""
    values: tuple[_Number, ...] | None = Field(default=None, max_length=_MOST_PLAYERS)
    """Value of the last move's search for each seat, in [-1, 1]; None without a search, or where information is hidden."""
    scores: tuple[_Number, ...] | None = Field(default=None, max_length=_MOST_PLAYERS)
    """Score of each seat, in [-1, 1]; None while the game goes on."""


class GamesInProgress(BaseModel):
    """Answer of a worker."""

    model_config = ConfigDict(frozen=True)

    worker: str = Field(max_length=_LONGEST_NAME)
    game: str = Field(max_length=_LONGEST_NAME)
    """Name of the game."""
    games: tuple[GameInProgress, ...] = Field(default=(), max_length=_MOST_ENTRIES)
    """By board; a game that has just ended comes before the next one on its board."""


def games_path(seat: int) -> str:
    """Return the path of the answer for a seat, from 1."""
    return f"/games/{seat}"


def written_games(worker: str, game: str, games: Sequence[GameInProgress]) -> bytes:
    """Return the answer; games beyond its bound, which only large drawings reach, are left out from the last board on."""
    kept, size = [], len(GamesInProgress(worker=worker, game=game).model_dump_json().encode())
    for one in games:
        size += len(one.model_dump_json().encode()) + 1
        if size > MOST_ANSWER_BYTES:
            break
        kept.append(one)
    return GamesInProgress(worker=worker, game=game, games=tuple(kept)).model_dump_json().encode()


def read_games(body: bytes) -> GamesInProgress:
    """Return the games of an answer. Raises `InvalidRequest` for what is none, or contradicts itself."""
    try:
        found = GamesInProgress.model_validate_json(body)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, fault["loc"])) or "body"
        raise InvalidRequest(f"the worker's answer is not a list of games: {place}: {fault['msg']}") from None
    for one in found.games:
        if (one.moves is None) == (one.picture is None) or (one.moves is not None and len(one.moves) != one.ply):
            raise InvalidRequest(f"game {one.uid} of the worker's answer needs either its {one.ply} moves or a picture")
        if any(figures is not None and len(figures) != len(one.versions) for figures in (one.values, one.scores)):
            raise InvalidRequest(
                f"game {one.uid} of the worker's answer has other numbers of values or scores than of versions"
            )
    return found

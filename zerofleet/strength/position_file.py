"""Position file: one position per line, as moves from the start.

    d1 d2 c1                        # in the game's notation; commas are accepted
    -                               the start
    2252576253462244111563365343671351441 -1     Connect Four: columns from 1, and the score (Pascal Pons's test sets)

The score in a line is that of the position for the player to move, in the solver's convention; it is compared with the solver's
own where positions are scored. `#` starts a comment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from games import core
from games.connect_four import ConnectFour
from games.core import Game
from games.errors import IllegalMove
from games.positions import read_moves, replay
from zerofleet.errors import InvalidRequest
from zerofleet.strength.word_lines import read_words

__all__ = ["FiledPosition", "read_positions"]

_START = "-"
_COLUMNS = re.compile(r"[1-9]+")
_SCORE = re.compile(r"-?\d{1,3}")


@dataclass(frozen=True, slots=True)
class FiledPosition:
    """Position of a file."""

    line: int
    moves: tuple[int, ...]
    score: int | None
    """Score for the player to move, as the file has it; None without one."""


def read_positions(game: Game, path: Path) -> list[FiledPosition]:
    """Return the positions of a file, in order.

    Raises `InvalidRequest`, with the line number, for illegal moves and finished positions; also for a file that cannot be read
    or has no position.
    """
    found = []
    for number, words in read_words(path, what="positions"):
        try:
            moves, score = _read(game, words)
        except (InvalidRequest, IllegalMove) as error:
            raise InvalidRequest(f"{path} line {number}: {error}") from error
        found.append(FiledPosition(number, moves, score))
    if not found:
        raise InvalidRequest(f"{path} has no position; write one per line, as moves such as `d1 d2`")
    return found


def _read(game: Game, words: list[str]) -> tuple[tuple[int, ...], int | None]:
    score = None
    if isinstance(game, ConnectFour) and _COLUMNS.fullmatch(words[0]):
        moves = [int(column) - 1 for column in words[0]]
        if len(words) > 1:
            if len(words) > 2 or not _SCORE.fullmatch(words[1]):
                raise InvalidRequest(f"{' '.join(words[1:])!r} is not a score; want columns and one integer")
            score = int(words[1])
    else:
        moves = [] if words == [_START] else read_moves(game, " ".join(words))
    if core.is_over(game, replay(game, moves)):
        raise InvalidRequest("the position is over; shorten it")
    return tuple(moves), score

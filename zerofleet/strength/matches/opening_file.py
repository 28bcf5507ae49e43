"""Opening file: one opening per line, in the game's notation.

    # two plies of Connect Four
    d1 d2
    d1,e1           # commas are accepted
    -               the start
    @17 c3-c4       the moves after the deal with seed 17

Without `@` the seed is the index of the opening, from 0. `#` starts a comment.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from games import core, positions
from games.core import Game
from games.errors import IllegalMove
from zerofleet.errors import InvalidRequest
from zerofleet.search.block import LAST_SEED
from zerofleet.strength.matches.openings import Opening, position_key
from zerofleet.strength.word_lines import read_words

__all__ = ["opening_line", "read_openings"]

_START = "-"
_SEED = "@"


def read_openings(game: Game, path: Path) -> tuple[Opening, ...]:
    """Return the openings of a file, in order.

    Raises `InvalidRequest`, with the line number, for illegal moves, an opening that ends the game, and a repeated
    position; also for a file that cannot be read or has no opening.
    """
    found: list[Opening] = []
    seen: dict[int, int] = {}
    for number, words in read_words(path, what="openings"):
        try:
            opening = _read(game, words, seed=len(found))
        except (InvalidRequest, IllegalMove) as error:
            raise InvalidRequest(f"{path} line {number}: {error}") from error
        key = position_key(game, opening)
        if key in seen:
            raise InvalidRequest(f"{path} line {number} leads to the same position as line {seen[key]}; remove one of them")
        seen[key] = number
        found.append(opening)
    if not found:
        raise InvalidRequest(f"{path} has no opening; write one per line, or create a file with `zerofleet openings`")
    return tuple(found)


def opening_line(game: Game, opening: Opening) -> str:
    """Return the line of an opening for `read_openings`; raises `IllegalMove`.

    It has a seed only where the seed matters: for a deal, or for players who randomise secret moves.
    """
    names = positions.move_names(game, opening.moves, opening.seed) or [_START]
    dealt = np.any(positions.new_state(game, opening.seed) != positions.new_state(game))
    seeded = dealt or game.spec().information != "perfect"
    return " ".join([f"{_SEED}{opening.seed}", *names] if seeded else names)


def _read(game: Game, words: list[str], *, seed: int) -> Opening:
    if words[0].startswith(_SEED):
        number = words[0].removeprefix(_SEED)
        if not (number.isascii() and number.isdigit() and int(number) <= LAST_SEED):
            raise InvalidRequest(f"{words[0]!r} is not a seed; write {_SEED} and a number from 0 to 2^63 - 1")
        seed, words = int(number), words[1:]
    moves = [] if words == [_START] else positions.read_moves(game, " ".join(words), seed)
    if core.is_over(game, positions.replay(game, moves, seed)):
        raise InvalidRequest("the opening ends the game; shorten it")
    return Opening(seed, tuple(moves))

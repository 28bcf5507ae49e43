"""Drawn positions: stones that a person puts on a board, and legal moves that lead to them from the start.

A game can be drawn if it has the method `stone_cells` (`games.kit.cells`): a move places one stone of the mover, which stays,
and the stones are the whole position. Then every sequence of moves to a position places exactly its stones, in some order. A
search over the orders is complete: it finds legal moves, or proves that there are none. Each set of stones is entered once.

    moves_to(game, {"d1": 0, "d2": 1})          the actions d1, d2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from games import core
from games.core import Game, State
from games.kit.cells import Cell
from games.positions import legal, new_state
from zerofleet.errors import InvalidRequest

__all__ = ["MOST_POSITIONS", "drawable_cells", "moves_to"]

MOST_POSITIONS = 1_000_000
"""Positions after which a search gives up: more than the 7^7 fillings of the columns of the usual board of Connect Four."""


class _Step(NamedTuple):
    action: int
    filled: int
    """Bits of the cells that have their stone after the action."""


def drawable_cells(game: Game) -> tuple[Cell, ...]:
    """Return the cells of the board on which a position can be drawn. Raises `InvalidRequest` for a game without them."""
    own = getattr(game, "stone_cells", None)
    if own is None:
        raise InvalidRequest(
            f"{game.spec().name} is set up by moves only: drawing is for games whose moves place stones that stay in place"
        )
    return tuple(own())


def moves_to(
    game: Game, stones: Mapping[str, int], *, most: int = MOST_POSITIONS, is_stopped: Callable[[], bool] = lambda: False
) -> list[int]:
    """Return legal actions from the start to the position with these stones.

    Args:
        game: Game with `stone_cells`.
        stones: Owner of each stone, a seat from 0, by the id of its cell.
        most: Positions after which the search gives up.
        is_stopped: Asked at every position; true ends the search.

    Raises:
        InvalidRequest: The game cannot be drawn, a cell or seat does not exist, no sequence of legal moves reaches the
            position, or the search was stopped or gave up.
    """
    _require_drawable(game, stones)
    drawing = {cell: (seat, 1 << number) for number, (cell, seat) in enumerate(stones.items())}
    line: list[int] = []
    states = [new_state(game)]
    tried = [_steps(game, states[0], drawing, 0)]
    seen = {0}
    while len(line) < len(stones):
        step = next(tried[-1], None)
        if step is None:
            tried.pop()
            states.pop()
            if not line:
                raise InvalidRequest(f"no sequence of legal moves reaches this position, with {_counted(game, stones)}")
            line.pop()
        elif step.filled not in seen:
            if len(seen) >= most or is_stopped():
                raise InvalidRequest(f"no sequence of legal moves was found among {len(seen):,} positions; set it up by moves")
            seen.add(step.filled)
            line.append(step.action)
            states.append(states[-1].copy())
            core.play(game, states[-1], step.action)
            tried.append(_steps(game, states[-1], drawing, step.filled))
    return line


def _steps(game: Game, state: State, drawing: Mapping[str, tuple[int, int]], filled: int) -> Iterator[_Step]:
    """Yield the legal actions that place a further stone of the drawing: seat and bit by cell."""
    mover = int(core.to_move(game, state))
    for action in legal(game, state):
        path: tuple[str, ...] = game.action_path(state, action)  # type: ignore[attr-defined]
        seat, bit = drawing.get(path[0], (None, 0)) if len(path) == 1 else (None, 0)
        if seat == mover and not filled & bit:
            yield _Step(action, filled | bit)


def _require_drawable(game: Game, stones: Mapping[str, int]) -> None:
    unknown = sorted(stones.keys() - {cell.id for cell in drawable_cells(game)})
    if unknown:
        raise InvalidRequest(f"the board of {game.spec().name} has no cell {', '.join(unknown)}")
    players = game.spec().num_players
    wrong = sorted({seat for seat in stones.values() if not 0 <= seat < players})
    if wrong:
        raise InvalidRequest(f"stones belong to players 1 to {players}, got {', '.join(str(seat + 1) for seat in wrong)}")


def _counted(game: Game, stones: Mapping[str, int]) -> str:
    owned = [list(stones.values()).count(seat) for seat in range(game.spec().num_players)]
    return " and ".join(
        f"{count} stone{'' if count == 1 else 's'} of player {seat}" for seat, count in enumerate(owned, start=1)
    )

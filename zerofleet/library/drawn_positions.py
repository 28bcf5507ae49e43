"""Drawn positions: stones that a person puts on a board, and the position or the legal moves that they stand for.

A game with rules of drawn positions (`games.kit.stones`) reads a drawing as the position where play begins. A game with the
method `stone_cells` (`games.kit.cells`) needs none: a move places one stone of the mover, which stays, and the stones are the
whole position. Then every sequence of moves to a position places exactly its stones, in some order. A search over the orders is
complete: it finds legal moves, or proves that there are none. Each set of stones is entered once. Other games cannot be drawn.

    moves_to(game, {"d1": 0, "d2": 1})          the actions d1, d2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from games import core
from games.core import Game, State
from games.kit import svg
from games.kit.cells import Cell
from games.kit.stones import counted, drawings_of, read_drawing, require_stones
from games.positions import legal, new_state
from zerofleet.errors import InvalidRequest

__all__ = ["MOST_POSITIONS", "DrawingBoard", "drawing_board", "drawing_in", "drawn_start", "moves_to"]

MOST_POSITIONS = 1_000_000
"""Positions after which a search gives up: more than the 7^7 fillings of the columns of the usual board of Connect Four."""


class _Step(NamedTuple):
    action: int
    filled: int
    """Bits of the cells that have their stone after the action."""


class DrawingBoard(NamedTuple):
    """Board of a game on which a position can be drawn."""

    cells: tuple[Cell, ...]
    picture: str
    """The board without stones as SVG."""
    colours: tuple[str, ...]
    """Colour of the stones of each player."""
    start: dict[str, int]
    """Seat of each stone of the starting position, by its cell."""
    asks_mover: bool
    """Whether a drawing names the player to move; else the numbers of stones do."""


def drawing_board(game: Game) -> DrawingBoard:
    """Return the board of a game. Raises `InvalidRequest` for a game that cannot be drawn."""
    start = new_state(game)
    if (rules := drawings_of(game)) is not None:
        return DrawingBoard(rules.cells(), rules.empty_board(), tuple(rules.colours), rules.stones(start), asks_mover=True)
    colours = svg.PLAYER_COLOURS[: game.spec().num_players]
    return DrawingBoard(_stone_cells(game), svg.picture(game, start), colours, {}, asks_mover=False)


def drawn_start(game: Game, stones: Mapping[str, int], player: int) -> State | None:
    """Return the position of a drawing with its player to move, a seat from 0; None where `moves_to` finds moves instead.

    Raises `InvalidDrawing` with the reason, `InvalidRequest` for a game that cannot be drawn.
    """
    if (rules := drawings_of(game)) is not None:
        return read_drawing(game, rules, stones, player)
    _stone_cells(game)
    return None


def drawing_in(game: Game, state: State) -> dict[str, int]:
    """Return the seat of each stone of a position that `drawn_start` returned, by its cell."""
    rules = drawings_of(game)
    if rules is None:
        raise InvalidRequest(f"{game.spec().name} has no rules of drawn positions")
    return rules.stones(state)


def _stone_cells(game: Game) -> tuple[Cell, ...]:
    own = getattr(game, "stone_cells", None)
    if own is None:
        is_open = game.spec().information == "perfect"
        raise InvalidRequest(
            f"positions of {game.spec().name} cannot be drawn: the game has no rules that read a drawing; "
            + ("set it up by moves" if is_open else "it hides information, so play begins at the start")
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
        InvalidDrawing: A cell or seat does not exist.
        InvalidRequest: The game has no `stone_cells`, no sequence of legal moves reaches the position, or the search was
            stopped or gave up.
    """
    require_stones(game, _stone_cells(game), stones)
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


def _counted(game: Game, stones: Mapping[str, int]) -> str:
    owned = [list(stones.values()).count(seat) for seat in range(game.spec().num_players)]
    return " and ".join(f"{counted(count, 'stone')} of player {seat}" for seat, count in enumerate(owned, start=1))

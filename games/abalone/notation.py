"""Notation of Abalone, `A1NE` in line and `C3C5NW` sideways, and reasons why a move is illegal."""

from __future__ import annotations

import functools
import re

from games import core, notation
from games.abalone import board
from games.abalone.bitboard import owners
from games.core import Game, State
from games.errors import IllegalMove
from games.positions import legal

__all__ = ["names", "read"]

_FORM = re.compile(r"([A-I])([1-9])(?:([A-I])([1-9]))?(NE|E|SE|SW|W|NW)")
_PUSHERS = 3


@functools.cache
def names(count: int) -> tuple[str, ...]:
    """Return the notation of the moves in a table of `count`, by number."""
    return tuple(map(str, board.moves(count)))


@functools.cache
def _numbers(count: int) -> dict[str, int]:
    return {name: action for action, name in enumerate(names(count))}


def read(game: Game, state: State, count: int, text: str) -> int:
    """Return the move written as `text`, in a table of `count`; raises `IllegalMove` with the reason and the legal moves."""
    wanted = text.strip().upper()
    action = _numbers(count).get(wanted)
    if action is not None and action in legal(game, state):
        return action
    written = f"{text.strip()!r} is not a legal move here"
    listed = notation.legal_names(game, state)
    if not listed:
        raise IllegalMove(f"{written}: the game is over")
    raise IllegalMove(f"{written} ({_why_not(state, wanted, core.to_move(game, state))}); legal: {' '.join(listed)}")


def _why_not(state: State, wanted: str, player: int) -> str:
    """Return the reason why a move is illegal before the end of the game."""
    found = _FORM.fullmatch(wanted)
    if found is None:
        return "a move is a cell and a direction, such as A1NE, or both ends of a line and a direction, such as C3C5NW"
    *places, direction = found.groups()
    ends = [("ABCDEFGHI".index(row), int(digit) - 1) for row, digit in (places[:2], places[2:]) if row is not None]
    for cell in ends:
        if not board.on_board(cell):
            return f"there is no cell {board.cell_name(cell)}; row {wanted[2 * ends.index(cell)]} has {_row(cell[0])}"
    holders = owners(state)
    if len(ends) == 1:
        return _why_not_in_line(holders, ends[0], direction, player)
    return _why_not_sideways(holders, ends, direction, player)


def _row(row: int) -> str:
    cells = [board.cell_name(cell) for cell in board.CELLS if cell[0] == row]
    return f"{cells[0]} to {cells[-1]}"


def _not_mine(cell: board.Cell, player: int) -> str:
    return f"{board.cell_name(cell)} holds no marble of {'XO'[player]}"


def _why_not_in_line(holders: dict[board.Cell, int], cell: board.Cell, direction: str, player: int) -> str:
    mine = _run(holders, cell, direction, player)
    if not mine:
        return _not_mine(cell, player)
    if len(mine) > _PUSHERS:
        return f"{len(mine)} marbles are in that line; at most three can move"
    front = board.neighbour(mine[-1], direction)
    theirs = _run(holders, front, direction, 1 - player)
    if not theirs:
        return f"{board.cell_name(mine[-1])} would leave the board"
    if len(theirs) >= len(mine):
        return f"{len(mine)} cannot push {len(theirs)}"
    return f"{board.cell_name(board.neighbour(theirs[-1], direction))}, behind the pushed marbles, is occupied"


def _run(holders: dict[board.Cell, int], cell: board.Cell, direction: str, player: int) -> list[board.Cell]:
    """Return the unbroken line of a player's marbles that starts at a cell."""
    run = []
    while holders.get(cell) == player:
        run.append(cell)
        cell = board.neighbour(cell, direction)
    return run


def _why_not_sideways(holders: dict[board.Cell, int], ends: list[board.Cell], direction: str, player: int) -> str:
    lines = {(move.line[0], move.line[-1]): move.line for move in board.moves(board.NUMBERS_OF_MOVES[0]) if move.is_sideways}
    low, high = sorted(ends)
    if (low, high) not in lines:
        return f"{board.cell_name(ends[0])} and {board.cell_name(ends[1])} are not the ends of a line of two or three"
    line = lines[low, high]
    for last in (low, high):
        if board.neighbour(last, direction) in line:
            return f"that is a move in line, written {board.Move((last,), direction)}"
    if ends != [low, high]:
        return f"the lower end comes first: {board.Move(line, direction)}"
    for cell in line:
        if holders.get(cell) != player:
            return _not_mine(cell, player)
    blocked = [board.neighbour(cell, direction) for cell in line]
    if not all(map(board.on_board, blocked)):
        return "a marble would leave the board"
    return f"{board.cell_name(next(cell for cell in blocked if cell in holders))} is occupied, and sideways moves cannot push"

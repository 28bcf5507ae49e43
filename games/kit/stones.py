"""Drawn positions: the stones that a person puts on a board and the player to move, read as a position of the game.

A game can be drawn in one of two ways. Where a move does no more than place a stone, `stone_cells` (`games.kit.cells`) is
enough: legal moves to the stones are found. Any other game has a class of rules for drawings, which its package registers:

    @drawings(Othello)
    class OthelloDrawings:
        def __init__(self, game: Othello) -> None: ...
        def cells(self) -> tuple[Cell, ...]: ...                    cells that can hold a stone
        ...

The rules refuse a drawing that no game reaches as far as counts and places decide it, and one in which the game is over.
A game with neither, such as one with hidden hands, cannot be drawn. Plies are no part of a drawing: they count from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from games.core import Game, State
from games.errors import InvalidDrawing
from games.kit.cells import Cell

__all__ = ["DrawingRules", "counted", "drawings", "drawings_of", "read_drawing", "require_pieces", "require_stones"]


class DrawingRules(Protocol):
    """Rules of drawn positions of a game with given parameters. Seats count from 0, in messages from 1."""

    @property
    def colours(self) -> Sequence[str]:
        """Colour of each player's stones in the pictures of the game."""
        ...

    def cells(self) -> tuple[Cell, ...]:
        """Return the cells that can hold a stone, in the coordinates of `empty_board`."""
        ...

    def empty_board(self) -> str:
        """Return the board without stones as SVG."""
        ...

    def stones(self, state: State) -> dict[str, int]:
        """Return the owner of each stone of a position, by the id of its cell."""
        ...

    def position(self, stones: Mapping[str, int], player: int) -> State:
        """Return the position with these stones and player to move; raises `InvalidDrawing`.

        Cells and seats exist: `read_drawing` checks them.
        """
        ...


Rules = TypeVar("Rules", bound=Callable[[Any], DrawingRules])

_RULES: dict[type, Callable[[Any], DrawingRules]] = {}


def drawings(cls: type) -> Callable[[Rules], Rules]:
    """Register the rules of drawn positions of the game class `cls`, made with a game (decorator)."""

    def add(made_with: Rules) -> Rules:
        _RULES[cls] = made_with
        return made_with

    return add


def drawings_of(game: Game) -> DrawingRules | None:
    """Return the rules of drawn positions of a game, or None if it has none."""
    made_with = _RULES.get(type(game))
    return None if made_with is None else made_with(game)


def read_drawing(game: Game, rules: DrawingRules, stones: Mapping[str, int], player: int) -> State:
    """Return the position of a drawing, spec.state_dtype [S]; raises `InvalidDrawing` with the reason."""
    require_stones(game, rules.cells(), stones)
    players = game.spec().num_players
    if not 0 <= player < players:
        raise InvalidDrawing(f"player {player + 1} is to move, but {game.spec().name} has players 1 to {players}; choose one")
    return rules.position(stones, player)


def require_stones(game: Game, cells: Sequence[Cell], stones: Mapping[str, int]) -> None:
    """Raise `InvalidDrawing` for stones on cells, or of players, that do not exist."""
    name, players = game.spec().name, game.spec().num_players
    if unknown := sorted(stones.keys() - {cell.id for cell in cells}):
        raise InvalidDrawing(f"the board of {name} has no cell {', '.join(unknown)}; remove the stones there")
    if wrong := sorted({seat for seat in stones.values() if not 0 <= seat < players}):
        raise InvalidDrawing(f"stones belong to players 1 to {players}, got {', '.join(str(seat + 1) for seat in wrong)}")


def require_pieces(stones: Mapping[str, int], seat: int, expected: int) -> None:
    """Raise `InvalidDrawing` unless a player has the number of pieces that no move changes."""
    found = list(stones.values()).count(seat)
    if found != expected:
        raise InvalidDrawing(f"player {seat + 1} has {counted(found, 'piece')}, expected {expected}; add or remove pieces")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 stone` or `3 stones`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"

"""Shortest way home: the fewest moves of one side that fill its goal while the other side stands still.

Once all pieces have passed each other, neither side can hinder the other, so the end of the game is a problem of one player.
It is solved by iterative deepening (IDA*, Korf 1985). The lower bound of the moves to come is the number of pieces outside of
the goal: a move brings one piece home at most. Positions from which a number of moves is known to be too few are remembered.

Cells are numbered from the mover's own corner; a side is a pair of words (`games.chinese_checkers.rhombus.board`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias, cast

import numpy as np

from games import core
from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from games.chinese_checkers.rhombus.board import CELLS, HOMES, PIECES, level, words_of
from games.chinese_checkers.rhombus.moves import list_moves
from games.core import Game, State
from games.positions import encode_for, new_state
from zerofleet.errors import InvalidRequest

__all__ = ["Way", "have_passed", "shortest_way", "way_finder"]

_Side: TypeAlias = tuple[int, int]
_GOAL: _Side = (int(HOMES[1, 0]), int(HOMES[1, 1]))
_MOST_MOVES = 256  # of one position, as a buffer


@dataclass(frozen=True, slots=True)
class Way:
    """Shortest way home."""

    moves: tuple[int, ...]  # actions, in the order of play
    nodes: int
    """Positions visited."""


def have_passed(game: ChineseCheckersRhombus, state: State) -> bool:
    """Return whether every piece of each side is beyond every piece of the other, seen from either start."""
    mine, other = _cells(game, state)
    return min(map(level, mine)) > max(map(level, other))


def shortest_way(
    game: ChineseCheckersRhombus,
    state: State,
    *,
    most_nodes: int,
    ends_s: float = math.inf,
    clock: Callable[[], float] = time.perf_counter,
) -> Way | None:
    """Return a shortest way home for the player to move, the same one at each call.

    None if it is not found within `most_nodes` visited positions, or before `clock` shows `ends_s`.
    """
    mine, other = _cells(game, state)
    search = _Search(words_of(other), most_nodes, ends_s, clock)
    start = words_of(mine)
    fewest = _outside(start)
    try:
        while (found := search.below(start, fewest)) is None:
            fewest += 1
    except _OutOfBudgetError:
        return None
    return Way(tuple(found), search.nodes)


def way_finder(game: Game, *, most_nodes: int) -> Callable[[Game, State], tuple[int, ...] | None]:
    """Return the function that gives the moves of a shortest way home, or None before the sides have passed each other and
    where `most_nodes` visited positions are too few.

    Raises `InvalidRequest` for another game, or one with long hops.
    """
    if not isinstance(game, ChineseCheckersRhombus) or game.long_hops:
        raise InvalidRequest(
            "the exact endgame is that of chinese_checkers_rhombus without long_hops, and the game is "
            f"{game.spec().name}{' with long_hops' * isinstance(game, ChineseCheckersRhombus)}; set afterstates.endgame=values"
        )

    shortest_way(game, new_state(game), most_nodes=1)  # compiles the list of moves, for which the first game would wait

    def find(played: Game, state: State) -> tuple[int, ...] | None:
        rhombus = cast("ChineseCheckersRhombus", played)
        way = shortest_way(rhombus, state, most_nodes=most_nodes) if have_passed(rhombus, state) else None
        return None if way is None else way.moves

    return find


class _OutOfBudgetError(Exception):
    """The search has visited as many positions as it may, or its time is over; never leaves this module."""


@dataclass(slots=True)
class _Search:
    """Search of one player's moves on a board with fixed obstacles."""

    obstacles: _Side
    most_nodes: int
    ends_s: float
    clock: Callable[[], float]
    nodes: int = 0
    too_few: dict[_Side, int] = field(default_factory=dict)
    """Numbers of moves that do not lead home, by position."""
    out: np.ndarray = field(default_factory=lambda: np.zeros(_MOST_MOVES, dtype=np.int16))

    def below(self, side: _Side, moves: int) -> list[int] | None:
        """Return the actions of a way home of at most `moves` moves; None if there is none."""
        if _outside(side) == 0:
            return []
        if _outside(side) > moves or self.too_few.get(side, 0) >= moves:
            return None
        if self.nodes >= self.most_nodes or self.clock() >= self.ends_s:
            raise _OutOfBudgetError
        self.nodes += 1
        for action in self.actions(side, only_home=_outside(side) == moves):
            rest = self.below(_moved(side, action), moves - 1)
            if rest is not None:
                return [action, *rest]
        self.too_few[side] = moves
        return None

    def actions(self, side: _Side, *, only_home: bool) -> list[int]:
        """Return the legal actions, longest advance first, or only those that bring a piece into the goal."""
        taken = (np.uint64(side[0] | self.obstacles[0]), np.uint64(side[1] | self.obstacles[1]))
        count = list_moves(np.uint64(side[0]), np.uint64(side[1]), taken, False, self.out)
        listed = [int(action) for action in self.out[:count]]
        if only_home:
            listed = [action for action in listed if _is_goal(action % CELLS) and not _is_goal(action // CELLS)]
        return sorted(listed, key=lambda action: level(action // CELLS) - level(action % CELLS))


def _cells(game: ChineseCheckersRhombus, state: State) -> tuple[list[int], list[int]]:
    """Return the cells of the player to move and of the other, in the mover's view."""
    packed = encode_for(game, state, core.to_move(game, state))
    bits = np.unpackbits(packed, bitorder="little")[: 2 * CELLS].reshape(2, CELLS)
    return np.flatnonzero(bits[0]).tolist(), np.flatnonzero(bits[1]).tolist()


def _outside(side: _Side) -> int:
    """Return the number of pieces outside of the goal."""
    return PIECES - (side[0] & _GOAL[0]).bit_count() - (side[1] & _GOAL[1]).bit_count()


def _is_goal(cell: int) -> bool:
    return bool(_GOAL[cell & 1] >> (cell >> 1) & 1)


def _moved(side: _Side, action: int) -> _Side:
    """Return the side after an action."""
    words = list(side)
    for cell in divmod(action, CELLS):
        words[cell & 1] ^= 1 << (cell >> 1)
    return words[0], words[1]

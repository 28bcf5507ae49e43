"""Random games of Chinese checkers on the rhombus: positions to search, and counts of replies.

Players in these games prefer forward moves, so that the armies meet, pass and finish; every fourth move is uniform.
"""

from __future__ import annotations

import numpy as np

from games import core
from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from games.compiled import lean
from games.kit.randomness import uniform_int
from games.positions import copy_state, new_state
from zerofleet.agents.by_game.rhombus.generation import fill
from zerofleet.agents.by_game.rhombus.listing import gain_of, list_moves
from zerofleet.agents.by_game.rhombus.root import set_frame
from zerofleet.agents.by_game.rhombus.search import play_child
from zerofleet.agents.by_game.rhombus.work import Work, wide

__all__ = ["choose", "copy_frame", "count_replies", "sample_positions"]


def sample_positions(game: ChineseCheckersRhombus, room: Work, *, count: int, seed: int) -> np.ndarray:
    """Return unfinished positions of random games, uint64 [count, S], each from another game."""
    rng = np.random.default_rng(seed)
    found = np.empty((count, room.stack.shape[1]), dtype=np.uint64)
    word = np.array([seed], dtype=np.uint64)
    for i in range(count):
        plies = int(rng.integers(4, 110))
        room.stack[0] = new_state(game)
        while _play_some(game, room, word, plies):
            plies //= 2
            room.stack[0] = new_state(game)
        found[i] = room.stack[0]
    return found


@lean
def count_replies(game: ChineseCheckersRhombus, work: Work, positions: np.ndarray) -> int:
    """Return the number of two-move sequences from positions (uint64 [N, S]), generated as in a search."""
    total = wide(0)
    for i in range(positions.shape[0]):
        copy_state(positions[i], work.stack[0])
        set_frame(work, wide(core.to_move(game, work.stack[0])))
        count = list_moves(work, wide(0), work.frames[0].side)
        fill(work, wide(0), 1 - work.frames[0].side)
        for j in range(count):
            play_child(game, work, wide(0), work.moves[0, j])
            if not core.is_over(game, work.stack[1]):
                total += list_moves(work, wide(1), work.frames[1].side)
    return total


@lean
def _play_some(game: ChineseCheckersRhombus, work: Work, word: np.ndarray, plies: int) -> bool:
    """Play `plies` plies from `stack[0]` in place; return whether the game ended."""
    set_frame(work, wide(core.to_move(game, work.stack[0])))
    for _ in range(plies):
        play_child(game, work, wide(0), choose(work, wide(0), word))
        copy_state(work.stack[1], work.stack[0])
        copy_frame(work)
        if core.is_over(game, work.stack[0]):
            return True
    return False


@lean
def choose(work: Work, ply: int, word: np.ndarray) -> int:
    """Return a move of the position on `ply`: a uniform one, or with probability 3/4 the best of three by gain."""
    count = list_moves(work, ply, work.frames[ply].side)
    chosen = work.moves[ply, uniform_int(word, count)]
    if uniform_int(word, 4):
        for _ in range(2):
            other = work.moves[ply, uniform_int(word, count)]
            if gain_of(other) > gain_of(chosen):
                chosen = other
    return chosen  # type: ignore[no-any-return]


@lean
def copy_frame(work: Work) -> None:
    """Make the position on ply 1 the root."""
    root, child = work.frames[0], work.frames[1]
    for player in range(2):
        root.known[player] = child.known[player]
        for slot in range(root.cells.shape[1]):
            root.cells[player, slot] = child.cells[player, slot]
            root.jumps[player, slot] = child.jumps[player, slot]
    root.side, root.key, root.score = child.side, child.key, child.score

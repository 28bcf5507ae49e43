"""Trials of the generators: random games that compare incremental channels with fresh ones, and counts of replies.

Players in these games prefer forward moves, so that the armies meet, pass and finish; every fourth move is uniform.
"""

from __future__ import annotations

from typing import NamedTuple

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

__all__ = ["LOOKED_AHEAD", "Trial", "compare_generators", "count_replies", "sample_positions"]

LOOKED_AHEAD = 3
"""Plies of the line played and undone before each move of a trial."""


class Trial(NamedTuple):
    """Results of a generator in random games."""

    plies: int
    compared: int
    """Number of channels compared."""
    kept: int
    """Channels kept from the previous position."""
    wrong: int
    """Channels that differ from a fresh generation."""


def compare_generators(game: ChineseCheckersRhombus, tried: Work, reference: Work, *, count: int, seed: int) -> Trial:
    """Play `count` games and compare every channel of both sides, `tried` against `reference`, after each move.

    Before each move a random line of `LOOKED_AHEAD` plies is played, compared and undone.

    Args:
        game: The rules.
        tried: Room whose settings select the generator under test; at least `LOOKED_AHEAD` plies deep.
        reference: Room whose settings select the reference generator; with the same moves.
        count: Number of games.
        seed: Seed of the games.
    """
    tally = np.zeros(4, dtype=np.int64)
    word = np.array([seed], dtype=np.uint64)
    for _ in range(count):
        tried.stack[0] = new_state(game)
        _walk(game, tried, reference, word, tally)
    return Trial(*(int(number) for number in tally))


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
def _walk(game: ChineseCheckersRhombus, tried: Work, reference: Work, word: np.ndarray, tally: np.ndarray) -> None:
    """Play one game from `stack[0]`; tally (int64 [4]) as in `Trial`."""
    set_frame(tried, wide(core.to_move(game, tried.stack[0])))
    _compare(tried, reference, wide(0), tally)
    while not core.is_over(game, tried.stack[0]):
        ply = wide(0)
        while ply < LOOKED_AHEAD and not core.is_over(game, tried.stack[ply]):
            play_child(game, tried, ply, _choose(tried, ply, word))
            ply += 1
            _compare(tried, reference, ply, tally)
        _compare(tried, reference, wide(0), tally)
        play_child(game, tried, wide(0), _choose(tried, wide(0), word))
        _compare(tried, reference, wide(1), tally)
        copy_state(tried.stack[1], tried.stack[0])
        _copy_frame(tried)
        tally[0] += 1


@lean
def _play_some(game: ChineseCheckersRhombus, work: Work, word: np.ndarray, plies: int) -> bool:
    """Play `plies` plies from `stack[0]` in place; return whether the game ended."""
    set_frame(work, wide(core.to_move(game, work.stack[0])))
    for _ in range(plies):
        play_child(game, work, wide(0), _choose(work, wide(0), word))
        copy_state(work.stack[1], work.stack[0])
        _copy_frame(work)
        if core.is_over(game, work.stack[0]):
            return True
    return False


@lean
def _choose(work: Work, ply: int, word: np.ndarray) -> int:
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
def _copy_frame(work: Work) -> None:
    """Make the position on ply 1 the root."""
    root, child = work.frames[0], work.frames[1]
    for player in range(2):
        root.known[player] = child.known[player]
        for slot in range(root.cells.shape[1]):
            root.cells[player, slot] = child.cells[player, slot]
            root.jumps[player, slot] = child.jumps[player, slot]
    root.side, root.key, root.score = child.side, child.key, child.score


@lean
def _compare(tried: Work, reference: Work, ply: int, tally: np.ndarray) -> None:
    """Complete the channels on `ply` and compare them with a fresh generation."""
    frame, plain = tried.frames[ply], reference.frames[0]
    copy_state(tried.stack[ply], reference.stack[0])
    for side in range(2):
        plain.known[side] = 0
        for slot in range(frame.cells.shape[1]):
            plain.cells[side, slot] = frame.cells[side, slot]
            tally[2] += (frame.known[side] >> slot) & 1
        fill(tried, ply, side)
        fill(reference, wide(0), side)
        for slot in range(frame.cells.shape[1]):
            tally[1] += 1
            tally[3] += frame.jumps[side, slot] != plain.jumps[side, slot]

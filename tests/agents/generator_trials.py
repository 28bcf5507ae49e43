"""Random games that compare incremental channels with fresh ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from games import core
from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from games.compiled import lean
from games.positions import copy_state, new_state
from zerofleet.agents.by_game.rhombus.generation import fill
from zerofleet.agents.by_game.rhombus.root import set_frame
from zerofleet.agents.by_game.rhombus.search import play_child
from zerofleet.agents.by_game.rhombus.work import Work, wide
from zerofleet.cli.bench.rhombus_trials import choose, copy_frame

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


@lean
def _walk(game: ChineseCheckersRhombus, tried: Work, reference: Work, word: np.ndarray, tally: np.ndarray) -> None:
    """Play one game from `stack[0]`; tally (int64 [4]) as in `Trial`."""
    set_frame(tried, wide(core.to_move(game, tried.stack[0])))
    _compare(tried, reference, wide(0), tally)
    while not core.is_over(game, tried.stack[0]):
        ply = wide(0)
        while ply < LOOKED_AHEAD and not core.is_over(game, tried.stack[ply]):
            play_child(game, tried, ply, choose(tried, ply, word))
            ply += 1
            _compare(tried, reference, ply, tally)
        _compare(tried, reference, wide(0), tally)
        play_child(game, tried, wide(0), choose(tried, wide(0), word))
        _compare(tried, reference, wide(1), tally)
        copy_state(tried.stack[1], tried.stack[0])
        copy_frame(tried)
        tally[0] += 1


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

"""The transposition table: keys, and entries that are never taken for others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from games import core
from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from games.kit.randomness import mix64
from zerofleet.agents.by_game.rhombus.evaluation import WIN, cell_values
from zerofleet.agents.by_game.rhombus.listing import list_moves
from zerofleet.agents.by_game.rhombus.root import run, set_frame
from zerofleet.agents.by_game.rhombus.search import play_child
from zerofleet.agents.by_game.rhombus.table import AT_LEAST, ENTRY, EXACT, TURN, ZOBRIST, key_of, probe, score_of, store
from zerofleet.agents.by_game.rhombus.work import Work

GAME = ChineseCheckersRhombus()

Room = Callable[..., Work]


@pytest.mark.slow
def test_incremental_keys_and_scores_equal_those_from_scratch(room: Room, positions: np.ndarray) -> None:
    work, rng, worth = room(), np.random.default_rng(1), cell_values().worth
    for state in positions[:60]:
        work.stack[0] = state
        set_frame(work, core.to_move(GAME, state))
        for ply in range(4):
            frame = work.frames[ply]
            count = list_moves(work, ply, int(frame.side))
            play_child(GAME, work, ply, int(work.moves[ply, rng.integers(count)]))
            if core.is_over(GAME, work.stack[ply + 1]):
                break
            after = work.frames[ply + 1]
            assert int(after.key) == int(key_of(after.cells, int(after.side)))
            assert int(after.score) == int(worth[0][after.cells[0]].sum() - worth[1][after.cells[1]].sum())
            marks = GAME.marks(work.stack[ply + 1])
            assert [sorted(cells.tolist()) for cells in after.cells] == [
                [cell for cell in range(81) if marks[cell] == mark] for mark in "XO"
            ]


def test_all_random_words_differ() -> None:
    words = {int(word) for word in ZOBRIST.ravel()} | {int(TURN)}
    assert len(words) == 2 * 81 + 1


def test_an_entry_is_found_by_its_full_key_only() -> None:
    table = np.zeros(4, dtype=ENTRY).view(np.recarray)
    keys = [mix64(np.uint64(i)) & ~np.uint64(3) for i in range(50)]  # all with the same index
    for i, key in enumerate(keys):
        store(table, key, 1, (i, EXACT, 3, i), 0)
        assert [probe(table, other, 1) for other in keys] == [0 if other == key else -1 for other in keys]
        assert (table[0].score, table[0].move, table[0].depth) == (i, i, 3)
    assert probe(table, keys[-1], 2) == -1  # of another search


def test_scores_of_won_games_count_plies_from_the_stored_position() -> None:
    table = np.zeros(1, dtype=ENTRY).view(np.recarray)
    for score in (WIN - 7, 7 - WIN, 0, 123, -123):
        store(table, np.uint64(5), 1, (score, AT_LEAST, 2, 9), 4)
        nearer = 2 if score > 1000 else -2 if score < -1000 else 0
        assert score_of(table[0], 4) == score
        assert score_of(table[0], 2) == score + nearer


@pytest.mark.slow
def test_a_table_in_which_everything_collides_changes_no_value(room: Room, positions: np.ndarray) -> None:
    roomy = room(keying="exact", bits=16)
    for bits in (0, 1, 4):
        crowded = room(keying="exact", bits=bits)
        for state in positions[:80]:
            assert run(GAME, state, crowded, [2, 3]).score == run(GAME, state, roomy, [2, 3]).score

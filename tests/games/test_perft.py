"""Counts of sequences and positions, from the tables of the literature and a brute-force engine."""

from __future__ import annotations

import numpy as np
import pytest

import games
from games import core
from games.compiled import compiled
from games.core import Game, State
from games.positions import new_state
from games.tools.perft import count_sequences, perft

SIX_BY_SEVEN = [7, 49, 343, 2401, 16807, 117649, 823536, 5673234]
FOUR_BY_FIVE = [5, 25, 125, 625, 3120, 15500, 76300, 363308, 1718544]


def count_positions(game: Game, depth: int) -> tuple[list[int], list[int]]:
    """Numbers of distinct positions, by `core.key`, after 0, 1, .. `depth` plies, and of the finished ones among them."""
    spec = game.spec()
    layer = new_state(game)[np.newaxis]
    totals, finished = [], []
    for _ in range(depth + 1):
        children = np.empty((len(layer) * spec.max_legal, spec.state_size), dtype=spec.state_dtype)
        keys = np.empty(len(children), dtype=np.uint64)
        over, made = expand(game, layer, np.empty(spec.max_legal, dtype=np.int16), children, keys)
        totals.append(len(layer))
        finished.append(over)
        _, first = np.unique(keys[:made], return_index=True)
        layer = children[first]
    return totals, finished


@compiled
def expand(game: Game, layer: np.ndarray, listed: np.ndarray, children: np.ndarray, keys: np.ndarray) -> tuple[int, int]:
    """Write all successors of the positions `layer` [N, S] and their keys; return the finished positions and the successors."""
    over = made = 0
    for i in range(layer.shape[0]):
        over += core.is_over(game, layer[i])
        for j in range(core.legal_actions(game, layer[i], listed)):
            child: State = children[made]
            child[:] = layer[i]
            core.play(game, child, listed[j])
            keys[made] = core.key(game, child)
            made += 1
    return over, made


@pytest.mark.slow
def test_sequence_counts_on_the_standard_board_match_known_values() -> None:
    assert perft(games.make("connect_four"), 8) == SIX_BY_SEVEN


@pytest.mark.parametrize(
    ("parameters", "counts"),
    [
        ({"rows": 4, "columns": 5}, FOUR_BY_FIVE[:8]),
        ({"columns": 25}, [25, 625, 15625, 390625]),
        ({"columns": 50}, [50, 2500, 125000]),
    ],
)
def test_sequence_counts_on_other_boards_match_known_values(parameters: dict[str, int], counts: list[int]) -> None:
    assert perft(games.make("connect_four", **parameters), len(counts)) == counts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parameters", "counts"),
    [
        ({"rows": 4, "columns": 5}, [*FOUR_BY_FIVE, 7738740]),
        ({"columns": 25}, [25, 625, 15625, 390625, 9765625]),
        ({"columns": 50}, [50, 2500, 125000, 6250000]),
    ],
)
def test_longer_sequence_counts_on_other_boards_match_known_values(parameters: dict[str, int], counts: list[int]) -> None:
    assert perft(games.make("connect_four", **parameters), len(counts)) == counts


def test_position_counts_by_ply_match_known_values() -> None:
    assert count_positions(games.make("connect_four"), 6) == ([1, 7, 49, 238, 1120, 4263, 16422], [0] * 7)


@pytest.mark.slow
def test_counts_of_won_positions_by_ply_match_known_values() -> None:
    totals, finished = count_positions(games.make("connect_four"), 8)
    assert (totals[7:], finished[7:]) == ([54859, 184275], [728, 1892])


@pytest.mark.slow
def test_tic_tac_toe_has_255168_games() -> None:
    counts = count_sequences(games.make("tic_tac_toe"), 9)
    assert [count.total for count in counts] == [9, 72, 504, 3024, 15120, 54720, 148176, 200448, 127872]
    assert sum(count.finished for count in counts) == 255_168


def test_tic_tac_toe_has_5478_positions() -> None:
    totals, finished = count_positions(games.make("tic_tac_toe"), 9)
    assert (sum(totals), sum(finished)) == (5_478, 958)


def test_counts_are_zero_after_every_game_has_ended() -> None:
    counts = count_sequences(games.make("connect_four", rows=2, columns=2, connect=2), 4)
    assert [(count.total, count.finished) for count in counts] == [(2, 0), (4, 0), (6, 6), (0, 0)]


def test_depth_0_gives_no_counts() -> None:
    assert perft(games.make("tic_tac_toe"), 0) == []

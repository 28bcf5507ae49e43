"""Counts of sequences and positions, from the tables of the literature and a brute-force engine."""

from __future__ import annotations

import pytest

import games
from games.tools.perft import count_positions, count_sequences, perft

SIX_BY_SEVEN = [7, 49, 343, 2401, 16807, 117649, 823536, 5673234]
FOUR_BY_FIVE = [5, 25, 125, 625, 3120, 15500, 76300, 363308, 1718544]


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
    counts = count_positions(games.make("connect_four"), 6)
    assert [count.total for count in counts] == [1, 7, 49, 238, 1120, 4263, 16422]
    assert all(count.finished == 0 for count in counts)


@pytest.mark.slow
def test_counts_of_won_positions_by_ply_match_known_values() -> None:
    counts = count_positions(games.make("connect_four"), 8)
    assert [(count.total, count.finished) for count in counts[7:]] == [(54859, 728), (184275, 1892)]


@pytest.mark.slow
def test_tic_tac_toe_has_255168_games() -> None:
    counts = count_sequences(games.make("tic_tac_toe"), 9)
    assert [count.total for count in counts] == [9, 72, 504, 3024, 15120, 54720, 148176, 200448, 127872]
    assert sum(count.finished for count in counts) == 255_168


def test_tic_tac_toe_has_5478_positions() -> None:
    counts = count_positions(games.make("tic_tac_toe"), 9)
    assert sum(count.total for count in counts) == 5_478
    assert sum(count.finished for count in counts) == 958


def test_counts_are_zero_after_every_game_has_ended() -> None:
    counts = count_sequences(games.make("connect_four", rows=2, columns=2, connect=2), 4)
    assert [(count.total, count.finished) for count in counts] == [(2, 0), (4, 0), (6, 6), (0, 0)]


def test_depth_0_gives_no_counts() -> None:
    assert perft(games.make("tic_tac_toe"), 0) == []

"""Encodings of the other games: numbers that a network reads, their names as parameters, and the identity of stored games."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import games
from games import core
from games.connect_four import ConnectFour
from games.core import make, parameters_of
from games.kit import bits
from games.positions import changed_parameters, parameters_text
from games.reading import read_inputs
from zerofleet.contracts.encodings import encoder_fingerprint
from zerofleet.contracts.naming import model_name

CHOSEN = [
    ("tic_tac_toe", "one_hot", 27),
    ("chinese_checkers_star37", "numbered", 81),
    ("abalone", "signed", 81),
    ("chinese_checkers_rhombus", "signed", 81),
    ("chinese_checkers_rhombus", "doubled", 81),
]
START_OF_STAR37 = """
4 4 4 4 4 4 0 4 4
4 4 4 4 4 0 0 4 4
4 4 2 2 2 0 3 3 3
4 4 2 2 0 0 3 3 4
4 4 2 0 0 0 3 4 4
4 0 0 0 0 0 0 4 4
0 0 1 1 1 0 0 4 4
4 4 1 1 4 4 4 4 4
4 4 1 4 4 4 4 4 4
"""  # section 2.1 of the thesis of Schulte (Cologne, 2021)
START_OF_ABALONE = """
. . . . - - - - -
. . . - - - - - -
. . . . - - - . .
. . . . . . . . .
. . . . . . . . .
. . . . . . . . .
. . + + + . . . .
+ + + + + + . . .
+ + + + + . . . .
"""


def inputs(game: games.Game, state: np.ndarray, viewer: int) -> np.ndarray:
    spec = game.spec()
    return read_inputs(bits.unpack(games.encode_for(game, state, viewer), spec.planes), spec.reading)


def random_positions(game: games.Game, *, count: int, seed: int = 4) -> list[np.ndarray]:
    rng, found = np.random.default_rng(seed), []
    state = games.new_state(game)
    while len(found) < count:
        found.append(state.copy())
        moves = games.legal(game, state)
        if moves:
            core.play(game, state, int(rng.choice(moves)))
        else:
            state = games.new_state(game)
    return found


@pytest.mark.parametrize(("name", "encoding", "wanted"), CHOSEN)
def test_the_inputs_are_as_many_as_in_the_theses(name: str, encoding: str, wanted: int) -> None:
    game = make(name, encoding=encoding)
    assert game.spec().num_inputs == wanted
    assert inputs(game, games.new_state(game), 0).shape == (wanted,)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "encoding", "_"), CHOSEN)
def test_every_encoding_keeps_the_laws(name: str, encoding: str, _: int) -> None:
    games.check_game(make(name, encoding=encoding), games=1)


def test_tic_tac_toe_has_nine_ones_in_27_bits_one_for_each_cell() -> None:
    game = make("tic_tac_toe", encoding="one_hot")
    for state in random_positions(game, count=40):
        for viewer in range(2):
            wanted = [[mark == own for mark in game.marks(state)] for own in ("XO"[viewer], "OX"[viewer], ".")]
            assert inputs(game, state, viewer).reshape(3, 9).astype(bool).tolist() == wanted


def test_the_numbered_star_starts_as_in_the_thesis_for_every_player() -> None:
    game = make("chinese_checkers_star37", encoding="numbered")
    for viewer in range(3):
        found = inputs(game, games.new_state(game), viewer).reshape(9, 9).astype(int)
        assert "\n".join(" ".join(map(str, row)) for row in found.tolist()) == START_OF_STAR37.strip()


def test_the_numbered_star_equals_the_planes_weighted_by_hand() -> None:
    plain, game = make("chinese_checkers_star37"), make("chinese_checkers_star37", encoding="numbered")
    for state in random_positions(plain, count=40):
        for viewer in range(3):
            planes = bits.unpack(games.encode_for(plain, state, viewer), plain.spec().planes).astype(int)
            wanted = planes[0] + 2 * planes[1] + 3 * planes[2] + 4 * (1 - planes[6])
            assert inputs(game, state, viewer).reshape(9, 9).tolist() == wanted.tolist()


def test_the_counter_of_a_numbered_star_is_read_as_eight_numbers() -> None:
    game = make("chinese_checkers_star37", encoding="numbered", move_counter=True, moves_cap=10)
    state = random_positions(game, count=18)[-1]
    assert game.spec().num_inputs == 89
    assert inputs(game, state, 0)[81:].tolist() == [1.0] * 5 + [0.0] * 3  # 17 of 30 plies are five full ninths


def test_signed_abalone_starts_as_in_the_thesis_and_changes_sign_with_the_viewer() -> None:
    game = make("abalone", encoding="signed")
    start = games.new_state(game)
    found = inputs(game, start, 0).reshape(9, 9)
    marks = [["-.+"[int(number) + 1] for number in row] for row in found]
    assert "\n".join(" ".join(row) for row in marks) == START_OF_ABALONE.strip()
    for state in random_positions(game, count=20):
        assert np.array_equal(inputs(game, state, 0), -inputs(game, state, 1))  # the board is not rotated


def test_the_plies_left_of_signed_abalone_are_read_as_digits() -> None:
    game = make("abalone", encoding="signed", plies_left=True, ply_cap=200)
    state = random_positions(game, count=4)[-1]
    assert inputs(game, state, 0)[81:].tolist() == [float(197 >> place & 1) for place in range(8)]


@pytest.mark.parametrize(("encoding", "mine", "other"), [("signed", 1, -1), ("doubled", 2, 1)])
def test_the_rhombus_has_one_number_per_cell_rotated_to_the_viewer(encoding: str, mine: int, other: int) -> None:
    game = make("chinese_checkers_rhombus", encoding=encoding)
    for state in random_positions(game, count=20):
        for viewer in range(2):
            worth = {"XO"[viewer]: mine, "OX"[viewer]: other, ".": 0}
            cells = [worth[mark] for mark in game.marks(state)]
            assert inputs(game, state, viewer).tolist() == (cells if viewer == 0 else cells[::-1])


def test_a_start_on_the_rhombus_has_ten_pieces_of_each_side() -> None:
    game = make("chinese_checkers_rhombus", encoding="signed")
    assert Counter(inputs(game, games.new_state(game), 1).tolist()) == {1.0: 10, -1.0: 10, 0.0: 61}


def test_the_default_encoding_is_not_written_and_leaves_names_and_fingerprints_alone() -> None:
    game = make("connect_four", encoding="planes")
    assert game == ConnectFour()
    assert parameters_text(game) == {"rows": "6", "columns": "7", "connect": "4"}
    assert changed_parameters(game) == {}
    assert model_name(game) == "connect_four"
    assert encoder_fingerprint(game) == "9cae4c2922bc3589"  # of models made before there was a choice
    assert encoder_fingerprint(make("tic_tac_toe")) == "7ac979382b793e49"


def test_another_encoding_is_a_parameter_in_words_and_another_model() -> None:
    game = make("connect_four", columns=25, encoding=" Feature ")
    assert parameters_text(game) == {"rows": "6", "columns": "25", "connect": "4", "encoding": "feature"}
    assert make("connect_four", **parameters_text(game)) == game
    assert model_name(game) == "connect_four_columns25_encodingfeature"
    assert parameters_of("connect_four")["encoding"] == "planes"
    assert encoder_fingerprint(game) != encoder_fingerprint(make("connect_four", columns=25))


@pytest.mark.parametrize("encoding", ["features", "", "3", 4, -1, 1.5, True])
def test_an_unknown_encoding_is_rejected_with_the_known_ones(encoding: object) -> None:
    with pytest.raises(games.InvalidParameters, match="encoding="):
        make("connect_four", encoding=encoding)
    with pytest.raises(games.InvalidParameters, match="must be one of planes, naive, extended, feature"):
        make("connect_four", encoding="word")


def test_a_tuple_with_a_word_in_place_of_its_index_is_rejected() -> None:
    with pytest.raises(games.InvalidParameters, match=r"it must be 0 \(planes\), 1 \(naive\)"):
        ConnectFour(encoding="feature").spec()


def test_a_network_reads_the_bits_of_a_game_without_a_reading() -> None:
    game = make("tic_tac_toe")
    state = games.replay(game, [4, 0])
    assert inputs(game, state, 0).tolist() == bits.unpack(games.encode_for(game, state, 0), (2, 3, 3)).ravel().tolist()

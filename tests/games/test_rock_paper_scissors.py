"""Rock paper scissors: outcomes, history planes, the secret of a turn, scores, notation."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import games
from games import core, positions
from games.kit import bits
from games.rock_paper_scissors import RockPaperScissors

ROCK, PAPER, SCISSORS = range(3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters", [{"turns": 40}, {"turns": 12, "own_moves": True}, {"turns": 33, "score": "margin"}, {"turns": 1}], ids=str
)
def test_every_variant_keeps_the_laws(parameters: dict[str, object]) -> None:
    games.check_game(games.make("rock_paper_scissors", **parameters), games=1)


@pytest.mark.parametrize(
    ("first", "second", "scores"),
    [
        ("rock", "rock", (0, 0)), ("rock", "paper", (-1, 1)), ("rock", "scissors", (1, -1)),
        ("paper", "rock", (1, -1)), ("paper", "paper", (0, 0)), ("paper", "scissors", (-1, 1)),
        ("scissors", "rock", (-1, 1)), ("scissors", "paper", (1, -1)), ("scissors", "scissors", (0, 0)),
    ],
)  # fmt: skip
def test_each_of_the_nine_pairs_of_choices_has_the_right_winner(first: str, second: str, scores: tuple[float, float]) -> None:
    game = RockPaperScissors(turns=1)
    state = games.replay(game, games.read_moves(game, f"{first} {second}"))
    assert games.final_scores(game, state) == scores


def test_the_counter_of_each_choice_beats_it() -> None:
    game = RockPaperScissors(turns=1)
    counters = game.spec().counters
    assert counters is not None
    assert counters.tolist() == [PAPER, SCISSORS, ROCK]
    for choice in range(3):
        assert games.final_scores(game, games.replay(game, [choice, int(counters[choice])])) == (-1, 1)


@settings(deadline=None, max_examples=20)
@given(moves=st.lists(st.integers(0, 2), max_size=80), own_moves=st.booleans())
def test_the_planes_show_the_other_players_choices_the_latest_first(moves: list[int], own_moves: bool) -> None:
    game = RockPaperScissors(turns=40, own_moves=own_moves)
    state = games.replay(game, moves)
    turns = len(moves) // 2
    for viewer in range(2):
        planes = bits.unpack(games.encode_for(game, state, viewer), game.spec().planes).reshape(-1, 40, 3)
        histories = [1 - viewer, viewer] if own_moves else [1 - viewer]
        for seen, player in zip(planes, histories, strict=True):
            assert seen[:turns].tolist() == np.eye(3)[moves[player : 2 * turns : 2][::-1]].reshape(-1, 3).tolist()
            assert not seen[turns:].any()
        assert game.history(state, viewer) == moves[viewer : 2 * turns : 2]


def test_a_whole_game_has_a_hundred_turns_and_300_bits() -> None:
    game = games.make("rock_paper_scissors")
    assert game.spec().planes == (300, 1, 1)
    assert games.make("rock_paper_scissors", own_moves=True).spec().planes == (600, 1, 1)
    state = games.replay(game, [ROCK, PAPER] * 100)
    assert core.is_over(game, state)
    assert int(np.unpackbits(games.encode_for(game, state, 0)).sum()) == 100
    assert game.draw(state).startswith("the game is over\n")
    assert games.final_scores(game, state) == (-1, 1)
    core.reset(game, state, 0)
    assert not games.encode_for(game, state, 0).any()


@pytest.mark.parametrize("rounds", [0, 1, 31, 32])
def test_a_choice_is_secret_until_the_turn_ends(rounds: int) -> None:
    game = RockPaperScissors(turns=40, own_moves=True)
    looks = []
    for choice in range(3):
        state = games.replay(game, [ROCK, SCISSORS] * rounds + [choice])
        dealt = np.full_like(state, 7)
        core.determinise(game, state, 1, 9, dealt)
        assert core.to_move(game, dealt) == 1
        looks.append(
            (
                [games.encode_for(game, state, viewer).tobytes() for viewer in range(2)],
                game.draw_for(state, 1),
                int(core.key(game, state)),
                dealt.tobytes(),
            )
        )
    assert looks[0] == looks[1] == looks[2]


def test_after_determinise_the_viewer_commits_first_and_wins_count_for_the_right_player() -> None:
    game = RockPaperScissors(turns=2)
    state = games.replay(game, [ROCK, PAPER, SCISSORS])
    dealt = state.copy()
    core.determinise(game, state, 1, 0, dealt)
    core.play(game, dealt, ROCK)
    assert core.to_move(game, dealt) == 0
    core.play(game, dealt, SCISSORS)
    assert (game.history(dealt, 0), game.history(dealt, 1)) == ([ROCK, SCISSORS], [PAPER, ROCK])
    assert games.final_scores(game, dealt) == (-1, 1)


@pytest.mark.parametrize("plies", [2, 3])
def test_a_foreseen_choice_is_the_likeliest_and_ends_the_turn(plies: int) -> None:
    game = RockPaperScissors()
    state = games.replay(game, [ROCK] * plies)
    viewer, plays = plies % 2, np.zeros(1, dtype=np.int16)
    core.foresee(game, state, viewer, np.array([0.2, 0.3, 0.5], dtype=np.float32), plays)
    assert plays.tolist() == [SCISSORS]
    core.play_foreseen(game, state, PAPER, plays)
    assert (game.history(state, viewer), game.history(state, 1 - viewer)) == ([ROCK, PAPER], [ROCK, SCISSORS])
    assert (core.to_move(game, state), core.round_of(game, state)) == (viewer, 2)


def test_the_margin_is_turns_won_minus_turns_lost_as_a_share_of_all_turns() -> None:
    moves = [PAPER, ROCK, PAPER, ROCK, ROCK, PAPER, ROCK, ROCK]
    for score, first in (("margin", 0.25), ("result", 1.0)):
        game = RockPaperScissors(turns=4, score=score)
        assert games.final_scores(game, games.replay(game, moves)) == (first, -first)


def test_the_score_is_a_view_that_changes_no_position_and_no_encoding() -> None:
    result, margin = RockPaperScissors(turns=6), RockPaperScissors(turns=6, score="margin")
    assert result.spec().score_parameters == ("score",)
    assert positions.model_parameters(result) == positions.model_parameters(margin) == {"turns": "6", "own_moves": "False"}
    states = [games.new_state(game) for game in (result, margin)]
    for action in [PAPER, ROCK, SCISSORS, SCISSORS, ROCK, PAPER, ROCK, ROCK]:
        for game, state in zip((result, margin), states, strict=True):
            core.play(game, state, action)
        for viewer in range(2):
            seen = [positions.encode_for(game, state, viewer) for game, state in zip((result, margin), states, strict=True)]
            np.testing.assert_array_equal(*seen)
        assert games.legal(result, states[0]) == games.legal(margin, states[1])


def test_choices_are_parsed_by_name_or_first_letter() -> None:
    game = RockPaperScissors(turns=2)
    assert games.read_moves(game, "rock P Scissors r") == [ROCK, PAPER, SCISSORS, ROCK]
    with pytest.raises(games.IllegalMove, match="'lizard' is not a legal move here; legal: rock paper scissors"):
        game.parse_action(games.new_state(game), "lizard")
    with pytest.raises(games.IllegalMove, match="legal: none, the game is over"):
        game.parse_action(games.replay(game, [0, 1, 2, 0]), "rock")


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"turns": 0}, "turns=0 is out of range; it must be between 1 and 1000"),
        ({"turns": 1001}, "turns=1001 is out of range"),
        ({"score": "points"}, "score='points' is unknown; it must be one of result, margin"),
    ],
)
def test_parameters_out_of_range_are_rejected(parameters: dict[str, object], said: str) -> None:
    with pytest.raises(games.InvalidParameters, match=f"rock_paper_scissors: {re.escape(said)}"):
        games.make("rock_paper_scissors", **parameters)


def test_pictures_show_the_latest_turns() -> None:
    game = RockPaperScissors()
    state = games.replay(game, [ROCK, PAPER] * 2 + [SCISSORS, PAPER] * 40 + [ROCK])
    rows = game.draw(state).splitlines()
    assert rows[0] == "turn 43 of 100"
    assert rows[1] == f"player 1 |  40 won | .. {' '.join('S' * 40)}"
    assert rows[2] == f"player 2 |   2 won | .. {' '.join('P' * 40)}"
    assert rows[3] == "player 1 has chosen rock"
    document = game.draw_svg(state)
    assert "Rock paper scissors, 40 to 2 after 42 turns" in document
    assert document.count(">S</text>") == document.count(">P</text>") == 40

"""`zerofleet games check`."""

from __future__ import annotations

import pytest


def test_a_check_states_games_positions_and_calls_of_rules(zerofleet):
    outcome = zerofleet("games", "check", "tic_tac_toe", "--games", "3")
    said = " ".join(outcome.out.split())
    assert outcome.code == 0
    assert said.startswith("TicTacToe(size=3, encoding=0) keeps the laws of games.core in 3 complete games, ")
    assert "encode" in said
    assert "symmetries followed through whole games: 7 of 7" in said


def test_a_check_as_json_is_the_same_for_the_same_seed(zerofleet):
    words = ("games", "check", "tic_tac_toe", "--games", "4", "--seed", "5", "--json")
    first, second = (zerofleet(*words).json()["games"][0] for _ in range(2))
    assert (first["games"], first["seed"]) == (4, 5)
    for report in (first, second):
        del report["processor_s"], report["first_calls_s"]
    assert first == second
    other = zerofleet("games", "check", "tic_tac_toe", "--games", "4", "--seed", "6", "--json").json()["games"][0]
    assert other["rules"] != first["rules"]


@pytest.mark.slow
def test_the_thorough_form_plays_a_hundred_games(zerofleet):
    report = zerofleet("games", "check", "tic_tac_toe", "--thorough", "--json").json()["games"][0]
    assert report["games"] == 100


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tic_tac_toe", "othello", "--set", "size=6"), "parameters belong to one game; name it"),
        (("--set", "size=6"), "parameters belong to one game; name it"),
        (("tic_tac_toe", "--games", "3", "--thorough"), "give --games or --thorough"),
        (("tic_tac_toe", "--games", "0"), "--games"),
        (("ludo",), "no game is called 'ludo'"),
    ],
)
def test_an_invalid_check_is_refused_with_one_line(zerofleet, words, said):
    outcome = zerofleet("games", "check", *words)
    assert outcome.code == 2
    assert said in " ".join(outcome.err.split())

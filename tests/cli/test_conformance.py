"""`zerofleet games check`."""

from __future__ import annotations

import pytest

from games import core
from games.tic_tac_toe import TicTacToe


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


def test_a_broken_law_is_an_error_with_the_moves_and_the_picture(zerofleet, monkeypatch):
    monkeypatch.setitem(core._RULES["key"], TicTacToe, lambda _game, _state: 7)
    outcome = zerofleet("games", "check", "tic_tac_toe", "--json")
    assert outcome.code == 2
    assert outcome.out == ""
    assert "error: TicTacToe(size=3, encoding=0) breaks law 5 of games.core" in " ".join(outcome.err.split())
    assert "after the moves [" in outcome.err
    assert "Traceback" not in outcome.err


def test_progress_is_written_between_the_games(zerofleet, monkeypatch):
    monkeypatch.setattr("zerofleet.cli.screen.PLAIN_LINE_INTERVAL_S", 0.0)
    monkeypatch.setattr("games.conformance_record.PROGRESS_INTERVAL_S", 0.0)
    said = " ".join(zerofleet("games", "check", "tic_tac_toe", "--games", "3").err.split())
    assert "tic_tac_toe: games: 0/3 (0 positions, 0 s, first call of reset)" in said
    assert "tic_tac_toe: games: 2/3 (" in said


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

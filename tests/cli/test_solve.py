from __future__ import annotations

import pytest

LATE = "d d d d d d e c b e a b c e"
TOO_LARGE = (
    "abalone",
    "chinese_checkers",
    "chinese_checkers_rhombus",
    "chinese_checkers_star37",
    "othello",
    "rock_paper_scissors",
    "take_six",
)


def test_a_position_is_drawn_and_every_move_scored(zerofleet):
    outcome = zerofleet("solve", "connect_four", "--moves", LATE)
    assert outcome.code == 0
    assert "6 | . . . O . . . |" in outcome.out
    lines = [line.split() for line in outcome.out.splitlines()]
    assert ["e4", "+14", "wins"] in lines
    assert ["c3", "-2", "loses"] in lines
    assert ["d", "full"] in lines
    assert "X to move wins (score +14); best: e4" in outcome.out


def test_solve_prints_scores_by_column_letter_as_json(zerofleet):
    said = zerofleet("solve", "connect_four", "--moves", LATE, "--json").json()
    assert said["scores"] == {"a": -2, "b": 8, "c": -2, "d": None, "e": 14, "f": 13, "g": 13}
    assert (said["score"], said["best"], said["player"]) == (14, ["e4"], 1)
    assert said["after"][:3] == ["d1", "d2", "d3"]
    assert said["nodes"] > 0
    assert zerofleet("solve", "connect_four", "--moves", LATE, "--json", "--book", "none").json()["scores"] == said["scores"]


def test_the_scores_of_first_moves_come_from_the_book(zerofleet):
    said = zerofleet("solve", "connect_four", "--json").json()
    assert list(said["scores"].values()) == [-2, -1, 0, 1, 0, -1, -2]
    assert (said["best"], said["nodes"]) == (["d1"], 0)


def test_smaller_boards_and_other_games_are_solved(zerofleet):
    board = zerofleet("solve", "connect_four", "--set", "rows=4", "--set", "columns=5", "--json").json()
    assert board["scores"] == {"a": -1, "b": 0, "c": 0, "d": 0, "e": -1}
    corner = zerofleet("solve", "tic_tac_toe", "--moves", "a1", "--json").json()
    assert corner["scores"]["b2"] == 0
    assert sorted(corner["scores"].values()) == [-1] * 7 + [0]
    assert corner["best"] == ["b2"]
    assert "O to move draws (score +0); best: b2" in zerofleet("solve", "tic_tac_toe", "--moves", "a1").out


def test_a_finished_game_has_no_moves_to_score(zerofleet):
    moves = "a,b,a,b,a,b,a"
    assert "the game is over: X +1   O -1" in zerofleet("solve", "connect_four", "--moves", moves).out
    said = zerofleet("solve", "connect_four", "--moves", moves, "--json").json()
    assert (said["score"], said["scores"], said["player"]) == (None, {}, None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("connect_four", "--moves", "d1,d1"), "move 2: 'd1' is not a legal move"),
        (("connect_four", "--moves", "h"), "move 1: 'h' is not a legal move"),
        (("connect_four", "--set", "rows=1"), "rows"),
        (("chess",), "chess"),
        (("connect_four", "--book", "missing.book"), "missing.book"),
        (("connect_four", "--book", "none", "--build-book", "x"), "cannot be combined with --moves or --book"),
        (("tic_tac_toe", "--book", "x"), "--book supports Connect Four on boards of at most 64 bits"),
        (("tic_tac_toe", "--build-book", "x"), "--build-book supports Connect Four"),
        (("connect_four", "--build-book", "missing/x.book"), "is not a directory"),
        (("connect_four", "--build-book", "x", "--plies", "42"), "a book of 42 plies; want 0 to 41"),
        (("connect_four", "--table-bits", "21"), "22"),
        (("take_six",), "two players"),
    ],
)
def test_an_invalid_solve_request_is_rejected_with_one_error_line(zerofleet, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    outcome = zerofleet("solve", *words)
    assert outcome.code == 2
    assert outcome.out == ""
    assert said in outcome.err


@pytest.mark.parametrize("name", TOO_LARGE)
def test_a_game_too_large_to_solve_is_refused_without_calling_a_rule(zerofleet, monkeypatch, name):
    for rule in ("reset", "legal_actions", "play"):
        monkeypatch.setattr(f"games.core.{rule}", _called)
    outcome = zerofleet("solve", name)
    assert outcome.code == 2
    assert outcome.out == ""
    assert len(outcome.err.splitlines()) == 1
    assert "alpha_beta:DEPTH" in outcome.err or "two players with perfect information" in outcome.err


def test_a_refusal_states_the_size_of_the_game_and_that_of_a_table(zerofleet):
    assert "up to 6.9e+30 positions, and a table holds 4,194,304" in zerofleet("solve", "othello").err
    assert "states no bound on its positions (max_positions, docs/own_game.md)" in zerofleet("solve", "abalone").err
    assert "othello size=6 is too large" in zerofleet("solve", "othello", "--set", "size=6").err


@pytest.mark.slow
def test_othello_on_16_cells_is_solved(zerofleet):
    assert zerofleet("solve", "othello", "--set", "size=4", "--json").json()["score"] == -1.0


def _called(*arguments):
    raise AssertionError("a rule was called")


@pytest.mark.slow
def test_a_newly_built_book_is_used(zerofleet, tmp_path):
    board = ("--set", "rows=4", "--set", "columns=4")
    path = str(tmp_path / "small.book")
    built = zerofleet("solve", "connect_four", *board, "--build-book", path, "--plies", "3", "--json").json()
    assert built["positions"] == built["searched"] + 11
    assert built["bytes"] < 1000
    said = zerofleet("solve", "connect_four", *board, "--book", path, "--json").json()
    assert (said["nodes"], said["scores"]) == (0, {"a": 0, "b": 0, "c": 0, "d": 0})
    assert "the book is for connect_four rows=4" in zerofleet("solve", "connect_four", "--book", path).err
    again = zerofleet("solve", "connect_four", *board, "--build-book", path, "--plies", "2")
    assert f"wrote {path}: 11 positions of up to 2 plies" in again.out


@pytest.mark.slow
def test_bench_solve_times_random_positions(zerofleet):
    words = ("bench", "solve", "--positions", "5", "--plies", "24", "--most-plies", "26", "--seed", "3")
    said = zerofleet(*words, "--json").json()
    assert (said["positions"], said["plies"], said["seed"]) == (5, [24, 26], 3)
    assert 0 < said["seconds"]["median"] <= said["seconds"]["most"]
    assert zerofleet(*words, "--json").json()["absolute_score_sum"] == said["absolute_score_sum"]
    assert "nodes per second of CPU time" in zerofleet(*words).out
    assert "is less than --plies 24" in zerofleet(*words[:6], "--most-plies", "3").err

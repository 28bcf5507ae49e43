"""The command line on games of more than two players, with hidden hands and secret choices."""

from __future__ import annotations

import asyncio
import io

import numpy as np
import pytest
from rich.console import Console

from games import core, make, positions
from games.notation import legal_names
from zerofleet.agents import make_agent
from zerofleet.cli.play.session import Session
from zerofleet.library.opponents import AgentOpponent


def sit(game, lines, *, seat, seed=4):
    """Hold a sitting against random players; a line may be a function of the legal names. Returns what was shown."""
    typed = iter(lines)
    console = Console(file=io.StringIO(), width=300)
    with asyncio.Runner() as runner:
        opponent = AgentOpponent(game, make_agent("random", game), np.random.default_rng(1))
        session = Session(game, opponent, None, seat=seat, seed=seed, runner=runner, console=console)

        def ask(prompt):
            line = next(typed, None)
            if line is None:
                raise EOFError
            state = positions.replay(game, session.moves, seed)
            console.print("----")
            return line if isinstance(line, str) else line(list(legal_names(game, state)))

        session.play(ask)
    return console.file.getvalue(), session


def first(names):
    return names[0]


def test_all_other_players_move_between_two_moves_of_the_user():
    game = make("chinese_checkers_star37")
    shown, session = sit(game, [first, first], seat=1)
    assert len(session.moves) == 1 + 3 + 3
    assert shown.count("X (random) plays") == 3
    assert shown.count("Z (random) plays") == 2
    assert "O (random) plays" not in shown


def test_a_game_among_three_ends_with_all_scores():
    game = make("chinese_checkers_star37", moves_cap=3)
    shown, session = sit(game, [first] * 3, seat=2)
    assert len(session.moves) == 9
    assert "scores: X " in shown
    assert "undo, again or quit" not in shown  # the prompt is the asker's


def test_other_hands_are_hidden_and_choices_are_shown_after_the_round():
    game = make("take_six", players=3)
    shown, session = sit(game, [first, first], seat=1)
    rounds = shown.split("----")
    start = positions.new_state(game, 4)
    assert positions.drawing(game, start, 1).splitlines()[-1] in rounds[0]
    everything = positions.drawing(game, start)
    assert everything not in shown
    assert "plays" not in rounds[0]  # the first player has chosen, in secret
    assert rounds[1].count("(random) plays") == 2
    for ply in range(3):
        state = positions.replay(game, session.moves[:ply], 4)
        assert core.round_of(game, state) == 0


def test_a_secret_choice_of_a_duel_is_shown_after_the_choice_of_the_user():
    game = make("rock_paper_scissors", turns=3)
    shown, session = sit(game, ["rock", "paper", "scissors"], seat=1)
    assert len(session.moves) == 6
    parts = shown.split("----")
    assert "plays" not in parts[0]
    assert [part.count("(random) plays") for part in parts[1:]] == [1, 1, 1]


def test_a_resignation_does_not_show_a_choice_that_is_still_secret():
    shown, session = sit(make("rock_paper_scissors", turns=3), ["rock", "resign"], seat=1)
    assert len(session.moves) == 3  # player 1 has chosen for the second turn
    assert len(shown.partition("moves: ")[2].strip().split(",")) == 2


def test_undo_lets_the_others_choose_again_who_chose_before_the_user():
    game = make("rock_paper_scissors", turns=30)
    shown, session = sit(game, ["rock", *("undo", "rock") * 12], seat=1)
    assert len(session.moves) == 3  # a round, and the choice of the next one
    told = [line.split()[-1] for line in shown.splitlines() if line.startswith("player 1 (random) plays")]
    assert len(told) == 13
    assert len(set(told)) > 1


def test_undo_takes_back_a_whole_round():
    game = make("rock_paper_scissors", turns=3)
    _, session = sit(game, ["rock", "undo"], seat=0)
    assert session.moves == []


@pytest.mark.slow
def test_a_match_with_three_seats_reports_each_player_alone(zerofleet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("match", "greedy", "random", "--game", "chinese_checkers_star37", "--games", "12", "--opening-plies", "6")
    said = zerofleet(*words, "--json").json()
    assert (said["games"], said["openings"]) == (12, 2)
    greedy, other = said["alone"]
    assert (greedy["player"], greedy["against"], greedy["opponents"], greedy["games"]) == ("greedy", "random", 2, 6)
    assert (other["player"], other["games"]) == ("random", 6)
    assert greedy["share"] > 0.6
    assert other["share"] < 0.2
    assert [sum(seat["placings"]) for seat in greedy["seats"]] == [2, 2, 2]
    shown = " ".join(zerofleet(*words).out.split())
    assert "greedy alone against 2 random:" in shown
    assert "random alone against 2 greedy:" in shown
    assert "equal players have 33.3%" in shown


@pytest.mark.slow
def test_bench_measures_all_games_in_one_table(zerofleet, monkeypatch):
    """Rows of a game of each kind; tests/processes/test_every_game.py compiles and runs the search of every game."""
    several = ("rock_paper_scissors", "tic_tac_toe")
    monkeypatch.setattr("zerofleet.cli.bench.search.available", lambda: several)
    monkeypatch.setattr("games.available", lambda: several)
    searched = zerofleet("bench", "search", "--all", "--games", "2", "--simulations", "4", "--seconds", "0.01", "--json").json()
    assert [row["game"] for row in searched["games"]] == list(several)
    assert all(row["positions_per_second"] > 0 for row in searched["games"])
    counted = zerofleet("bench", "perft", "--all", "--seconds", "0", "--json").json()
    assert [row["game"] for row in counted["games"]] == list(several)
    assert [row["depth"] for row in counted["games"]] == [1] * len(several)


@pytest.mark.parametrize("benchmark", ["perft", "search"])
def test_parameters_are_refused_beside_all_games(zerofleet, benchmark):
    outcome = zerofleet("bench", benchmark, "--all", "--set", "rows=4")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--set: parameters belong to one game; name it in place of --all" in outcome.err


@pytest.mark.parametrize("words", [("perft",), ("perft", "tic_tac_toe", "--all")])
def test_bench_perft_needs_either_a_game_or_all(zerofleet, words):
    outcome = zerofleet("bench", *words)
    assert outcome.code == 2
    assert "give a game or --all, not both" in " ".join(outcome.err.split())

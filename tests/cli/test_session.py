from __future__ import annotations

import asyncio
import io
import json

import pytest
from rich.console import Console

from games.core import make
from games.positions import replay
from games.tic_tac_toe import TicTacToe
from zerofleet.cli.play.session import Session
from zerofleet.errors import Unavailable
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.library.opponents import ModelOpponent


class FirstLegal:
    """Plays the first legal cell of tic-tac-toe."""

    name = "first"

    async def choose(self, moves, *, seed):
        return next(action for action in range(9) if action not in moves)


@pytest.fixture(scope="module")
def adviser():
    return ModelOpponent(make("tic_tac_toe"), UniformEvaluator(2), name="uniform", version=1, simulations=32)


def sit(lines, *, seat=0, adviser=None, moves=()):
    """Hold a sitting in which the person types `lines`; returns what was shown and the session."""
    typed = iter(lines)
    console = Console(file=io.StringIO(), width=200)

    def ask(prompt):
        console.print(prompt, end="\n", markup=False)
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    with asyncio.Runner() as runner:
        options = {"seat": seat, "seed": 0, "runner": runner, "console": console, "moves": moves}
        session = Session(make("tic_tac_toe"), FirstLegal(), adviser, **options)
        session.play(ask)
    return console.file.getvalue(), session


def test_the_opponent_answers_the_moves_of_the_user():
    shown, session = sit(["b2", "quit"])
    assert session.moves == [4, 0]
    assert "O (first) plays a3" in shown
    assert "3 O . .\n2 . X .\n1 . . ." in shown


def test_an_opponent_that_fails_is_reported_and_the_game_goes_on_as_it_was(monkeypatch):
    choose, faults = FirstLegal.choose, [Unavailable("the server is away")]

    async def choose_at_last(self, moves, *, seed):
        if faults:
            raise faults.pop()
        return await choose(self, moves, seed=seed)

    monkeypatch.setattr(FirstLegal, "choose", choose_at_last)
    shown, session = sit(["b2", "b2", "quit"])
    assert "the server is away" in shown
    assert session.moves == [4, 0]


def test_the_opponent_moves_first_when_the_user_has_the_second_seat():
    shown, session = sit([], seat=1)
    assert session.moves == [0]
    assert "X (first) plays a3" in shown


@pytest.mark.parametrize(("typed", "said"), [("z9", "'z9' is not a legal move"), ("a3", "'a3' is not a legal move")])
def test_an_illegal_move_is_explained_and_changes_nothing(typed, said):
    shown, session = sit(["b2", typed])
    assert session.moves == [4, 0]
    assert said in shown
    assert "legal: b3" in shown


def test_undo_takes_back_the_reply_and_the_move():
    _, session = sit(["b2", "c1", "undo"])
    assert session.moves == [4, 0]
    _, session = sit(["b2", "undo", "undo"])
    assert session.moves == []
    assert "you have no move to take back" in sit(["undo"])[0]


def test_a_won_game_is_announced_and_can_be_undone_or_played_again():
    shown, session = sit(["b2", "c3", "a1", "undo", "a1", "again"])
    assert shown.count("You win.") == 2
    assert "moves: b2,a3,c3,b3,a1" in shown
    assert "undo, again or quit>" in shown
    assert session.moves == []


def test_a_lost_game_names_the_winner():
    shown, _ = sit(["c1", "b1", "b2"])
    assert "O (first) wins." in shown


def test_the_bar_and_the_hint_come_from_the_adviser(adviser):
    shown, _ = sit(["hint", "b2", "hint", "moves", "help"], adviser=adviser)
    assert shown.count("model 1, 32 simulations") == 2
    assert "you are X ━" in shown
    assert "best: " in shown
    assert "prior" in shown
    assert "legal: b3 c3" in shown
    assert "take back" in shown


def test_a_hint_without_a_model_searches_a_few_plies():
    shown, _ = sit(["b2", "c3", "hint"])
    wins = next(line for line in shown.splitlines() if line.startswith("within 6 plies")).partition("wins: ")[2]
    assert "a1" in wins.split()


async def test_the_adviser_finds_a_win_in_one(adviser):
    game = make("tic_tac_toe")
    moves = [0, 3, 1, 4]  # X has two in the top row
    analysis = await adviser.analyse(moves, seed=0)
    assert analysis.best_action == 2
    assert int(analysis.actions[analysis.ranking()[0]]) == 2
    assert analysis.value[0] > 0.5
    assert game.action_name(replay(game, moves), 2) == "c3"


def test_a_question_mark_lists_the_commands():
    shown, _ = sit(["?"])
    assert all(word in shown for word in ("undo", "hint", "setup M1,M2,...", "resign", "save FILE", "quit"))


def test_a_resigned_game_takes_no_moves_until_it_is_taken_back():
    shown, session = sit(["b2", "resign", "c3", "undo", "c3"])
    assert "You resign against O (first)." in shown
    assert "you have resigned; undo, again or quit" in shown
    assert session.moves == [4, 0, 2, 1]


COMMAND_NAMES = ("q", "undo", "hint", "moves", "again", "resign", "save", "help", "quit")


@pytest.fixture
def _moves_named_like_commands(monkeypatch):
    monkeypatch.setattr(TicTacToe, "action_name", lambda game, state, action: COMMAND_NAMES[action])


@pytest.mark.usefixtures("_moves_named_like_commands")
@pytest.mark.parametrize("name", COMMAND_NAMES)
def test_a_legal_move_goes_before_the_command_of_its_name(name):
    _, session = sit([name])
    assert session.moves[0] == COMMAND_NAMES.index(name)


@pytest.mark.usefixtures("_moves_named_like_commands")
def test_a_command_named_like_a_legal_move_is_written_in_another_case():
    _, session = sit(["again", "UNDO", "QUIT", "hint"])
    assert session.moves == []
    shown, _ = sit(["HELP"])
    assert "UNDO is then the command, undo the move" in shown
    assert "Ctrl-D" in shown


@pytest.mark.usefixtures("_moves_named_like_commands")
def test_a_command_named_like_a_move_that_is_no_longer_legal_is_the_command():
    _, session = sit(["undo", "undo"])  # the first one is a move, played
    assert session.moves == []
    _, session = sit(["again", "RESIGN", "undo", "undo"])  # a resigned game takes no moves: the first one is the command
    assert session.moves == [4, 0, 1, 2]
    _, session = sit(["quit", "quit", "hint"])
    assert session.moves == [8, 0]


def test_a_position_is_set_up_by_its_moves_and_the_others_answer():
    shown, session = sit(["setup b2,a3,c3"])
    assert session.moves == [4, 0, 2, 1]
    assert "O (first) plays" in shown


def test_an_impossible_set_up_changes_nothing():
    shown, session = sit(["b2", "setup b2,b2"])
    assert session.moves == [4, 0]
    assert "move 2" in shown


def test_a_game_is_saved_with_its_moves_by_name_and_never_over_another_file(tmp_path):
    file = tmp_path / "game.json"
    shown, _ = sit(["b2", f"save {file}", f"save {file}", "save"])
    saved = json.loads(file.read_text())
    assert (saved["game"], saved["seat"], saved["moves"], saved["scores"]) == ("tic_tac_toe", 1, ["b2", "a3"], None)
    assert "zerofleet play tic_tac_toe --seat 1 --seed 0 --moves b2,a3" in shown
    assert f"{file} cannot be written: File exists" in shown
    assert "name a file: save FILE" in shown


def test_the_command_that_continues_a_saved_game_names_its_parameters_seat_and_seed():
    session = Session(make("othello", size=6), FirstLegal(), None, seat=1, seed=7, runner=None, console=Console())
    assert session._command() == "zerofleet play othello --set size=6 --seat 2 --seed 7"


def test_a_sitting_may_begin_after_the_last_move_of_a_game():
    shown, _ = sit(["quit"], moves=(0, 3, 1, 4, 2))
    assert "You win." in shown
    assert "undo, again or quit>" in shown


def test_a_file_in_the_home_of_nobody_is_refused():
    shown, _ = sit(["save ~nobody-of-that-name/game.json"])
    assert "cannot be written" in shown

"""`zerofleet games available` and `zerofleet games draw`."""

from __future__ import annotations

import sys
from xml.etree import ElementTree

import pytest

import games
from games import core
from zerofleet.cli.commands import checkup
from zerofleet.cli.refusals import text_of
from zerofleet.testing import built_in_games


def test_games_available_lists_the_properties_of_every_game(zerofleet):
    listed = zerofleet("games", "available", "--json").json()["games"]
    assert [row["game"] for row in listed] == list(games.available())
    duel = next(row for row in listed if row["game"] == "connect_four")
    assert (duel["players"], duel["information"], duel["actions"], duel["planes"]) == (2, "perfect", 7, [3, 6, 7])
    assert duel["parameters"] == {"rows": "6", "columns": "7", "connect": "4", "encoding": "planes"}
    assert all({*row["parameters"]} == {*core.parameters_of(row["game"])} for row in listed)


def test_games_available_prints_a_row_for_each_game(zerofleet):
    shown = zerofleet("games", "available").out
    for name in games.available():
        assert f"\n{name} " in shown
    assert "rows=6 columns=7 connect=4 encoding=planes" in shown


@pytest.fixture
def broken_games(tmp_path, monkeypatch):
    """Two games of a package: one whose module cannot be imported, one whose `spec` raises an exception."""
    (tmp_path / "no_module_game.py").write_text("import a_module_that_is_not_there\n")
    (tmp_path / "no_spec_game.py").write_text(
        "from games import register\nfrom games.tic_tac_toe import TicTacToe\n\n\n"
        "@register('no_spec_game')\nclass NoSpec(TicTacToe):\n    def spec(self):\n        return 1 // 0\n"
    )
    info = tmp_path / "broken_games-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-games\nVersion: 1.0\n")
    names = ("no_module_game", "no_spec_game")
    (info / "entry_points.txt").write_text("[zerofleet.games]\n" + "".join(f"{name} = {name}\n" for name in names))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(core, "_CLASSES", dict(core._CLASSES))
    yield
    sys.modules.pop("no_spec_game", None)


@pytest.mark.usefixtures("broken_games")
def test_a_broken_game_of_a_package_leaves_the_list_of_the_others(zerofleet):
    shown = zerofleet("games", "available")
    assert shown.code == 0
    assert "\nconnect_four " in shown.out
    assert "error: the game 'no_module_game' cannot be loaded from 'no_module_game'" in shown.err
    assert "error: no_spec_game: ZeroDivisionError(" in shown.err
    assert len(zerofleet("games", "available", "--json").json()["broken"]) == 2


@pytest.mark.usefixtures("broken_games")
def test_a_game_that_cannot_be_loaded_is_not_suggested_in_its_own_place(zerofleet):
    assert "did you mean" not in zerofleet("games", "draw", "no_module_game").err


@pytest.mark.usefixtures("broken_games")
def test_the_doctor_names_every_broken_game():
    finding = checkup.check_own_parts()
    assert finding.status == "fail"
    assert "'no_module_game' cannot be loaded" in finding.detail
    assert "no_spec_game: ZeroDivisionError(" in finding.detail


def test_a_position_is_drawn_after_moves_with_parameters(zerofleet):
    outcome = zerofleet("games", "draw", "connect_four", "--set", "rows=4", "--set", "columns=5", "--moves", "c1,c2,d1")
    assert outcome.code == 0
    state = games.replay(games.make("connect_four", rows=4, columns=5), [2, 2, 3])
    assert outcome.out.rstrip() == games.make("connect_four", rows=4, columns=5).draw(state).rstrip()


@pytest.mark.parametrize("name", built_in_games())
def test_every_game_is_drawn_in_the_terminal_and_as_svg(zerofleet, tmp_path, name):
    assert zerofleet("games", "draw", name, "--seed", "3").out.strip()
    file = tmp_path / "position.svg"
    outcome = zerofleet("games", "draw", name, "--svg", str(file))
    assert f"wrote {file}" in " ".join(outcome.err.split())
    assert ElementTree.fromstring(file.read_text()).tag.endswith("svg")


def test_the_view_of_a_seat_shows_its_own_hand_only(zerofleet):
    words = ("games", "draw", "take_six", "--set", "players=3", "--seed", "8")
    everything = zerofleet(*words).out
    seats = [zerofleet(*words, "--seat", str(seat)).out for seat in (1, 2, 3)]
    game = games.make("take_six", players=3)
    state = games.new_state(game, 8)
    for seat, shown in enumerate(seats):
        assert shown.rstrip() == games.drawing(game, state, seat).rstrip()
        assert shown != everything
    assert len(set(seats)) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("connect_four", "--moves", "d9"), "move 1: 'd9' is not a legal move"),
        (("connect_four", "--seat", "3"), "connect_four has 2 seats, got --seat 3"),
        (("connect_four", "--seat", "1", "--svg", "x.svg"), "an SVG picture always shows everything"),
        (("ludo",), "no game is called 'ludo'"),
    ],
)
def test_an_invalid_draw_request_is_rejected_with_one_error_line(zerofleet, words, said):
    outcome = zerofleet("games", "draw", *words)
    assert outcome.code == 2
    assert said in " ".join(outcome.err.split())


def test_a_picture_in_a_folder_that_does_not_exist_is_refused_in_words(zerofleet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused = zerofleet("games", "draw", "tic_tac_toe", "--svg", "nodir/x.svg")
    assert (refused.code, refused.err) == (
        2,
        "error: nodir/x.svg: there is no folder nodir\n",
    )


def test_errors_of_files_are_stated_without_their_numbers(tmp_path):
    assert text_of(OSError("closed")) == "closed"
    assert text_of(IsADirectoryError(21, "Is a directory", str(tmp_path))) == f"{tmp_path}: Is a directory"
    assert text_of(FileNotFoundError(2, "No such file", str(tmp_path / "x"))) == f"{tmp_path / 'x'}: No such file"

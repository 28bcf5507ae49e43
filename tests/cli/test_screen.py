from __future__ import annotations

import io
import json
import re
from types import SimpleNamespace

import pytest
from rich.console import Console
from rich.progress import Progress

from games import core
from games.core import make
from games.positions import legal, new_state, replay
from zerofleet.cli import screen
from zerofleet.cli.play import board
from zerofleet.cli.play.game_view import list_table
from zerofleet.library.stored_games import GameRow
from zerofleet.testing import built_in_games


def test_json_is_one_document_on_standard_output(capsys):
    screen.emit_json({"a": [1, 2.5], "b": None})
    assert json.loads(capsys.readouterr().out) == {"a": [1, 2.5], "b": None}


def test_notes_and_errors_go_to_standard_error_unwrapped(capsys):
    path = "/tmp/" + "long/" * 60
    screen.note("starting")
    screen.error(f"{path} is [not] a run")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"starting\nerror: {path} is [not] a run\n"


def test_a_table_in_a_pipe_is_not_truncated(capsys):
    rows = screen.table("name", ">count")
    rows.add_row("x" * 200, "7")
    screen.out().print(rows)
    lines = capsys.readouterr().out.splitlines()
    assert "x" * 200 in lines[1]
    assert lines[1].rstrip().endswith("7")


@pytest.mark.parametrize("name", ["runs/[lr=0.1]", "runs/[/b]", "runs/:cat:"])
def test_brackets_in_a_name_are_printed(capsys, name):
    rows = screen.table(f"against {name}", title=f"duels of {name}")
    rows.add_row(name)
    screen.out().print(rows)
    screen.out().print(f"{name} won")
    screen.note(name)
    captured = capsys.readouterr()
    assert captured.out.count(name) == 4
    assert captured.err == f"{name}\n"


@pytest.mark.parametrize(("value", "filled"), [(-1.0, 0), (0.0, 10), (1.0, 20), (7.0, 20)])
def test_the_length_of_a_value_bar_follows_the_value(value, filled):
    assert screen.value_bar(value).plain == "━" * filled + "─" * (20 - filled)


def test_a_long_task_prints_plain_progress_lines_without_a_terminal(monkeypatch, capsys):
    clock = iter([0.0, 1.0, 6.0, 6.5, 7.0])
    monkeypatch.setattr(screen.time, "monotonic", lambda: next(clock))
    with screen.meter("games", total=10) as meter:
        meter.advance(2)
        meter.advance(3, "3 won")
    assert capsys.readouterr().err == "games: 5/10 3 won\n"


def test_a_remark_beside_a_bar_is_made_only_when_it_is_due(monkeypatch):
    clock = iter([0.0, 0.05, 0.2, 0.25])
    monkeypatch.setattr(screen.time, "monotonic", lambda: next(clock))
    progress, made = Progress(console=Console(file=io.StringIO())), []
    meter = screen.Meter("games", 10, progress)
    for remark in ("first", "second", "third"):
        meter.advance(remark=lambda remark=remark: made.append(remark) or remark)
    assert made == ["second"]
    assert (progress.tasks[0].completed, progress.tasks[0].description) == (3, "games second")


@pytest.mark.parametrize(
    ("done", "elapsed_s", "shown"),
    [(0, 10.0, "0:10 so far"), (2, 3670.0, "1:01:10 so far, 0:05 left"), (4, 9.0, "0:09 so far")],
)
def test_the_times_of_a_bar_are_labelled(done, elapsed_s, shown):
    left_s = 5.0 if 0 < done < 4 else None
    task = SimpleNamespace(elapsed=elapsed_s, time_remaining=left_s, finished=done == 4)
    assert screen._Times().render(task).plain == shown


def test_a_coloured_board_keeps_its_text():
    game = make("connect_four")
    state = replay(game, [3, 3, 2])
    coloured = board.colour_board(game, state)
    assert coloured.plain == game.draw(state)
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(coloured)
    assert "\x1b[1;33mX" in console.file.getvalue()
    assert "\x1b[1;31mO" in console.file.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("name", built_in_games())
def test_the_coloured_board_of_every_game_keeps_its_text(name):
    game = make(name)
    assert board.colour_board(game, new_state(game)).plain == game.draw(new_state(game)).rstrip()


@pytest.mark.slow
@pytest.mark.parametrize("name", built_in_games())
def test_a_player_is_named_by_a_mark_that_the_drawing_of_the_game_has(name):
    game = make(name)
    names = [board.player_name(game, seat).plain for seat in range(game.spec().num_players)]
    assert len(set(names)) == len(names)
    state, seen = new_state(game), ""
    while not core.is_over(game, state):
        seen += f"{game.draw(state)}\n"
        core.play(game, state, legal(game, state)[0])
    for seat, shown in enumerate(names):
        if shown == f"player {seat + 1}":  # no marks: the drawing counts the players
            assert shown in seen
        else:
            assert re.search(rf"(?<!\w){shown}(?!\w)", seen), shown


@pytest.mark.parametrize(("name", "marks"), [("othello", "XO"), ("chinese_checkers_star37", "XOZ"), ("take_six", "")])
def test_marks_are_coloured_like_the_names_of_their_players(name, marks):
    game = make(name)
    coloured = board.colour_board(game, new_state(game))
    spans = {span.style: coloured.plain[span.start] for span in coloured.spans}
    for seat, mark in enumerate(marks):
        assert board.player_name(game, seat).plain == mark
        assert spans[board.player_style(seat)] == mark
    assert len([style for style in spans if style in board.PLAYER_STYLES]) == len(marks)


def test_a_narrow_list_of_games_shortens_uids_to_valid_prefixes():
    row = GameRow(
        index=7,
        uid="0123456789abcdef" * 2,
        plies=9,
        scores=(1.0, -1.0),
        ending="played out",
        versions=(1, 2),
        searched=9,
        moves=("a1",),
        worker="worker-0",
        finished_at="2026-01-01",
    )
    console = Console(file=io.StringIO(), width=80)
    console.print(list_table(make("tic_tac_toe"), [row], is_narrow=True))
    assert "0123456789ab " in console.file.getvalue()
    assert "worker-0" not in console.file.getvalue()

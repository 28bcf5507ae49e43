"""`zerofleet games` on stored games, beside a writer."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import games
from zerofleet.cli.play.game_view import render_game
from zerofleet.cli.screen import out
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.contracts.records.samples import random_game
from zerofleet.library.stored_games import view_moves
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.runs import RunDirectory

GAME = games.make("tic_tac_toe")


def uid(number):
    return f"{number:04x}" + "ab" * 14


def payload(number, **changes):
    played = replace(random_game(GAME, number, version=number + 1), **changes)
    return encode_record(played, worker_id="worker-0", uid=uid(number), finished_at_ms=1_800_000_000_000)


def open_run(root):
    return RunDirectory.create_or_open(root, "tic_tac_toe", {}, preset="tiny", seed=1)


@pytest.fixture
def run(tmp_path):
    root = tmp_path / "run"
    with open_run(root) as opened, GameLog.open(opened.paths.replay, writer=True) as log:
        log.append([(uid(number), payload(number)) for number in range(30)])
        yield root  # the writer is still there


def test_games_list_shows_the_newest_games_first(zerofleet, run):
    listed = zerofleet("games", "list", "tic_tac_toe", "--run-dir", str(run), "--limit", "3", "--json").json()
    assert listed["total"] == 30
    assert [row["uid"] for row in listed["games"]] == [uid(29), uid(28), uid(27)]
    first = listed["games"][0]
    record = decode_record(payload(29))
    assert (first["index"], first["plies"], first["versions"]) == (29, len(record.moves), [30, 30])
    assert first["scores"] == list(record.scores)
    assert first["finished_at"] == "2027-01-15T08:00:00+00:00"
    text = zerofleet("games", "list", "tic_tac_toe", "--run-dir", str(run))
    assert text.code == 0
    assert uid(29) in text.out
    assert uid(5) not in text.out
    assert "20 of 30 games" in text.err


def test_games_list_names_a_run_without_games_and_the_command_for_its_state(zerofleet, tmp_path):
    root = tmp_path / "run"
    with open_run(root) as opened:
        GameLog.open(opened.paths.replay, writer=True).close()
    listed = zerofleet("games", "list", "tic_tac_toe", "--run-dir", str(root))
    said = f"no game of tic_tac_toe in {root} yet; `zerofleet status {root}` shows the state of the run\n"
    assert (listed.code, listed.out, listed.err) == (0, said, "")


def test_games_list_shows_the_games_that_fit_all_conditions(zerofleet, run):
    drawn = ("games", "list", "tic_tac_toe", "--run-dir", str(run), "--result", "draw")
    records = {number: decode_record(payload(number)) for number in reversed(range(30))}
    numbers = [number for number, record in records.items() if len(set(record.scores)) == 1]
    assert len(numbers) > 2
    listed = zerofleet(*drawn, "--min-plies", "9", "--worker", "worker-0", "--ending", "result", "--json").json()
    assert [row["index"] for row in listed["games"]] == numbers
    assert (listed["searched"], listed["next_before"]) == (30, None)
    first = zerofleet(*drawn, "--limit", "1")
    assert f"1 of 30 games, {30 - numbers[0]} searched; older ones: --before {numbers[0]}" in first.err
    second = zerofleet(*drawn, "--limit", "1", "--before", str(numbers[0]), "--json").json()
    assert [row["index"] for row in second["games"]] == numbers[1:2]
    of_model = zerofleet("games", "list", "tic_tac_toe", "--run-dir", str(run), "--model", "8", "--json").json()
    assert [row["index"] for row in of_model["games"]] == [7]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--result", "3"), "this game has players 1 to 2"),
        (("--ending", "lost"), "give `result`, `cut`, `resigned` or `soft_resigned`"),
        (("--min-plies", "8", "--max-plies", "7"), "min_plies 8 is above max_plies 7"),
    ],
)
def test_games_list_refuses_conditions_that_no_game_can_fit(zerofleet, run, options, complaint):
    refused = zerofleet("games", "list", "tic_tac_toe", "--run-dir", str(run), *options)
    assert refused.code == 2
    assert complaint in refused.err


def test_games_show_replays_every_move_with_its_search(zerofleet, run):
    shown = zerofleet("games", "show", "tic_tac_toe", uid(7), "--run-dir", str(run))
    assert shown.code == 0
    stored = validate(decode_record(payload(7)))
    for view in view_moves(stored):
        assert f"{view.ply:>3}. {'XO'[view.player - 1]}  {view.move}" in shown.out
    assert GAME.draw(stored.states[-1]) in shown.out
    assert f"over after {len(stored.movers)} moves" in shown.out


def test_games_show_prints_visits_and_targets_of_every_move_as_json(zerofleet, run):
    shown = zerofleet("games", "show", "tic_tac_toe", uid(7)[:6], "--run-dir", str(run), "--json").json()
    stored = validate(decode_record(payload(7)))
    assert shown["uid"] == uid(7)
    assert [move["move"] for move in shown["moves"]] == games.move_names(GAME, list(stored.record.moves))
    for move, searched in zip(shown["moves"], stored.record.searched, strict=True):
        assert move["visits"] == sum(searched.visits)
        assert sum(action["target"] for action in move["actions"]) == pytest.approx(1.0, abs=1e-5)
        assert move["value"] == pytest.approx(searched.root_value[move["player"] - 1], abs=1e-6)
        assert [a["visits"] for a in move["actions"]] == sorted(searched.visits, reverse=True)


def test_games_show_can_show_a_single_move(zerofleet, run):
    shown = zerofleet("games", "show", "tic_tac_toe", uid(7), "--ply", "2", "--run-dir", str(run))
    assert "  2. O" in shown.out
    assert "  1. X" not in shown.out
    too_far = zerofleet("games", "show", "tic_tac_toe", uid(7), "--ply", "10", "--run-dir", str(run))
    assert too_far.code == 2
    assert "there is no move 10" in too_far.err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("zzzz", "is not a uid"),
        ("000", "want 4 to 32 hex digits"),
        ("ab" * 17, "is not a uid"),
        ("ffff", "no stored game"),
        ("ff" * 16, "no stored game"),
    ],
)
def test_a_uid_of_no_game_is_rejected(zerofleet, run, text, complaint):
    refused = zerofleet("games", "show", "tic_tac_toe", text, "--run-dir", str(run))
    assert refused.code == 2
    assert complaint in refused.err


def test_a_uid_prefix_of_several_games_is_rejected(zerofleet, tmp_path):
    with open_run(tmp_path / "run") as opened, GameLog.open(opened.paths.replay, writer=True) as log:
        log.append([("abcd" + f"{number:028x}", payload(number)) for number in range(5)])
    refused = zerofleet("games", "show", "tic_tac_toe", "abcd", "--run-dir", str(tmp_path / "run"))
    assert refused.code == 2
    assert "5 games have uids beginning with abcd" in refused.err


def test_a_run_without_games_is_reported(zerofleet, tmp_path):
    with open_run(tmp_path / "run") as opened:
        (opened.paths.root / "replay").mkdir(exist_ok=True)
    listed = zerofleet("games", "list", "tic_tac_toe", "--run-dir", str(tmp_path / "run"), "--json").json()
    assert listed == {"total": 0, "searched": 0, "unreadable": 0, "next_before": None, "games": []}


def test_moves_without_a_search_and_resignations_are_drawn():
    played = random_game(GAME, 3)
    loser = 3 % 2
    stored = validate(
        decode_record(
            payload(
                3,
                moves=played.moves[:3],
                searched=(replace(played.searched[1], model_version=4, flags=2),),
                scores=tuple(np.where(np.arange(2) == loser, -1.0, 1.0)),
                resigned_seat=loser,
            )
        )
    )
    views = view_moves(stored)
    assert [view.value is None for view in views] == [True, False, True]
    assert views[1].notes == ("fast search", "would resign")
    with out().capture() as captured:
        for part in render_game(stored):
            out().print(part)
    assert "not searched" in captured.get()
    assert "player 2 resigned after 3 moves" in captured.get()


def test_games_of_another_release_are_left_out_of_the_list_until_none_can_be_read(zerofleet, tmp_path):
    foreign = decode_record(payload(1))
    foreign.rules_version += 1
    with open_run(tmp_path / "run") as opened, GameLog.open(opened.paths.replay, writer=True) as log:
        log.append([(uid(0), payload(0)), (uid(1), foreign.SerializeToString())])
    words = ("games", "list", "tic_tac_toe", "--run-dir", str(tmp_path / "run"), "--json")
    assert [row["index"] for row in zerofleet(*words).json()["games"]] == [0]
    assert "rules version" in zerofleet(*words, "--limit", "1").err


def test_a_game_whose_file_was_deleted_is_named_as_such(zerofleet, tmp_path):
    with open_run(tmp_path / "run") as opened:
        with GameLog.open(opened.paths.replay, writer=True, segment_bytes=1) as log:
            for number in range(3):
                log.append([(uid(number), payload(number))])
            log.drop_before(1)
        refused = zerofleet("games", "show", "tic_tac_toe", uid(0), "--run-dir", str(tmp_path / "run"))
    assert (refused.code, "was deleted" in refused.err) == (2, True)


def test_a_worker_timestamp_out_of_range_is_shown_as_unknown(zerofleet, tmp_path):
    record = decode_record(payload(0))
    record.finished_at_ms = 2**62
    with open_run(tmp_path / "run") as opened, GameLog.open(opened.paths.replay, writer=True) as log:
        log.append([(uid(0), record.SerializeToString())])
    listed = zerofleet("games", "list", "tic_tac_toe", "--run-dir", str(tmp_path / "run"), "--json")
    assert json.loads(listed.out)["games"][0]["finished_at"] is None


def test_games_export_writes_the_kind_of_file_of_its_name(zerofleet, run, tmp_path):
    words = ("games", "export", "tic_tac_toe", uid(29), "--run-dir", str(run), "--out")
    done = zerofleet(*words, str(tmp_path / "game.jsonl"))
    assert done.code == 0, done.err
    lines = [json.loads(line) for line in (tmp_path / "game.jsonl").read_text().splitlines()]
    shown = zerofleet("games", "show", "tic_tac_toe", uid(29), "--run-dir", str(run), "--json").json()
    assert lines[0]["uid"] == uid(29)
    assert [line["move"] for line in lines[1:]] == [move["move"] for move in shown["moves"]]
    assert zerofleet(*words, str(tmp_path / "game.GIF")).code == 0
    assert (tmp_path / "game.GIF").read_bytes().startswith(b"GIF89a")


def test_games_export_refuses_another_name_before_it_reads(zerofleet, tmp_path):
    refused = zerofleet("games", "export", "tic_tac_toe", "abcd", "--out", str(tmp_path / "game.pdf"))
    assert refused.code == 2
    assert "must end in .gif, .png, .svg, .jsonl" in refused.err


def test_games_export_refuses_a_missing_folder_before_it_reads(zerofleet, tmp_path):
    path = tmp_path / "none" / "game.gif"
    refused = zerofleet("games", "export", "tic_tac_toe", "abcd", "--out", str(path))
    assert refused.code == 2
    assert refused.err.startswith(f"error: {path} cannot be written: {path.parent} is not a directory")

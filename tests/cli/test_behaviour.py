"""`zerofleet behaviour` on the game log of a run and on games played now."""

from __future__ import annotations

import csv
import re

import pytest

import games
from zerofleet.contracts.records import encode_record
from zerofleet.contracts.records.samples import random_game
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.runs import RunDirectory

GAME = games.make("tic_tac_toe")


@pytest.fixture
def run(tmp_path):
    """Return a run with 30 random games, twenty of version 1 and ten of version 2."""
    root = tmp_path / "run"
    opened = RunDirectory.create_or_open(root, "tic_tac_toe", {}, preset="tiny", seed=1)
    with opened, GameLog.open(opened.paths.replay, writer=True) as log:
        log.append([(f"{number:032x}", payload(number)) for number in range(30)])
    return root


def payload(number):
    played = random_game(GAME, number, version=1 if number < 20 else 2)
    return encode_record(played, worker_id="worker-0", uid=f"{number:032x}", finished_at_ms=1)


def test_the_games_of_a_run_are_counted(zerofleet, run):
    said = zerofleet("behaviour", "placements", "--run-dir", str(run), "--json").json()
    assert (said["table"], said["game"], said["games"]) == ("placements", "tic_tac_toe", 30)
    results = [random_game(GAME, number).scores[0] for number in range(30)]
    first = said["rows"][0]
    assert first["placing_1"]["value"] == pytest.approx(100 * sum(score >= 0 for score in results) / 30)
    assert first["score"]["value"] == pytest.approx(sum(results) / 30)
    assert first["score"]["low"] < first["score"]["value"] < first["score"]["high"]


def test_the_newest_games_are_read(zerofleet, run):
    said = zerofleet("behaviour", "lines", "tic_tac_toe", "--help")
    assert said.code == 0
    said = zerofleet("behaviour", "lines", "--run-dir", str(run), "--games", "5", "--plies", "1", "--json").json()
    firsts = [int(random_game(GAME, number).moves[0]) for number in range(25, 30)]
    assert said["games"] == 5
    assert {row["actions"]: row["games"] for row in said["rows"]} == {str(move): firsts.count(move) for move in set(firsts)}


def test_versions_are_told_apart(zerofleet, run):
    said = zerofleet("behaviour", "values", "--run-dir", str(run), "--versions", "2", "--bins", "3", "--json").json()
    assert said["games"] == 10
    assert [row["version"] for row in said["rows"]] == [2, 2, 2]
    assert sum(row["positions"]["value"] for row in said["rows"]) == pytest.approx(100.0)


def test_openings_of_versions_that_are_not_stored_have_no_prior(zerofleet, run):
    said = zerofleet("behaviour", "openings", "--run-dir", str(run), "--top", "9", "--json").json()
    assert sum(row["games"] for row in said["rows"] if row["version"] == 1) == 20
    assert {row["prior"] for row in said["rows"]} == {None}


def test_players_keep_their_seats(zerofleet, tmp_path):
    words = ("behaviour", "lines", "tic_tac_toe_rules", "random", "--game", "tic_tac_toe", "--games", "40", "--plies", "1")
    file = tmp_path / "lines.csv"
    outcome = zerofleet(*words, "--csv", str(file), "--seed", "3")
    assert outcome.code == 0, outcome.err
    header, row = outcome.out.splitlines()[1:]
    assert re.split(r"  +", header.strip()) == [
        *("line", "actions", "games", "share (% of games)", "95 %", "won", "drawn", "lost")
    ]
    assert row.split()[:4] == ["b2", "4", "40", "100.0"]  # the rules begin in the centre
    assert "from games played now by tic_tac_toe_rules, random" in outcome.err
    (written,) = csv.DictReader(file.read_text().splitlines())
    assert (written["line"], written["games"], written["share"]) == ("b2", "40", "100")
    assert int(written["won"]) > 30
    assert int(written["lost"]) < 5
    again = zerofleet(*words, "--seed", "3")
    assert again.out == outcome.out


@pytest.mark.slow
@pytest.mark.parametrize("table", ["values", "placements", "lines"])
def test_a_table_is_drawn(zerofleet, run, tmp_path, table):
    picture = tmp_path / "picture.svg"
    outcome = zerofleet("behaviour", table, "--run-dir", str(run), "--versions", "all", "--plot", str(picture))
    assert outcome.code == 0, outcome.err
    texts = re.findall(r"<!-- (.*?) -->", picture.read_text())
    assert any(text.endswith("30 games") for text in texts)
    assert any("version 2" in text or text.startswith("2 · ") for text in texts)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("opening",), "there is no table 'opening'; the tables are turns, lines, values, openings, placements"),
        (("values", "--bins", "4"), "4 is even; an odd number of bins has one for draws"),
        (("values", "--versions", "x"), "'x' is neither all nor versions such as 1,10,20"),
        (("values", "--versions", "9"), "no game is of version 9 among the newest games"),
        (("turns",), "is for take_six and rock_paper_scissors, and the game is tic_tac_toe"),
        (("values", "--plot", "values.pdf"), "must end in .svg or .png"),
        (("values", "--csv", "none/values.csv"), "none/values.csv cannot be written"),
        (("lines", "random"), "the players random play now, which needs a game; without players the games are those of a run"),
        (("openings", "random", "--game", "take_six"), "games with one initial position, and take_six deals it"),
        (("openings", "random", "--game", "tic_tac_toe", "--opening-plies", "2"), "the first moves would be random"),
        (("lines", "random", "--game", "tic_tac_toe", "--search", "c=2"), "--search: no player is a model"),
        (("lines", "--opening-plies", "0"), "--opening-plies: the games of a run are stored, not played; name players"),
        (("lines", "--simulations", "8"), "--simulations: the games of a run are stored, not played; name players"),
        (("lines", "--search", "c=2"), "--search: the games of a run are stored, not played; name players"),
        (("lines", "--seat", "3"), "tic_tac_toe has 2 seats, got seat 3"),
        (("lines", "random", "random", "random", "--game", "tic_tac_toe"), "tic_tac_toe has 2 seats, got 3 players"),
    ],
)
def test_bad_input_is_refused_in_one_line(zerofleet, run, words, message):
    source = () if "--game" in words or "random" in words else ("--run-dir", str(run))
    outcome = zerofleet("behaviour", *words, *source)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: ")
    assert message in outcome.err


def test_an_empty_run_has_no_table(zerofleet, tmp_path):
    root = tmp_path / "run"
    opened = RunDirectory.create_or_open(root, "tic_tac_toe", {}, preset="tiny", seed=1)
    with opened, GameLog.open(opened.paths.replay, writer=True):
        pass
    outcome = zerofleet("behaviour", "values", "--run-dir", str(root))
    assert outcome.code == 2
    assert "there is no game yet" in outcome.err

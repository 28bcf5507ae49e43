"""Accuracy: a perfect player has all of it, a random one less, and positions are the same for all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import games
from games import core
from zerofleet.agents import make_agent
from zerofleet.contracts.records import decode_record, encode_record
from zerofleet.contracts.records.samples import random_game
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.library.accuracy_record import read_accuracy
from zerofleet.library.stored_positions import positions_of_stored_games
from zerofleet.storage.game_log import GameLog
from zerofleet.storage.run_paths import RunPaths
from zerofleet.storage.runs import RunDirectory
from zerofleet.strength.accuracy import (
    GradedMove,
    Share,
    agent_chooser,
    grade,
    model_chooser,
    random_positions,
    self_play_positions,
    tally,
    yardstick,
)

GAME = games.make("tic_tac_toe")


def test_a_perfect_player_keeps_every_value_and_a_random_one_does_not(zerofleet):
    words = ("--game", "tic_tac_toe", "--positions", "60", "--seed", "2", "--json")
    perfect, other = (zerofleet("accuracy", name, *words).json() for name in ("perfect", "random"))
    assert [part["source"] for part in perfect["results"]] == ["random", "self-play"]
    for part in perfect["results"]:
        assert part["mode"] == "as it is"
        assert (part["all"]["kept"]["share"], part["all"]["decided"]["share"], part["all"]["mean_lost"]) == (1, 1, 0)
        assert sum(row["kept"]["of"] for row in part["plies"]) == part["all"]["kept"]["of"] == 60
        assert sum(row["decided"]["of"] for row in part["plies"]) == part["all"]["decided"]["of"] < 60
        assert [row["ply"] for row in part["plies"]] == sorted({row["ply"] for row in part["plies"]})
    assert other["results"][0]["all"]["decided"]["share"] < 0.8
    assert other["results"][0]["all"]["mean_lost"] > 0
    assert zerofleet("accuracy", "random", *words).json() == other


def test_the_accuracy_table_groups_plies_into_bands(zerofleet):
    outcome = zerofleet("accuracy", "greedy", "--game", "tic_tac_toe", "--positions", "30")
    assert outcome.code == 0
    assert outcome.err.splitlines()[0] == "tic_tac_toe, 30 random and 30 self-play positions"
    assert "greedy, as it is, positions of random games" in outcome.out
    assert "greedy, as it is, positions of self-play games" in outcome.out
    lines = [line.split() for line in outcome.out.splitlines()]
    assert lines[1][:6] == ["plies", "positions", "kept", "95", "%", "that"]
    assert [line[0] for line in lines if line and line[0] == "all"] == ["all", "all"]


def test_positions_of_a_file_replace_random_and_self_play_games(zerofleet, tmp_path):
    path = tmp_path / "positions.txt"
    path.write_text("121 \n12\nb1 a1 a2 # notation\n")
    small = ("--set", "rows=4", "--set", "columns=4")
    said = zerofleet("accuracy", "perfect,prefer=score", "--from", str(path), *small, "--json").json()
    (part,) = said["results"]
    assert (part["source"], part["all"]["kept"]["of"]) == ("file", 3)
    assert part["all"]["exact"]["count"] == part["all"]["exact"]["of"] == part["all"]["decided"]["of"]
    table = zerofleet("accuracy", "perfect", "--from", str(path), *small)
    assert "perfect, as it is, positions of the file" in table.out
    assert table.err.splitlines()[0] == "connect_four rows=4 columns=4, 3 positions"
    wrong = zerofleet("accuracy", "perfect", "--from", str(tmp_path / "none.txt"), *small)
    assert (wrong.code, wrong.out) == (2, "")


@pytest.fixture
def run_of_games(tmp_path):
    """A run of tic-tac-toe with 30 stored games; the first two moves of each were its random opening."""
    root = tmp_path / "run"
    with (
        RunDirectory.create_or_open(root, "tic_tac_toe", {}, preset="tiny", seed=1) as opened,
        GameLog.open(opened.paths.replay, writer=True) as log,
    ):
        for number in range(30):
            uid, played = f"{number:032x}", random_game(GAME, number)
            played = replace(played, opening_plies=2, searched=played.searched[2:])
            log.append([(uid, encode_record(played, worker_id="worker-0", uid=uid, finished_at_ms=1_800_000_000_000))])
    return root


def test_positions_of_stored_games_replace_random_and_self_play_games(zerofleet, run_of_games):
    words = ("--game", "tic_tac_toe", "--stored", "--positions", "20", "--run-dir", str(run_of_games), "--json")
    said = zerofleet("accuracy", "perfect", *words).json()
    (part,) = said["results"]
    assert said["wanted_positions"] == 20
    assert (part["source"], part["positions"]) == ("stored", "20 positions, seed 0, games 10 to 29")
    assert part["all"]["kept"]["count"] == part["all"]["kept"]["of"] == 20
    table = zerofleet("accuracy", "random", *words[:-1])
    assert "random, as it is, positions of stored games" in table.out


def test_stored_positions_are_those_that_were_searched_and_the_same_for_the_same_games(run_of_games):
    with GameLog.open(RunPaths(run_of_games).replay, writer=False) as log:
        found, again, late = (positions_of_stored_games(log, GAME, count=40, seed=3, first_ply=first) for first in (0, 0, 5))
        played = [tuple(decode_record(log.get(number).payload).moves) for number in range(30)]
    assert found == again
    assert (found.oldest, found.newest) == (0, 29)
    assert len(set(found.positions)) == len(found.positions) == 40
    assert min(map(len, found.positions)) == 2
    assert min(map(len, late.positions)) == 5
    assert all(any(moves[: len(position)] == position for moves in played) for position in found.positions)


def test_a_run_without_stored_games_has_no_positions_to_judge(zerofleet, tmp_path):
    root = tmp_path / "run"
    with (
        RunDirectory.create_or_open(root, "tic_tac_toe", {}, preset="tiny", seed=1) as opened,
        GameLog.open(opened.paths.replay, writer=True),
    ):
        pass
    outcome = zerofleet("accuracy", "random", "--game", "tic_tac_toe", "--stored", "--run-dir", str(root))
    assert (outcome.code, outcome.out) == (2, "")
    assert "no stored game with a search" in outcome.err


class Impatient:
    """Perfect play of tic-tac-toe that gives up before the third stone."""

    unit = "points"

    def __init__(self):
        self._perfect = yardstick(GAME)

    def keeping(self, state):
        if len(games.legal(GAME, state)) > 7:
            raise InvalidRequest("too many nodes")
        return self._perfect.keeping(state)

    def lost(self, state, action):
        return self._perfect.lost(state, action)

    def scores(self, state):
        return self._perfect.scores(state)


def test_positions_beyond_the_limit_of_the_solver_are_left_out_for_every_player_or_refused():
    positions, chosen = [(4,), (0, 4, 8), (0,), (4, 0, 8, 2)], [[0, 1, 4, 1], [1, 2, 1, 5]]
    found = grade(Impatient(), GAME, positions, chosen, leave_out_hard=True)
    assert [[move.ply for move in moves] for moves in found] == [[3, 4], [3, 4]]
    assert [[move.kept for move in moves] for moves in found] == [[True, True], [False, False]]
    with pytest.raises(InvalidRequest, match="too many nodes"):
        grade(Impatient(), GAME, positions, chosen)


class ImpatientWithBlunders(Impatient):
    """Perfect play of tic-tac-toe that gives up on what a move loses."""

    def keeping(self, state):
        return self._perfect.keeping(state)

    def lost(self, state, action):
        if action not in self.keeping(state):
            raise InvalidRequest("too many nodes")
        return 0.0


def test_a_position_beyond_the_limit_is_left_out_whichever_move_was_chosen():
    corner, empty = (0,), ()  # in the corner's reply the centre alone keeps the draw; on the empty board every move does
    for reply in (4, 1):
        (found,) = grade(ImpatientWithBlunders(), GAME, [corner, empty], [[reply, 0]], leave_out_hard=True)
        assert [move.ply for move in found] == [0]


@pytest.mark.slow
def test_the_number_of_positions_beyond_the_limit_of_nodes_is_stated(zerofleet):
    words = ("--set", "rows=4", "--set", "columns=5", "--positions", "40", "--max-nodes", "100", "--json")
    outcome = zerofleet("accuracy", "greedy", *words)
    said = outcome.json()
    assert (said["wanted_positions"], said["max_nodes"]) == (40, 100)
    assert said["results"][0]["positions"] == "40 positions, seed 0, at most 100 nodes"
    of = said["results"][0]["all"]["kept"]["of"]
    assert 0 < of < 40
    assert f"{40 - of} of 40 positions of random games take the solver more than 100 nodes" in outcome.err


@pytest.mark.slow
def test_connect_four_is_graded_in_stones(zerofleet):
    words = ("--set", "rows=4", "--set", "columns=5", "--positions", "40", "--json")
    said = zerofleet("accuracy", "alpha_beta:2", *words).json()
    assert (said["player"], said["unit"], said["parameters"]["rows"]) == ("alpha_beta:2", "stones", "4")
    assert 0.5 < said["results"][0]["all"]["kept"]["share"] <= 1
    assert zerofleet("accuracy", "perfect,prefer=score", *words).json()["results"][1]["all"]["mean_lost"] == 0


@pytest.mark.slow
def test_a_model_is_graded_with_its_search_and_without(zerofleet, run_with_champion):
    words = ("--game", "tic_tac_toe", "--positions", "20", "--simulations", "30", "--run-dir", str(run_with_champion))
    outcome = zerofleet("accuracy", "champion", *words, "--json")
    assert outcome.code == 0
    said = outcome.json()
    assert said["player"] == "model:1"
    modes = [(part["source"], part["mode"]) for part in said["results"]]
    assert modes == [(source, mode) for source in ("random", "self-play") for mode in ("policy alone", "30 simulations")]
    assert [part["search"] for part in said["results"]] == ["", "root=gumbel,replies=true"] * 2
    recorded = read_accuracy(RunPaths(run_with_champion))[-1]
    assert (recorded.version, recorded.accuracy.model_dump(mode="json")) == (1, said)


@pytest.mark.slow
def test_figures_that_cannot_be_recorded_are_printed_before_the_error(zerofleet, run_with_champion, monkeypatch):
    def fail(paths, measured):
        raise PermissionError("the run directory is read-only")

    monkeypatch.setattr("zerofleet.cli.commands.accuracy.append_accuracy", fail)
    words = ("--game", "tic_tac_toe", "--positions", "5", "--simulations", "0", "--run-dir", str(run_with_champion))
    outcome = zerofleet("accuracy", "champion", *words, "--json")
    assert (outcome.code, "read-only" in outcome.err) == (2, True)
    assert outcome.json()["player"] == "model:1"


@pytest.mark.slow
def test_an_agent_with_a_model_is_graded_like_any_other_agent(zerofleet, run_with_champion):
    words = ("--game", "tic_tac_toe", "--positions", "5", "--run-dir", str(run_with_champion))
    outcome = zerofleet("accuracy", "network,model=champion", *words, "--json")
    assert outcome.code == 0, outcome.err
    said = outcome.json()
    assert said["player"] == "network,model=1"
    assert [part["mode"] for part in said["results"]] == ["as it is", "as it is"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bob", "--game", "tic_tac_toe"), "no agent is called 'bob'"),
        (("champion", "--game", "tic_tac_toe"), "there is no run of tic_tac_toe"),
        (("random", "--game", "tic_tac_toe", "--positions", "0"), "want 1 or more"),
        (("random", "--game", "tic_tac_toe", "--seed", "-1"), "want 0 or more"),
        (("random", "--game", "take_six"), "two players"),
        (("random", "--game", "tic_tac_toe", "--stored"), "there is no run of tic_tac_toe"),
        (("random", "--game", "tic_tac_toe", "--stored", "--from", "missing.txt"), "give one of them"),
        (("random", "--game", "tic_tac_toe", "--first-ply", "2", "--from", "missing.txt"), "--from names them; leave one out"),
        (("random", "--game", "tic_tac_toe", "--max-nodes", "100"), "omit --max-nodes"),
    ],
)
def test_an_invalid_accuracy_request_is_rejected_with_one_error_line(zerofleet, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    outcome = zerofleet("accuracy", *words)
    assert outcome.code == 2
    assert outcome.out == ""
    assert said in outcome.err


def test_moves_are_graded_by_the_rules():
    perfect = yardstick(GAME)
    corner, fork = (0,), (0, 4, 8)  # after a corner only the centre draws
    found = grade(perfect, GAME, [corner, fork], [[4, 1], [1, 2]])
    assert found == [
        [GradedMove(1, True, 0.0, True), GradedMove(3, True, 0.0, True)],
        [GradedMove(1, False, 1.0, True), GradedMove(3, False, 1.0, True)],
    ]


def test_shares_are_counted_by_band_and_decisive_positions_separately():
    graded = [
        GradedMove(0, True, 0, False),
        GradedMove(1, True, 0, True),
        GradedMove(3, False, 2, True),
        GradedMove(3, True, 0, True),
    ]
    first, second = tally(graded, plies=2)
    assert (first.first_ply, first.last_ply, second.first_ply, second.last_ply) == (0, 1, 2, 3)
    assert (first.kept.count, first.kept.of, first.decided.of) == (2, 2, 1)
    assert (first.exact.count, first.exact.of, second.exact.count, second.exact.of) == (1, 1, 1, 2)
    assert (second.kept.share, second.mean_lost) == (0.5, 1.0)
    assert [row.first_ply for row in tally(graded)] == [0, 1, 3]
    nothing = Share.counted(0, 0)
    assert (nothing.share, nothing.low, nothing.high) == (None, 0.0, 1.0)


def test_random_positions_differ_and_spread_over_the_plies():
    found = random_positions(GAME, count=100, seed=1)
    assert found == random_positions(GAME, count=100, seed=1) != random_positions(GAME, count=100, seed=2)
    keys = {int(core.key(GAME, games.replay(GAME, position))) for position in found}
    assert len(keys) == len(found) == 100
    assert np.bincount([len(position) for position in found])[:2].tolist() == [1, 9]
    assert max(map(len, found)) == 8


def test_a_first_ply_that_no_game_reaches_is_refused(zerofleet):
    outcome = zerofleet("accuracy", "random", "--game", "tic_tac_toe", "--positions", "8", "--first-ply", "9")
    assert (outcome.code, outcome.out) == (2, "")
    assert "no game of tic_tac_toe has a position from ply 9 on; take an earlier --first-ply" in outcome.err


async def test_positions_before_the_first_ply_are_left_out():
    found = random_positions(GAME, count=50, seed=1, first_ply=5)
    chooser = agent_chooser(GAME, make_agent("random", GAME), seed=1)
    own = await self_play_positions(GAME, chooser, count=20, seed=1, first_ply=5)
    assert min(map(len, found)) == min(map(len, own)) == 5


@pytest.mark.slow
async def test_openings_of_self_play_games_are_not_graded():
    chooser = agent_chooser(GAME, make_agent("perfect", GAME), seed=1)
    found = await self_play_positions(GAME, chooser, count=40, seed=1)
    assert len(found) == 40
    assert min(map(len, found)) == 2
    assert found == await self_play_positions(GAME, chooser, count=40, seed=1)


@pytest.mark.slow
async def test_a_search_finds_a_win_that_the_policy_misses():
    win = tuple(games.read_moves(GAME, "a1 a3 b1 b3"))
    choosers = [
        model_chooser(GAME, UniformEvaluator(2), version=1, simulations=simulations, seed=1) for simulations in (0, 200)
    ]
    assert await choosers[1]([win] * 3) == games.read_moves(GAME, "c1") * 3
    assert await choosers[0]([win]) == [games.legal(GAME, games.replay(GAME, win))[0]]

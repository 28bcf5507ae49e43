from __future__ import annotations

import io

import pytest


@pytest.fixture
def typed(monkeypatch):
    """Let the person type these lines."""

    def type_lines(*lines):
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))

    return type_lines


@pytest.mark.slow
def test_a_game_is_played_against_the_champion_of_a_run(zerofleet, typed, run_with_champion):
    typed("b2", "hint", "z9", "undo", "quit")
    outcome = zerofleet("play", "tic_tac_toe", "--run-dir", str(run_with_champion), "--simulations", "16")
    assert outcome.code == 0
    assert "O (champion 1) plays" in outcome.out
    assert "champion 1, 16 simulations" in outcome.out
    assert "best: " in outcome.out
    assert "'z9' is not a legal move" in outcome.out
    assert f"champion 1 of {run_with_champion}" in outcome.err


@pytest.mark.slow
def test_a_model_plays_by_wall_clock_time(zerofleet, typed, run_with_champion):
    typed("b2", "hint", "quit")
    outcome = zerofleet("play", "tic_tac_toe", "--run-dir", str(run_with_champion), "--time", "50ms")
    assert outcome.code == 0
    assert "O (champion 1) plays" in outcome.out
    assert "champion 1, 0.05 s" in outcome.out


def test_a_game_against_an_agent_needs_no_run(zerofleet, typed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    typed("b2", "quit")
    outcome = zerofleet("play", "tic_tac_toe", "--opponent", "random", "--seed", "1", "--seat", "2")
    assert outcome.code == 0
    assert "X (random) plays" in outcome.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "there is no run of tic_tac_toe in"),
        (("--run-dir", "nowhere"), "there is no folder nowhere; `zerofleet runs` lists the runs"),
        (("--opponent", "random", "--seat", "3"), "tic_tac_toe has 2 seats, got --seat 3"),
        (("--opponent", "bob"), "no agent is called 'bob'; there are random"),
        (("--set", "size=4", "--opponent", "random"), "size=4 is out of range"),
    ],
)
def test_an_invalid_play_request_is_rejected_with_one_error_line(zerofleet, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    outcome = zerofleet("play", "tic_tac_toe", *words)
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("error: ")
    assert said in outcome.err
    assert len(outcome.err.splitlines()) == 1


@pytest.mark.parametrize(("opponent", "said"), [("model:9", "9"), ("model:x", "is not a model"), ("model:0", "is not a model")])
def test_the_error_for_a_missing_opponent_version_names_it(zerofleet, run_with_champion, opponent, said):
    outcome = zerofleet("play", "tic_tac_toe", "--opponent", opponent, "--run-dir", str(run_with_champion))
    assert outcome.code == 2
    assert said in outcome.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--time", "soon"), "'soon' is no time from 1ms to 3600s; write 500ms or 2s"),
        (("--time", "2"), "'2' is no time"),
        (("--time", "2s", "--simulations", "8"), "a move has one budget, leave one out"),
        (("--time", "2s", "--opponent", "random"), "random is no model"),
    ],
)
def test_a_time_that_no_model_can_have_is_a_usage_error(zerofleet, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    outcome = zerofleet("play", "tic_tac_toe", *words)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("error: Invalid value for --time: ")
    assert said in outcome.err


@pytest.mark.parametrize("opponent", ["random", "uct:20"])
def test_simulations_of_an_agent_are_a_usage_error_that_names_the_notation(zerofleet, tmp_path, monkeypatch, opponent):
    monkeypatch.chdir(tmp_path)
    outcome = zerofleet("play", "tic_tac_toe", "--opponent", opponent, "--simulations", "50")
    assert (outcome.code, outcome.out) == (2, "")
    said = f"{opponent} is no model; an agent with a budget has it in its name, such as uct:200 or alpha_beta:2s"
    assert outcome.err.startswith(f"error: Invalid value for --simulations: {said}\n")

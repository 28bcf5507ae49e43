import importlib
import os
import re
import shutil
import signal
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from games.core import make
from zerofleet.cli import screen
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.strength.matches import FixedGames, MatchTerms, Player, SeatTally, Standing, summarise

match_command = importlib.import_module("zerofleet.cli.commands.match")


def without_times(said):
    """Return what a match said, but for what the same match may say otherwise another time."""
    return said | {"efforts": [{k: v for k, v in e.items() if k not in {"time_s", "ms_per_move"}} for e in said["efforts"]]}


def test_a_match_of_two_agents_needs_no_run(zerofleet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("match", "alpha_beta:2", "random", "--game", "tic_tac_toe", "--games", "20", "--seed", "3")
    outcome = zerofleet(*words, "--json")
    assert outcome.code == 0
    said = outcome.json()
    assert (said["first"], said["second"], said["games"], said["openings"]) == ("alpha_beta:2", "random", 20, 10)
    assert said["wins"] + said["draws"] + said["losses"] == 20
    assert said["share"] > 0.7
    assert said["share_low"] < said["share"] <= said["share_high"]
    assert [seat["seats"] for seat in said["by_seat"]] == [[1], [2]]
    assert sum(seat["wins"] for seat in said["by_seat"]) == said["wins"]
    assert without_times(zerofleet(*words, "--json").json()) == without_times(said)
    assert [effort["player"] for effort in said["efforts"]] == ["alpha_beta:2", "random"]
    assert sum(effort["moves"] for effort in said["efforts"]) == round(20 * (said["mean_plies"] - said["opening_plies"]))
    assert said["efforts"][0]["nodes_per_move"] > 1 > said["efforts"][1]["nodes_per_move"] == 0
    assert all(effort["ms_per_move"] > 0 for effort in said["efforts"])


def test_the_match_table_shows_seats_points_interval_and_elo(zerofleet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = zerofleet("match", "perfect", "random", "--game", "tic_tac_toe", "--games", "20", "--opening-plies", "0")
    assert outcome.code == 0
    assert "seat 1 (first to move)" in outcome.out
    assert "seat 2" in outcome.out
    assert "perfect took" in outcome.out
    assert "95 % interval" in outcome.out
    assert "Elo difference +" in outcome.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("random", "random"), "cannot play itself"),
        (("random", "bob"), "no agent is called 'bob'"),
        (("champion", "random"), "there is no run of tic_tac_toe"),
        (("random", "perfect", "--opening-plies", "9"), "use fewer plies (--opening-plies, "),
        (("random", "perfect", "--games", "0"), "want 1 or more"),
        (("random", "perfect", "--simulations", "8"), "--simulations: no player is a model; an agent with a search"),
        (("random", "perfect", "--search", "c=2"), "--search: no player is a model; an agent with a search"),
        (("random", "perfect", "--alpha", "0.01"), "--alpha: there is no test; add --sprt ELO0,ELO1"),
        (("random", "perfect", "--beta", "0.01"), "--beta: there is no test; add --sprt ELO0,ELO1"),
        (("random", "perfect", "--openings", "none.txt", "--opening-plies", "2"), "--opening-plies: --openings is given too"),
    ],
)
def test_an_invalid_match_is_rejected_with_one_error_line(zerofleet, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    outcome = zerofleet("match", *words, "--game", "tic_tac_toe")
    assert outcome.code == 2
    assert outcome.out == ""
    assert said in outcome.err


def test_a_match_is_of_the_game_of_the_run_unless_another_is_named(zerofleet, run_with_champion):
    words = ("match", "perfect", "random", "--games", "2", "--run-dir", str(run_with_champion), "--json")
    assert zerofleet(*words).json()["game"] == "tic_tac_toe"
    assert zerofleet(*words, "--game", "connect_four", "--set", "rows=4", "--set", "columns=4").json()["game"] == "connect_four"
    accuracy = zerofleet("accuracy", "random", "--positions", "8", "--run-dir", str(run_with_champion), "--json")
    assert accuracy.json()["game"] == "tic_tac_toe"
    rounds = (
        "tournament",
        "random",
        "perfect",
        "--games",
        "2",
        "--workers",
        "1",
        "--run-dir",
        str(run_with_champion),
        "--json",
    )
    assert zerofleet(*rounds).json()["game"] == "tic_tac_toe"
    absent = zerofleet("match", "perfect", "random", "--run-dir", str(run_with_champion / "absent"))
    assert (absent.code, "absent" in absent.err) == (2, True)


@pytest.mark.slow
def test_the_champion_of_a_run_plays_a_match_against_an_agent(zerofleet, run_with_champion):
    words = ("match", "champion", "random", "--game", "tic_tac_toe", "--games", "7", "--simulations", "16")
    outcome = zerofleet(*words, "--run-dir", str(run_with_champion), "--json")
    assert outcome.code == 0
    said = outcome.json()
    assert (said["first"], said["games"], said["simulations"], said["search"]) == ("model:1", 8, 16, "root=gumbel")
    assert "champion is model:1" in outcome.err
    refused = zerofleet("match", "champion", "model:1", "--game", "tic_tac_toe", "--run-dir", str(run_with_champion))
    assert "model:1 cannot play itself" in refused.err


@pytest.mark.parametrize(
    ("words", "search"),
    [
        (("champion", "random"), "root=gumbel"),
        (("champion", "random", "--search", "replies=false"), "root=gumbel,replies=false"),
        (("champion", "random", "--search", "root=puct"), "root=puct"),
        (("champion", "random", "--simulations", "0"), ""),
        (("perfect", "random"), ""),
    ],
)
def test_the_json_of_a_match_names_the_root_of_its_models(zerofleet, run_with_champion, monkeypatch, words, search):
    @asynccontextmanager
    async def uniform(*_, in_process):
        yield UniformEvaluator(2)

    monkeypatch.setattr("zerofleet.cli.commands.match.evaluator_of", uniform)
    terms = ("--game", "tic_tac_toe", "--games", "2", "--in-process", "--run-dir", str(run_with_champion), "--json")
    outcome = zerofleet("match", *words, *terms)
    assert outcome.code == 0, outcome.err
    assert outcome.json()["search"] == search


@pytest.mark.slow
def test_the_thesis_player_of_take_six_is_measured_against_its_comparison_player(zerofleet, run_of_take_six):
    words = ("match", "mcts:2,model=champion,information=predict,u=literal", "take_six_comparison", "--game", "take_six")
    outcome = zerofleet(*words, "--games", "6", "--run-dir", str(run_of_take_six), "--json")
    assert outcome.code == 0
    said = outcome.json()
    assert (said["first"], said["games"]) == ("mcts:2,model=1,u=literal,information=predict", 6)
    assert said["efforts"][0]["nodes_per_move"] == 2.0


def test_a_perceptron_is_evaluated_in_this_process_without_a_server(zerofleet, run_of_take_six, monkeypatch):
    monkeypatch.setattr("zerofleet.cli.commands.match.serving", lambda *_: pytest.fail("a server is started"))
    words = ("match", "network,model=champion", "random", "--game", "take_six", "--games", "6", "--in-process")
    outcome = zerofleet(*words, "--run-dir", str(run_of_take_six), "--json")
    assert outcome.code == 0
    assert (outcome.json()["first"], outcome.json()["games"]) == ("network,model=1", 6)


def test_champions_of_two_runs_meet(zerofleet, run_with_champion, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(run_with_champion, other, ignore=shutil.ignore_patterns("sockets"))
    first, second = f"champion@{run_with_champion}", f"mcts:16,model=champion@{other}"
    outcome = zerofleet("match", first, second, "--games", "8", "--simulations", "16", "--json")
    assert outcome.code == 0, outcome.err
    found = outcome.json()
    assert (found["game"], found["games"], found["share"]) == ("tic_tac_toe", 8, 0.5)  # the same weights and search
    assert (found["first"], found["second"]) == (f"model:1@{run_with_champion}", f"mcts:16,model=1@{other}")
    assert f"{second} is mcts:16,model=1@{other}" in outcome.err
    table = zerofleet("tournament", first, f"champion@{other}", "random", "--games", "2", "--simulations", "2", "--json")
    assert table.code == 0, table.err
    assert len(table.json()["duels"]) == 3


def test_a_run_after_the_name_of_a_model_must_exist_and_suits_matches_alone(zerofleet, run_with_champion, tmp_path):
    absent = zerofleet("match", f"champion@{tmp_path}/absent", f"champion@{run_with_champion}")
    assert absent.code == 2
    assert f"there is no folder {tmp_path}/absent" in absent.err
    own = f"champion@{run_with_champion}"
    equal = zerofleet("match", own, f"champion@{run_with_champion}/../{run_with_champion.name}", "--games", "2")
    assert "cannot play itself" in equal.err
    for words in (("accuracy", own), ("accuracy", f"mcts:5,model={own}"), ("play", "tic_tac_toe", "--opponent", own)):
        refused = zerofleet(*words, "--run-dir", str(run_with_champion))
        assert refused.code == 2
        assert "models of several runs meet in matches and tournaments only" in refused.err


def test_a_residual_network_is_not_evaluated_in_this_process(zerofleet, run_with_champion):
    words = ("match", "champion", "random", "--game", "tic_tac_toe", "--in-process", "--run-dir", str(run_with_champion))
    outcome = zerofleet(*words)
    assert outcome.code == 2
    assert "is a residual network" in outcome.err
    assert "or an inference server" in outcome.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("champion", "random", "--search", "information=predict"), "tic_tac_toe hides nothing; leave out information"),
        (("champion", "random", "--search", "depth=2"), "option 'depth': Extra inputs are not permitted"),
        (("model:1,c=2", "random"), "with a search of its own mcts:SIMULATIONS,model=N,OPTION=VALUE"),
    ],
)
def test_a_search_that_is_misspelt_or_unsuitable_is_rejected(zerofleet, run_with_champion, words, said):
    outcome = zerofleet("match", *words, "--game", "tic_tac_toe", "--run-dir", str(run_with_champion))
    assert outcome.code == 2
    assert said in outcome.err


def test_the_elo_of_a_match_won_outright_is_null_in_json():
    terms = MatchTerms("m", make("tic_tac_toe"), (Player("a"), Player("b")), seed=0, opening_plies=0, max_groups=2)
    clean = summarise(terms, Standing((1.0, 1.0), {(0, 1): SeatTally(2, 0, 0), (1, 0): SeatTally(2, 0, 0)}), ())
    assert clean.elo is None
    assert clean.elo_high is None
    assert clean.elo_low > -400


def test_a_match_names_its_game_and_its_number_of_games(zerofleet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("match", "perfect", "random", "--game", "tic_tac_toe", "--games", "5")
    assert zerofleet(*words).err.splitlines()[0] == "tic_tac_toe, 6 games"
    assert zerofleet(*words, "--sprt", "0,100").err.splitlines()[0] == "tic_tac_toe, at most 6 games"
    assert "games" not in zerofleet(*words, "--json").err


def test_a_champion_without_a_game_and_without_a_run_states_the_game_that_was_taken(zerofleet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in (("match", "champion", "random"), ("accuracy", "champion"), ("accuracy", "random", "--stored")):
        refused = zerofleet(*words)
        assert refused.code == 2
        assert "error: no --game given, so connect_four: there is no run of connect_four in" in refused.err
    assert "no --game given" not in zerofleet("match", "champion", "random", "--game", "connect_four").err


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupted_match_shows_the_result_so_far(zerofleet, tmp_path, monkeypatch, request, as_json):
    def interrupt(board, rule):
        if board.groups >= 2:
            os.kill(os.getpid(), signal.SIGINT)
        return ""

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(match_command, "_remark", interrupt)
    monkeypatch.setattr(screen, "PLAIN_LINE_INTERVAL_S", 0.0)
    former = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell ignores it
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, former))
    words = ("match", "perfect", "random", "--game", "tic_tac_toe", "--games", "4000", *(["--json"] if as_json else []))
    outcome = zerofleet(*words)
    assert outcome.code == 130
    said = re.fullmatch(r"interrupted after (\d+) of 4,000 games(; the result has the (\d+) .*)?", outcome.err.splitlines()[-1])
    assert said
    assert said[3] is None or 4 <= int(said[3]) < int(said[1])  # two openings are complete, games of others are played
    assert ("perfect on" in outcome.out) is not as_json


def test_a_match_interrupted_before_its_first_game_has_no_result(capsys):
    match_command._show_interrupted([], 40, json=False)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "interrupted after 0 of 40 games\n")


def test_the_remark_of_a_match_names_its_share_of_the_points():
    board = SimpleNamespace(groups=1, standing=lambda: SimpleNamespace(share=0.9375))
    assert match_command._remark(board, FixedGames()) == "93.8 % of points"


def test_a_player_plays_itself_only_with_control(zerofleet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("match", "random", "random", "--game", "tic_tac_toe", "--games", "40")
    assert "add --control" in zerofleet(*words).err
    said = zerofleet(*words, "--control", "--json").json()
    assert (said["first"], said["second"]) == ("random", "random (control)")
    assert said["share_low"] < 0.5 < said["share_high"]
    assert "needs the same player twice" in zerofleet("match", "random", "perfect", "--control", "--game", "tic_tac_toe").err


def test_a_sequential_test_stops_the_match_when_it_decides(zerofleet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("match", "perfect", "random", "--game", "tic_tac_toe", "--sprt", "0,100")
    said = zerofleet(*words, "--json").json()
    test = said["sprt"]
    assert (test["elo0"], test["elo1"], test["verdict"], test["conclusion"]) == (0.0, 100.0, "stronger", "stronger")
    assert test["log_likelihood_ratio"] >= test["upper"] > test["lower"]
    assert said["games"] < 200
    assert sum(seat["games"] for seat in said["by_seat"]) == said["games"]
    shown = zerofleet(*words).out
    assert "Sequential test: stronger:" in shown
    assert "log-likelihood ratio" in shown
    lenient = zerofleet(*words[:-2], "--sprt=-50,50", "--json").json()["sprt"]
    assert (lenient["verdict"], lenient["conclusion"]) == ("not weaker", "not weaker than -50 Elo")
    undecided = zerofleet(*words, "--games", "4", "--json").json()
    assert undecided["sprt"]["verdict"] == "continue"
    assert "is not ELO0,ELO1" in zerofleet(*words[:-1], "100").err
    assert "elo0 < elo1" in zerofleet(*words[:-1], "100,0").err


def test_partial_wins_have_separate_columns(zerofleet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("match", "greedy", "random", "--game", "abalone", "--set", "ply_cap=40", "--games", "6", "--seed", "2")
    outcome = zerofleet(*words)
    assert "full wins" in outcome.out
    assert "Games took 40.0 plies on average" in outcome.out
    assert "full wins" not in zerofleet("match", "perfect", "random", "--game", "tic_tac_toe", "--games", "6").out

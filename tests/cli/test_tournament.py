"""`zerofleet tournament`, `openings` and `agents` as they are typed."""

import csv
import shutil
from dataclasses import replace

import pytest

from games.core import make
from zerofleet.agents import AGENTS, make_agent
from zerofleet.cli import screen
from zerofleet.cli.commands.agents import example_of
from zerofleet.errors import InvalidRequest
from zerofleet.evaluators.base import ModelVersion
from zerofleet.strength.tournaments.worker import _evaluating
from zerofleet.strength.tournaments.workers import Setup
from zerofleet.testing import built_in_games

WORDS = ("random", "alpha_beta:1", "alpha_beta:02", "--game", "tic_tac_toe", "--games", "10", "--workers", "1")


def numbers(said):
    """Return a table but for its times."""
    rows = [{name: value for name, value in row.items() if name not in {"time_s", "ms_per_move"}} for row in said["players"]]
    return said | {"players": rows}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_tournament_ranks_its_players(zerofleet):
    said = zerofleet("tournament", *WORDS, "--json").json()
    assert [row["rank"] for row in said["players"]] == [1, 2, 3]
    assert {row["name"] for row in said["players"]} == {"random", "alpha_beta:1", "alpha_beta:2"}
    assert all(row["games"] == 20 for row in said["players"])
    assert said["anchor"] == "random"
    assert [duel["games"] for duel in said["duels"]] == [10, 10, 10]


def test_the_tournament_tables_show_every_player_and_the_zero_of_the_scale(zerofleet):
    shown = zerofleet("tournament", *WORDS).out
    assert "Elo: random is 0" in shown
    assert "nodes per move" in shown
    first = shown.splitlines()[1]
    assert first.startswith("1  alpha_beta:2")
    assert shown.count("alpha_beta:2") == 2
    assert "the mean is 0" in zerofleet("tournament", *WORDS[1:]).out


def test_the_progress_of_a_tournament_counts_games(zerofleet, monkeypatch):
    monkeypatch.setattr(screen, "PLAIN_LINE_INTERVAL_S", 0.0)
    assert "games of the tournament of 3: 7/30\n" in zerofleet("tournament", *WORDS).err


def test_a_tournament_resumes_from_its_directory_and_rejects_other_terms(zerofleet, tmp_path):
    words = ("tournament", *WORDS, "--dir", str(tmp_path / "cup"), "--json")
    said = numbers(zerofleet(*words).json())
    journal = tmp_path / "cup" / "results.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    assert len(lines) == 31
    journal.write_bytes(b"".join(lines[:12]) + lines[12][:30])
    assert numbers(zerofleet(*words).json()) == said
    assert len(journal.read_bytes().splitlines()) == 31
    refused = zerofleet(*words, "--seed", "1")
    assert refused.code == 2
    assert "seed=0, want 1" in refused.err


@pytest.mark.slow
def test_a_tournament_is_not_resumed_with_models_of_another_run(zerofleet, run_of_take_six, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(run_of_take_six, other, ignore=shutil.ignore_patterns("sockets"))
    words = ("tournament", "network,model=1", "random", "--game", "take_six", "--pairs", "--games", "6", "--workers", "1")
    words = (*words, "--dir", str(tmp_path / "cup"), "--json")
    first = zerofleet(*words, "--run-dir", str(run_of_take_six))
    assert first.code == 0, first.err
    copied = zerofleet(*words, "--run-dir", str(other))
    assert (copied.code, numbers(copied.json())) == (0, numbers(first.json()))
    (manifest,) = (other / "models" / "take_six" / "1").glob("manifest.json")
    manifest.write_bytes(manifest.read_bytes() + b"\n")  # the model of another run has another manifest
    refused = zerofleet(*words, "--run-dir", str(other))
    assert (refused.code, refused.out) == (2, "")
    assert 'holds a tournament with models=["1:' in refused.err


@pytest.mark.slow
def test_perceptrons_are_evaluated_in_every_playing_process_without_a_server(zerofleet, run_of_take_six, monkeypatch):
    monkeypatch.setattr("zerofleet.cli.commands.tournament.serving", lambda *_: pytest.fail("a server is started"))
    words = ("tournament", "network,model=champion", "champion", "random", "--game", "take_six", "--games", "6")
    words = (*words, "--simulations", "2", "--run-dir", str(run_of_take_six), "--in-process", "--json", "--workers")
    alone, together = (zerofleet(*words, count) for count in ("1", "2"))
    assert (alone.code, together.code) == (0, 0), alone.err + together.err
    assert numbers(together.json()) == numbers(alone.json())
    assert {row["name"] for row in alone.json()["players"]} == {"network,model=1", "model:1", "random"}


@pytest.mark.slow
async def test_a_playing_process_needs_no_version_of_the_run_once_it_has_begun(run_of_take_six, tmp_path):
    models, game = tmp_path / "models", make("take_six")
    shutil.copytree(run_of_take_six / "models", models)
    async with _evaluating(replace(Setup.of(game, 2), models=str(models), versions=(1,)), game) as evaluator:
        shutil.rmtree(models)
        assert evaluator.load(ModelVersion(1)) is evaluator.load(ModelVersion(1))


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_tournament_in_process_refuses_residual_networks_and_several_runs_before_the_first_game(
    zerofleet, run_with_champion, tmp_path, workers
):
    own, other = f"champion@{run_with_champion}", tmp_path / "other"
    shutil.copytree(run_with_champion, other, ignore=shutil.ignore_patterns("sockets"))
    words = ("--games", "8", "--workers", workers, "--in-process")
    residual = zerofleet("tournament", own, "random", *words)
    assert (residual.code, residual.out) == (2, "")
    assert "is a residual network" in residual.err
    several = zerofleet("tournament", own, f"champion@{other}", *words)
    assert (several.code, several.out) == (2, "")
    assert "the models of one run are evaluated, got those of 2 runs" in several.err


@pytest.mark.slow
def test_duels_are_written_as_csv_and_ratings_are_drawn(zerofleet, tmp_path):
    outcome = zerofleet("tournament", *WORDS, "--csv", "duels.csv", "--plot", "ratings.svg")
    assert outcome.code == 0
    with (tmp_path / "duels.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert (rows[0]["first"], rows[0]["second"], rows[0]["games"]) == ("random", "alpha_beta:1", "10")
    assert "<svg" in (tmp_path / "ratings.svg").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("random", "random"), "random would play twice"),
        (("random", "alpha_beta:2", "alpha_beta:02"), "alpha_beta:2 would play twice"),
        (("random",), "a game needs 2 players"),
        (("random", "bob"), "no agent is called 'bob'"),
        (("random", "champion"), "there is no run of tic_tac_toe"),
        (("random", "mcts:20,model=3"), "there is no run of tic_tac_toe"),
        (("random", "perfect", "--plot", "ratings.txt"), "cannot be drawn"),
        (("random", "perfect", "--plot", "none/ratings.svg"), "none/ratings.svg cannot be written"),
        (("random", "perfect", "--csv", "none/duels.csv"), "none/duels.csv cannot be written"),
        (("random", "perfect", "--openings", "none.txt"), "openings cannot be read"),
        (("random", "perfect", "--opening-plies", "9"), "use fewer plies (--opening-plies, "),
        (("random", "perfect", "--simulations", "8"), "--simulations: no player is a model; an agent with a search"),
        (("random", "perfect", "--search", "c=2"), "--search: no player is a model; an agent with a search"),
    ],
)
def test_an_invalid_tournament_is_rejected_with_one_error_line(zerofleet, words, said):
    outcome = zerofleet("tournament", *words, "--game", "tic_tac_toe", "--workers", "1")
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err


def test_each_of_three_seats_has_a_different_player_unless_pairs_is_set(zerofleet):
    words = ("random", "greedy", "initialize", "--game", "chinese_checkers_star37", "--set", "moves_cap=15", "--games", "6")
    tables = zerofleet("tournament", *words, "--workers", "1", "--json").json()
    assert [duel["games"] for duel in tables["duels"]] == [6, 6, 6]
    assert tables["tables"]
    pairs = zerofleet("tournament", *words, "--workers", "1", "--pairs", "--json").json()
    assert [duel["games"] for duel in pairs["duels"]] == [6, 6, 6]
    assert not pairs["tables"]
    assert pairs["players"][0]["games"] == 12


@pytest.mark.slow
def test_models_play_against_agents_that_use_models(zerofleet, run_with_champion):
    names = ("champion", "network,model=champion", "mcts:8,model=1", "random")
    outcome = zerofleet(
        "tournament", *names, "--game", "tic_tac_toe", "--games", "4", "--workers", "1", "--simulations", "4",
        "--run-dir", str(run_with_champion), "--json",
    )  # fmt: skip
    assert outcome.code == 0
    assert {row["name"] for row in outcome.json()["players"]} == {"model:1", "network,model=1", "mcts:8,model=1", "random"}
    assert "network,model=champion is network,model=1" in outcome.err
    said = zerofleet(
        "match", "network,model=1", "random", "--game", "tic_tac_toe", "--games", "4", "--run-dir", str(run_with_champion)
    )
    assert said.code == 0
    assert "network,model=1 took" in said.out


def test_printed_openings_can_be_read_from_a_file(zerofleet, tmp_path):
    outcome = zerofleet("openings", "tic_tac_toe", "--plies", "2", "--count", "5", "--seed", "3")
    lines = outcome.out.splitlines()
    assert lines[0] == "# tic_tac_toe size=3: 2 random plies, seed 3"
    assert len(set(lines)) == 6
    (tmp_path / "openings.txt").write_text(outcome.out)
    words = ("match", "perfect", "random", "--game", "tic_tac_toe", "--games", "20", "--openings", "openings.txt")
    said = zerofleet(*words, "--json").json()
    assert (said["games"], said["openings"], said["openings_file"]) == (10, 5, "openings.txt")
    assert said["opening_plies"] is None
    assert "10 games: openings.txt has 5 different openings" in zerofleet(*words).err
    rounds = ("tournament", *words[1:], "--workers", "1")
    assert "1 of 1 meetings have 10 games: openings.txt has 5 different openings" in zerofleet(*rounds).err
    said = zerofleet(*rounds, "--json").json()
    assert (said["opening_plies"], said["openings"]) == (None, "openings.txt")
    everything = zerofleet("openings", "tic_tac_toe", "--plies", "1")
    assert "has only 9 different openings of 1 plies" in everything.err
    assert "use fewer --plies" in zerofleet("openings", "tic_tac_toe", "--plies", "9").err


def test_agents_are_listed_with_the_games_they_play(zerofleet):
    everyone = zerofleet("agents").out
    assert all(kind.form in everyone for kind in AGENTS.values())
    said = {agent["form"]: agent for agent in zerofleet("agents", "--game", "tic_tac_toe", "--json").json()["agents"]}
    assert said["random"]["plays"]
    assert not said["take_six_comparison"]["plays"]
    assert "take_six" in said["take_six_comparison"]["refusal"]
    shown = zerofleet("agents", "--game", "tic_tac_toe")
    assert "take_six_comparison" not in shown.out
    assert "do not play tic_tac_toe" in shown.err
    refused = zerofleet("agents", "--set", "rows=4")
    assert (refused.code, "--set: parameters belong to one game; name it with --game" in refused.err) == (2, True)


@pytest.mark.parametrize("form", [kind.form for kind in AGENTS.values()])
def test_the_example_of_every_agent_form_suits_some_game(form):
    def plays(name):
        try:
            make_agent(example_of(form), make(name), evaluate=lambda batch, version: None)
        except InvalidRequest:
            return False
        return True

    assert any(plays(name) for name in ("tic_tac_toe", *built_in_games()))

import csv
import shutil
from contextlib import asynccontextmanager

import pytest

from zerofleet.cli import screen
from zerofleet.presets.commented import commented
from zerofleet.presets.experiment import Experiment
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.runs import RunDirectory, RunPaths

WORDS = ("--games", "4", "--simulations", "2", "--rungs", "random,alpha_beta:1", "--seed", "3")


@pytest.fixture
def run(run_with_champion, tmp_path):
    """Return a copy of the run, in which version 1 was promoted again later, by hand."""
    root = tmp_path / "run"
    shutil.copytree(run_with_champion, root)
    DirectoryStore(RunPaths(root).models).write_champion("tic_tac_toe", 1, epoch=2, reason="by hand")
    return root


@pytest.fixture
def lent(monkeypatch):
    """Let a network that knows nothing stand in for servers; returns which versions were asked for."""
    asked = []

    @asynccontextmanager
    async def served(paths, game, *, versions):
        asked.append(tuple(versions))
        yield None

    monkeypatch.setattr("zerofleet.library.ladder_play.served", served)
    return asked


def test_champions_and_rungs_are_rated_and_no_game_is_repeated(zerofleet, run, lent, tmp_path):
    outcome = zerofleet("ladder", "--run-dir", str(run), *WORDS, "--json", "--plot", str(tmp_path / "curve.svg"))
    assert outcome.code == 0, outcome.err
    said = outcome.json()
    assert (said["game"], said["simulations"], said["games_per_pair"]) == ("tic_tac_toe", 2, 4)
    (champion,) = said["champions"]
    assert champion["version"] == 1
    assert champion["elo_low"] < champion["elo"] < champion["elo_high"]
    assert [(a["rung"], a["games"]) for a in champion["against"]] == [("random", 4), ("alpha_beta:1", 4)]
    assert {rung["name"]: rung["games"] for rung in said["rungs"]} == {"random": 8, "alpha_beta:1": 8}
    assert (tmp_path / "curve.svg").read_text().startswith("<?xml")
    assert "wrote the curve to" in outcome.err
    assert lent == [(1,)]
    again = zerofleet("ladder", "tic_tac_toe", "--run-dir", str(run), *WORDS, "--json")
    assert again.json() == said
    assert lent == [(1,)]


def test_the_progress_of_a_ladder_counts_games(zerofleet, run, lent, monkeypatch):
    monkeypatch.setattr(screen, "PLAIN_LINE_INTERVAL_S", 0.0)
    assert "games of the ladder: 12/12 " in zerofleet("ladder", "--run-dir", str(run), *WORDS).err


def test_the_curve_over_time_of_a_short_run_has_minutes(zerofleet, run, lent, tmp_path, monkeypatch):
    words = ("ladder", "--run-dir", str(run), *WORDS, "--over", "hours", "--plot", str(tmp_path / "curve.svg"))
    assert zerofleet(*words).code == 0
    assert "<!-- minutes since the start of the run -->" in (tmp_path / "curve.svg").read_text()
    monkeypatch.setattr("zerofleet.cli.commands.ladder.SHORT_RUN_HOURS", 0.0)
    assert zerofleet(*words).code == 0
    assert "<!-- hours since the start of the run -->" in (tmp_path / "curve.svg").read_text()


def test_the_openings_are_those_of_the_gate_of_the_run(zerofleet, run):
    assert zerofleet("ladder", "--run-dir", str(run), "--games", "0", "--json").json()["opening_plies"] == 2
    settings = {"gate.opening_plies": "1"}
    RunPaths(run).experiment.write_text(commented(Experiment("tic_tac_toe", "tiny", 1, settings=settings)))
    assert zerofleet("ladder", "--run-dir", str(run), "--games", "0", "--json").json()["opening_plies"] == 1
    chosen = zerofleet("ladder", "--run-dir", str(run), "--games", "0", "--opening-plies", "3", "--json").json()
    assert chosen["opening_plies"] == 3


def test_the_ladder_table_shows_elo_with_its_interval_and_the_share_against_each_rung(zerofleet, run, lent):
    outcome = zerofleet("ladder", "tic_tac_toe", "--run-dir", str(run), *WORDS)
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert lines[0].split() == ["player", "promoted", "at", "Elo", "95", "%", "interval", "games", "random", "alpha_beta:1"]
    assert lines[1].startswith("model:1 ")
    assert " to " in lines[1]
    assert lines[1].count("%") == 2
    assert "random" in outcome.out.splitlines()[3] or "random" in outcome.out.splitlines()[2]


def test_the_ladder_is_written_as_valid_csv(zerofleet, run, lent, tmp_path):
    outcome = zerofleet("ladder", "tic_tac_toe", "--run-dir", str(run), *WORDS, "--csv", str(tmp_path / "ladder.csv"))
    assert outcome.code == 0, outcome.err
    rows = list(csv.DictReader((tmp_path / "ladder.csv").read_text().splitlines()))
    assert [row["player"] for row in rows][:1] == ["model:1"]
    assert {row["player"] for row in rows} == {"model:1", "random", "alpha_beta:1"}
    assert 0.0 <= float(rows[0]["share_random"]) <= 1.0
    assert float(rows[0]["elo_low"]) < float(rows[0]["elo"]) < float(rows[0]["elo_high"])


def test_champions_without_games_are_listed_unrated(zerofleet, run, lent):
    outcome = zerofleet("ladder", "--run-dir", str(run), "--games", "0", "--json")
    (champion,) = outcome.json()["champions"]
    assert (champion["elo"], champion["games"]) == (None, 0)
    assert {against["share"] for against in champion["against"]} == {None}
    assert lent == []


def test_the_ladder_of_a_run_without_a_champion_is_rejected(zerofleet, tmp_path):
    RunDirectory.create_or_open(tmp_path / "run", "tic_tac_toe", {}, preset="tiny", seed=1).close()
    outcome = zerofleet("ladder", "--run-dir", str(tmp_path / "run"))
    assert outcome.code == 2
    assert "no champion of tic_tac_toe yet" in outcome.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rungs", "random,bob"), "no agent is called 'bob'"),
        (("--rungs", "random,model:1"), "is not a rung"),
        (("--rungs", ","), "is not a list of rungs"),
        (("--plot", "curve.pdf"), ".svg or .png"),
        (("--csv", "none/ladder.csv"), "none/ladder.csv cannot be written"),
        (("--every", "0"), "want 1 or more"),
    ],
)
def test_an_invalid_ladder_request_is_rejected_before_any_game(zerofleet, run, lent, words, said):
    outcome = zerofleet("ladder", "--run-dir", str(run), *words)
    assert outcome.code == 2
    assert outcome.out == ""
    assert said in outcome.err
    assert lent == []


def test_the_ladder_needs_a_game_or_a_run_directory(zerofleet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcome = zerofleet("ladder")
    assert outcome.code == 2
    assert "give a game, or a run with --run-dir" in outcome.err


@pytest.mark.slow
def test_a_real_inference_server_plays_the_champion(zerofleet, run):
    outcome = zerofleet("ladder", "--run-dir", str(run), *WORDS, "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.json()["champions"][0]["games"] == 8

"""`zerofleet models` on a run whose services are down."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from datetime import datetime

import numpy as np
import psutil
import pytest
import torch
from safetensors.numpy import save

from games.core import make
from trainer.export import Lineage, export_network
from trainer.network import Network
from zerofleet.cli.commands import models
from zerofleet.contracts.gate_events import StatusChanged, Tallied
from zerofleet.contracts.manifests import Golden
from zerofleet.contracts.promotions import CandidateStatus, Champion, MatchReport
from zerofleet.library.run_files import OpenRun
from zerofleet.presets import preset
from zerofleet.storage.gate_journal import EventJournal
from zerofleet.storage.model_store import DirectoryStore
from zerofleet.storage.run_paths import RunPaths
from zerofleet.supervisor.borrowed import gatekept

MODEL = "tic_tac_toe"


@pytest.fixture
def run(run_with_champion, tmp_path):
    return shutil.copytree(run_with_champion, tmp_path / "run")


def test_models_list_names_the_champion_and_the_reason(zerofleet, run):
    listed = zerofleet("models", "list", MODEL, "--run-dir", str(run), "--json").json()
    assert listed["model"] == MODEL
    (row,) = listed["versions"]
    assert (row["version"], row["status"], row["note"], row["elo"]) == (1, "champion", "the only one", None)
    assert row["size_bytes"] > 1000
    assert datetime.fromisoformat(row["created_at"]).tzinfo is not None
    assert "champion" in zerofleet("models", "list", MODEL, "--run-dir", str(run)).out


def test_models_list_shows_an_unreadable_version_as_corrupt(zerofleet, run):
    (run / "models" / MODEL / "1" / "manifest.json").write_text("{")
    (row,) = zerofleet("models", "list", MODEL, "--run-dir", str(run), "--json").json()["versions"]
    assert row["status"] == "corrupt"


def test_models_list_names_a_run_without_versions_and_the_command_for_its_state(zerofleet, run):
    shutil.rmtree(run / "models" / MODEL)
    for limit in ((), ("--limit", "10")):
        listed = zerofleet("models", "list", MODEL, "--run-dir", str(run), *limit)
        assert (listed.code, listed.out) == (
            0,
            f"no version of tic_tac_toe in {run} yet; `zerofleet status {run}` shows the state of the run\n",
        )


@pytest.mark.parametrize(
    ("options", "named"), [(("--before", "1"), "--before 1"), (("--before", "1", "--champions"), "--before 1 and --champions")]
)
def test_models_list_names_the_options_that_no_version_matches(zerofleet, run, options, named):
    listed = zerofleet("models", "list", MODEL, "--run-dir", str(run), *options)
    assert listed.out == f"no version of tic_tac_toe in {run} matches {named}\n"


def note_events(run, *found):
    """Write events into the gatekeeper's journal of a run."""
    EventJournal(run / "gatekeeper" / "journal.jsonl", model=MODEL).rewrite(found)


def test_verdicts_and_ratings_are_read_from_the_files_of_a_run(zerofleet, run):
    match = MatchReport(
        champion_version=7,
        wins=12,
        draws=3,
        losses=5,
        pentanomial=(0, 1, 3, 4, 2),
        share=0.675,
        share_low=0.5,
        share_high=0.8,
        log_likelihood_ratio=1.0,
    )
    note_events(
        run,
        StatusChanged(version=1, status=CandidateStatus.PROMOTED, report=match),
        Tallied(first="model:1", second="random", points=15, games=20),
    )
    (row,) = OpenRun("run", RunPaths(run)).models().versions
    assert row.elo > 0
    assert row.elo_low < row.elo < row.elo_high
    assert (row.status, row.note, row.rated_games) == ("champion", "+12 =3 -5 against 7", 20)
    shown = zerofleet("models", "list", MODEL, "--run-dir", str(run)).out
    assert f"champion {row.elo:.0f} {row.elo_low:.0f} to {row.elo_high:.0f} " in " ".join(shown.split())


def test_a_rating_without_games_against_rungs_is_not_a_number(zerofleet, run):
    note_events(run, Tallied(first="model:1", second="alpha_beta:1", points=15, games=20))  # a rung that never met `random`
    (row,) = zerofleet("models", "list", MODEL, "--run-dir", str(run), "--json").json()["versions"]
    assert (row["elo"], row["elo_low"], row["elo_high"], row["rated_games"]) == (None, None, None, 20)
    assert "not anchored" in zerofleet("models", "list", MODEL, "--run-dir", str(run)).out


@pytest.mark.parametrize("status", [CandidateStatus.TRIAL, CandidateStatus.UNPROVEN, CandidateStatus.WEAKER])
def test_the_status_of_a_champion_that_is_measured_after_its_promotion_is_shown(run, status):
    note_events(run, StatusChanged(version=1, status=status, reason="promoted at once"))
    (row,) = OpenRun("run", RunPaths(run)).models().versions
    assert (row.status, row.note) == (f"champion, {status.value}", "promoted at once")


@pytest.mark.slow
def test_models_list_shows_a_remote_gatekeepers_versions_without_files(zerofleet, run):
    async def listed(*options):
        async with gatekept(RunPaths(run), models.chosen_game(MODEL, None), self_tests=False) as address:
            return await asyncio.to_thread(zerofleet, "models", "list", MODEL, "--address", address, *options)

    assert "champion" in asyncio.run(listed()).out
    (known,) = asyncio.run(listed("--json")).json()["versions"]
    assert (known["version"], known["status"]) == (1, "champion")


def test_models_show_prints_the_manifest(zerofleet, run):
    about = zerofleet("models", "show", MODEL, "1", "--run-dir", str(run), "--json").json()
    assert about["game"] == MODEL
    assert about["status"] == "champion"
    assert "model.pt" in zerofleet("models", "show", MODEL, "1", "--run-dir", str(run)).out


def test_the_error_for_an_unknown_version_lists_the_stored_ones(zerofleet, run):
    outcome = zerofleet("models", "show", MODEL, "9", "--run-dir", str(run))
    assert outcome.code == 2
    assert "no version 9; the latest stored are: 1" in outcome.err


def test_models_verify_passes_a_sound_version_and_fails_a_damaged_one(zerofleet, run):
    assert zerofleet("models", "verify", MODEL, "--run-dir", str(run)).code == 0
    path = run / "models" / MODEL / "1" / "model.pt"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    outcome = zerofleet("models", "verify", MODEL, "--run-dir", str(run), "--json")
    assert outcome.code == 1
    (verdict,) = outcome.json()["versions"]
    assert "sha256" in verdict["fault"]
    assert zerofleet("models", "verify", MODEL, "1", "--run-dir", str(run)).code == 1


def test_promotion_of_a_corrupt_version_is_rejected(zerofleet, run):
    (run / "models" / MODEL / "1" / "model.pt").write_bytes(b"")
    outcome = zerofleet("models", "promote", MODEL, "1", "--run-dir", str(run))
    assert outcome.code == 2
    assert "was truncated or changed" in outcome.err


@pytest.mark.parametrize(
    ("words", "version", "untested"),
    [
        (("promote", MODEL, "1"), 1, False),
        (("promote", MODEL, "1", "--without-self-test"), 1, True),
        (("rollback", MODEL), None, False),
    ],
)
def test_promotion_and_rollback_go_through_the_gatekeeper(zerofleet, run, monkeypatch, words, version, untested):
    asked = []

    async def promote(paths, game, version, *, reason, without_self_test):
        asked.append((paths.root, version, reason, without_self_test))
        return Champion(MODEL, version, 2, "0" * 64, 0, reason)

    async def roll_back(paths, game, *, reason):
        asked.append((paths.root, None, reason, False))
        return Champion(MODEL, 1, 2, "0" * 64, 0, reason)

    monkeypatch.setattr(models, "promote_version", promote)
    monkeypatch.setattr(models, "roll_back", roll_back)
    outcome = zerofleet("models", *words, "--reason", "it is better", "--run-dir", str(run))
    assert outcome.code == 0
    assert "is champion" in outcome.out
    assert asked == [(run, version, "it is better", untested)]


def test_the_help_of_promote_states_the_risk_of_an_untested_version(zerofleet):
    told = " ".join(zerofleet("models", "promote", "--help").out.replace("│", " ").split())
    assert "--without-self-test" in told
    assert "stops the whole run" in told


@pytest.fixture
def second(run):
    """Publish another untrained network, which no inference server has seen."""
    game, chosen = make(MODEL), preset(make(MODEL), "tiny")
    torch.manual_seed(1)
    network = Network(game.spec(), chosen.network)
    return export_network(DirectoryStore(run / "models"), game, network, chosen.network, lineage=Lineage())


@pytest.mark.slow
def test_a_version_is_self_tested_and_promoted_and_rolled_back_on_a_run_that_was_stopped(zerofleet, run, second):
    before = {child.pid for child in psutil.Process().children()}
    on_run = ("--run-dir", str(run), "--json")
    promoted = zerofleet("models", "promote", MODEL, str(second), "--reason", "it is better", *on_run).json()
    assert (promoted["version"], promoted["reason"]) == (second, "it is better")
    back = zerofleet("models", "rollback", MODEL, *on_run).json()
    assert (back["version"], back["epoch"]) == (1, promoted["epoch"] + 1)
    assert {child.pid for child in psutil.Process().children()} <= before


@pytest.mark.slow
def test_a_version_that_fails_its_self_test_is_not_promoted_on_a_run_that_was_stopped(zerofleet, run, second):
    store = DirectoryStore(run / "models")
    manifest = store.manifest(MODEL, second)
    states, legal, policy, value = manifest.golden.arrays()
    files = {name: store.directory(MODEL, 1) / name for name in manifest.files}
    weights = save({"stem.weight": np.ones(2, np.float32)})
    liar = replace(manifest, golden=Golden.of(states, legal, policy, -np.ones_like(value)))
    third = store.publish(MODEL, {**files, "weights.safetensors": weights}, liar)
    outcome = zerofleet("models", "promote", MODEL, str(third), "--run-dir", str(run))
    assert outcome.code == 2
    assert "golden" in outcome.err
    assert store.champion(MODEL).version == 1


@pytest.mark.slow
def test_a_promotion_without_self_test_starts_no_inference_server(zerofleet, run, second, monkeypatch):
    monkeypatch.setenv("ZEROFLEET_MAX_VERSIONS", "0")  # which no inference server starts with
    words = ("models", "promote", MODEL, str(second), "--run-dir", str(run))
    assert "inference_server could not be started" in zerofleet(*words).err
    assert zerofleet(*words, "--without-self-test", "--json").json()["reason"] == "by hand (without self-test)"


@pytest.mark.slow
def test_bench_train_prints_one_json_object(zerofleet):
    words = ["bench", "train", "--game", "tic_tac_toe", "--preset", "tiny", "--seconds", "0.3", "--games-per-second", "50"]
    figures = zerofleet(*words, "--json").json()
    assert figures["samples_per_second"] > 0
    assert 0 <= figures["wait_share"] <= 1


def test_a_missing_run_directory_is_rejected(zerofleet, tmp_path):
    outcome = zerofleet("models", "list", MODEL, "--run-dir", str(tmp_path / "nothing"))
    assert outcome.code == 2
    assert f"there is no folder {tmp_path / 'nothing'}; `zerofleet runs` lists the runs" in outcome.err


def test_stored_versions_are_verified_for_the_game(run):
    assert models.verify_models(RunPaths(run), models.chosen_game(MODEL, None), [1]) == {1: ""}
    assert DirectoryStore(run / "models").versions(MODEL) == [1]

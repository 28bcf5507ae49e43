"""Stages of any learner: they train, are measured, continue after an interruption, and their models play in later stages."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import games
from games import positions
from laboratory.learner_training import LearnerTraining
from laboratory.measures import trained_measures
from laboratory.sarsa import stored_values
from laboratory.stage import run_stage
from zerofleet.agents.by_game.rhombus.values import load_values
from zerofleet.cli.reproduce.page import html_page
from zerofleet.cli.reproduce.report import build_report
from zerofleet.cli.reproduce.results import StageResults
from zerofleet.contracts.records import decode_record
from zerofleet.errors import ModelNotFound
from zerofleet.presets.theses.catalogue import load_thesis
from zerofleet.presets.theses.planning import plan
from zerofleet.presets.theses.stages import LearnerStage, read_stage

PLAIN = {"selfplay.slots": "4", "selfplay.deep_opening_share": "0", "selfplay.forked_opening_share": "0"}
DQN = PLAIN | {
    "train.learner": "dqn",
    "network.kind": "q_pool",
    "network.pool": "9",
    "deep_q.pool_by": "listed",
    "deep_q.draws": "5",
    "selfplay.mode": "action_values",
    "selfplay.opening_plies": "2",
    "afterstates.policy": "epsilon_greedy",
    "afterstates.learner_seat": "alternate",
    "afterstates.opponents": "random",
}
OUTCOME = PLAIN | {
    "train.learner": "outcome",
    "network.kind": "perceptron",
    "network.hidden": "8",
    "network.policy_head": "none",
    "network.value_output": "win_or_loss",
    "outcome.replays": "1",
    "outcome.undecided": "half",
    "outcome.measure_every_games": "4",
    "selfplay.mode": "afterstates",
    "selfplay.opening_plies": "2",
    "afterstates.evaluation": "server",
    "warm_start.agents": "random",
    "warm_start.games": "6",
}


def stage(name: str, settings: dict[str, str], **fields: Any) -> LearnerStage:
    found = read_stage({"kind": "learner", "id": name, "seed": 0, "game": "tic_tac_toe", "settings": settings} | fields)
    assert isinstance(found, LearnerStage)
    return found


def same(first: LearnerTraining, second: LearnerTraining) -> bool:
    one, other = first.weights(), second.weights()
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("settings", [DQN, OUTCOME], ids=["dqn", "outcome"])
def test_an_interrupted_training_ends_with_the_weights_and_measures_of_an_uninterrupted_one(settings, tmp_path):
    game = games.make("tic_tac_toe")
    wanted = stage("one.arm.0", settings, games=20)
    for name in ("whole", "part"):
        (tmp_path / name).mkdir()
    whole = LearnerTraining(wanted, game, tmp_path / "whole")
    part = LearnerTraining(wanted, game, tmp_path / "part")
    for training in (whole, part):
        training.train_to(10, on_games=lambda _: None)
    resumed = LearnerTraining(wanted, game, tmp_path / "part")
    assert resumed.games == 10
    assert same(resumed, part)
    for training in (whole, resumed):
        training.train_to(20, on_games=lambda _: None)
    assert same(resumed, whole)
    assert not same(resumed, part)
    assert resumed.row() == whole.row()


@pytest.mark.parametrize("settings", [DQN, OUTCOME], ids=["dqn", "outcome"])
def test_a_stage_that_was_interrupted_after_a_judgement_has_the_curve_of_one_that_was_not(settings, tmp_path):
    def stop(share: float, remark: str) -> None:
        if share > 0.5:
            raise InterruptedError(remark)

    trained = stage("one.arm.0", settings, games=20, judge_every=10)
    with pytest.raises(InterruptedError):
        asyncio.run(run_stage(trained, tmp_path / "part", emit=stop))
    assert [*json.loads((tmp_path / "part" / "networks" / "one.arm.0" / "judged.json").read_text())] == ["10"]
    resumed, whole = (asyncio.run(run_stage(trained, tmp_path / name, emit=lambda *_: None)) for name in ("part", "whole"))
    assert resumed["curve"] == whole["curve"]
    assert resumed["curve"][0] != resumed["curve"][1]


def test_games_of_agents_are_equal_for_networks_that_read_other_encodings(tmp_path):
    played = []
    for encoding in ("planes", "one_hot"):
        (tmp_path / encoding).mkdir()
        wanted = stage("one.arm.0", OUTCOME, games=6, parameters={"encoding": encoding})
        training = LearnerTraining(wanted, games.make("tic_tac_toe", encoding=encoding), tmp_path / encoding)
        played.append([[int(move) for move in decode_record(payload).moves] for payload in training._taught(0, 4)])
    assert played[0] == played[1]
    assert played[0][0] != played[0][1]


def test_a_stage_of_dqn_has_a_curve_and_its_model_plays_in_a_later_stage(tmp_path):
    meeting = {"name": "random", "subject": "network,model=1", "opponent": "random", "seats": [1, 2], "games": 2}
    trained = stage("deep.dqn.0", DQN, games=12, judge_every=6, meetings=[meeting])
    found = asyncio.run(run_stage(trained, tmp_path, emit=lambda *_: None))
    assert [(tally["at"], tally["seat"]) for tally in found["tallies"]] == [(6, 1), (6, 2), (12, 1), (12, 2)]
    assert [row["games"] for row in found["curve"]] == [6, 12]
    assert 0.0 <= found["measures"]["share of the points in training, %"] <= 100.0
    again = asyncio.run(run_stage(trained, tmp_path, emit=lambda *_: None))
    assert again["tallies"] == found["tallies"]

    duel = {"id": "duel.arm.0", "seed": 0, "game": "tic_tac_toe", "kind": "match"}
    duel["meetings"] = [meeting | {"subject_network": "deep.dqn.0"}]
    tallies = asyncio.run(run_stage(read_stage(duel), tmp_path, emit=lambda *_: None))["tallies"]
    assert [tally["trained"] for tally in tallies] == [True, True]


def test_meetings_can_be_left_to_the_end(tmp_path):
    meeting = {"name": "random", "subject": "network,model=1", "opponent": "random", "games": 1}
    trained = stage("deep.dqn.0", DQN, games=4, judge_every=2, meetings=[meeting], meet_at_end=True)
    found = asyncio.run(run_stage(trained, tmp_path, emit=lambda *_: None))
    assert [tally["at"] for tally in found["tallies"]] == [4]
    assert len(found["curve"]) == 2


def test_the_pool_of_the_combined_model_is_that_of_the_network_of_the_same_seed(tmp_path):
    planned = plan(load_thesis("chinese_checkers_2p"), "quick", only=["combined"])
    combined = [one for one in planned if one.experiment == "combined"]
    assert {one.stage.id for one in planned if one.experiment == "outcome"} == {f"outcome.mlp.{seed}" for seed in range(3)}
    assert [one.needs for one in combined[:3]] == [(f"outcome.mlp.{seed}",) for seed in range(3)]
    with pytest.raises(ModelNotFound, match=r"stage outcome\.mlp\.0 has no model"):
        asyncio.run(run_stage(combined[0].stage, tmp_path, emit=lambda *_: None))


def test_the_pool_may_be_that_of_a_training_by_sarsa_in_another_encoding(tmp_path):
    """The stage of SARSA(lambda) keeps a checkpoint; the pool has its weights as a model of the encoding of the learner."""
    sarsa = read_stage(
        {"kind": "sarsa", "id": "sarsa.sarsa.0", "seed": 0, "game": "chinese_checkers_rhombus", "block": 2, "games": 2}
        | {"parameters": {"ply_cap": "60"}, "sarsa": {"method": "sarsa"}}
        | {"play": {"policy": "epsilon_greedy", "epsilon": 0.1, "pool": 6, "draw_value": 0.5}}
    )
    asyncio.run(run_stage(sarsa, tmp_path, emit=lambda *_: None))
    settings = DQN | {"train.learner": "combined", "warm_start.games": "0", "afterstates.opponents": "greedy"}
    pooled = stage("gains.combined.0", settings, games=2, pool_network="sarsa.sarsa.0").model_copy(
        update={"game": "chinese_checkers_rhombus", "parameters": {"encoding": "signed", "ply_cap": "60"}}
    )
    folder = tmp_path / "networks" / pooled.id
    folder.mkdir(parents=True)
    training = LearnerTraining(pooled, games.make(pooled.game, **pooled.parameters), folder)
    training.train_to(2, on_games=lambda _: None)
    training.publish()
    weights = load_file(next(folder.glob("pool/models/*/1/weights.safetensors")))["weights"].numpy()
    trained = stored_values(tmp_path / "networks" / sarsa.id)
    start = games.make(pooled.game)
    states = positions.encode_for(start, positions.new_state(start), 0)[None]
    assert trained is not None
    np.testing.assert_allclose(load_values({}, {"weights": weights})(states), trained(states)[:, 0], atol=1e-6)


def test_a_matrix_brings_the_trainings_of_its_agents_and_theirs():
    needed = {one.experiment for one in plan(load_thesis("chinese_checkers_2p"), "quick", only=["matrix"])}
    assert needed == {"sarsa", "outcome", "deep", "combined", "matrix"}


def test_the_report_has_the_settings_of_the_experiment_and_of_its_profile(tmp_path):
    thesis = load_thesis("chinese_checkers_2p")
    report = build_report(thesis, "quick", plan(thesis, "quick"), StageResults(tmp_path), seeds=None)
    found = next(one["settings"] for one in report["experiments"] if one["name"] == "deep")
    assert found["games"] == 400
    assert found["settings"]["deep_q.draws"] == "8"
    assert found["settings"]["afterstates.epsilon_versions"] == "20"


def test_measures_of_a_curve_are_those_of_its_last_judgement_and_of_its_course():
    curve = [{"accuracy": value, "steps": 2, "samples_trained": 64} for value in (0.5, 0.8, 0.7)]
    found = trained_measures(curve)
    assert found["results predicted on held-out games, %"] == pytest.approx(70.0)
    assert found["change of the accuracy between judgements, points"] == pytest.approx(20.0)
    assert found["accuracy lost since the best judgement, points"] == pytest.approx(10.0)
    assert found["samples of an update"] == 32.0
    assert trained_measures([]) == {}


def test_a_claim_about_a_measure_is_decided_over_seeds_and_not_by_one(tmp_path):
    thesis, measure = load_thesis("chinese_checkers_2p"), "results predicted on held-out games, %"
    planned = plan(thesis, "full", only=["outcome"])
    results = StageResults(tmp_path)
    for one in planned:
        if one.arm in {"mlp", "plain"}:
            value = 80.0 + one.stage.seed if one.arm == "mlp" else 70.0
            curve = [{"games": 10_000, "accuracy": value / 100.0}]
            results.keep(one.stage, {"tallies": [], "curve": curve, "measures": {measure: value}}, seconds=1.0)

    def fourth(seeds: int | None) -> dict[str, Any]:
        chosen = plan(thesis, "full", seeds=seeds)
        report = build_report(thesis, "full", chosen, results, seeds=seeds)
        found = next(one for one in report["experiments"] if one["name"] == "outcome")
        ElementTree.fromstring(html_page(report).removeprefix("<!DOCTYPE html>"))
        return next(claim for claim in found["claims"] if claim["text"].startswith("Q4"))

    several, single = fourth(None), fourth(1)
    assert several["verdict"] == "beaten"
    assert several["estimate"]["value"] == pytest.approx(11.0)
    assert several["estimate"]["low"] == pytest.approx(11.0 - 4.303 / 3**0.5)
    assert (single["verdict"], single["reason"]) == ("undecided", "one training seed gives a measure no interval")


def test_a_claim_is_not_decided_by_a_training_shorter_than_that_of_the_profile_full(tmp_path):
    thesis, results = load_thesis("connect_four_td"), StageResults(tmp_path)
    planned = plan(thesis, "quick", only=["noise"])
    for one in planned:
        tally = {
            "meeting": "exact depth 3",
            "subject": "a",
            "opponent": "b",
            "seat": 1,
            "seed": 0,
            "trained": True,
            "at": 50_000,
        }
        results.keep(one.stage, {"tallies": [tally | {"scores": {"1": 300}}]}, seconds=60.0)
    report = build_report(thesis, "quick", planned, results, seeds=None)
    noise = next(one for one in report["experiments"] if one["name"] == "noise")
    assert {claim["verdict"] for claim in noise["claims"]} == {"not run"}
    uniform = next(claim for claim in noise["claims"] if claim["text"].startswith("uniform"))
    assert uniform["reason"] == "the claim is about 100,000 games of training, this profile has 50,000"
    assert (uniform["estimate"]["value"], uniform["trained_games"]) == (100.0, 50_000)
    assert noise["stages"]["core_minutes"] is None  # no result states them
    assert "minutes one after another; expected" in html_page(report)


def test_a_claim_about_play_is_not_decided_by_networks_of_a_shorter_training(tmp_path):
    thesis, results = load_thesis("chinese_checkers_2p"), StageResults(tmp_path)
    planned = plan(thesis, "quick", only=["matrix"])
    for one in planned:
        tally = {"subject": "a", "opponent": "b", "seat": 1, "seed": one.stage.seed, "trained": True, "scores": {"1": 40}}
        met = [tally | {"meeting": meeting.name} for meeting in one.stage.meetings]
        trained = [] if one.experiment == "matrix" else [{"games": 400}]
        results.keep(one.stage, {"tallies": met, "curve": trained}, seconds=1.0)
    report = build_report(thesis, "quick", planned, results, seeds=None)
    claims = [claim for one in report["experiments"] if one["name"] == "matrix" for claim in one["claims"] if claim["estimate"]]
    assert claims
    about_networks = [claim for claim in claims if claim["trained_games"]]
    assert {claim["verdict"] for claim in about_networks} == {"not run"}
    assert {claim["reason"] for claim in about_networks} == {
        f"the claim is about {games} games of training, this profile has 400"
        for games in ("10,000", "800")  # SARSA alone is trained for 800
    }

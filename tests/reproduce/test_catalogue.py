"""The files of the theses: every stage of every profile can be built, and claims name what exists."""

from __future__ import annotations

import pytest

import games
from zerofleet.errors import InvalidRequest
from zerofleet.presets.experiment import Experiment
from zerofleet.presets.theses.catalogue import load_thesis, thesis_names
from zerofleet.presets.theses.planning import plan
from zerofleet.presets.theses.stages import AlphaZeroStage, BenchStage, LearnerStage, fingerprint, read_stage
from zerofleet.strength.claims.tallies import Tally, estimate
from zerofleet.strength.claims.verdicts import verdict

NAMES = thesis_names()
CORES, QUICK_MINUTES = 2, 45


def test_the_five_theses_are_listed_and_the_one_of_the_tests_is_not():
    assert NAMES == ["abalone", "chinese_checkers_2p", "chinese_checkers_3p", "connect_four_td", "tictactoe_take6_rps"]
    assert "self_test" in thesis_names(hidden=True)


@pytest.mark.parametrize("profile", ["quick", "full"])
@pytest.mark.parametrize("name", NAMES)
def test_every_stage_is_of_a_game_and_settings_that_exist(name, profile):
    for planned in plan(load_thesis(name), profile, seeds=1):
        stage = planned.stage
        assert read_stage(stage.model_dump_json()) == stage
        if isinstance(stage, BenchStage):
            continue
        games.make(stage.game, **stage.parameters)
        if isinstance(stage, AlphaZeroStage | LearnerStage):
            preset = Experiment(stage.game, stage.preset, stage.seed, stage.parameters, settings_of(stage)).build_preset()
            assert not isinstance(stage, LearnerStage) or preset.warm_start.games <= stage.games


def settings_of(stage: AlphaZeroStage | LearnerStage) -> dict[str, str]:
    """Return the settings, with the place of the pool's network, which a stage finds when it runs."""
    has_pool = isinstance(stage, LearnerStage) and stage.pool_network
    return stage.settings | ({"combined.models": "models", "combined.version": "1"} if has_pool else {})


@pytest.mark.parametrize("name", NAMES)
def test_claims_name_arms_and_meetings_that_exist(name):
    for experiment in load_thesis(name).experiments:
        common = {meeting["name"] for meeting in experiment.stage.get("meetings", [])}
        for claim in experiment.claims:
            for arm in filter(None, (claim.arm, claim.minus_arm)):
                own = {meeting["name"] for meeting in experiment.arms[arm].stage.get("meetings", [])}
                named = {claim.meeting, claim.minus_meeting} - {""}
                assert named <= (own or common), (experiment.name, claim.text)
            assert bool(claim.meeting) != bool(claim.measure)
            assert bool(claim.arm) == (experiment.kind != "bench")


@pytest.mark.parametrize("name", NAMES)
def test_the_profile_quick_is_planned_for_less_than_its_time_and_states_what_it_leaves_out(name):
    thesis = load_thesis(name)
    assert sum(planned.seconds for planned in plan(thesis, "quick")) <= 60 * CORES * QUICK_MINUTES
    assert thesis.quick_minutes <= QUICK_MINUTES
    assert thesis.uncovered
    for experiment in thesis.experiments:
        if experiment.kind in {"td", "alphazero", "learner"} and "quick" in experiment.profiles and name != "abalone":
            assert experiment.profiles["quick"].left_out


@pytest.mark.parametrize("profile", ["quick", "full"])
@pytest.mark.parametrize("name", NAMES)
def test_every_stage_comes_after_those_whose_networks_it_uses(name, profile):
    earlier: set[str] = set()
    for planned in plan(load_thesis(name), profile):
        assert earlier.issuperset(planned.needs)
        earlier.add(planned.stage.id)


@pytest.mark.parametrize(
    ("name", "experiment", "text", "scores"),
    [
        # most games of random moves are drawn: half of the points, and none of the games
        ("abalone", "learning", "from nothing against random", {"0": 1_000}),
        ("abalone", "learning", "from nothing against the search of two plies", {"0": 1_000}),
        ("abalone", "learning", "warm start against the search of two plies: the mean score", {"-1": 1_000}),
        # 2 points a game are half of all 4
        ("chinese_checkers_3p", "training", "alone against two greedy players", {"1": 500, "-0.333333": 500}),
    ],
)
def test_a_player_below_the_thesis_misses_its_claim(name, experiment, text, scores):
    claim = next(claim for claim in load_thesis(name).experiment(experiment).claims if claim.text == text)
    tally = Tally(meeting=claim.meeting, subject="a", opponent="b", seat=1, seed=0, trained=True, scores=scores)
    assert verdict(estimate([tally], claim.figure), claim) == "missed"


def test_an_experiment_alone_brings_the_training_whose_network_it_uses():
    planned = plan(load_thesis("connect_four_td"), "quick", only=["search"])
    assert {one.stage.id for one in planned} == {
        "curve.constant.0",
        *(f"search.{arm}.0" for arm in ("depth3", "depth5", "time4", "time230")),
    }
    assert planned[-1].needs == ("curve.constant.0",)


def test_another_setting_has_another_fingerprint():
    first, second = (plan(load_thesis("self_test"), "tiny", seeds=seeds)[-1].stage for seeds in (1, 2))
    assert fingerprint(first) != fingerprint(second)
    assert fingerprint(first) == fingerprint(plan(load_thesis("self_test"), "tiny")[-1].stage)


def test_unknown_names_get_a_suggestion():
    with pytest.raises(InvalidRequest, match="do you mean connect_four_td"):
        load_thesis("conect_four")
    with pytest.raises(InvalidRequest, match="do you mean noise"):
        plan(load_thesis("connect_four_td"), "quick", only=["nose"])

"""The files of the theses: every stage of every profile can be built, and claims name what exists."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

import games
from laboratory.self_play_tables import check_tables
from zerofleet.errors import InvalidRequest
from zerofleet.presets.experiment import Experiment
from zerofleet.presets.theses.catalogue import load_thesis, thesis_names
from zerofleet.presets.theses.planning import Expected, Planned, expect, plan
from zerofleet.presets.theses.stages import (
    AlphaZeroStage,
    BenchStage,
    LearnerStage,
    MatchStage,
    TdStage,
    fingerprint,
    read_stage,
)
from zerofleet.presets.trial import require_effect
from zerofleet.strength.behaviour.catalogue import new_collector
from zerofleet.strength.behaviour.collector import Reading

NAMES = thesis_names()
CORES, QUICK_MINUTES = 2, 45


def test_the_five_theses_are_listed_and_the_one_of_the_tests_is_not():
    assert NAMES == ["abalone", "chinese_checkers_2p", "chinese_checkers_3p", "connect_four_td", "tictactoe_take6_rps"]
    assert "self_test" in thesis_names(hidden=True)


@pytest.mark.parametrize("profile", ["quick", "full"])
@pytest.mark.parametrize("name", NAMES)
def test_every_stage_is_of_a_game_and_settings_that_exist_and_have_an_effect(name, profile):
    for planned in plan(load_thesis(name), profile, seeds=1):
        stage = planned.stage
        assert read_stage(stage.model_dump_json()) == stage
        if isinstance(stage, BenchStage):
            continue
        games.make(stage.game, **stage.parameters)
        if isinstance(stage, AlphaZeroStage | LearnerStage):
            preset = Experiment(stage.game, stage.preset, stage.seed, stage.parameters, settings_of(stage)).build_preset()
            assert not isinstance(stage, LearnerStage) or preset.warm_start.games <= stage.games
        if isinstance(stage, AlphaZeroStage):
            require_effect(stage.settings)


def settings_of(stage: AlphaZeroStage | LearnerStage) -> dict[str, str]:
    """Return the settings, with the place of the pool's network, which a stage finds when it runs."""
    has_pool = isinstance(stage, LearnerStage) and stage.pool_network
    return stage.settings | ({"combined.models": "models", "combined.version": "1"} if has_pool else {})


@pytest.mark.parametrize("name", [*NAMES, "self_test"])
def test_every_table_of_behaviour_suits_its_game(name):
    found = 0
    for planned in plan(load_thesis(name), "tiny" if name == "self_test" else "full", seeds=1):
        stage = planned.stage
        if isinstance(stage, BenchStage):
            continue
        game = games.make(stage.game, **stage.parameters)
        own = stage.tables if isinstance(stage, AlphaZeroStage) else ()
        check_tables(own, game)
        for meeting in stage.meetings:
            collectors = [new_collector(table, game, Reading()) for table in meeting.tables]
            found += len(collectors)
        found += len(own)
    assert bool(found) == (name not in {"chinese_checkers_2p", "connect_four_td"})


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
    planned = plan(thesis, "quick")
    assert sum(one.seconds for one in planned) <= 60 * CORES * QUICK_MINUTES
    expected = expect(planned, jobs=CORES, limit_s=60.0 * thesis.quick_minutes)
    assert expected.seconds <= 60 * QUICK_MINUTES
    assert not expected.late
    assert thesis.quick_minutes <= QUICK_MINUTES
    assert thesis.uncovered
    for experiment in thesis.experiments:
        quick, full = experiment.profiles.get("quick"), experiment.profiles["full"]
        if quick is not None and (quick.judged < full.judged or quick.stage != full.stage or quick.arms):
            assert quick.left_out, experiment.name
        if quick is not None and quick.seeds < full.seeds:
            assert f"two of {'three' if full.seeds == 3 else full.seeds} seeds" in quick.left_out, experiment.name


@pytest.mark.parametrize("profile", ["quick", "full"])
@pytest.mark.parametrize("name", NAMES)
def test_every_stage_comes_after_those_whose_networks_it_uses(name, profile):
    earlier: set[str] = set()
    for planned in plan(load_thesis(name), profile):
        assert earlier.issuperset(planned.needs)
        earlier.add(planned.stage.id)


TAUGHT = {"chinese_checkers_star37": 143, "abalone": 200}
"""Samples of a game of the warm start, at least as many as the mean of 84 games here; of Abalone its cap of plies."""


@pytest.mark.parametrize("profile", ["quick", "full"])
@pytest.mark.parametrize("name", NAMES)
def test_most_of_the_budget_of_alphazero_is_left_for_self_play(name, profile):
    for one in plan(load_thesis(name), profile):
        if isinstance(one.stage, AlphaZeroStage):
            taught = int(one.stage.settings.get("warm_start.games", 0))
            assert taught * TAUGHT.get(one.stage.game, 0) <= one.stage.samples / 2, one.stage.id


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_about_a_trained_alphazero_states_its_games_of_training(name):
    for experiment in load_thesis(name).experiments:
        if experiment.kind == "alphazero":
            assert all(claim.games > 0 for claim in experiment.claims), experiment.name


def planned(name: str, seconds: float, *needs: str) -> Planned:
    meetings = [{"name": need, "opponent": "random", "subject_network": need} for need in needs]
    stage = read_stage({"kind": "match", "id": name, "seed": 0, "game": "tic_tac_toe", "meetings": meetings})
    assert isinstance(stage, MatchStage)
    return Planned("e", name, stage, seconds)


def test_the_expected_course_respects_places_needs_and_the_limit_of_time():
    stages = [planned("a", 100.0), planned("b", 30.0), planned("c", 10.0, "a"), planned("d", 50.0)]
    alone, two = expect(stages, jobs=1), expect(stages, jobs=2)
    assert (alone.seconds, alone.late) == (190.0, ())
    assert (two.seconds, two.late) == (110.0, ())  # d after b, c after a
    assert expect(stages, jobs=2, limit_s=20.0).late == ("c", "d")
    assert expect(stages, jobs=1, limit_s=120.0) == Expected(130.0, ("c", "d"))
    assert expect([planned("c", 10.0, "a")], jobs=1, complete=["a"]).seconds == 10.0
    assert expect([planned("c", 10.0, "a")], jobs=1).late == ("c",)  # nothing trains its network


def test_an_experiment_alone_brings_the_training_whose_network_it_uses():
    planned = plan(load_thesis("connect_four_td"), "quick", only=["search"])
    assert {one.stage.id for one in planned} == {
        "curve.constant.0",
        *(f"search.{arm}.0" for arm in ("depth3", "depth5", "time4", "time30", "time230")),
    }
    assert planned[-1].needs == ("curve.constant.0",)


def test_a_million_games_are_claimed_of_each_schedule_apart():
    claims = load_thesis("connect_four_td").experiment("curve").claims
    arms = [claim.arm for claim in claims if claim.meeting == "exact depth 5" and claim.games == 1_000_000]
    assert sorted(arms) == ["constant", "slow"]


def test_the_learning_curve_meets_exact_search_and_uct_of_every_strength_of_the_specification():
    (stage, *_) = (one.stage for one in plan(load_thesis("connect_four_td"), "full", only=["curve"]))
    assert isinstance(stage, TdStage)
    assert [meeting.opponent for meeting in stage.meetings] == [
        "random",
        *(f"alpha_beta:{depth}" for depth in (3, 4, 5)),
        *(f"uct:{simulations}" for simulations in (200, 500, 1000, 2000)),
    ]


def test_direct_games_of_encodings_let_each_network_read_its_own():
    for one in plan(load_thesis("connect_four_td"), "full", only=["encoding_duels"], seeds=1):
        if isinstance(one.stage, MatchStage):
            (meeting,) = one.stage.meetings
            read = one.stage.parameters, one.stage.opponent_parameters
            assert read == tuple(
                {"encoding": network.split(".")[1]} for network in (meeting.subject_network, meeting.opponent_network)
            )


@pytest.mark.parametrize("experiment", ["duels", "encoding_duels"])
@pytest.mark.parametrize("profile", ["quick", "full"])
def test_direct_games_decide_a_claim_only_of_networks_with_the_games_of_training_that_it_states(experiment, profile):
    thesis = load_thesis("connect_four_td")
    stages = {one.stage.id: one.stage for one in plan(thesis, profile, only=[experiment], seeds=1)}
    for claim in thesis.experiment(experiment).claims:
        (stated,) = re.findall(r"after ([0-9,]+) games", claim.text)
        needs = stages[name].needs if (name := f"{experiment}.{claim.arm}.0") in stages else ()
        trained = [stage.games for need in needs if isinstance(stage := stages[need], TdStage)]
        assert len(trained) in {0, 2}
        if claim.profile in {"", profile}:
            assert all(games == int(stated.replace(",", "")) for games in trained), claim.text


def test_a_stage_whose_network_would_play_in_an_untrained_view_is_refused():
    fields = {"kind": "td", "id": "one.arm.0", "seed": 0, "game": "connect_four", "games": 1, "td": {"successor": "every_ply"}}
    assert read_stage({**fields, "play": {"learner_seat": "alternate"}})
    with pytest.raises(ValidationError, match="in the view of the first player alone"):
        read_stage({**fields, "play": {"learner_seat": "first"}})


def test_another_setting_has_another_fingerprint():
    first, second = (plan(load_thesis("self_test"), "tiny", seeds=seeds)[-1].stage for seeds in (1, 2))
    assert fingerprint(first) != fingerprint(second)
    assert fingerprint(first) == fingerprint(plan(load_thesis("self_test"), "tiny")[-1].stage)


def test_results_of_earlier_versions_stay_valid_where_later_settings_have_their_defaults():
    stages = {one.stage.id: one.stage for one in plan(load_thesis("self_test"), "tiny")}
    learned = stages["td.learned.0"]
    assert isinstance(learned, TdStage)
    assert fingerprint(learned) == "09500802855a2cbf"  # before there were tables of behaviour and an exact endgame
    exact = learned.model_copy(update={"play": learned.play.model_copy(update={"endgame": "exact"})})
    assert fingerprint(exact) != fingerprint(learned)
    shown = learned.model_copy(update={"meetings": (learned.meetings[0].model_copy(update={"tables": ("lines",)}),)})
    plain = learned.model_copy(update={"meetings": learned.meetings[:1]})
    assert fingerprint(shown) != fingerprint(plain)


def test_unknown_names_get_a_suggestion():
    with pytest.raises(InvalidRequest, match="do you mean connect_four_td"):
        load_thesis("conect_four")
    with pytest.raises(InvalidRequest, match="do you mean noise"):
        plan(load_thesis("connect_four_td"), "quick", only=["nose"])
    with pytest.raises(InvalidRequest, match=r"experiment curve has no arm 'slo'; do you mean slow\?"):
        plan(load_thesis("connect_four_td"), "quick", only=["curve.slo"])


def test_a_single_arm_is_planned_with_the_stages_that_it_needs():
    thesis = load_thesis("chinese_checkers_2p")
    assert [one.stage.id for one in plan(thesis, "full", seeds=2, only=["deep.poisson"])] == [
        "deep.poisson.0",
        "deep.poisson.1",
    ]
    chosen = plan(thesis, "full", seeds=1, only=["combined.network", "deep.dqn"])
    assert [one.stage.id for one in chosen] == ["outcome.mlp.0", "deep.dqn.0", "combined.network.0"]


def test_an_arm_that_a_profile_leaves_out_is_an_error():
    with pytest.raises(InvalidRequest, match=r"^deep\.sweep has nothing to run in profile quick"):
        plan(load_thesis("chinese_checkers_2p"), "quick", only=["deep.sweep"])

"""Errors in all positions of tic-tac-toe, and the settings of the experiment that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import games
from benchmarks.tic_tac_toe_errors import Census, Policy
from games.core import State
from games.positions import legal, replay
from zerofleet.agents import PolicyAgent, make_agent
from zerofleet.agents.model.search_options import parse_search
from zerofleet.presets import Preset
from zerofleet.presets.experiment import Experiment
from zerofleet.presets.theses.catalogue import load_thesis
from zerofleet.presets.theses.planning import plan
from zerofleet.presets.theses.stages import AlphaZeroStage
from zerofleet.search import SearchSettings

GAME = games.make("tic_tac_toe")
FIRST, SECOND = 0, 1


@pytest.fixture(scope="module")
def census() -> Census:
    return Census(GAME)


def policy_of(name: str) -> Policy:
    agent = make_agent(name, GAME)
    assert isinstance(agent, PolicyAgent)
    return lambda state: agent.policy(GAME, state)


def choices(census: Census, choose: Callable[[State], int]) -> list[int]:
    return [choose(replay(GAME, position.moves)) for position in census.positions]


def likeliest(policy: Policy) -> Callable[[State], int]:
    return lambda state: legal(GAME, state)[int(np.argmax(policy(state)))]


def test_all_positions_in_which_a_player_moves_are_counted(census: Census) -> None:
    assert len(census.positions) == 4_520  # 5,478 less 958 finished ones
    assert sum(position.decides for position in census.positions) == 3_191


def test_perfect_play_has_no_errors_and_loses_in_neither_seat(census: Census) -> None:
    chosen = choices(census, likeliest(policy_of("perfect")))
    assert census.errors(chosen) == []
    for seat in (FIRST, SECOND):
        assert census.result(chosen, seat, policy_of("random"))[0][2] == 0.0
        assert census.result(chosen, seat, policy_of("perfect"))[0].tolist() == pytest.approx([0.0, 1.0, 0.0])


@pytest.mark.parametrize(("seat", "wanted"), [(FIRST, [5 / 6, 1 / 6, 0.0]), (SECOND, [2 / 35, 33 / 35, 0.0])])
def test_the_best_response_to_the_comparison_player_has_the_exact_result(
    census: Census, seat: int, wanted: list[float]
) -> None:
    best, rng = make_agent("best_response:tic_tac_toe_rules", GAME), np.random.default_rng(0)
    chosen = choices(census, lambda state: best.choose(GAME, state, rng).action)
    result, _ = census.result(chosen, seat, policy_of("tic_tac_toe_rules"))
    assert result.tolist() == pytest.approx(wanted)


def test_a_wrong_move_is_an_error_only_where_it_lowers_the_value(census: Census) -> None:
    chosen = choices(census, lambda state: legal(GAME, state)[0])
    errors = set(census.errors(chosen))
    lines = {position.moves: i for i, position in enumerate(census.positions)}
    assert lines[()] not in errors  # every first move draws
    assert lines[(4,)] not in errors  # the corner is a right reply to the centre
    assert lines[(0,)] in errors  # b3 is not, to the corner
    result, met = census.result(chosen, SECOND, policy_of("perfect"))
    assert result[2] > 0.0
    assert lines[(0,)] in met
    assert lines[()] not in met  # the first player's


def stages() -> Sequence[AlphaZeroStage]:
    found = [one.stage for one in plan(load_thesis("tictactoe_take6_rps"), "full", seeds=1, only=["tic_tac_toe"])]
    return [stage for stage in found if isinstance(stage, AlphaZeroStage)]


def preset_of(stage: AlphaZeroStage) -> Preset:
    return Experiment(stage.game, stage.preset, stage.seed, stage.parameters, stage.settings).build_preset()


def test_games_of_training_hold_mistakes_in_every_arm() -> None:
    for stage in stages():
        search = preset_of(stage).search
        assert not search.prove_values, stage.id
        assert search.temperature == search.temperature_end == 1.0, stage.id


def test_the_mended_arm_has_openings_and_the_literal_one_begins_with_the_empty_board() -> None:
    stable, literal = map(preset_of, stages())
    assert (stable.selfplay.opening_plies, literal.selfplay.opening_plies) == (4, 0)
    assert stable.train == literal.train


def test_no_claim_is_decided_after_more_games_than_the_thesis_has() -> None:
    assert {claim.most_games for claim in load_thesis("tictactoe_take6_rps").experiment("tic_tac_toe").claims} == {20_000}


def test_the_literal_arm_is_tested_by_the_search_that_it_trains_with() -> None:
    literal = stages()[-1]
    trained = preset_of(literal).search
    for meeting in literal.meetings:
        played = parse_search(meeting.search).applied(SearchSettings.for_match(GAME.spec(), meeting.simulations), GAME.spec())
        for name in ("simulations", "exploration", "prove_values", "dirichlet_fraction"):
            assert getattr(played, name) == getattr(trained, name), (meeting.name, name)
        assert played.temperature == ("sampled" in meeting.name)

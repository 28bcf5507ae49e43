"""Parts of a preset that contradict each other are refused before a run starts."""

from pathlib import Path

import pytest

import games
from zerofleet.errors import ConfigurationError
from zerofleet.presets.experiment import Experiment, read_experiment

TD = {"train.learner": "td_lambda", "selfplay.mode": "afterstates"}
EVERY_PLY = {**TD, "td_lambda.successor": "every_ply"}
OF_FIRST = {**TD, "td_lambda.successor": "first_player"}
SARSA = {"train.learner": "sarsa_lambda", "selfplay.mode": "afterstates", "afterstates.draw_value": "0.5"}
POOLED = {**SARSA, "sarsa_lambda.method": "q_learning", "afterstates.pool": "6"}
SYNC = {
    **TD,
    "selfplay.sync": "true",
    "selfplay.lanes": "1",
    "selfplay.slots": "1",
    "selfplay.forked_opening_share": "0",
    "td_lambda.publish_every_games": "1",
    "gate.mode": "off",
}
DQN = {"train.learner": "dqn", "selfplay.mode": "action_values", "network.kind": "q_pool"}
OUTCOME = {
    "train.learner": "outcome",
    "selfplay.mode": "afterstates",
    "network.kind": "perceptron",
    "network.policy_head": "none",
    "network.value_output": "win_or_loss",
}
COMBINED = {"train.learner": "combined", "selfplay.mode": "action_values", "network.kind": "q_pool"}
ROOT = Path(__file__).parents[2]


def built(settings):
    return Experiment("tic_tac_toe", "tiny", settings=settings).build_preset()


def test_a_learner_of_values_plays_without_a_tree_or_with_one():
    assert built(TD).train.learner == "td_lambda"
    assert built({"train.learner": "td_lambda"}).selfplay.mode == "search"
    assert built({**EVERY_PLY, "afterstates.learner_seat": "alternate"}).afterstates.learner_seat == "alternate"
    for seat in ("first", "all"):
        assert built({**OF_FIRST, "afterstates.learner_seat": seat}).td_lambda.successor == "first_player"
    assert built({**TD, "afterstates.learner_seat": "first"}).td_lambda.successor == "own"
    assert built(SYNC).selfplay.sync


def test_control_games_are_needed_only_where_players_may_resign():
    without = {"search.resign_control_share": "0"}
    assert built(without).search.resign_threshold == -1.0
    for game, settings in (("tic_tac_toe", TD), ("chinese_checkers_star37", {})):
        preset = Experiment(game, "tiny", settings={**settings, **without, "search.resign_threshold": "-0.9"}).build_preset()
        assert preset.search.resign_control_share == 0.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"selfplay.mode": "afterstates"}, "learns from searched positions"),
        (
            {"search.resign_threshold": "-0.9", "search.resign_control_share": "0"},
            "no player would resign; set a share such as 0.1",
        ),
        ({**TD, "gate.simulations": "0"}, "want at least 1"),
        ({"gate.opening_plies": "9"}, "set gate.opening_plies to at most 8"),
        ({**TD, "gate.mode": "watch"}, "no version would be measured; set gate.watch_of=time"),
        ({**TD, "td_lambda.draw_reward": "0.5"}, "want the same number"),
        (
            {**EVERY_PLY, "afterstates.learner_seat": "first"},
            r"view of the first .*; set afterstates\.learner_seat=alternate or all",
        ),
        ({**EVERY_PLY, "afterstates.learner_seat": "second"}, "view of the second player alone"),
        (
            {**OF_FIRST, "afterstates.learner_seat": "alternate"},
            r"there is one view.*; set afterstates\.learner_seat=first or all",
        ),
        ({**SARSA, "gate.simulations": "0"}, "sarsa_lambda has values alone"),
        ({**SARSA, "afterstates.draw_value": "0"}, "want 0.5"),
        ({**SARSA, "sarsa_lambda.method": "q_learning"}, r"afterstates\.pool=0 writes none.*afterstates\.pool=6"),
        ({**POOLED, "selfplay.mode": "search"}, r"selfplay\.mode=search .* writes none"),
        ({**POOLED, "warm_start.games": "300"}, r"set it to 0, and play against agents with afterstates\.opponents"),
        ({**SARSA, "warm_start.winner_only": "true"}, "train.learner=sarsa_lambda predicts who wins"),
        ({**TD, "warm_start.winner_only": "true"}, "train.learner=td_lambda predicts who wins"),
        ({**TD, "selfplay.mode": "search", "td_lambda.exploratory": "cut"}, "selfplay.mode=search names none"),
        ({"selfplay.exploration_decay": "0.9"}, "set selfplay.mode=afterstates"),
        ({**SYNC, "selfplay.slots": "2"}, r"waits for its version; set selfplay.slots=1 \(it is 2\)"),
        ({**SYNC, "gate.mode": "share"}, r"gate.mode=off \(it is share\)"),
        ({**SYNC, "td_lambda.publish_every_games": "5"}, r"td_lambda.publish_every_games=1 \(it is 5\)"),
        ({**SARSA, "selfplay.sync": "true"}, "of the built-in ones: td_lambda"),
        ({**TD, "selfplay.mode": "action_values"}, "need all three"),
        ({**DQN, "selfplay.mode": "search"}, "need all three"),
        ({**DQN, "network.kind": "residual"}, "to one of dqn, deep_sarsa, combined, selfplay.mode"),
        ({**DQN, "warm_start.games": "5"}, r"with afterstates\.opponents"),
        ({**DQN, "deep_q.pool_by": "values"}, "set q_sa"),
        ({**DQN, "afterstates.opponents": "version:2", "afterstates.learner_seat": "first"}, r"set models\.pinned=\[2\]"),
        ({**TD, "afterstates.epsilon_versions": "5"}, "is for selfplay.mode=action_values"),
        (
            {**DQN, "afterstates.epsilon_versions": "5"},
            "with afterstates.policy=epsilon_greedy, and the mode is action_values with",
        ),
        ({**TD, "selfplay.exploration_decay": "0.9", "afterstates.policy": "greedy"}, "policy=greedy has neither"),
        ({**DQN, "selfplay.exploration_decay": "0.9"}, "selfplay.mode=action_values with"),
        ({**OUTCOME, "gate.simulations": "0"}, "outcome has values alone"),
        ({**OUTCOME, "network.kind": "convolutional"}, r"set afterstates\.evaluation=server"),
        ({**OUTCOME, "warm_start.winner_only": "true"}, "predicts who wins"),
        (COMBINED, r"set combined\.models=runs/outcome/models"),
        ({**COMBINED, "combined.models": "m", "combined.version": "1", "network.kind": "perceptron"}, "need all three"),
        ({**DQN, "deep_q.pool_by": "network"}, r"combined\.version=7"),
    ],
)
def test_parts_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(ConfigurationError, match=message):
        built(settings)


def test_the_experiment_of_connect_four_by_temporal_differences_is_whole():
    experiment = read_experiment(ROOT / "examples" / "connect_four_td.toml")
    preset = experiment.build_preset()
    assert (experiment.game, preset.train.learner, preset.selfplay.mode) == ("connect_four", "td_lambda", "afterstates")
    assert games.make(experiment.game, **experiment.parameters).spec().num_inputs == 212  # of the thesis
    assert (preset.gate.mode, preset.gate.watch_of) == ("watch", "time")


def test_the_experiment_of_the_rhombus_by_sarsa_is_whole():
    experiment = read_experiment(ROOT / "examples" / "rhombus_sarsa.toml")
    preset = experiment.build_preset()
    assert (experiment.game, preset.train.learner, preset.afterstates.pool) == ("chinese_checkers_rhombus", "sarsa_lambda", 6)
    assert built(POOLED).gate.simulations > 0


def test_the_experiment_of_the_rhombus_by_dqn_is_whole():
    experiment = read_experiment(ROOT / "examples" / "rhombus_dqn.toml")
    preset = experiment.build_preset()
    assert (experiment.game, preset.train.learner, preset.selfplay.mode) == ("chinese_checkers_rhombus", "dqn", "action_values")
    assert (preset.afterstates.opponents, preset.gate.simulations) == (("rhombus_search:2",), 0)
    assert built({**DQN, "train.learner": "deep_sarsa", "afterstates.opponents": "self"}).afterstates.agents == ()


def test_the_experiment_of_the_rhombus_by_supervision_has_the_network_of_the_report():
    experiment = read_experiment(ROOT / "examples" / "rhombus_outcome.toml")
    preset = experiment.build_preset()
    assert (experiment.game, preset.train.learner, preset.network.hidden) == ("chinese_checkers_rhombus", "outcome", (729, 729))
    assert built({**OUTCOME, "network.kind": "convolutional", "afterstates.evaluation": "server"}).outcome.sides == "one"


@pytest.mark.parametrize("pool_by", ["heuristic", "values", "listed", "network"])
def test_the_learner_combined_has_the_pool_of_a_network_whatever_pool_is_set(pool_by):
    chosen = {**COMBINED, "combined.models": "m", "combined.version": "1", "deep_q.pool_by": pool_by}
    assert built(chosen).combined.mix == 1.0

"""Parts of a preset that contradict each other are refused before a run starts."""

from pathlib import Path

import pytest

from zerofleet.errors import ConfigurationError
from zerofleet.presets.experiment import Experiment, read_experiment

TD = {"train.learner": "td_lambda", "selfplay.mode": "afterstates"}
SARSA = {"train.learner": "sarsa_lambda", "selfplay.mode": "afterstates", "afterstates.draw_value": "0.5"}
SYNC = {
    **TD,
    "selfplay.sync": "true",
    "selfplay.lanes": "1",
    "selfplay.slots": "1",
    "selfplay.forked_opening_share": "0",
    "td_lambda.publish_every_games": "1",
    "gate.mode": "off",
}
ROOT = Path(__file__).parents[2]


def built(settings):
    return Experiment("tic_tac_toe", "tiny", settings=settings).build_preset()


def test_a_learner_of_values_plays_without_a_tree_or_with_one():
    assert built(TD).train.learner == "td_lambda"
    assert built({"train.learner": "td_lambda"}).selfplay.mode == "search"
    assert built(SYNC).selfplay.sync


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"selfplay.mode": "afterstates"}, "learns from searched positions"),
        ({**TD, "gate.simulations": "0"}, "want at least 1"),
        ({**TD, "gate.mode": "watch"}, "no version would be measured; set gate.watch_of=time"),
        ({**TD, "td_lambda.draw_reward": "0.5"}, "want the same number"),
        ({**SARSA, "gate.simulations": "0"}, "sarsa_lambda has values alone"),
        ({**SARSA, "afterstates.draw_value": "0"}, "want 0.5"),
        ({**SARSA, "sarsa_lambda.method": "q_learning"}, "set afterstates.pool=6"),
        ({"selfplay.exploration_decay": "0.9"}, "set selfplay.mode=afterstates"),
        ({**SYNC, "selfplay.slots": "2"}, r"waits for its version; set selfplay.slots=1 \(it is 2\)"),
        ({**SYNC, "gate.mode": "watch"}, r"gate.mode=off \(it is watch\)"),
        ({**SYNC, "td_lambda.publish_every_games": "5"}, r"td_lambda.publish_every_games=1 \(it is 5\)"),
        ({**SARSA, "selfplay.sync": "true"}, "of the built-in ones: td_lambda"),
    ],
)
def test_parts_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(ConfigurationError, match=message):
        built(settings)


def test_the_experiment_of_connect_four_by_temporal_differences_is_whole():
    experiment = read_experiment(ROOT / "examples" / "connect_four_td.toml")
    preset = experiment.build_preset()
    assert (experiment.game, preset.train.learner, preset.selfplay.mode) == ("connect_four", "td_lambda", "afterstates")
    assert (preset.gate.mode, preset.gate.watch_of) == ("watch", "time")


def test_the_experiment_of_the_rhombus_by_sarsa_is_whole():
    experiment = read_experiment(ROOT / "examples" / "rhombus_sarsa.toml")
    preset = experiment.build_preset()
    assert (experiment.game, preset.train.learner, preset.afterstates.pool) == ("chinese_checkers_rhombus", "sarsa_lambda", 6)
    assert built({**SARSA, "sarsa_lambda.method": "q_learning", "afterstates.pool": "6"}).gate.simulations > 0

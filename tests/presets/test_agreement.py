"""Parts of a preset that contradict each other are refused before a run starts."""

from pathlib import Path

import pytest

from zerofleet.errors import ConfigurationError
from zerofleet.presets.experiment import Experiment, read_experiment

TD = {"train.learner": "td_lambda", "selfplay.mode": "afterstates"}
ROOT = Path(__file__).parents[2]


def built(settings):
    return Experiment("tic_tac_toe", "tiny", settings=settings).build_preset()


def test_a_learner_of_values_plays_without_a_tree_or_with_one():
    assert built(TD).train.learner == "td_lambda"
    assert built({"train.learner": "td_lambda"}).selfplay.mode == "search"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"selfplay.mode": "afterstates"}, "learns from searched positions"),
        ({**TD, "gate.simulations": "0"}, "want at least 1"),
        ({**TD, "td_lambda.draw_reward": "0.5"}, "want the same number"),
    ],
)
def test_parts_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(ConfigurationError, match=message):
        built(settings)


def test_the_experiment_of_connect_four_by_temporal_differences_is_whole():
    experiment = read_experiment(ROOT / "examples" / "connect_four_td.toml")
    preset = experiment.build_preset()
    assert (experiment.game, preset.train.learner, preset.selfplay.mode) == ("connect_four", "td_lambda", "afterstates")

"""Opponents of a worker's games without a tree: agents by name."""

import numpy as np
import pytest

from games import positions
from games.core import make
from selfplay_worker.opposition import make_opponents
from zerofleet.errors import InvalidRequest
from zerofleet.search.afterstates.settings import AfterstateSettings

GAME = make("tic_tac_toe")


def settings_of(*opponents):
    return AfterstateSettings(opponents=opponents, learner_seat="alternate")


def test_agents_have_their_full_names_and_play_legal_moves():
    opponents = make_opponents(GAME, settings_of("alpha_beta:2", "self", "version:4"))
    drawn = {opponents.of_game(seed) for seed in range(60)}
    assert {opponent.version for opponent in drawn} == {0, 4}
    (agent,) = (opponent for opponent in drawn if opponent.agent)
    assert agent.agent.startswith("alpha_beta:2")
    state = positions.replay(GAME, [0, 3, 1, 4], 0)
    assert agent.choose(GAME, state, np.random.default_rng(0)) == 2  # wins


def test_an_agent_that_cannot_play_the_game_is_refused():
    with pytest.raises(InvalidRequest, match="chinese_checkers_rhombus"):
        make_opponents(GAME, settings_of("rhombus_search:2"))

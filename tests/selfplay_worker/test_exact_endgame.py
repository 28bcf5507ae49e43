"""The exact endgame in play without a tree: the solver ends the games whose sides have passed each other."""

import numpy as np
import pytest

from games import core, positions
from games.chinese_checkers.rhombus import ChineseCheckersRhombus
from games.core import make
from selfplay_worker.opposition import make_opponents
from trainer.learners.sarsa_lambda.experience import read_experience
from trainer.learners.sarsa_lambda.rule import ENDED
from zerofleet.agents.by_game.rhombus.homing import have_passed, shortest_way
from zerofleet.agents.by_game.rhombus.values import load_values
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.errors import ConfigurationError, InvalidRequest
from zerofleet.presets.sarsa_lambda import SarsaLambdaSettings
from zerofleet.search.afterstates.block import AfterstateBlock
from zerofleet.search.afterstates.settings import AfterstateSettings

GAME = ChineseCheckersRhombus()
EXACT = AfterstateSettings(policy="epsilon_greedy", epsilon=0.1, pool=6, draw_value=0.5, endgame="exact", endgame_nodes=2_000)
DISTANCE = np.zeros((3, 5))
DISTANCE[:, 0] = 1.0


def play(settings, *, seeds, find_way=None):
    """Games by the distance alone, side by side."""
    opponents = make_opponents(GAME, settings)
    if find_way is not None:
        opponents.find_way = find_way
    values = load_values({"output": "linear"}, {"weights": DISTANCE})
    block = AfterstateBlock(GAME, settings, slots=len(seeds), opponents=opponents)
    for slot, seed in enumerate(seeds):
        block.begin(slot, seed=seed, versions=[1, 1])
    while len(block.finished()) < len(seeds):
        mine = values(np.ascontiguousarray(block.advance().batch.states))
        block.absorb(np.empty(0), np.stack([mine, -mine], axis=1).astype(np.float32))
    return [block.take(slot) for slot in range(len(seeds))]


@pytest.mark.slow
def test_the_solver_ends_games_and_learning_ends_where_it_begins():
    played = play(EXACT, seeds=[1])[0]
    chosen = {move.ply for move in played.searched}
    spare = {}
    for seat in range(2):
        given = [ply for ply in range(seat, len(played.moves), 2) if ply not in chosen]
        assert given == list(range(given[0], len(played.moves), 2))  # the solver plays on to the end
        state = positions.replay(GAME, played.moves[: given[0]].tolist(), played.seed)
        assert have_passed(GAME, state)
        way = shortest_way(GAME, state, most_nodes=EXACT.endgame_nodes)
        spare[seat] = len(way.moves) - len(given)
    winner = (len(played.moves) - 1) % 2
    assert spare[winner] == 0 <= spare[1 - winner]  # the winner is home in the fewest moves
    record = encode_record(played, worker_id="w", uid="0" * 32)
    episode = read_experience(validate(decode_record(record)), SarsaLambdaSettings()).episode
    assert len(episode.seats) == len(chosen) < len(played.moves)
    assert ENDED not in episode.phases
    assert sorted(episode.rewards.tolist()) == [-1.0, 1.0]


@pytest.mark.slow
def test_the_values_play_on_where_the_solver_finds_no_way():
    asked = []
    played = play(EXACT, seeds=[3], find_way=lambda game, state: asked.append(int(core.to_move(game, state))))
    assert len(played[0].searched) == len(played[0].moves) == len(asked)
    assert played[0].moves.tolist() == play(EXACT.model_copy(update={"endgame": "values"}), seeds=[3])[0].moves.tolist()


def test_the_solver_is_refused_in_other_games_and_where_there_is_none():
    with pytest.raises(InvalidRequest, match=r"the game is tic_tac_toe; set afterstates\.endgame=values"):
        make_opponents(make("tic_tac_toe"), EXACT)
    with pytest.raises(InvalidRequest, match="with long_hops"):
        make_opponents(make("chinese_checkers_rhombus", long_hops="true"), EXACT)
    with pytest.raises(ConfigurationError, match="no solver is used here"):
        AfterstateBlock(GAME, EXACT, slots=1)

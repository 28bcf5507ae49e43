"""Play without a tree: values of afterstates, their policies, and what the records hold."""

import numpy as np
import pytest

from games import core, positions
from games.core import make
from games.errors import IllegalMove
from zerofleet.contracts.played import EXPLORATORY
from zerofleet.contracts.records import decode_record, encode_record, validate
from zerofleet.errors import ConfigurationError
from zerofleet.evaluators.in_process.inputs import InputTable, read_inputs_of
from zerofleet.evaluators.in_process.kernels import Perceptron, hidden_and_value, values
from zerofleet.search.afterstates.block import AfterstateBlock
from zerofleet.search.afterstates.choice import Policy, choose
from zerofleet.search.afterstates.settings import AfterstateSettings

GAME = make("tic_tac_toe")


def constant(batch):
    return np.zeros((len(batch), 2), np.float32)


def by_content(batch):
    """A value that depends on the position alone."""
    first = (batch.states.astype(np.int64) * np.arange(1, batch.states.shape[1] + 1)).sum(axis=1) % 101 / 50.5 - 1.0
    return np.stack([first, -first], axis=1).astype(np.float32)


def played(settings, *, seeds=(1, 2, 3, 4), evaluate=by_content, opening=(), game=GAME):
    block = AfterstateBlock(game, settings, slots=len(seeds))
    for slot, seed in enumerate(seeds):
        block.begin(slot, seed=seed, versions=[7, 7], opening=opening, tag=seed)
    while len(block.finished()) < len(seeds):
        leaves = block.advance()
        assert block.advance() is not leaves
        assert set(leaves.versions.tolist()) <= {7}
        block.absorb(np.empty(0), evaluate(leaves.batch))
    return [block.take(slot) for slot in range(len(seeds))]


def test_a_game_without_a_tree_is_a_valid_record_with_the_choice_behind_every_move():
    for one in played(AfterstateSettings(temperature=0.5, learner_seat="alternate"), opening=(4,)):
        record = decode_record(encode_record(one, worker_id="w", uid="0" * 32))
        read = validate(record)
        assert read.search.ply.tolist() == list(range(1, len(one.moves)))
        assert record.learner_seat == one.seed % 2 + 1
        for row, ply in enumerate(read.search.ply):
            state = positions.replay(GAME, one.moves[:ply], one.seed)
            assert read.search.actions[row] == one.moves[ply]
            assert 0 < read.search.behaviour[row] <= 1
            if len(positions.legal(GAME, state)) == 1:
                assert (read.search.behaviour[row], read.search.flags[row]) == (1, 0)


def test_a_game_of_the_model_against_itself_makes_no_generator(monkeypatch):
    block = AfterstateBlock(GAME, AfterstateSettings(), slots=1)
    monkeypatch.delattr(np.random, "default_rng")
    block.begin(0, seed=1, versions=[7, 7])


def test_a_game_depends_on_its_seed_and_not_on_its_neighbours():
    settings = AfterstateSettings(temperature=0.5)
    together = {one.seed: one.moves.tolist() for one in played(settings)}
    alone = {seed: played(settings, seeds=(seed,))[0].moves.tolist() for seed in together}
    assert together == alone
    assert len({tuple(moves) for moves in together.values()}) > 1


def test_a_move_that_wins_by_the_rules_is_preferred_to_every_value():
    """X on cells 0 and 1, O on 3 and 4: X wins with cell 2, whatever the evaluation."""
    opening = [0, 3, 1, 4]
    (one,) = played(
        AfterstateSettings(policy="greedy"), seeds=(1,), opening=opening, evaluate=lambda batch: -constant(batch) - 1
    )
    assert one.moves.tolist() == [*opening, 2]
    assert one.scores == (1.0, -1.0)
    assert one.searched[0].root_value.tolist() == [1.0, -1.0]


def test_the_value_of_a_move_is_that_of_its_afterstate_for_its_mover():
    (one,) = played(AfterstateSettings(policy="greedy"), seeds=(5,))
    state = positions.new_state(GAME)
    for move in one.searched:
        mover = int(core.to_move(GAME, state))
        listed = {}
        for action in positions.legal(GAME, state):
            after = state.copy()
            core.play(GAME, after, action)
            if core.is_over(GAME, after):
                scores = positions.final_scores(GAME, after)
                listed[action] = 1.0 if scores[mover] > 0 else -1.0
            else:
                packed = positions.encode_for(GAME, after, 1 - mover)
                listed[action] = -by_content(Batch(packed[None]))[0, 0]
        chosen = int(one.moves[move.ply])
        assert listed[chosen] == pytest.approx(max(listed.values()), abs=1e-6)
        assert move.root_value[mover] == pytest.approx(listed[chosen], abs=1e-6)
        assert not move.flags & EXPLORATORY
        core.play(GAME, state, chosen)


class Batch:
    def __init__(self, states):
        self.states = states

    def __len__(self):
        return len(self.states)


def draws(policy, listed, count=4_000):
    word = np.array([9], np.uint64)
    padded = np.array([*listed, 9.0])
    return [choose(padded, len(listed), policy, word) for _ in range(count)]


def test_softmax_draws_with_the_probabilities_that_it_returns():
    listed = [0.1, 0.3, 0.2]
    weights = np.exp(np.array(listed) / 0.1)
    drawn = draws(Policy(0.0, 0.1, 0.0), listed)
    for index, wanted in enumerate(weights / weights.sum()):
        hits = [one for one in drawn if one[0] == index]
        assert len(hits) / len(drawn) == pytest.approx(wanted, abs=0.03)
        assert {round(one[1], 9) for one in hits} == {round(wanted, 9)}
        assert {one[2] for one in hits} == {index != 1}


def test_a_softmax_of_any_temperature_is_finite():
    assert {one[:2] for one in draws(Policy(0.0, 1e-300, 0.0), [0.0, 1.0, 0.5], 50)} == {(1, 1.0)}
    cold = draws(Policy(0.0, 1e-300, 0.0), [1.0, 1.0, 0.5], 200)
    assert {one[:2] for one in cold} == {(0, 0.5), (1, 0.5)}
    assert {one[0] for one in draws(Policy(0.0, 1e300, 0.0), [0.0, 1.0], 100)} == {0, 1}


def test_epsilon_greedy_returns_the_probability_of_its_mixture():
    drawn = draws(Policy(0.3, 0.0, 0.0), [0.2, 0.9, 0.9, 0.1])
    share = {index: sum(one[0] == index for one in drawn) / len(drawn) for index in range(4)}
    assert share == pytest.approx({0: 0.075, 1: 0.425, 2: 0.425, 3: 0.075}, abs=0.03)
    assert {(one[0], round(one[1], 9), one[2]) for one in drawn} == {
        (0, 0.075, True),
        (1, 0.425, False),
        (2, 0.425, False),
        (3, 0.075, True),
    }


def test_greedy_breaks_ties_at_random():
    drawn = draws(Policy(0.0, 0.0, 0.0), [0.5, 0.2, 0.5], 200)
    assert {(one[0], one[1], one[2]) for one in drawn} == {(0, 0.5, False), (2, 0.5, False)}


def test_a_pool_limits_the_choice_to_the_best_moves_and_is_written_with_their_values():
    settings = AfterstateSettings(policy="epsilon_greedy", epsilon=1.0, pool=3)
    for one in played(settings):
        read = validate(decode_record(encode_record(one, worker_id="w", uid="0" * 32))).search
        for row, move in enumerate(one.searched):
            state = positions.replay(GAME, one.moves[: move.ply], one.seed)
            mover = int(core.to_move(GAME, state))
            worth = {}
            for action in positions.legal(GAME, state):
                after = state.copy()
                core.play(GAME, after, action)
                if core.is_over(GAME, after):  # a draw has the value of a loss here
                    worth[action] = 1.0 if positions.final_scores(GAME, after)[mover] > 0 else -1.0
                else:
                    worth[action] = -float(by_content(Batch(positions.encode_for(GAME, after, 1 - mover)[None]))[0, 0])
            best = sorted(worth, key=lambda action: -worth[action])[:3]
            pool = slice(read.pool_start[row], read.pool_start[row + 1])
            assert read.pool[pool].tolist() == best
            np.testing.assert_allclose(read.pool_scores[pool], [worth[action] for action in best], atol=1e-6)
            assert read.behaviour[row] == pytest.approx(1 / len(best))
            assert one.moves[move.ply] in best


def test_without_a_pool_none_is_written():
    (one,) = played(AfterstateSettings(), seeds=(1,))
    assert {len(move.pool) for move in one.searched} == {0}


def test_a_block_refuses_what_it_cannot_play():
    with pytest.raises(ConfigurationError, match="two players"):
        AfterstateBlock(make("chinese_checkers_star37"), AfterstateSettings(), slots=1)
    block = AfterstateBlock(GAME, AfterstateSettings(), slots=2)
    with pytest.raises(IllegalMove, match="move 2 of the opening is 4"):
        block.begin(0, seed=0, versions=[1, 1], opening=[4, 4])
    with pytest.raises(IllegalMove, match="ends the game"):
        block.begin(0, seed=0, versions=[1, 1], opening=[0, 3, 1, 4, 2])
    block.begin(0, seed=0, versions=[1, 1])
    with pytest.raises(ValueError, match="is in use"):
        block.begin(0, seed=0, versions=[1, 1])
    leaves = block.advance()
    assert len(leaves.batch) == 9
    with pytest.raises(ValueError, match="does not fit 9"):
        block.absorb(np.empty(0), np.zeros((8, 2), np.float32))
    with pytest.raises(ValueError, match=r"value of leaf \d+ is .*; want numbers in \[-1, 1\]"):
        block.absorb(np.empty(0), np.full((9, 2), np.nan, np.float32))
    with pytest.raises(ValueError, match="wait for evaluations"):
        block.abandon(0)
    block.absorb(np.empty(0), constant(leaves.batch))
    assert len(block.moves(0)) == 1
    block.abandon(0)
    assert block.idle() == [0, 1]


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("units", [1, 16, 100])
def test_the_fast_perceptron_agrees_with_the_exact_one(units, layers):
    rng = np.random.default_rng(3)
    inputs = 27
    sizes = ((inputs, units), units, units, 1, (layers - 1, units, units), (layers - 1, units))
    exact = Perceptron(*(rng.normal(size=size) * (3 if size == sizes[0] else 1) for size in sizes))
    fast = Perceptron(*(array.astype(np.float32) for array in exact))
    packed = rng.integers(0, 256, (200, 4), dtype=np.uint8)
    out = np.empty(len(packed), np.float32)
    values(fast, packed, out)
    every = np.arange(inputs + 1, dtype=np.int32)
    table = InputTable(every, every[:-1].copy(), np.ones(inputs), np.zeros(inputs))
    x, active, hidden = np.empty(inputs), np.empty(inputs, np.int32), np.empty((layers, units))
    for row, state in enumerate(packed):
        count = read_inputs_of(table, state, x, active)
        assert active[:count].tolist() == np.flatnonzero(np.unpackbits(state, bitorder="little")[:inputs]).tolist()
        assert out[row] == pytest.approx(hidden_and_value(exact, x, active, count, hidden), abs=2e-5)

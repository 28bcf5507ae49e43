"""Transitions of a record, and their rewards."""

import numpy as np
import pytest
from deep_q_at_work import RHOMBUS, SMALL, on_rhombus, opened, play, read, settings_of

from games import positions
from games.core import make
from trainer.learners.deep_q.shaping import BoardValue
from trainer.learners.deep_q.transitions import NO_MOVE
from zerofleet.contracts.records import decode_record, encode_record
from zerofleet.errors import RecordRejected
from zerofleet.search.afterstates.action_values import ActionValueBlock
from zerofleet.search.afterstates.settings import AfterstateSettings


def test_a_transition_leads_to_the_players_next_turn_and_ends_with_the_score(tmp_path, records):
    learner = opened(settings_of(tmp_path))
    for record in records:
        found, message = read(learner, record), decode_record(record)
        seat = message.learner_seat - 1
        plies = list(range(seat, len(message.moves), 2))
        assert len(found) == len(plies)
        for row, ply in enumerate(plies):
            state = positions.replay(SMALL, message.moves[:ply], message.seed)
            np.testing.assert_array_equal(found.states[row], positions.encode_for(SMALL, state, seat))
            legal = positions.legal(SMALL, state)
            assert (found.actions[row], legal[found.ranks[row]]) == (message.moves[ply], message.moves[ply])
            if ply != plies[-1]:
                after = positions.replay(SMALL, message.moves[: ply + 2], message.seed)
                np.testing.assert_array_equal(found.next_states[row], positions.encode_for(SMALL, after, seat))
                moves = positions.legal(SMALL, after)
                assert found.next_pools[row].tolist() == moves + [NO_MOVE] * (9 - len(moves))
                assert moves[found.next_ranks[row]] == message.moves[ply + 2]
        assert found.ended.tolist() == [False] * (len(plies) - 1) + [True]
        assert found.rewards.tolist() == [0.0] * (len(plies) - 1) + [message.scores[seat]]


def test_margins_are_the_scores_less_the_best_of_their_pool(tmp_path, records):
    message, learner = decode_record(records[0]), opened(settings_of(tmp_path))
    rng, pools = np.random.default_rng(1), []
    for move in message.searched:
        move.pool_scores[:] = -np.sort(-rng.random(len(move.pool)).astype(np.float32))
        if move.ply % 2 == message.learner_seat - 1:
            pools.append((list(move.pool), np.array(move.pool_scores, np.float32) - np.float32(move.pool_scores[0])))
    found = read(learner, message.SerializeToString())
    assert len(found) == len(pools) > 2
    for row, (moves, margins) in enumerate(pools):
        assert found.margins[row] == margins[moves.index(found.actions[row])]
        if row:
            np.testing.assert_array_equal(
                found.next_margins[row - 1], np.append(margins, np.zeros(9 - len(margins), np.float32))
            )


def test_both_seats_learn_where_the_record_names_none(tmp_path):
    found = read(opened(settings_of(tmp_path)), play(1, learner_seat="all")[0])
    assert found.ended.sum() == 2


def test_a_record_without_pools_or_with_larger_ones_is_refused(tmp_path, records):
    message = decode_record(records[0])
    for move in message.searched:
        del move.pool[:], move.pool_scores[:]
    with pytest.raises(RecordRejected, match=r"selfplay\.mode=action_values"):
        read(opened(settings_of(tmp_path)), message.SerializeToString())
    with pytest.raises(RecordRejected, match=r"a pool of [89] moves, want 1 to 6"):
        read(opened(on_rhombus(tmp_path), RHOMBUS), records[0])


@pytest.mark.parametrize(
    ("form", "reward"),
    [
        ("potential", lambda worth: 0.9 * np.append(worth[1:], 0) - worth),
        ("gain", lambda worth: np.append(worth[1:] - worth[:-1], 0)),
    ],
)
def test_shaping_adds_the_gain_in_board_value(tmp_path, form, reward):
    learner = opened(on_rhombus(tmp_path, shaping=0.5, shaping_by=form, discount=0.9), RHOMBUS)
    settings = AfterstateSettings(policy="epsilon_greedy", epsilon=1.0, learner_seat="second")
    game = make("chinese_checkers_rhombus", encoding="signed", ply_cap=11)
    block = ActionValueBlock(game, settings, slots=1)
    block.begin(0, seed=1, versions=[1, 1])
    while not block.finished():
        legal = block.advance().batch.legal
        ranks = np.where(np.arange(legal.shape[1]) < 6, 0.5, 0.0).astype(np.float32)[None]
        block.absorb(np.empty(0), np.empty(0), [ranks, ranks])
    record = encode_record(block.take(0), worker_id="w", uid="0" * 32)
    found = read(learner, record)
    worth = BoardValue(RHOMBUS)(found.states)
    base = np.append(np.zeros(len(found) - 1), decode_record(record).scores[1])
    np.testing.assert_allclose(found.rewards, base + 0.5 * reward(worth), atol=1e-6)
    assert len(found) == 5
    assert np.abs(found.rewards[:-1]).max() > 1e-3

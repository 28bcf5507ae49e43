"""The served model of action values, and the agreement of worker, learner and agent."""

import numpy as np
import pytest
import torch
from deep_q_at_work import RHOMBUS, SMALL, on_rhombus, opened, read, settings_of

from games import positions
from trainer.export import script
from trainer.exported_module import planes_of
from trainer.learners.deep_q.served import TEMPERATURE
from trainer.learners.deep_q.shaping import BoardValue
from trainer.learners.deep_q.values import values_of
from zerofleet.agents import make_agent
from zerofleet.contracts.records import encode_record
from zerofleet.evaluators.base import Evaluation
from zerofleet.search.afterstates.action_values import ActionValueBlock
from zerofleet.search.afterstates.settings import AfterstateSettings


def heads_of(module, states, legal):
    with torch.inference_mode():
        return module(torch.from_numpy(states), torch.from_numpy(legal))


def after(seen, move):
    """The viewer's encoding with a piece moved."""
    bits = np.unpackbits(seen, count=162, bitorder="little")
    bits[move // 81], bits[move % 81] = 0, 1
    return np.packbits(bits, bitorder="little")


@pytest.mark.parametrize(
    ("kind", "pool_by", "score_weight"),
    [
        ("q_pool", "heuristic", 0.0),
        ("q_pool", "heuristic", 9.0),
        ("q_sa", "heuristic", 0.0),
        ("q_sa", "heuristic", 9.0),
        ("q_sa", "values", 0.0),
    ],
)
def test_a_served_model_plays_the_best_value_of_the_six_best_moves(tmp_path, kind, pool_by, score_weight):
    settings, spec = on_rhombus(tmp_path, kind=kind, pool_by=pool_by, score_weight=score_weight), RHOMBUS.spec()
    learner = opened(settings, RHOMBUS)
    module = script(learner.export().module)
    state = positions.replay(RHOMBUS, [], 0)
    moves = positions.legal(RHOMBUS, state)
    seen = positions.encode_for(RHOMBUS, state, 0)
    legal = np.full((1, spec.max_legal), -1, np.int16)
    legal[0, : len(moves)] = moves
    policy, value, pool, chances = (head.numpy()[0] for head in heads_of(module, seen[None], legal))
    planes, actions = planes_of(spec, seen[None]), torch.tensor(moves)
    with torch.no_grad():
        if pool_by == "values":
            worth = learner.network(planes.repeat(len(moves), 1, 1, 1), actions).numpy()
            scores = np.tanh(worth)
        else:
            scores = np.array([BoardValue(RHOMBUS)(after(seen, move)[None])[0] for move in moves])
    best = np.argsort(-scores, kind="stable")[:6]
    assert sorted(np.flatnonzero(pool)) == sorted(best)
    np.testing.assert_allclose(2 * pool[best] - 1, scores[best], atol=1e-6)
    with torch.no_grad():
        if kind == "q_pool":
            q = learner.network(planes)[0].numpy()
        else:
            q = learner.network(planes.repeat(6, 1, 1, 1), actions[best]).numpy()
    q = q + score_weight * (scores[best] - scores[best[0]])
    np.testing.assert_allclose(np.arctanh(2 * chances[best] - 1), q, atol=1e-5)
    np.testing.assert_allclose(value, [q.max(), -q.max()], atol=1e-6)
    assert int(policy.argmax()) == best[q.argmax()]
    shares = np.exp((q - q.max()) / TEMPERATURE)
    np.testing.assert_allclose(policy[best], shares / shares.sum(), atol=1e-3)
    assert not policy[len(moves) :].any()


@pytest.mark.parametrize("learner", ["dqn", "deep_sarsa"])
@pytest.mark.parametrize("game", [SMALL, RHOMBUS], ids=["small", "rhombus with scores in the values"])
def test_the_worker_the_learner_and_the_agent_agree_on_pools_and_values(tmp_path, game, learner):
    weight = 9.0 if game is RHOMBUS else 0.0
    weighted = on_rhombus(tmp_path, kind="q_sa", learner=learner, score_weight=weight)
    chosen = opened(weighted if game is RHOMBUS else settings_of(tmp_path, learner), game)
    module = script(chosen.export().module)

    def evaluate(batch, version):
        policy, value, *heads = (head.numpy() for head in heads_of(module, batch.states.copy(), batch.legal.copy()))
        return Evaluation(policy, value, version, tuple(heads))

    block = ActionValueBlock(game, AfterstateSettings(policy="greedy"), slots=1)
    block.begin(0, seed=3, versions=[1, 1])
    agent = make_agent("network,model=1", game, evaluate=evaluate)
    while not block.finished():
        state = positions.replay(game, block.moves(0), 3)
        expected = agent.choose(game, state, np.random.default_rng(1)).action
        found = evaluate(block.advance().batch, 1)
        block.absorb(found.policy, found.value, found.extra_heads)
        assert block.moves(0)[-1] == expected
    one = block.take(0)
    samples = read(chosen, encode_record(one, worker_id="w", uid="0" * 32))
    with torch.no_grad():
        values = values_of(chosen.network, game.spec(), samples, score_weight=weight).numpy()
    order = np.argsort(np.concatenate([np.arange(seat, len(one.moves), 2) for seat in range(2)]))
    recorded = [move.root_value[move.ply % 2] for move in one.searched]
    np.testing.assert_allclose(values[order].clip(-1, 1), recorded, atol=1e-5)

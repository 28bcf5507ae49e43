"""One step: leaves out, one request for each model version, answers in."""

import asyncio

import numpy as np
import pytest
from search_bench import CONNECT_FOUR, TIC_TAC_TOE, answer_hashed, compiled_tree, drive

from zerofleet.errors import Overloaded
from zerofleet.evaluators.base import Evaluation
from zerofleet.evaluators.by_version import evaluate_by_version
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.search import Leaves, SearchBlock, SearchSettings, step


class Network:
    """The network of hashes as an evaluator that remembers what it was asked; some versions may fail or hang."""

    def __init__(self, *, failing=(), hanging=()):
        self.requests = []
        self.failing = failing
        self.hanging = hanging
        self.cancelled = []
        self.all_hang = asyncio.Event()

    async def evaluate(self, batch, *, version):
        self.requests.append((version, len(batch)))
        if version in self.failing:
            raise Overloaded(f"version {version} is busy")
        if version in self.hanging:
            if len(self.requests) == len(self.hanging):
                self.all_hang.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.append(version)
        policy, value = answer_hashed(Leaves(batch, np.full(len(batch), version)), 2)
        return Evaluation(policy.astype(np.float16), value, version)


def mixed_block():
    block = SearchBlock(CONNECT_FOUR, SearchSettings(simulations=12), slots=6)
    for slot in range(6):
        block.begin(slot, seed=slot, versions=[1 + slot % 3, 1 + slot // 3])
    return block


async def test_each_version_of_a_step_is_requested_once():
    block, network = mixed_block(), Network()
    assert await step(block, network) == 6
    assert sorted(network.requests) == [(1, 2), (2, 2), (3, 2)]


async def test_evaluations_reach_their_leaves():
    stepped, driven = mixed_block(), mixed_block()
    network = Network()
    while await step(stepped, network):
        pass
    drive(driven)
    games = [[block.take(slot).moves.tolist() for slot in range(6)] for block in (stepped, driven)]
    assert games[0] == games[1]
    assert {version for version, _ in network.requests} == {1, 2, 3}


async def test_two_seats_of_a_game_use_their_own_versions():
    block = SearchBlock(TIC_TAC_TOE, SearchSettings.for_match(TIC_TAC_TOE.spec(), 15), slots=1)
    block.begin(0, seed=0, versions=[11, 22])
    seen = set()
    while len((leaves := block.advance()).batch):
        seen.add((len(block.moves(0)) % 2, *leaves.versions.tolist()))
        block.absorb(*answer_hashed(leaves, 2))
    assert seen == {(0, 11), (1, 22)}
    played = block.take(0)
    assert played.versions == (11, 22)
    assert all(move.model_version == (11, 22)[move.ply % 2] for move in played.searched)


@pytest.mark.parametrize("failing", [(2,), (1, 2, 3)])
async def test_errors_of_the_evaluator_propagate_and_change_nothing(failing):
    block, untroubled = mixed_block(), mixed_block()
    with pytest.raises(Overloaded, match="is busy"):
        await step(block, Network(failing=failing))
    for one in (block, untroubled):
        while await step(one, Network()):
            pass
    assert [block.take(slot).moves.tolist() for slot in range(6)] == [untroubled.take(slot).moves.tolist() for slot in range(6)]


async def test_a_cancelled_step_cancels_its_requests_and_can_be_retried():
    block, network = mixed_block(), Network(hanging=(1, 2, 3))
    stepping = asyncio.create_task(step(block, network))
    await network.all_hang.wait()
    stepping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stepping
    assert sorted(network.cancelled) == [1, 2, 3]
    assert await step(block, Network()) == 6
    drive(block)
    assert len(block.finished()) == 6


async def test_evaluations_by_version_keep_the_order_of_rows():
    block = mixed_block()
    leaves = block.advance()
    found = await evaluate_by_version(Network().evaluate, leaves.batch, leaves.versions)
    wanted_policy, wanted_value = answer_hashed(leaves, 2)
    np.testing.assert_array_equal(found.policy, wanted_policy.astype(np.float16))
    np.testing.assert_array_equal(found.value, wanted_value)
    assert (found.extra_heads, found.version) == ((), None)


async def test_a_block_runs_on_the_uniform_evaluator():
    block = mixed_block()
    while await step(block, UniformEvaluator(2)):
        pass
    assert block.finished() == list(range(6))


def test_advance_returns_the_same_leaves_until_absorb():
    block = mixed_block()
    first = block.advance()
    states, versions = first.batch.states.copy(), first.versions.copy()
    again = block.advance()
    np.testing.assert_array_equal(again.batch.states, states)
    np.testing.assert_array_equal(again.versions, versions)
    block.absorb(*answer_hashed(again, 2))
    assert not np.array_equal(block.advance().batch.states, states)


def test_games_can_begin_while_leaves_of_others_are_pending():
    settings = SearchSettings(simulations=20)
    block, alone = SearchBlock(TIC_TAC_TOE, settings, slots=2), SearchBlock(TIC_TAC_TOE, settings, slots=1)
    block.begin(0, seed=0, versions=[1, 1], hold=True)
    leaves = block.advance()
    block.begin(1, seed=5, versions=[1, 1], opening=[4], hold=True)
    block.absorb(*answer_hashed(leaves, 2))
    alone.begin(0, seed=5, versions=[1, 1], opening=[4], hold=True)
    for one in (block, alone):
        drive(one)
    assert compiled_tree(block, 1) == compiled_tree(alone, 0)

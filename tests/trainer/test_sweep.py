"""Expected results of the positions in memory: sweeps and the priority queue against a direct linear solve."""

import heapq

import numpy as np
import pytest

from trainer.learners.deep_q.memory import Memory, chain_of, expected_results
from trainer.learners.deep_q.sweep import Chain, by_sweeps
from trainer.learners.deep_q.transitions import Transitions
from zerofleet.presets.deep_q import DeepQSettings


def by_queue(chain: Chain, *, tolerance: float = 1e-12, most: int = 10_000_000) -> np.ndarray:
    """Return what `by_sweeps` returns, by prioritised sweeping: the state with the largest pending change is updated first.

    A change of p_j by d is a pending change of q_ij d at every predecessor i. Stops after `most` updates.
    """
    found = np.zeros_like(chain.ending)
    pending = chain.ending.copy()  # float64 [S, K], the update that each state awaits
    queue = [(-float(np.abs(row).max(initial=0.0)), i) for i, row in enumerate(pending)]
    heapq.heapify(queue)
    for _ in range(most):
        if not queue:
            break
        priority, i = heapq.heappop(queue)
        if -priority < tolerance:
            break
        step = pending[i].copy()
        if float(np.abs(step).max()) != -priority:
            continue  # a newer entry holds this state's priority
        pending[i] = 0.0
        found[i] += step
        for j in np.flatnonzero(chain.between[:, i]):
            pending[j] += chain.between[j, i] * step
            heapq.heappush(queue, (-float(np.abs(pending[j]).max()), int(j)))
    return found


SOLVERS = pytest.mark.parametrize("solve", [by_sweeps, by_queue])


def random_chain(states, classes, seed):
    """A chain with loops, in which every state ends with a probability of at least 2 %."""
    rng = np.random.default_rng(seed)
    steps = rng.random((states, states)) * (rng.random((states, states)) < 0.2)
    ends = 0.02 + 0.1 * rng.random((states, classes))
    total = steps.sum(axis=1, keepdims=True) + ends.sum(axis=1, keepdims=True)
    return Chain(steps / total, ends / total)


@SOLVERS
@pytest.mark.parametrize("seed", range(4))
def test_the_probabilities_of_the_ends_are_those_of_a_direct_solve(solve, seed):
    chain = random_chain(40, 2, seed)
    wanted = np.linalg.solve(np.eye(40) - chain.between, chain.ending)
    found = solve(chain)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-6)


@SOLVERS
def test_the_gamblers_ruin_is_linear_in_the_stake(solve):
    between, ending = np.zeros((9, 9)), np.zeros((9, 2))
    for stake in range(1, 10):
        for after in (stake - 1, stake + 1):
            if after in (0, 10):
                ending[stake - 1, after == 10] = 0.5
            else:
                between[stake - 1, after - 1] = 0.5
    np.testing.assert_allclose(solve(Chain(between, ending))[:, 1], np.arange(1, 10) / 10, atol=1e-6)


def line(states, results, ended):
    """Transitions through numbered positions; the last of each line may end the game."""
    rows = Transitions.empty(len(states) - 1, packed_bytes=1, pool=1)
    rows.states[:, 0], rows.next_states[:, 0] = states[:-1], states[1:]
    rows.ended[:] = False
    rows.ended[-1] = ended
    rows.results[:] = results
    return rows


def test_the_result_expected_from_a_position_is_that_of_the_lines_in_memory():
    """Position 1 leads to 2 three times of four and to 3 once; 2 wins and 3 loses; 7 leads beyond the memory."""
    memory = Memory(DeepQSettings(replay=20), packed_bytes=1, pool=1)
    for states, result, ended in [([1, 2, 0], 1, True)] * 3 + [([1, 3, 0], -1, True), ([7, 8], 1, False)]:
        rows = line(states, result, ended)
        for row in range(len(rows)):
            memory.insert(rows.rows(slice(row, row + 1)))
    chain, states = chain_of(memory)
    assert states[:4].tolist() == [0, 1, 0, 1]
    np.testing.assert_allclose(chain.between.sum(axis=1) + chain.ending.sum(axis=1), 1.0)
    assert expected_results(memory).tolist() == pytest.approx([0.5, 1, 0.5, 1, 0.5, 1, 0.5, -1, 0])


def test_a_sweep_draws_in_proportion_to_the_distance_from_the_expected_result():
    memory = Memory(DeepQSettings(replay=4, sampling="sweep"), packed_bytes=1, pool=1)
    for state in range(4):
        rows = line([state, 9], 1, True)
        memory.insert(rows)
    values = np.array([1.0, 0.5, 0.0, -1.0])
    drawn = np.bincount(memory.draw(40_000, np.random.default_rng(1), values), minlength=4) / 40_000
    wanted = np.abs(1.0 - values) + 1e-3
    np.testing.assert_allclose(drawn, wanted / wanted.sum(), atol=0.01)
    with pytest.raises(ValueError, match="none were given"):
        memory.draw(1, np.random.default_rng(1))

"""No simulations: the move is drawn from the policy."""

import numpy as np
import pytest
from pydantic import ValidationError
from search_bench import CONNECT_FOUR, TIC_TAC_TOE, answer_hashed, drive, searched_block

from zerofleet.contracts.played import FULL_SEARCH, TARGET_UNIT
from zerofleet.search import SearchBlock, SearchSettings

PLAIN = SearchSettings(simulations=0, fast_simulations=0, temperature_end=1.0)


def test_only_root_positions_are_evaluated_and_each_once():
    block = SearchBlock(CONNECT_FOUR, PLAIN, slots=1)
    block.begin(0, seed=1, versions=[1, 1])
    asked = 0
    while len((leaves := block.advance()).batch):
        asked += len(leaves.batch)
        block.absorb(*answer_hashed(leaves, 2))
    played = block.take(0)
    assert asked == len(played.searched)
    assert block.counters.simulations == asked


def test_moves_are_sampled_from_the_policy():
    block = SearchBlock(CONNECT_FOUR, PLAIN, slots=2000)
    for slot in range(len(block)):
        block.begin(slot, seed=slot, versions=[1, 1])
    leaves = block.advance()
    policy, value = answer_hashed(leaves, 2)
    block.absorb(policy, value)
    block.advance()
    counts = np.bincount([block.moves(slot)[0] for slot in range(len(block))], minlength=7)
    wanted = policy[0] / policy[0].sum() * len(block)
    deviation = np.sqrt(np.maximum(wanted, 1.0))
    assert np.all(np.abs(counts - wanted) < 4.5 * deviation)


def test_without_temperature_the_move_of_largest_prior_is_played():
    block = searched_block(CONNECT_FOUR, PLAIN.model_copy(update={"temperature": 0.0, "temperature_end": 0.0}), [()])
    root = block.analysis(0)
    block.play(0, int(root.actions[root.priors.argmax()]))
    block = SearchBlock(CONNECT_FOUR, PLAIN.model_copy(update={"temperature": 0.0, "temperature_end": 0.0}), slots=1)
    block.begin(0, seed=0, versions=[1, 1])
    block.absorb(*answer_hashed(block.advance(), 2))
    block.advance()
    assert block.moves(0) == [int(root.actions[root.priors.argmax()])]


def test_the_record_has_the_policy_as_target_and_no_visits():
    block = SearchBlock(TIC_TAC_TOE, PLAIN, slots=1)
    block.begin(0, seed=3, versions=[1, 1])
    policy, _ = answer_hashed(block.advance(), 2)
    drive(block)
    first = block.take(0).searched[0]
    assert first.visits.sum() == 0
    assert first.target.sum() == TARGET_UNIT
    assert first.flags & FULL_SEARCH
    shares = policy[0, first.actions] / policy[0].sum()
    assert np.allclose(first.target / TARGET_UNIT, shares, atol=2e-4)


def test_the_priors_have_no_noise():
    noisy = PLAIN.model_copy(update={"dirichlet_fraction": 0.9})
    priors = [searched_block(CONNECT_FOUR, settings, [()]).analysis(0).priors for settings in (PLAIN, noisy)]
    assert np.array_equal(*priors)


def test_sequential_halving_without_simulations_is_refused():
    with pytest.raises(ValidationError, match="root_policy=gumbel needs simulations of at least 1"):
        SearchSettings(simulations=0, fast_simulations=0, root_policy="gumbel")

"""Wrong calls and wrong answers get an error that says what to do, and leave the block as it was."""

import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_bench import CONNECT_FOUR, TIC_TAC_TOE, answer_hashed, answer_uniform, compiled_tree, drive, searched_block

from games.errors import IllegalMove
from zerofleet.errors import Unavailable
from zerofleet.evaluators.uniform import UniformEvaluator
from zerofleet.search import EXTERNAL, SearchBlock, SearchSettings, step
from zerofleet.testing import FunctionEvaluator

QUICK = SearchSettings(simulations=8)


def new_block(slots=1, game=TIC_TAC_TOE, **settings):
    return SearchBlock(game, QUICK.model_copy(update=settings), slots=slots)


class TestBegin:
    @pytest.mark.parametrize(
        ("wrong", "said"),
        [
            ({"versions": [1]}, "got 1 versions for 2 seats"),
            ({"versions": [1, 2, 3]}, "got 3 versions for 2 seats"),
            ({"versions": [1, 0]}, "version 0 .* EXTERNAL"),
            ({"versions": [-2, 1]}, "version -2 .* EXTERNAL"),
            ({"seed": -1}, "seed -1"),
            ({"seed": 2**63}, "seed 9223372036854775808"),
        ],
    )
    def test_wrong_arguments_are_refused_and_the_slot_stays_idle(self, wrong, said):
        block = new_block()
        with pytest.raises(ValueError, match=said):
            block.begin(0, **({"seed": 0, "versions": [1, 1]} | wrong))
        assert block.idle() == [0]

    @pytest.mark.parametrize(
        ("opening", "said"),
        [
            ([4, 4], "move 2 of the opening is 4; legal: .0, 1, 2, 3, 5"),
            ([9], "move 1 of the opening is 9"),
            ([-1], "move 1 of the opening is -1"),
            ([0, 3, 1, 4, 2], "ends the game"),
            ([0, 3, 1, 4, 2, 5], "move 6 of the opening is 5"),
        ],
    )
    def test_an_opening_that_is_illegal_or_ends_the_game_is_refused(self, opening, said):
        block = new_block()
        with pytest.raises(IllegalMove, match=said):
            block.begin(0, seed=0, versions=[1, 1], opening=opening)
        assert block.idle() == [0]
        assert not len(block.advance().batch)

    def test_a_refused_beginning_leaves_no_trace_in_the_next_game(self):
        fresh, block = new_block(), new_block()
        for opening in ([0, 0], [0, 3, 1, 4, 2]):
            with pytest.raises(IllegalMove):
                block.begin(0, seed=99, versions=[5, 6], opening=opening, hold=True, tag="wrong")
        played = []
        for one in (fresh, block):
            one.begin(0, seed=3, versions=[1, 1])
            drive(one)
            played.append(one.take(0))
        assert played[0].moves.tolist() == played[1].moves.tolist()
        assert played[0].opening_plies == played[1].opening_plies == 0
        assert played[1].tag is None
        assert played[1].versions == (1, 1)

    def test_a_slot_in_use_is_refused_in_every_state(self):
        block = new_block(slots=2)
        block.begin(0, seed=0, versions=[1, 1])
        block.begin(1, seed=0, versions=[EXTERNAL, 1])
        for _ in range(2):
            for slot in (0, 1):
                with pytest.raises(ValueError, match=f"slot {slot} is in use; take or abandon"):
                    block.begin(slot, seed=0, versions=[1, 1])
            drive(block)
        assert block.finished() == [0]
        assert block.waiting() == [1]

    def test_slots_that_do_not_exist_are_refused(self):
        block = new_block(slots=2)
        for slot in (2, -1):
            for call in (
                lambda slot=slot: block.begin(slot, seed=0, versions=[1, 1]),
                lambda slot=slot: block.take(slot),
                lambda slot=slot: block.play(slot, 0),
                lambda slot=slot: block.state(slot),
                lambda slot=slot: block.analysis(slot),
                lambda slot=slot: block.abandon(slot),
            ):
                with pytest.raises(IndexError, match=rf"slot {slot}.*2 slots"):
                    call()

    def test_the_largest_seed_is_accepted(self):
        block = new_block()
        block.begin(0, seed=2**63 - 1, versions=[1, 1])
        drive(block)
        assert block.take(0).seed == 2**63 - 1


class TestOtherCalls:
    def test_moves_are_refused_in_slots_that_do_not_wait(self):
        block = new_block()
        with pytest.raises(ValueError, match="slot 0 does not wait"):
            block.play(0, 0)
        block.begin(0, seed=0, versions=[1, 1])
        with pytest.raises(ValueError, match="slot 0 does not wait"):
            block.play(0, 0)

    @pytest.mark.parametrize("action", [4, 9, -1, 2**40])
    def test_illegal_moves_are_refused_with_the_legal_ones(self, action):
        block = new_block()
        block.begin(0, seed=0, versions=[EXTERNAL, EXTERNAL], opening=[4])
        with pytest.raises(IllegalMove, match=r"legal: \[0, 1, 2, 3, 5, 6, 7, 8\]"):
            block.play(0, action)
        block.play(0, 0)
        assert block.moves(0) == [4, 0]

    def test_taking_an_unfinished_game_is_refused(self):
        block = new_block()
        with pytest.raises(ValueError, match="slot 0 is not over"):
            block.take(0)
        block.begin(0, seed=0, versions=[1, 1])
        with pytest.raises(ValueError, match="slot 0 is not over"):
            block.take(0)
        drive(block)
        block.take(0)
        with pytest.raises(ValueError, match="slot 0 is not over"):
            block.take(0)

    def test_analysis_needs_a_searched_position(self):
        block = new_block()
        for _ in range(2):
            with pytest.raises(ValueError, match="slot 0 holds no searched position"):
                block.analysis(0)  # nothing there, then a game begun
            if block.idle():
                block.begin(0, seed=0, versions=[1, 1])
        drive(block)
        with pytest.raises(ValueError, match="slot 0 holds no searched position"):
            block.analysis(0)  # finished
        block.take(0)
        with pytest.raises(ValueError, match="slot 0 holds no searched position"):
            block.analysis(0)  # idle again
        block.begin(0, seed=0, versions=[1, 1], hold=True)
        drive(block)
        block.analysis(0)
        block.abandon(0)
        with pytest.raises(ValueError, match="slot 0 holds no searched position"):
            block.analysis(0)  # abandoned

    def test_invalid_versions_are_refused_by_set_versions(self):
        block = new_block()
        block.begin(0, seed=0, versions=[1, 1])
        for versions in ([2], [0, 1], [1, 2, 3]):
            with pytest.raises(ValueError, match="version"):
                block.set_versions(0, versions)
        assert block.versions(0) == (1, 1)

    @pytest.mark.parametrize("threshold", [float("nan"), 1.5, -1.01])
    def test_resignation_thresholds_out_of_range_are_refused(self, threshold):
        with pytest.raises(ValueError, match="resign"):
            new_block().set_resign_threshold(threshold)

    def test_abandoning_waits_until_the_leaves_are_absorbed(self):
        block = new_block(slots=2)
        block.begin(0, seed=0, versions=[1, 1])
        block.begin(1, seed=1, versions=[1, 1])
        leaves = block.advance()
        with pytest.raises(ValueError, match="absorb them first"):
            block.abandon(0)
        block.absorb(*answer_hashed(leaves, 2))
        block.abandon(0)
        assert block.idle() == [0]
        drive(block)
        assert block.finished() == [1]

    def test_an_abandoned_game_leaves_no_trace_in_the_next(self):
        fresh, block = new_block(), new_block()
        block.begin(0, seed=5, versions=[2, 2], opening=[1, 2], hold=True, tag="left")
        drive(block)
        block.play(0, 4)
        block.absorb(*answer_hashed(block.advance(), 2))
        block.abandon(0)
        for one in (fresh, block):
            one.begin(0, seed=3, versions=[1, 1])
            drive(one)
        assert fresh.take(0).moves.tolist() == block.take(0).moves.tolist()


class TestAnswers:
    @pytest.mark.parametrize(
        ("spoil", "said"),
        [
            (lambda p, v: (p[:, :-1], v), "do not fit 3 leaves"),
            (lambda p, v: (p[:-1], v[:-1]), "do not fit 3 leaves"),
            (lambda p, v: (p, v[:, :1]), "do not fit 3 leaves"),
            (lambda p, v: (_with(p, (1, 2), np.nan), v), "policy of leaf 1"),
            (lambda p, v: (_with(p, (2, 0), np.inf), v), "policy of leaf 2"),
            (lambda p, v: (_with(p, (0, 0), -0.25), v), "policy of leaf 0"),
            (lambda p, v: (p, _with(v, (1, 0), np.nan)), "value of leaf 1"),
            (lambda p, v: (p, _with(v, (0, 1), -np.inf)), "value of leaf 0"),
            (lambda p, v: (p, _with(v, (2, 1), 1.5)), "value of leaf 2"),
        ],
    )
    def test_invalid_evaluations_are_refused_and_can_be_retried(self, spoil, said):
        block = new_block(slots=3)
        for slot in range(3):
            block.begin(slot, seed=slot, versions=[1, 1], opening=[slot])
        leaves = block.advance()
        before = leaves.batch.states.copy()
        with pytest.raises(ValueError, match=said):
            block.absorb(*spoil(*answer_hashed(leaves, 2)))
        again = block.advance()
        np.testing.assert_array_equal(again.batch.states, before)
        drive(block)
        assert block.finished() == [0, 1, 2]

    def test_values_a_rounding_error_beyond_one_are_accepted(self):
        block = new_block()
        block.begin(0, seed=0, versions=[1, 1])
        policy, _ = answer_hashed(block.advance(), 2)
        block.absorb(policy, np.array([[1.0005, -1.0005]]))

    def test_a_policy_of_zeros_counts_as_uniform(self):
        def answer_zeros(leaves, players):
            return np.zeros(leaves.batch.legal.shape), np.zeros((len(leaves.batch), players))

        trees = []
        for answer in (answer_uniform, answer_zeros):
            block = searched_block(CONNECT_FOUR, QUICK, [()], answer)
            trees.append(compiled_tree(block, 0))
        assert trees[0] == trees[1]

    async def test_a_failed_evaluation_leaves_the_block_usable(self):
        calls = 0

        def moody(batch, version):
            nonlocal calls
            calls += 1
            if calls % 3 == 0:
                raise Unavailable("away for lunch")
            return np.full(batch.legal.shape, 0.1), np.zeros((len(batch), 2))

        block, fine = new_block(slots=2), new_block(slots=2)
        for one in (block, fine):
            one.begin(0, seed=0, versions=[1, 1])
            one.begin(1, seed=1, versions=[1, 2])
        failures = 0
        while len(block.finished()) < 2:
            try:
                await step(block, FunctionEvaluator(moody))
            except Unavailable:  # not a group of them, though two versions may have been asked
                failures += 1
        drive(fine, answer_uniform)
        assert failures > 20
        assert [block.take(slot).moves.tolist() for slot in range(2)] == [fine.take(slot).moves.tolist() for slot in range(2)]

    async def test_a_step_with_nothing_to_search_sends_no_request(self):
        block = new_block()
        assert await step(block, UniformEvaluator(2)) == 0

    @given(st.integers(0, 1), st.sampled_from([np.nan, np.inf, -np.inf, -1.0, 1e30]))
    @hypothesis.settings(deadline=None, derandomize=True, database=None)
    def test_no_invalid_number_reaches_the_tree(self, where, bad):
        block = new_block()
        block.begin(0, seed=0, versions=[1, 1])
        answer = list(answer_hashed(block.advance(), 2))
        answer[where][0, 0] = bad
        if (where, bad) == (1, -1.0):
            block.absorb(*answer)
            return
        if (where, bad) == (0, 1e30):
            block.absorb(*answer)  # a weight may be any finite number: policies are normalised
            return
        with pytest.raises(ValueError, match="leaf 0"):
            block.absorb(*answer)


def _with(array, place, number):
    changed = array.copy()
    changed[place] = number
    return changed

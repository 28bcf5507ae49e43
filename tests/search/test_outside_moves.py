"""Slots that wait: seats whose moves come from outside, and slots held after each search; what they show meanwhile."""

import math

import numpy as np
import pytest
from search_bench import (
    CONNECT_FOUR,
    TIC_TAC_TOE,
    answer_hashed,
    answer_seat_loses,
    answer_uniform,
    compiled_tree,
    drive,
    searched_block,
)

from games.positions import replay
from zerofleet.contracts.played import WOULD_RESIGN
from zerofleet.search import EXTERNAL, SearchBlock, SearchSettings

PLAY = SearchSettings.for_play(TIC_TAC_TOE.spec(), 40).model_copy(update={"prove_values": False})


class TestExternalSeats:
    def test_a_game_of_two_external_seats_needs_no_network(self):
        block = SearchBlock(TIC_TAC_TOE, PLAY, slots=1)
        block.begin(0, seed=1, versions=[EXTERNAL, EXTERNAL], tag="people")
        for ply, action in enumerate([4, 0, 8, 2, 6, 1]):
            assert block.waiting() == [0]
            assert block.moves(0) == [4, 0, 8, 2, 6, 1][:ply]
            np.testing.assert_array_equal(block.state(0), replay(TIC_TAC_TOE, [4, 0, 8, 2, 6, 1][:ply]))
            block.play(0, action)
            assert not len(block.advance().batch)
        played = block.take(0)
        assert played.moves.tolist() == [4, 0, 8, 2, 6, 1]
        assert played.scores == (-1.0, 1.0)
        assert len(played.searched) == 0
        assert played.versions == (EXTERNAL, EXTERNAL)
        assert played.tag == "people"

    def test_a_slot_keeps_nothing_of_an_earlier_game(self):
        block = SearchBlock(TIC_TAC_TOE, PLAY, slots=1)
        for versions in ([1, 1], [EXTERNAL, EXTERNAL], [1, EXTERNAL]):
            block.begin(0, seed=1, versions=versions, opening=[0, 3])
            drive(block)
            while block.waiting():
                block.play(0, next(action for action in range(9) if action not in block.moves(0)))
                drive(block)
            played = block.take(0)
            searched = [ply for ply in range(2, min(len(played.moves), 8)) if versions[ply % 2] != EXTERNAL]
            assert [move.ply for move in played.searched] == searched

    @pytest.mark.parametrize("outsider", [0, 1])
    def test_an_external_seat_is_not_searched(self, outsider):
        block = SearchBlock(CONNECT_FOUR, PLAY, slots=1)
        versions = [7, 7]
        versions[outsider] = EXTERNAL
        block.begin(0, seed=1, versions=versions)
        rng = np.random.default_rng(0)
        drive(block)
        while block.waiting():
            state = block.state(0)
            assert int(state.any()) or outsider == 0
            legal = [action for action in range(7) if _open(block, action)]
            block.play(0, int(rng.choice(legal)))
            drive(block)
        played = block.take(0)
        assert {move.ply % 2 for move in played.searched} == {1 - outsider}
        assert len(played.searched) >= (len(played.moves) - 1) // 2
        assert {move.model_version for move in played.searched} == {7}

    def test_a_seat_can_change_from_external_to_model_during_a_game(self):
        block = SearchBlock(TIC_TAC_TOE, PLAY, slots=1)
        block.begin(0, seed=1, versions=[EXTERNAL, 3])
        block.play(0, 4)
        assert block.searching() == [0]
        block.set_versions(0, [5, EXTERNAL])  # the search of ply 1 is under way and ends on version 3
        drive(block)
        while block.waiting():
            assert len(block.moves(0)) % 2 == 1
            block.play(0, next(action for action in range(9) if action not in block.moves(0)))
            drive(block)
        played = block.take(0)
        assert [(move.ply, move.model_version) for move in played.searched[:2]] == [(1, 3), (2, 5)]
        assert all(move.ply % 2 == 0 for move in played.searched[1:])


class TestHeldSlots:
    def test_a_held_slot_waits_after_each_search_and_accepts_any_move(self):
        block = SearchBlock(TIC_TAC_TOE, PLAY, slots=1)
        block.begin(0, seed=1, versions=[1, 1], hold=True)
        for action in (0, 1, 2, 3, 4, 5, 6):
            drive(block)
            assert block.waiting() == [0]
            assert block.analysis(0).visits.sum() == 40
            block.play(0, action)
        played = block.take(0)
        assert played.scores == (1.0, -1.0)
        assert [move.ply for move in played.searched] == list(range(7))

    def test_a_position_with_one_legal_move_is_searched_when_held(self):
        opening = [0, 2, 1, 3, 5, 4, 6, 7]  # one cell left
        block = searched_block(TIC_TAC_TOE, PLAY, [opening])
        analysis = block.analysis(0)
        assert analysis.actions.tolist() == [8]
        assert analysis.visits.tolist() == [40]

    def test_held_slots_never_resign(self):
        settings = SearchSettings(simulations=10, resign_threshold=-0.1, resign_control_share=0.0, prove_values=False)
        block = SearchBlock(TIC_TAC_TOE, settings, slots=1)
        block.begin(0, seed=1, versions=[1, 1], hold=True)
        for action in (0, 4, 1, 2, 6, 3, 5, 8, 7):
            drive(block, answer_seat_loses)
            block.play(0, action)
        played = block.take(0)
        assert played.scores == (0.0, 0.0)
        assert played.resigned_seat is None
        assert [move.ply for move in played.searched if move.flags & WOULD_RESIGN][:3] == [0, 2, 4]

    @pytest.mark.parametrize("leaves", [1, 4])
    def test_a_played_move_keeps_its_subtree(self, leaves):
        settings = PLAY.model_copy(update={"leaves_per_game": leaves})
        block = searched_block(CONNECT_FOUR, settings, [(3, 3)])
        before = compiled_tree(block, 0)
        kept = max((edge for edge in before["edges"] if edge["visits"] < 40), key=lambda edge: edge["visits"])
        block.play(0, kept["action"])
        after = compiled_tree(block, 0)
        assert after == kept["child"]
        drive(block)
        assert compiled_tree(block, 0)["visits"] == 41

    def test_without_reuse_every_search_starts_with_an_empty_tree(self):
        settings = PLAY.model_copy(update={"reuse_subtree": False})
        block = searched_block(CONNECT_FOUR, settings, [(3, 3), (3, 3, 2)])
        block.play(0, 2)
        drive(block)
        assert compiled_tree(block, 0) == compiled_tree(block, 1)


def test_an_external_move_keeps_the_subtree():
    block = SearchBlock(CONNECT_FOUR, PLAY, slots=1)
    block.begin(0, seed=1, versions=[1, EXTERNAL])
    drive(block)
    waiting = compiled_tree(block, 0)
    assert waiting["visits"] > 5
    reply = max(waiting["edges"], key=lambda edge: edge["visits"])
    block.play(0, reply["action"])
    assert compiled_tree(block, 0) == reply["child"]


def test_a_new_version_resets_the_tree_at_the_next_move():
    block = SearchBlock(CONNECT_FOUR, PLAY, slots=1)
    block.begin(0, seed=1, versions=[1, 1], hold=True)
    drive(block)
    block.set_versions(0, [2, 2])
    assert block.versions(0) == (2, 2)
    assert block.analysis(0).version == 1
    block.play(0, 3)
    leaves = block.advance()
    assert leaves.versions.tolist() == [2]  # the root itself is evaluated again
    block.absorb(*answer_hashed(leaves, 2))
    drive(block)
    assert block.analysis(0).version == 2
    block.play(0, 3)
    block.set_versions(0, [2, 2])
    assert compiled_tree(block, 0)["visits"] > 0  # same version: the subtree stays


class TestAnalysis:
    def test_the_analysis_equals_the_root_of_the_tree(self):
        block = searched_block(CONNECT_FOUR, PLAY, [(3, 3, 3)])
        tree, analysis = compiled_tree(block, 0), block.analysis(0)
        mover = tree["to_move"]
        assert analysis.to_move == mover == 1
        assert analysis.actions.tolist() == [edge["action"] for edge in tree["edges"]]
        assert analysis.visits.tolist() == [edge["visits"] for edge in tree["edges"]]
        assert analysis.priors.tolist() == [edge["prior"] for edge in tree["edges"]]
        for edge, value in zip(tree["edges"], analysis.values.tolist(), strict=True):
            if edge["visits"]:
                assert value == pytest.approx(edge["total"][mover] / edge["visits"], abs=1e-6)
            else:
                assert math.isnan(value)
        sums = [tree["value"][seat] + sum(edge["total"][seat] for edge in tree["edges"]) for seat in range(2)]
        np.testing.assert_allclose(analysis.value, np.array(sums) / tree["visits"], atol=1e-6)
        assert analysis.value.sum() == pytest.approx(0.0, abs=1e-6)

    def test_the_principal_variation_follows_the_most_visited_moves_and_can_be_played(self):
        block = searched_block(CONNECT_FOUR, SearchSettings.for_play(CONNECT_FOUR.spec(), 300), [()], answer_uniform)
        line = block.analysis(0).principal_variation
        assert len(line) > 2
        node = compiled_tree(block, 0)
        for action in line:
            edge = next(edge for edge in node["edges"] if edge["action"] == action)
            assert edge["visits"] == max(other["visits"] for other in node["edges"])
            node = edge["child"]
        replay(CONNECT_FOUR, line)

    def test_the_principal_variation_ends_with_the_game(self):
        block = searched_block(TIC_TAC_TOE, SearchSettings.for_play(TIC_TAC_TOE.spec(), 100), [[0, 3, 1, 4]], answer_uniform)
        analysis = block.analysis(0)
        assert analysis.principal_variation == (2,)
        assert analysis.values[analysis.actions == 2].tolist() == [1.0]

    def test_the_analysis_of_one_simulation_has_one_move(self):
        block = searched_block(TIC_TAC_TOE, SearchSettings.for_play(TIC_TAC_TOE.spec(), 1), [()])
        analysis = block.analysis(0)
        assert analysis.visits.sum() == 1
        assert len(analysis.principal_variation) == 1

    def test_a_completed_search_can_be_read_while_others_continue(self):
        block = SearchBlock(TIC_TAC_TOE, PLAY, slots=2)
        block.begin(0, seed=0, versions=[1, 1], hold=True, opening=[0, 2, 1, 3, 5, 4, 6])  # ends soon
        block.begin(1, seed=0, versions=[1, 1], hold=True)
        while 0 not in block.waiting():
            block.absorb(*answer_hashed(block.advance(), 2))
        assert block.searching() == [1]
        first = block.analysis(0)
        drive(block)
        np.testing.assert_array_equal(first.visits, block.analysis(0).visits)


def _open(block, column):
    return sum(move == column for move in block.moves(0)) < 6

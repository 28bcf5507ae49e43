"""Search with hidden information: what it decides, whom it asks how often, and what it refuses."""

import numpy as np
import pytest
from hidden_bench import MODES, THREE, TWO, answer, compiled_tree, search, searched
from reference_search import ReferenceGame
from search_bench import CONNECT_FOUR, drive
from toys.coin import COIN_BIT, DARE, LAST, SAFE, Coin
from toys.sealed_bids import OPEN, SealedBids, hand_at

from games.kit.bits import unpack
from zerofleet.evaluators.by_version import evaluate_by_version
from zerofleet.evaluators.uniform import UniformEvaluator, uniform_answer
from zerofleet.search import EXTERNAL, Leaves, SearchBlock, SearchSettings, step
from zerofleet.search.compiled_settings import compile_settings
from zerofleet.testing import FunctionEvaluator


def bits(packed):
    """The bits of encoded positions of the coin game, bool [B, 7]."""
    return unpack(packed, (7, 1, 1)).reshape(len(packed), 7).astype(bool)


def silent(leaves, players):
    """Seat 1 answers a dare with anything."""
    policy, value, _ = uniform_answer(leaves.batch, Coin().spec())
    return policy, value


def telling(leaves, players):
    """Seat 1 answers with the coin it sees."""
    policy, value = silent(leaves, players)
    seen = bits(leaves.batch.states)[:, COIN_BIT : COIN_BIT + 2]
    return np.where(seen.any(axis=1)[:, None], seen, policy), value


QUIET = {"simulations": 600, "dirichlet_fraction": 0.0, "temperature": 0.0}


class TestDecisionsUnderUncertainty:
    def chosen(self, network, seeds=range(6)):
        block = SearchBlock(Coin(), SearchSettings(information="determinise", **QUIET), slots=len(seeds))
        for slot, seed in enumerate(seeds):
            block.begin(slot, seed=seed, versions=[1, 1], hold=True)
        drive(block, network)
        return [block.analysis(slot) for slot in range(len(block))]

    def test_a_dare_without_expected_gain_is_declined(self):
        for analysis in self.chosen(silent):
            assert analysis.principal_variation == (SAFE,)
            assert analysis.values[DARE] < 0.25
            assert analysis.visits[DARE] > 3

    @pytest.mark.parametrize("seed", range(2))
    def test_a_search_that_sees_the_coin_dares(self, seed):
        def network(state, version):
            return np.array([0.5, 0.5], dtype=np.float32), np.zeros(2, dtype=np.float32)

        game = ReferenceGame(Coin(in_sight=True), SearchSettings(**QUIET), network, seed=seed, versions=[1, 1], hold=True)
        game.search()
        assert game.best_edge().action == DARE
        assert game.best_edge().mean(0) > 0.8

    def test_an_opponent_whose_policy_reveals_the_coin_is_exploited(self):
        """Their policy sees what they see; the searcher tells worlds apart by what follows from it."""
        for analysis in self.chosen(telling):
            assert analysis.principal_variation == (DARE,)
            assert analysis.values[DARE] > 0.8
            np.testing.assert_allclose(analysis.value[0], -analysis.value[1], atol=1e-6)

    def test_the_searcher_is_never_shown_the_coin(self):
        def network(leaves, players):
            seen = bits(leaves.batch.states)
            answers_dare = seen[:, 1]
            assert (seen[:, COIN_BIT : COIN_BIT + 2].any(axis=1) == answers_dare).all()
            return silent(leaves, players)

        self.chosen(network)

    def test_below_a_dare_there_is_one_node_for_each_answer(self):
        block = SearchBlock(Coin(), SearchSettings(information="determinise", **QUIET), slots=1)
        block.begin(0, seed=0, versions=[1, 1], hold=True)
        drive(block, silent)
        children = compiled_tree(block, 0)["edges"][DARE]["children"]
        assert sorted(child["state"][LAST] for child in children) == [0, 1]


class TestWhomItAsks:
    def rows(self, game, mode, *, simulations, versions):
        """Yield the leaves of one search, one row each."""
        settings = SearchSettings(simulations=simulations, information=mode)
        block = SearchBlock(game, settings, slots=1)
        block.begin(0, seed=2, versions=versions, hold=True)
        while len((leaves := block.advance()).batch):
            assert len(leaves.batch) == 1
            yield block, leaves
            block.absorb(*answer(leaves, game))

    def test_predict_requests_each_new_node_once_with_the_extra_head(self):
        asked = 0
        for block, leaves in self.rows(THREE, "predict", simulations=50, versions=[4, 5, 6]):
            assert leaves.batch.extra_heads == 1
            assert leaves.versions[0] == [4, 5, 6][int(block._arena.nodes[0, 0]["to_move"])]
            asked += 1
        tree = block._arena.nodes[0, : int(block._arena.slots[0]["nodes"])]
        over = tree["edge_count"] == 0
        assert over.any()
        assert asked == (~over).sum()
        assert block.counters.simulations == 51 == asked + tree["visits"][over].sum()

    def test_determinise_requests_each_opponents_choice_and_each_new_node(self):
        """The first simulations each take one round: two opponents choose, then the searcher's view is evaluated."""
        asked = []
        for _, leaves in self.rows(THREE, "determinise", simulations=3, versions=[4, 5, 6]):
            assert leaves.batch.extra_heads == 0
            asked.append(int(leaves.versions[0]))
        searcher = asked[0]
        others = next(versions for versions in ([5, 6], [6, 4], [4, 5]) if searcher not in versions)
        assert asked[1:4] == [*others, searcher]
        assert len(asked) >= 1 + 3 * 3

    def test_each_choice_is_requested_from_its_seats_model_and_view(self):
        """A row whose hand is the searcher's goes to their version; the others' hands never overlap with it."""
        hand = None
        checked = 0
        for block, leaves in self.rows(THREE, "determinise", simulations=80, versions=[7, 8, 9]):
            searcher = int(block._arena.nodes[0, 0]["to_move"])
            if hand is None:
                hand = int(block.state(0)[hand_at(THREE, searcher)])
            shown = unpack(leaves.batch.states, THREE.spec().planes).reshape(-1)[: THREE.cards]
            cards = sum(1 << int(card) for card in np.flatnonzero(shown))
            if leaves.versions[0] == 7 + searcher:
                assert cards & ~hand == 0
            else:
                assert cards & hand == 0
                checked += 1
        assert checked > 80

    def test_a_seat_without_a_model_is_simulated_with_the_searchers(self):
        versions = [EXTERNAL] * 3
        state = SearchBlock(THREE, SearchSettings(information="determinise"), slots=1)
        state.begin(0, seed=2, versions=versions)
        searcher = int(state._arena.nodes[0, 0]["to_move"])
        versions[searcher] = 5
        found = {int(leaves.versions[0]) for _, leaves in self.rows(THREE, "determinise", simulations=20, versions=versions)}
        assert found == {5}

    def test_new_versions_apply_from_the_next_search(self):
        seen = []
        for block, leaves in self.rows(THREE, "determinise", simulations=10, versions=[1, 1, 1]):
            block.set_versions(0, [2, 2, 2])
            seen.append(int(leaves.versions[0]))
        assert set(seen) == {1}

    @pytest.mark.parametrize("mode", MODES)
    def test_a_last_card_is_played_without_a_search(self, mode):
        block = SearchBlock(THREE, SearchSettings(simulations=5, information=mode), slots=1)
        block.begin(0, seed=1, versions=[1, 1, 1])
        search(block)
        assert [move.ply for move in block.take(0).searched] == list(range(6))


def _flat(evaluation):
    policy, value, heads = evaluation
    return policy, value, *heads


class TestPredictions:
    def test_predicted_plays_are_distinct_and_unseen(self):
        block = searched(THREE, SearchSettings(simulations=150, information="predict"), [()], seed=6)
        nodes = block._arena.nodes[0, : int(block._arena.slots[0]["nodes"])]
        viewer = int(nodes["to_move"][0])
        expanded = np.flatnonzero(nodes["edge_count"])
        assert len(expanded) > 5
        for index in expanded:
            plays = block._worlds.plays[0, index].tolist()
            state = block._arena.states[0, index]
            known = int(state[OPEN]) | int(state[hand_at(THREE, viewer)])
            assert len(set(plays)) == THREE.players - 1
            assert not any(known >> card & 1 for card in plays)

    @pytest.mark.parametrize("mode", MODES)
    def test_values_are_for_the_searcher_at_every_level(self, mode):
        """The network calls every position good for who is asked; nothing is turned over on the way up."""
        game = SealedBids(players=3, cards=60, hand=8)
        seats = np.array([0.5, -0.25, -0.125], dtype=np.float32)  # who is asked, next, next but one
        block = SearchBlock(game, SearchSettings(simulations=60, information=mode), slots=1)
        block.begin(0, seed=1, versions=[1, 1, 1], hold=True)
        while len((leaves := block.advance()).batch):
            policy, value, heads = uniform_answer(leaves.batch, game.spec())
            block.absorb(policy, value + seats, heads)
        analysis = block.analysis(0)
        np.testing.assert_allclose(analysis.value, np.roll(seats, analysis.to_move), atol=1e-6)
        np.testing.assert_allclose(analysis.values, 0.5, atol=1e-6)

    async def test_extra_heads_are_returned_in_the_rows_of_their_version(self):
        block = SearchBlock(THREE, SearchSettings(simulations=4, information="predict"), slots=5)
        for slot in range(5):
            block.begin(slot, seed=slot, versions=[1 + slot % 2] * 3)
        leaves = block.advance()
        network = FunctionEvaluator(
            lambda batch, version: _flat(answer(Leaves(batch, np.full(len(batch), version, dtype=np.int64)), THREE))
        )
        found = await evaluate_by_version(network.evaluate, leaves.batch, leaves.versions)
        wanted_policy, wanted_value, wanted_heads = answer(leaves, THREE)
        np.testing.assert_array_equal(found.policy, wanted_policy.astype(np.float16))
        np.testing.assert_array_equal(found.value, wanted_value)
        np.testing.assert_array_equal(found.extra_heads, wanted_heads)

    async def test_the_driver_passes_extra_heads_for_several_versions(self):
        block = SearchBlock(THREE, SearchSettings(simulations=4, information="predict"), slots=3)
        for slot in range(3):
            block.begin(slot, seed=slot, versions=[1 + slot] * 3)
        while await step(block, UniformEvaluator(3, THREE.spec().num_actions)):
            pass
        assert len(block.finished()) == 3


class TestSeatsFromOutside:
    @pytest.mark.parametrize("mode", MODES)
    def test_external_moves_and_held_searches_alternate(self, mode):
        block = SearchBlock(THREE, SearchSettings(simulations=12, information=mode), slots=2)
        block.begin(0, seed=1, versions=[1, EXTERNAL, 2])
        block.begin(1, seed=1, versions=[1, EXTERNAL, 2], hold=True)
        rng = np.random.default_rng(0)
        while block.searching() or block.waiting():
            search(block)
            for slot in block.waiting():
                root = block._arena.nodes[slot, 0]
                first = int(root["edge_start"])
                actions = block._arena.edges[slot, first : first + int(root["edge_count"])]["action"]
                block.play(slot, int(rng.choice(actions)))
        plain, held = block.take(0), block.take(1)
        seats = [(plain.seed + ply) % 3 for ply in range(9)]
        assert [move.ply for move in plain.searched] == [ply for ply in range(6) if seats[ply] != 1]
        assert [move.ply for move in held.searched] == [ply for ply in range(9) if seats[ply] != 1]
        assert [move.model_version for move in plain.searched] == [1 + seats[m.ply] // 2 for m in plain.searched]

    @pytest.mark.parametrize("mode", MODES)
    def test_an_analysis_has_a_line_of_one_move(self, mode):
        analysis = searched(THREE, SearchSettings(simulations=100, information=mode), [()]).analysis(0)
        assert len(analysis.principal_variation) == 1
        assert analysis.visits.sum() == 100
        assert analysis.visits.max() == analysis.visits[analysis.actions.tolist().index(analysis.principal_variation[0])]


class TestRefusals:
    def test_an_open_search_of_hidden_information_is_refused(self):
        with pytest.raises(ValueError, match=r"game of hidden information.*information=determinise, .*or simulations=0"):
            SearchBlock(THREE, SearchSettings(), slots=1)

    @pytest.mark.parametrize("information", ["open", *MODES])
    def test_without_a_search_every_mode_is_accepted(self, information):
        settings = SearchSettings(simulations=0, fast_simulations=0, information=information, temperature_end=1.0)
        block = SearchBlock(TWO, settings, slots=1)
        block.begin(0, seed=3, versions=[1, 1])
        while len((leaves := block.advance()).batch):
            assert leaves.batch.extra_heads == 0
            block.absorb(*answer(leaves, TWO))
        assert len(block.take(0).moves) == 2 * TWO.turns

    @pytest.mark.parametrize("information", MODES)
    def test_a_game_of_perfect_information_needs_information_open(self, information):
        with pytest.raises(ValueError, match=r"connect_four is a game of perfect information.*information=open"):
            SearchBlock(CONNECT_FOUR, SearchSettings(information=information), slots=1)

    def test_predict_needs_a_game_with_the_rules_of_prediction(self):
        with pytest.raises(ValueError, match="coin has no rule foresee, play_foreseen"):
            SearchBlock(Coin(), SearchSettings(information="predict"), slots=1)

    @pytest.mark.parametrize("wrong", [{"leaves_per_game": 2}, {"repetition": "path"}])
    def test_hidden_information_needs_one_leaf_per_game_and_no_repetition(self, wrong):
        with pytest.raises(ValueError, match="needs leaves_per_game=1 and repetition=off"):
            SearchSettings(information="predict", **wrong)

    @pytest.mark.parametrize(
        ("heads", "message"),
        [
            ((), r"needs the head `opponents`, \(1, 11\); got \[\]"),
            ((np.zeros((1, 10)),), r"got \[\(1, 10\)\]"),
            ((np.full((1, 11), np.nan),), "opponents head of leaf 0"),
            ((np.full((1, 11), -0.1),), "finite numbers from 0 up"),
        ],
    )
    def test_a_missing_or_invalid_head_is_refused_and_the_leaf_still_waits(self, heads, message):
        block = SearchBlock(THREE, SearchSettings(simulations=3, information="predict"), slots=1)
        block.begin(0, seed=3, versions=[1, 1, 1])
        leaves = block.advance()
        policy, value, sound = answer(leaves, THREE)
        with pytest.raises(ValueError, match=message):
            block.absorb(policy, value, heads)
        assert block.advance().batch.states.tobytes() == leaves.batch.states.tobytes()
        block.absorb(policy, value, (sound[0].astype(np.float32), np.zeros((1, 1))))  # a head beyond it is no matter
        search(block)
        assert len(block.take(0).moves) == 9


def test_settings_of_play_follow_the_game():
    assert SearchSettings.for_play(THREE.spec()).information == "determinise"
    assert SearchSettings.for_match(CONNECT_FOUR.spec()).information == "open"
    assert not compile_settings(SearchSettings(information="predict")).reuse_subtree
    assert compile_settings(SearchSettings()).reuse_subtree

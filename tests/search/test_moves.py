"""From visits to moves: temperature and its schedule, playout caps, and what the record of a game says.

Most of these searches prove nothing, so that every move has its whole budget; `test_proofs.py` has the others.
"""

import numpy as np
import pytest
from search_bench import CONNECT_FOUR, TIC_TAC_TOE, answer_hashed, answer_uniform, compiled_tree, drive, searched_block

from games.positions import final_scores, legal, new_state, replay
from zerofleet.contracts.played import FULL_SEARCH, TARGET_UNIT
from zerofleet.search import SearchBlock, SearchSettings
from zerofleet.search.compiled_settings import compile_settings
from zerofleet.search.decide import temperature_at


def played_games(settings, *, games=8, game=CONNECT_FOUR, answer=answer_hashed, opening=()):
    block = SearchBlock(game, settings, slots=games)
    for slot in range(games):
        block.begin(slot, seed=slot, versions=[1, 1], opening=opening)
    drive(block, answer)
    return [block.take(slot) for slot in range(games)]


def chosen_visits(played, move):
    return int(move.visits[move.actions == played.moves[move.ply]][0])


class TestTemperature:
    def test_temperature_zero_plays_a_most_visited_move(self):
        for played in played_games(SearchSettings(simulations=30, temperature=0.0, prove_values=False)):
            for move in played.searched:
                assert chosen_visits(played, move) == move.visits.max()

    def test_the_temperature_falls_linearly_to_its_end(self):
        settings = compile_settings(SearchSettings(temperature=1.0, temperature_end=0.2, temperature_plies=8))
        assert [temperature_at(settings, ply) for ply in (0, 2, 4, 8, 30)] == pytest.approx([1.0, 0.8, 0.6, 0.2, 0.2])

    def test_without_plies_the_temperature_is_at_its_end_at_once(self):
        settings = compile_settings(SearchSettings(temperature=1.0, temperature_end=0.3, temperature_plies=0))
        assert temperature_at(settings, 0) == 0.3

    def test_the_end_of_the_schedule_plays_the_most_visited_move(self):
        settings = SearchSettings(simulations=30, temperature_plies=6, prove_values=False)
        late, early = [], []
        for played in played_games(settings, games=20):
            for move in played.searched:
                (late if move.ply >= 6 else early).append(chosen_visits(played, move) == move.visits.max())
        assert all(late)
        assert not all(early)

    @pytest.mark.slow
    def test_temperature_one_plays_in_proportion_to_visits(self):
        settings = SearchSettings(simulations=50, dirichlet_fraction=0.0)
        tree = compiled_tree(searched_block(CONNECT_FOUR, settings, [()]), 0)
        shares = np.array([edge["visits"] for edge in tree["edges"]]) / 50
        block = SearchBlock(CONNECT_FOUR, settings, slots=1)
        counts = np.zeros(7)
        for seed in range(600):
            block.begin(0, seed=seed, versions=[1, 1])
            while not block.moves(0):
                leaves = block.advance()
                if len(leaves.batch):
                    block.absorb(*answer_hashed(leaves, 2))
            counts[block.moves(0)[0]] += 1
            block.abandon(0)
        np.testing.assert_allclose(counts / 600, shares, atol=0.08)
        assert counts[shares == 0].sum() == 0

    def test_a_small_temperature_sharpens_and_a_large_one_flattens(self):
        shares = []
        for temperature in (0.25, 1.0, 4.0):
            settings = SearchSettings(simulations=30, temperature=temperature, temperature_end=temperature)
            games = played_games(settings, games=12)
            most = [chosen_visits(played, move) == move.visits.max() for played in games for move in played.searched]
            shares.append(np.mean(most))
        assert shares[0] > shares[1] > shares[2]


class TestPlayoutCaps:
    SETTINGS = SearchSettings(
        simulations=40, fast_simulations=8, full_search_share=0.25, forced_playouts=2.0, prove_values=False
    )

    def test_the_share_of_full_searches_matches_the_setting(self):
        flags = [move.flags for played in played_games(self.SETTINGS, games=64) for move in played.searched]
        assert len(flags) > 1000
        assert 0.21 < np.mean([bool(flag & FULL_SEARCH) for flag in flags]) < 0.29

    def test_fast_searches_are_small_and_have_no_target_of_their_own(self):
        settings = self.SETTINGS.model_copy(update={"reuse_subtree": False})
        for played in played_games(settings):
            for move in played.searched:
                if move.flags & FULL_SEARCH:
                    assert move.visits.sum() == 40
                else:
                    assert move.visits.sum() == 8
                    assert len(move.target) == 0

    def test_fast_searches_have_no_noise_and_no_forced_playouts(self):
        """Their trees are those of a search without either."""
        plain = SearchSettings(simulations=8, dirichlet_fraction=0.0)
        block = SearchBlock(CONNECT_FOUR, self.SETTINGS, slots=60)
        for slot in range(60):
            block.begin(slot, seed=slot, versions=[1, 1], opening=[3], hold=True)
        drive(block)
        wanted = compiled_tree(searched_block(CONNECT_FOUR, plain, [[3]]), 0)
        trees = [compiled_tree(block, slot) for slot in range(60)]
        fast = [tree for tree in trees if tree["visits"] == 9]
        full = [tree for tree in trees if tree["visits"] == 41]
        assert len(fast) > 30
        assert len(fast) + len(full) == 60
        assert all(tree == wanted for tree in fast)
        priors = {tuple(edge["prior"] for edge in tree["edges"]) for tree in full}
        assert len(priors) == len(full)  # each with noise of its own

    def test_a_share_of_one_searches_every_move_in_full(self):
        for played in played_games(SearchSettings(simulations=12, prove_values=False), games=3):
            assert all(move.flags == FULL_SEARCH for move in played.searched)
            assert all(move.visits.sum() >= 12 for move in played.searched)


KINDS = {
    "self-play": SearchSettings(simulations=30),
    "forced and pruned": SearchSettings(simulations=30, forced_playouts=2.0, reuse_subtree=False),
    "several leaves": SearchSettings(simulations=30, leaves_per_game=4),
    "caps": SearchSettings(simulations=30, fast_simulations=6, full_search_share=0.5, forced_playouts=2.0),
    "gumbel": SearchSettings(simulations=30, root_policy="gumbel"),
    "one simulation": SearchSettings(simulations=1),
    "without proofs": SearchSettings(simulations=30, prove_values=False),
    "caps without proofs": SearchSettings(simulations=30, fast_simulations=6, full_search_share=0.5, prove_values=False),
    "gumbel without proofs": SearchSettings(simulations=30, root_policy="gumbel", prove_values=False),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("game", [TIC_TAC_TOE, CONNECT_FOUR], ids=lambda game: game.spec().name)
def test_the_record_of_a_game_is_consistent(game, kind):
    settings = KINDS[kind]
    for played in played_games(settings, game=game, games=4, opening=[1, 2]):
        moves = played.moves.tolist()
        assert moves[:2] == [1, 2]
        assert played.opening_plies == 2
        assert played.game is game
        assert played.scores == final_scores(game, replay(game, moves))
        assert played.moves.dtype == np.int32
        plies = [move.ply for move in played.searched]
        assert plies == sorted(set(plies))
        choices = [ply for ply in range(2, len(moves)) if len(legal(game, replay(game, moves[:ply]))) > 1]
        assert plies == choices  # every move with a choice, and no other, was searched
        for move in played.searched:
            check_searched(game, settings, moves, move)


def check_searched(game, settings, moves, move):
    listed = legal(game, replay(game, moves[: move.ply]))
    assert set(move.actions.tolist()) <= set(listed)
    assert np.all(np.diff(move.actions) > 0)
    assert moves[move.ply] in move.actions
    assert np.all(move.visits >= 0)
    budget = settings.simulations if move.flags & FULL_SEARCH else settings.fast_simulations
    if settings.prove_values:
        left = np.count_nonzero(move.target if len(move.target) else move.visits)
        assert move.visits.sum() >= budget or left == 1 or np.abs(move.root_value).max() in (0.0, 1.0)
    else:
        assert move.visits.sum() >= budget
        if not settings.reuse_subtree or settings.root_policy == "gumbel":
            assert move.visits.sum() == budget
    if len(move.target):
        assert len(move.target) == len(move.actions)
        assert move.target.sum(dtype=np.int64) == TARGET_UNIT
    assert (len(move.target) > 0) or settings.root_policy == "puct" or move.visits.tolist() == [1]
    assert np.all(np.abs(move.root_value) <= 1.0)
    assert move.root_value.shape == (2,)
    assert move.root_value.sum() == pytest.approx(0.0, abs=1e-6)
    assert (move.actions.dtype, move.visits.dtype, move.target.dtype, move.root_value.dtype) == (
        np.int32,
        np.int32,
        np.uint16,
        np.float32,
    )


def test_visits_equal_the_budget_with_and_without_a_kept_subtree():
    for played in played_games(SearchSettings(simulations=30, prove_values=False)):
        assert all(move.visits.sum() == 30 for move in played.searched)


def test_a_single_legal_move_is_played_without_a_search_or_an_evaluation():
    block = SearchBlock(TIC_TAC_TOE, SearchSettings(simulations=10), slots=1)
    block.begin(0, seed=0, versions=[1, 1], opening=[0, 2, 1, 3, 5, 4, 6, 7])
    assert not len(block.advance().batch)
    played = block.take(0)
    assert played.moves.tolist()[-1] == 8
    assert len(played.searched) == 0


def test_forced_playouts_leave_the_target_and_stay_in_the_visits():
    """Noise and forcing make poor moves visited; the target keeps what PUCT would have given them anyway."""
    opening = [0, 3, 1, 4]  # action 2 wins at once
    settings = SearchSettings(simulations=200, forced_playouts=2.0, reuse_subtree=False, prove_values=False)
    (forced,) = played_games(settings, games=1, game=TIC_TAC_TOE, answer=answer_uniform, opening=opening)
    unmixed = SearchSettings(simulations=200, dirichlet_fraction=0.0, prove_values=False)
    plain = searched_block(TIC_TAC_TOE, unmixed, [opening], answer_uniform)
    move, unforced = forced.searched[0], plain.analysis(0).visits
    winning = move.actions == 2
    assert len(move.actions) == len(unforced) == 5
    assert np.all(move.visits[~winning] > unforced[~winning])
    kept = move.target / TARGET_UNIT
    assert kept[winning] > move.visits[winning] / 200
    np.testing.assert_allclose(kept, unforced / 200, atol=0.02)


def test_targets_without_forced_playouts_are_the_visits():
    settings = SearchSettings(simulations=20, prune_targets=False, forced_playouts=2.0, prove_values=False)
    for played in played_games(settings, games=2):
        assert all(len(move.target) == 0 for move in played.searched)


def test_taken_games_are_copies():
    block = SearchBlock(TIC_TAC_TOE, SearchSettings(simulations=10), slots=1)
    texts = []
    for seed in (0, 1):
        block.begin(0, seed=seed, versions=[1, 1])
        drive(block)
        played = block.take(0)
        texts.append((played, played.moves.copy(), [move.visits.copy() for move in played.searched]))
    for played, moves, visits in texts:
        np.testing.assert_array_equal(played.moves, moves)
        for move, before in zip(played.searched, visits, strict=True):
            np.testing.assert_array_equal(move.visits, before)


def test_counters_count_simulations_and_moves():
    block = SearchBlock(TIC_TAC_TOE, SearchSettings(simulations=10, reuse_subtree=False, prove_values=False), slots=2)
    rows = 0
    for slot in range(2):
        block.begin(slot, seed=slot, versions=[1, 1])
    while len((leaves := block.advance()).batch):
        rows += len(leaves.batch)
        block.absorb(*answer_uniform(leaves, 2))
    played = [block.take(slot) for slot in range(2)]
    searched = sum(len(game.searched) for game in played)
    assert block.counters.moves == sum(len(game.moves) for game in played)
    assert block.counters.simulations == searched * 11  # the root's own evaluation is one
    assert rows <= block.counters.simulations
    assert block.counters.cache_hits == 0
    assert len(block) == 2
    assert block.nbytes > 1000
    assert new_state(TIC_TAC_TOE).sum() == 0

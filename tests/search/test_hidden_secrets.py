"""No action is chosen with knowledge the player does not have: what is hidden may be anything, the search stays the same."""

import numpy as np
import pytest
from hidden_bench import MODES, THREE, answer, compiled_tree, search, searched
from search_bench import difference
from toys.coin import Coin
from toys.sealed_bids import hand_at

from games import core
from games.conformance import check_game
from games.positions import encode_for, legal, new_state, replay
from zerofleet.search import SearchBlock, SearchSettings

BUDGET = 60


@pytest.mark.parametrize("game", [THREE, Coin(), Coin(in_sight=True)], ids=str)
def test_the_toys_conform_to_the_game_contract(game):
    check_game(game, games=15)


def without_states(tree):
    """A tree without its positions: those hold whatever was dealt."""
    edges = [{**edge, "children": [without_states(child) for child in edge["children"]]} for edge in tree["edges"]]
    return {name: part for name, part in tree.items() if name != "state"} | {"edges": edges}


def search_in(game, settings, states, *, opening, seed):
    """Return a block that searches positions of the same view in place of the one after the opening."""
    block = SearchBlock(game, settings, slots=len(states))
    for slot, state in enumerate(states):
        block.begin(slot, seed=seed, versions=[1] * game.players, opening=opening, hold=True)
        block._arena.states[slot, 0] = state
    search(block)
    return block


def assert_all_alike(block):
    first = without_states(compiled_tree(block, 0))
    for slot in range(1, len(block)):
        assert difference(first, without_states(compiled_tree(block, slot))) is None
    picked = {int(block.analysis(slot).principal_variation[0]) for slot in range(len(block))}
    assert len(picked) == 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rounds", [0, 1])
def test_swapped_hands_give_the_same_visits(mode, rounds):
    start, opening = new_state(THREE, seed=4), []
    for _ in range(rounds * THREE.players):
        opening.append(legal(THREE, start)[-1])
        core.play(THREE, start, opening[-1])
    viewer = core.to_move(THREE, start)
    others = [seat for seat in range(THREE.players) if seat != viewer]
    swapped = start.copy()
    swapped[[hand_at(THREE, seat) for seat in others]] = start[[hand_at(THREE, seat) for seat in reversed(others)]]
    dealt = []
    for seed in range(4):
        dealt.append(np.zeros_like(start))
        core.determinise(THREE, start, viewer, seed, dealt[-1])
    assert len({state.tobytes() for state in [start, swapped, *dealt]}) > 4
    assert len({encode_for(THREE, state, viewer).tobytes() for state in [start, swapped, *dealt]}) == 1
    settings = SearchSettings(simulations=BUDGET, information=mode)
    assert_all_alike(search_in(THREE, settings, [start, swapped, *dealt], opening=opening, seed=4))


@pytest.mark.parametrize("mode", MODES)
def test_secret_choices_of_the_same_round_give_the_same_visits_and_the_same_move(mode):
    hand = legal(THREE, new_state(THREE, seed=9))
    settings = SearchSettings(simulations=BUDGET, information=mode)
    block = searched(THREE, settings, [[card] for card in hand], seed=9)
    assert_all_alike(block)
    others = legal(THREE, replay(THREE, hand[:1], seed=9))
    assert_all_alike(searched(THREE, settings, [[card, other] for card in hand for other in others], seed=9))


@pytest.mark.parametrize("mode", MODES)
def test_sampled_moves_do_not_depend_on_hidden_hands(mode):
    moves = []
    settings = SearchSettings(simulations=20, information=mode, temperature_end=1.0)
    for deal in range(3):
        block = SearchBlock(THREE, settings, slots=1)
        block.begin(0, seed=8, versions=[1, 1, 1])
        truth = block.state(0)
        core.determinise(THREE, truth, core.to_move(THREE, truth), deal, block._arena.states[0, 0])
        assert not np.array_equal(truth, block.state(0))
        search(block)
        moves.append(block.take(0).moves[0])
    assert len(set(moves)) == 1


@pytest.mark.parametrize("mode", MODES)
def test_a_game_depends_on_its_seed_and_not_on_other_slots(mode):
    settings = SearchSettings(simulations=16, information=mode, dirichlet_alpha=0.5)

    def games(seeds, slots):
        block = SearchBlock(THREE, settings, slots=slots)
        waiting, found = list(seeds), {}
        while waiting or block.searching():
            for slot in block.idle():
                if waiting:
                    block.begin(slot, seed=waiting[0], versions=[1, 2, 3], tag=waiting.pop(0))
            search(block)
            for slot in block.finished():
                played = block.take(slot)
                found[played.tag] = (played.moves.tolist(), [move.visits.tolist() for move in played.searched])
        return found

    together = games(range(12), 5)
    assert together == games(reversed(range(12)), 3) == games(range(12), 12)
    assert together[7] == games([7], 1)[7]
    assert len({str(game) for game in together.values()}) > 6


@pytest.mark.parametrize("mode", MODES)
def test_an_abandoned_search_leaves_nothing_behind(mode):
    settings = SearchSettings(simulations=16, information=mode)
    block, fresh = (SearchBlock(THREE, settings, slots=2) for _ in range(2))
    for rounds in range(1, 8):
        for slot in block.idle():
            block.begin(slot, seed=rounds + slot, versions=[1, 1, 1])
        for _ in range(rounds):
            block.absorb(*answer(block.advance(), THREE))
        block.abandon(0)
        block.begin(0, seed=100, versions=[1, 1, 1])
        search(block)
        fresh.begin(0, seed=100, versions=[1, 1, 1])
        search(fresh)
        assert block.take(0).moves.tolist() == fresh.take(0).moves.tolist()
        block.take(1)


def test_nodes_of_a_view_have_the_same_legal_actions_in_every_determinisation():
    """The view decides the legal actions, so every visit of a node finds every one of its edges."""
    for seed in range(20):
        state = new_state(THREE, seed=seed)
        rng = np.random.default_rng(seed)
        while not core.is_over(THREE, state):
            viewer = core.to_move(THREE, state)
            deal = np.zeros_like(state)
            for other in range(5):
                core.determinise(THREE, state, viewer, other, deal)
                assert legal(THREE, deal) == legal(THREE, state)
            core.play(THREE, state, int(rng.choice(legal(THREE, state))))


@pytest.mark.parametrize("mode", MODES)
def test_the_visits_of_a_node_are_those_of_its_edges(mode):
    block = searched(THREE, SearchSettings(simulations=300, information=mode), [()], seed=5)

    def check(node):
        if node["edges"]:
            assert node["visits"] == 1 + sum(edge["visits"] for edge in node["edges"])
        for edge in node["edges"]:
            assert sum(child["visits"] for child in edge["children"]) <= edge["visits"]
            for child in edge["children"]:
                assert child["to_move"] == node["to_move"]
                check(child)

    check(compiled_tree(block, 0))

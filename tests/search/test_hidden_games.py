"""Search with hidden information in the games that need it: Take 6! and rock paper scissors."""

import numpy as np
import pytest
from hidden_bench import MODES, compiled_tree, reference, reference_tree, search, searched
from search_bench import difference

import games
from games import core
from games.positions import encode_for, legal, new_state
from games.take_six import TakeSix
from games.take_six import cards as take_six_cards
from games.take_six.rules import deck_of
from games.take_six.table import SEEN, hand
from zerofleet.evaluators.uniform import uniform_answer
from zerofleet.search import SearchBlock, SearchSettings

TABLES = [
    TakeSix(),
    TakeSix(players=2, cards=40, rows=3, row_choice="after", encoding="document"),
    TakeSix(cards=61, rows=3, row_choice="needed", first_card=0),
]
ROCK, PAPER, SCISSORS = range(3)


def opening_of(game, seed, plies):
    """Random moves, and the position after them."""
    rng, state, moves = np.random.default_rng(seed), new_state(game, seed=seed), []
    for _ in range(plies):
        moves.append(int(rng.choice(legal(game, state))))
        core.play(game, state, moves[-1])
    return moves, state


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("game", TABLES, ids=lambda game: game.row_choice)
def test_trees_equal_the_reference(mode, game):
    for plies in (0, game.players + 1, 6 * game.players, 9 * game.players - 1):
        opening, _ = opening_of(game, plies, plies)
        settings = SearchSettings(simulations=60, information=mode, dirichlet_alpha=0.5)
        plain = reference(game, settings, seed=plies, versions=[1] * game.players, opening=opening)
        plain.search()
        block = searched(game, settings, [opening], seed=plies)
        found = difference(compiled_tree(block, 0), reference_tree(plain, plain.root))
        assert found is None, f"{plies} plies: compiled != reference: {found}"


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("game", TABLES, ids=lambda game: game.row_choice)
def test_hidden_hands_and_cards_in_play_change_nothing(mode, game):
    for plies in (game.players, 2 * game.players + 1, 5 * game.players + game.players - 1):
        opening, state = opening_of(game, plies, plies)
        viewer = core.to_move(game, state)
        positions = [state]
        for seed in range(3):
            deal = np.zeros_like(state)
            core.determinise(game, state, viewer, seed, deal)
            positions.append(deal)
        swapped = state.copy()
        others = [seat for seat in range(game.players) if seat != viewer]
        for word in range(2):
            places = [hand(deck_of(game), seat) + word for seat in others]
            swapped[places] = state[places[::-1]]
        assert len({encode_for(game, position, viewer).tobytes() for position in positions}) == 1
        block = SearchBlock(game, SearchSettings(simulations=40, information=mode), slots=len(positions) + 1)
        for slot, position in enumerate([*positions, swapped]):
            block.begin(slot, seed=plies, versions=[1] * game.players, opening=opening, hold=True)
            block._arena.states[slot, 0] = position
        search(block)
        analyses = [block.analysis(slot) for slot in range(len(block))]
        assert len({analysis.visits.tobytes() for analysis in analyses}) == 1
        assert len({analysis.principal_variation for analysis in analyses}) == 1
        assert len({analysis.value.tobytes() for analysis in analyses}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("game", TABLES, ids=lambda game: game.row_choice)
def test_whole_games_are_played(mode, game):
    block = SearchBlock(game, SearchSettings(simulations=16, information=mode), slots=3)
    for slot in range(3):
        block.begin(slot, seed=slot, versions=[1] * game.players)
    asked = search(block)
    for slot in range(3):
        played = block.take(slot)
        assert sorted(played.scores)[-1] in (0.0, 1.0)
        assert all(move.visits.sum() == 16 for move in played.searched)
    if mode == "predict":
        assert asked <= block.counters.simulations


@pytest.mark.slow
def test_predicted_cards_are_distinct_and_unseen():
    game = TABLES[0]
    block = searched(game, SearchSettings(simulations=100, information="predict"), [()], seed=2)
    nodes = block._arena.nodes[0, : int(block._arena.slots[0]["nodes"])]
    own = {int(action) // game.rows for action in block.analysis(0).actions}
    lying = {card for card in range(game.cards) if take_six_cards.has(block.state(0), SEEN, card)}
    assert len(own | lying) == 14
    for index in np.flatnonzero(nodes["edge_count"]):
        cards = set((block._worlds.plays[0, index] // game.rows).tolist())
        assert len(cards) == 2
        assert not (own | lying) & cards


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("expected", "answer"), [(ROCK, PAPER), (PAPER, SCISSORS), (SCISSORS, ROCK)])
@pytest.mark.slow
def test_a_predicted_choice_is_countered(mode, expected, answer):
    game = games.make("rock_paper_scissors", turns=1)
    settings = SearchSettings(simulations=100, information=mode, dirichlet_fraction=0.0, temperature=0.0)
    block = SearchBlock(game, settings, slots=1)
    block.begin(0, seed=1, versions=[1, 2], hold=True)
    while len((leaves := block.advance()).batch):
        policy, value, heads = uniform_answer(leaves.batch, game.spec())
        policy[leaves.versions == 2] = 0.8 * np.eye(3)[expected]
        block.absorb(policy, value, tuple(np.eye(3)[[expected] * len(head)] for head in heads))
    analysis = block.analysis(0)
    assert analysis.principal_variation == (answer,)
    loses = ({ROCK, PAPER, SCISSORS} - {expected, answer}).pop()
    np.testing.assert_array_equal(analysis.values[[expected, answer, loses]], [0.0, 1.0, -1.0])

"""A root that is kept from the search of the move before, proven there, and searched no further."""

import pytest
from search_bench import TIC_TAC_TOE, answer_uniform, drive, random_positions

from games import core
from games.positions import replay
from games.tic_tac_toe import TicTacToe
from zerofleet.contracts.played import TARGET_UNIT
from zerofleet.search import SearchBlock, SearchSettings


class PlainTicTacToe(TicTacToe):
    """Tic-tac-toe without the rule `may_end`, as a game of one's own may be: the search looks ahead at roots alone."""


for _name, _rules in core._RULES.items():
    if TicTacToe in _rules and _name != "may_end":
        _rules[PlainTicTacToe] = _rules[TicTacToe]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_root_proven_from_below_is_played_and_recorded_though_its_move_has_no_budget(temperature):
    """After a reply that loses by force, the kept root is proven and none of its edges is marked as winning."""
    game = PlainTicTacToe()
    settings = SearchSettings(
        simulations=30,
        fast_simulations=0,
        full_search_share=0.5,
        dirichlet_fraction=0.0,
        temperature=temperature,
        temperature_end=temperature,
    )
    openings = [moves for moves, _ in random_positions(TIC_TAC_TOE, seed=1, games_count=400) if len(moves) == 4]
    block = SearchBlock(game, settings, slots=len(openings))
    for slot, opening in enumerate(openings):
        block.begin(slot, seed=slot, versions=[1, 1], opening=opening)
    drive(block, answer_uniform)
    assert len(block.finished()) == len(openings)
    for slot in block.finished():
        played = block.take(slot)
        replay(game, [int(move) for move in played.moves])  # raises for an illegal move
        for move in played.searched:
            assert move.visits.sum() or abs(int(move.target.sum()) - TARGET_UNIT) <= len(move.target)

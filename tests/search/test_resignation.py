"""Resignation: when both the root and the best move look lost, except in control games, which are played on."""

import pytest
from search_bench import CONNECT_FOUR, TIC_TAC_TOE, answer_hashed, answer_seat_loses, answer_uniform, drive

from zerofleet.contracts.played import FULL_SEARCH, REDUCED, WOULD_RESIGN
from zerofleet.search import SearchBlock, SearchSettings

RESIGNING = SearchSettings(simulations=12, resign_threshold=-0.7, resign_control_share=0.0)


def played_games(settings, answer, *, games=1, game=CONNECT_FOUR, opening=()):
    block = SearchBlock(game, settings, slots=games)
    for slot in range(games):
        block.begin(slot, seed=slot, versions=[1, 1], opening=opening)
    drive(block, answer)
    return [block.take(slot) for slot in range(games)]


@pytest.mark.parametrize("seat", [0, 1])
def test_the_seat_that_has_lost_resigns_at_its_first_move(seat):
    (played,) = played_games(RESIGNING, lambda leaves, players: answer_seat_loses(leaves, players, seat=seat))
    assert played.resigned_seat == seat
    assert played.scores == ((-1.0, 1.0) if seat == 0 else (1.0, -1.0))
    assert len(played.moves) == seat  # the move it would have made is not in the game
    assert [move.ply for move in played.searched] == list(range(seat))
    assert not played.resignation_control


def test_control_games_continue_and_record_would_be_resignations():
    settings = RESIGNING.model_copy(update={"resign_control_share": 1.0})
    (played,) = played_games(settings, answer_seat_loses)
    assert played.resignation_control
    assert played.resigned_seat is None
    assert len(played.moves) >= 7
    early = [move for move in played.searched if move.ply < 4]
    assert [move.flags for move in early] == [FULL_SEARCH | WOULD_RESIGN, FULL_SEARCH] * 2


def test_the_share_of_control_games_matches_the_setting():
    settings = SearchSettings(simulations=1, resign_control_share=0.3)
    games = played_games(settings, answer_uniform, games=400, game=TIC_TAC_TOE, opening=(4,))
    assert 0.22 < sum(played.resignation_control for played in games) / 400 < 0.38  # 3.5 standard errors


def test_threshold_minus_one_never_resigns():
    def answer_hopeless(leaves, players):
        policy, value = answer_seat_loses(leaves, players)
        return policy, value / 0.9

    settings = RESIGNING.model_copy(update={"resign_threshold": -1.0})
    (played,) = played_games(settings, answer_hopeless)
    assert played.resigned_seat is None
    assert not any(move.flags & WOULD_RESIGN for move in played.searched)


def test_the_threshold_of_a_running_block_can_change():
    block = SearchBlock(CONNECT_FOUR, RESIGNING, slots=1)
    block.set_resign_threshold(-0.95)
    block.begin(0, seed=0, versions=[1, 1])
    block.absorb(*answer_seat_loses(block.advance(), 2))
    while len(block.moves(0)) < 3:
        block.absorb(*answer_seat_loses(block.advance(), 2))
    block.set_resign_threshold(-0.7)
    drive(block, answer_seat_loses)
    played = block.take(0)
    assert played.resigned_seat == 0
    assert len(played.moves) == 4


def test_a_bad_root_with_a_good_move_does_not_resign():
    """The network thinks the first position lost, yet the best move leads to one it likes."""

    def answer(leaves, players):
        policy, value = answer_uniform(leaves, players)
        value[:] = (-1.0, 1.0)  # whoever is to move has lost: so every move of mine wins
        return policy, value

    (played,) = played_games(RESIGNING.model_copy(update={"simulations": 2}), answer, game=TIC_TAC_TOE)
    assert played.resigned_seat is None


def test_a_resignation_leaves_earlier_moves_unchanged():
    settings = SearchSettings(simulations=20, resign_threshold=-0.35, resign_control_share=0.0)
    resigned = [p for p in played_games(settings, answer_hashed, games=30) if p.resigned_seat is not None]
    full = played_games(settings.model_copy(update={"resign_threshold": -1.0}), answer_hashed, games=30)
    assert len(resigned) > 5
    for played in resigned:
        whole = next(other for other in full if other.seed == played.seed)
        assert whole.moves[: len(played.moves)].tolist() == played.moves.tolist()
        assert played.resigned_seat == len(played.moves) % 2
        assert not any(move.flags & WOULD_RESIGN for move in played.searched)


# Without proofs, which end searches early and are targets whatever the budget.
SOFT = RESIGNING.model_copy(update={"resignation": "soft", "fast_simulations": 3, "prove_values": False})


def test_a_soft_resignation_plays_on_with_reduced_searches_to_the_result():
    (played,) = played_games(SOFT, answer_seat_loses)
    assert played.resigned_seat is None
    assert len(played.moves) >= 7  # no win of Connect Four is shorter
    first, *later = played.searched
    assert first.flags == FULL_SEARCH | WOULD_RESIGN
    assert first.visits.sum() == RESIGNING.simulations
    assert all(move.flags & REDUCED and move.flags & FULL_SEARCH for move in later)
    reused = played_games(SOFT.model_copy(update={"reuse_subtree": False}), answer_seat_loses)[0]
    assert {int(move.visits.sum()) for move in reused.searched[1:]} == {3}


def test_control_games_are_not_reduced_by_a_soft_resignation():
    (played,) = played_games(SOFT.model_copy(update={"resign_control_share": 1.0}), answer_seat_loses)
    assert any(move.flags & WOULD_RESIGN for move in played.searched)
    assert not any(move.flags & REDUCED for move in played.searched)


def test_reduced_moves_are_policy_targets_as_often_as_others():
    settings = SOFT.model_copy(update={"full_search_share": 0.25, "reuse_subtree": False})
    reduced = [move for game in played_games(settings, answer_seat_loses, games=60) for move in game.searched[1:]]
    share = sum(bool(move.flags & FULL_SEARCH) for move in reduced) / len(reduced)
    assert abs(share - 0.25) < 3.5 * (0.25 * 0.75 / len(reduced)) ** 0.5
    assert {int(move.visits.sum()) for move in reduced if move.flags & REDUCED} == {3}


def test_a_slot_does_not_stay_reduced_for_its_next_game():
    block = SearchBlock(CONNECT_FOUR, SOFT, slots=1)
    block.begin(0, seed=0, versions=[1, 1])
    drive(block, answer_seat_loses)
    block.take(0)
    block.begin(0, seed=1, versions=[1, 1])
    drive(block, answer_uniform)
    assert not any(move.flags & REDUCED for move in block.take(0).searched)


def test_soft_resignation_needs_a_fast_search_no_slower_than_a_full_one():
    with pytest.raises(ValueError, match=r"fast_simulations=20 exceeds simulations=8; .* resignation=end"):
        SearchSettings(simulations=8, resignation="soft")

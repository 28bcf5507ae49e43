from dataclasses import replace
from unittest.mock import Mock, patch

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from games import positions
from games.core import make
from zerofleet.errors import InvalidRequest, RecordRejected
from zerofleet.strength.matches import (
    FixedGames,
    GameResult,
    MatchTerms,
    Opening,
    Player,
    Scoreboard,
    SeatTally,
    SequentialTest,
    ShareOfPoints,
    Standing,
    decide,
    points,
    seatings,
)
from zerofleet.strength.matches.scoreboard import DRAW_TOLERANCE
from zerofleet.strength.ratings import Sprt


@pytest.fixture
def board(terms):
    return Scoreboard(terms())


@pytest.fixture
def results(board, random_result):
    return [random_result(pairing) for pairing in list(board.open_pairings())]


def test_each_opening_is_played_once_from_each_side(board):
    pairings = list(board.open_pairings())
    assert [(p.group, p.seating) for p in pairings[:4]] == [(0, (0, 1)), (0, (1, 0)), (1, (0, 1)), (1, (1, 0))]
    assert len(pairings) == 16
    assert len({p.opening.moves for p in pairings}) == 8
    assert len({p.seed for p in pairings}) == 16
    assert [player.name for player in pairings[1].players] == ["model:2", "model:1"]


def test_the_standing_counts_wins_draws_and_losses_by_seat(board, results):
    for result in results:
        assert board.record(result)
    standing = board.standing()
    by_hand = [points(r.seating, r.scores) for r in results]
    assert standing.share == pytest.approx(sum(by_hand) / 16)
    assert (standing.groups, standing.games) == (8, 16)
    assert [tally.games for tally in standing.seats.values()] == [8, 8]
    assert standing.total.wins == sum(share == 1.0 for share in by_hand)
    assert standing.total.draws == sum(share == 0.5 for share in by_hand)
    assert sum(standing.pentanomial) == 8
    assert board.exhausted


def counted_again(board, groups):
    """Return the standing after a number of groups, counted from their results."""
    results, size = board.counted_results(groups), board.terms.games_per_group
    seats = {seating: SeatTally() for seating in board.terms.seatings}
    for result in results:
        best = [player for player, score in zip(result.seating, result.scores, strict=True) if score >= 1.0 - DRAW_TOLERANCE]
        full = 0 if not best else 1 if 0 in best else -1
        seats[result.seating].add(points(result.seating, result.scores), full)
    shares = [points(result.seating, result.scores) for result in results]
    return Standing(tuple(sum(shares[first : first + size]) / size for first in range(0, len(shares), size)), seats)


@given(st.integers(2, 3), st.data())
def test_the_standing_after_each_number_of_groups_is_that_of_their_results_to_the_last_bit(seats, data):
    game = make("tic_tac_toe") if seats == 2 else make("take_six", players=3)
    players = (Player.model(1), Player.model(2))
    board = Scoreboard(MatchTerms("m", game, players, seed=7, opening_plies=2, max_groups=6))
    pairings = data.draw(st.permutations(list(board.open_pairings())))
    score = st.floats(-1.0, 1.0, width=32)
    for pairing in pairings[: data.draw(st.integers(0, len(pairings)))]:
        names = tuple(player.name for player in pairing.players)
        scores = tuple(data.draw(st.lists(score, min_size=seats, max_size=seats)))
        board.restore(GameResult("m", pairing.group, pairing.seating, names, (), scores))
        assert board.standing() == counted_again(board, None)
    for groups in range(board.groups + 1):
        assert board.standing(groups) == counted_again(board, groups)


def test_a_change_of_a_standing_leaves_later_ones_as_they_are(board, results):
    for result in results:
        board.record(result)
    before = board.standing()
    next(iter(board.standing().seats.values())).add(1.0, 1)
    assert board.standing() == before


def test_a_game_is_counted_once_however_often_a_rule_is_applied(board, results):
    with patch.object(SeatTally, "add", autospec=True, side_effect=SeatTally.add) as counted:
        for result in results:
            board.record(result)
            assert (decide(board, FixedGames()) is None) is not board.exhausted
    assert counted.call_count == len(results)


def test_a_duplicate_changes_nothing(board, results):
    board.record(results[0])
    board.record(results[1])
    before = board.standing()
    for _ in range(100):
        assert not board.record(results[0])
    assert board.standing() == before
    assert (board.duplicates, board.refused) == (100, 0)


def test_another_result_for_a_game_that_has_one_is_refused(board, results, random_result):
    board.record(results[0])
    pairing = next(p for p in Scoreboard(board.terms).open_pairings() if (p.group, p.seating) == (0, (0, 1)))
    other = next(r for seed in range(50) if (r := random_result(pairing, seed + 1)).moves != results[0].moves)
    refuse(board, other, "conflict")
    assert board.results() == [results[0]]


def test_a_result_after_the_end_is_refused(board, results):
    board.close()
    refuse(board, results[0], "finished_match")


def test_a_result_of_another_match_is_refused(board, results):
    refuse(board, replace(results[0], match_id="m0"), "foreign_match")


@pytest.mark.parametrize("group", [-1, 8, 1 << 40])
def test_a_result_of_a_group_that_was_never_drawn_is_refused(board, results, group):
    refuse(board, replace(results[0], group=group), "unknown_group")


def test_colours_that_were_not_swapped_are_refused(board, results):
    assert results[1].seating == (1, 0)
    refuse(board, replace(results[1], players=("model:1", "model:2")), "wrong_seats")
    refuse(board, replace(results[1], seating=(0, 0)), "unknown_seating")


def test_a_version_that_was_not_to_play_is_refused(board, results):
    refuse(board, replace(results[0], players=("model:1", "model:9")), "wrong_seats")


def test_a_game_from_another_opening_is_refused(board, results):
    refuse(board, replace(results[0], moves=results[2].moves, scores=results[2].scores), "wrong_opening")


def test_a_score_the_rules_do_not_give_is_refused(board, results):
    flipped = next(r for r in results if r.scores[0] != 0)
    refuse(board, replace(flipped, scores=tuple(-s for s in flipped.scores)), "wrong_result")
    refuse(board, replace(flipped, scores=(0.0, 0.0)), "wrong_result")
    refuse(board, replace(flipped, scores=(0.0, 0.0, 0.0)), "wrong_result")


def test_a_game_that_was_cut_short_or_broke_the_rules_is_refused(board, results):
    refuse(board, replace(results[0], moves=results[0].moves[:-1]), "illegal_game")
    refuse(board, replace(results[0], moves=(*results[0].moves[:-1], results[0].moves[0])), "illegal_game")


def refuse(board, result, reason):
    before, refused = board.standing(), board.refused
    with pytest.raises(RecordRejected) as caught:
        board.record(result)
    assert caught.value.reason == reason
    assert board.standing() == before
    assert board.refused == refused + 1


def test_a_player_cannot_meet_itself(terms):
    with pytest.raises(InvalidRequest, match="cannot play itself"):
        terms(first=3, second=3)


def test_a_match_without_games_is_refused(terms):
    with pytest.raises(InvalidRequest, match="at least one group"):
        terms(max_groups=0)


def test_given_openings_are_used_in_their_order_and_may_not_repeat_a_position(terms):
    openings = (Opening(0, (0, 1, 2)), Opening(0, (3,)))
    board = Scoreboard(terms(given_openings=openings))
    assert [p.opening for p in board.open_pairings()] == [openings[0]] * 2 + [openings[1]] * 2
    with pytest.raises(InvalidRequest, match="same position"):
        terms(given_openings=(Opening(0, (0, 1, 2)), Opening(1, (2, 1, 0))))


def test_deterministic_players_run_out_of_openings_and_others_do_not(terms):
    assert len(list(terms(opening_plies=1, max_groups=50).openings())) == 9
    assert len(list(terms(second="random", opening_plies=1, max_groups=50).openings())) == 50


def test_openings_that_all_end_the_game_are_rejected(terms):
    with pytest.raises(InvalidRequest, match="use fewer plies"):
        list(terms(second="random", opening_plies=9).openings())


def test_a_match_whose_openings_all_end_the_game_is_not_exhausted_and_no_rule_decides_it(terms):
    board = Scoreboard(terms(opening_plies=9))
    for rule in (FixedGames(), ShareOfPoints(0.55, 8), SequentialTest(Sprt(0.0, 100.0))):
        with pytest.raises(InvalidRequest, match="use fewer plies"):
            decide(board, rule)


def test_a_failed_draw_is_repeated_from_the_same_group(terms, monkeypatch):
    wanted, board = list(terms().openings()), Scoreboard(terms())
    assert board.opening(0) == wanted[0]
    monkeypatch.setattr("zerofleet.strength.matches.openings.position_key", Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        board.opening(1)
    monkeypatch.undo()
    assert [board.opening(group) for group in range(8)] == wanted


def test_no_rule_decides_a_match_without_an_opening(terms):
    with pytest.raises(InvalidRequest, match="has no opening"):
        decide(Scoreboard(terms(given_openings=())), FixedGames())


def test_groups_count_in_the_order_they_began(board, results):
    for result in results[2:]:
        board.record(result)
    assert board.standing().groups == 0
    board.record(results[1])
    assert board.standing().groups == 0
    board.record(results[0])
    assert board.standing().groups == 8


def test_results_can_be_recorded_on_a_new_board(board, results):
    for result in results[:5]:
        board.record(result)
    fresh = Scoreboard(board.terms)
    for result in board.results():
        fresh.record(result)
    assert fresh.standing() == board.standing()
    assert len(list(fresh.open_pairings())) == 11


@hypothesis_settings(max_examples=30, deadline=None)
@given(order=st.permutations(range(8)), copies=st.lists(st.integers(0, 7), max_size=6))
def test_neither_order_nor_copies_change_the_standing(order, copies):
    terms, results = four_groups()
    straight, shuffled = Scoreboard(terms), Scoreboard(terms)
    for result in results:
        straight.record(result)
    for index in [*order[:4], *(c for c in copies if c in order[:4]), *order[4:], *copies]:
        shuffled.record(results[index])
    assert shuffled.standing() == straight.standing()


def four_groups():
    game = make("tic_tac_toe")
    terms = MatchTerms("m1", game, (Player.model(1), Player.model(2)), seed=7, opening_plies=2, max_groups=4)
    results = []
    for pairing in Scoreboard(terms).open_pairings():
        moves = list(pairing.opening.moves)
        state = positions.replay(game, moves)
        while legal := positions.legal(game, state):
            moves.append(legal[pairing.seed % len(legal)])
            positions.advance(game, state, moves[-1])
        names = tuple(player.name for player in pairing.players)
        scores = positions.final_scores(game, state)
        results.append(GameResult("m1", pairing.group, pairing.seating, names, tuple(moves), scores))
    return terms, results


def test_two_players_have_six_seatings_of_three_seats_with_balanced_points():
    assert seatings(3) == ((0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1), (1, 1, 0))
    scores = (1.0, -0.5, -0.5)
    total = sum(points(seating, scores) for seating in seatings(3))
    assert total == pytest.approx(3.0)
    assert points((0, 1, 1), scores) == pytest.approx(0.875)
    assert points((0, 1), (1.0, -1.0)) == 1.0
    assert points((1, 0), (0.0, 0.0)) == 0.5


def test_an_empty_standing_has_a_share_of_one_half():
    standing = Standing(())
    assert (standing.share, standing.interval, standing.games) == (0.5, (0.0, 1.0), 0)


@pytest.mark.parametrize("change", [{"scores": (1.0,)}, {"scores": (0.0, 0.0, 0.0)}, {"seating": (0, 0)}, {"seating": ()}])
def test_a_stored_result_of_another_number_of_seats_is_refused(board, results, change):
    with pytest.raises(RecordRejected, match="seating"):
        board.restore(replace(results[0], **change))
    board.restore(results[0])
    assert board.results() == [results[0]]


@pytest.mark.parametrize("change", [{"players": ("random", "random")}, {"players": ()}, {"scores": (9.0, -9.0)}])
def test_a_stored_result_of_other_players_or_with_impossible_scores_is_refused(board, results, change):
    with pytest.raises(RecordRejected):
        board.restore(replace(results[0], **change))
    assert board.results() == []

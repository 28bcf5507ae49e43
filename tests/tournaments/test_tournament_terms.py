import pytest

from zerofleet.errors import InvalidRequest
from zerofleet.strength.matches import Opening


def test_every_pair_of_players_meets_from_the_same_openings(terms):
    meetings = terms().meetings
    assert [meeting.match_id for meeting in meetings] == [
        "random / alpha_beta:1",
        "random / alpha_beta:2",
        "alpha_beta:1 / alpha_beta:2",
    ]
    openings = [tuple(meeting.openings()) for meeting in meetings]
    assert len(openings[0]) == 4
    assert openings[0] == openings[1] == openings[2]
    assert len({meeting.seed for meeting in meetings}) == 3


def test_other_participants_do_not_change_a_meeting(terms):
    alone, among = terms("random", "alpha_beta:1"), terms("greedy", "random", "alpha_beta:1", "perfect")
    (meeting,) = alone.meetings
    assert meeting in among.meetings


def test_models_meet_in_different_openings_only_and_agents_also_in_repeated_ones(terms):
    groups = {meeting.match_id: meeting.max_groups for meeting in terms("model:1", "model:2", "random", games=60).meetings}
    assert groups == {"model:1 / model:2": 9, "model:1 / random": 30, "model:2 / random": 30}


def test_a_tournament_uses_the_given_openings(terms):
    given = (Opening(0, (4,)), Opening(1, (0,)))
    meeting = terms(given_openings=given).meetings[0]
    assert tuple(meeting.openings()) == given


def test_each_player_of_a_table_has_a_seat_in_every_seating(terms):
    chosen = terms("random", "greedy", "max_n:1", "initialize", game="chinese_checkers_star37", tables=True)
    assert len(chosen.meetings) == 4
    assert all(meeting.games_per_group == 6 for meeting in chosen.meetings)
    assert sorted(chosen.meetings[0].seatings) == [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]


def test_duplicate_or_too_few_players_are_rejected(terms):
    with pytest.raises(InvalidRequest, match="random would play twice"):
        terms("random", "perfect", "random")
    with pytest.raises(InvalidRequest, match="needs 2 players, got random"):
        terms("random")
    with pytest.raises(InvalidRequest, match="needs 3 players"):
        terms("random", "greedy", game="chinese_checkers_star37", tables=True)


def test_the_terms_name_the_search_of_the_models_where_it_is_not_that_of_every_match(terms):
    assert terms(search="u=literal").said()["search"] == "u=literal"
    assert "search" not in terms().said()  # as in tournaments begun before the option

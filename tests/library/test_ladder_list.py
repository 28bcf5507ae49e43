"""Ladder of a run: ratings that have an anchor, and the games of each player."""

from __future__ import annotations

from zerofleet.contracts.promotions import Champion, Rung
from zerofleet.library.ladder_list import ladder_of
from zerofleet.strength.ratings import Placement, Tally

ANCHOR = Rung("random", 0.0, 0.0, 0.0, 20, anchored=True)
RATED = Rung("model:2", 190.0, 40.0, 340.0, 28, anchored=True)
UNKNOWN = Rung("model:3", 489.0, -1500.0, 2480.0, 8, anchored=False)
HISTORY = [Champion("tic_tac_toe", version, version, "0" * 64, 1_795_399_200_000 * (version == 2), "") for version in (2, 3)]


def test_a_rating_that_no_games_against_rungs_anchor_is_no_number() -> None:
    found = ladder_of([RATED, ANCHOR, UNKNOWN], [], HISTORY)
    assert [(one.name, one.elo, one.elo_low) for one in found.players] == [
        ("model:2", 190.0, 40.0),
        ("random", 0.0, 0.0),
        ("model:3", None, None),
    ]
    assert found.is_anchored
    assert not ladder_of([ANCHOR, UNKNOWN], [], HISTORY).is_anchored


def test_the_champion_is_marked_and_promotions_have_a_time_where_it_is_known() -> None:
    rated, _, champion = ladder_of([RATED, ANCHOR, UNKNOWN], [], HISTORY).players
    assert (rated.is_champion, champion.is_champion) == (False, True)
    assert rated.promoted_at is not None
    assert champion.promoted_at is None


def test_games_of_two_players_add_up_to_a_share_for_each() -> None:
    results = [Tally("model:2", "random", 15.0, 20), Tally("random", "model:2", 1.0, 4)]
    rated, anchor = ladder_of([RATED, ANCHOR], results, HISTORY).players
    (own,), (other,) = rated.meetings, anchor.meetings
    assert (own.opponent, own.games, own.share) == ("random", 24, 0.75)
    assert (other.opponent, other.games, other.share) == ("model:2", 24, 0.25)


def test_games_of_more_players_are_counted_without_a_share() -> None:
    results = [Placement(("model:2", "random", "random"), (0, 1, 2), 6)]
    rated, _ = ladder_of([RATED, ANCHOR], results, HISTORY).players
    assert [(one.opponent, one.games, one.share) for one in rated.meetings] == [("random", 6, None)]


def test_a_player_without_rated_games_is_left_out() -> None:
    assert ladder_of([Rung("random", 0.0, 0.0, 0.0, 0, anchored=True)], [], []).players == ()


def test_games_with_a_version_that_has_no_standing_any_more_are_left_out() -> None:
    results = [Tally("model:2", "random", 15.0, 20), Tally("model:1", "random", 5.0, 20)]
    _, anchor = ladder_of([RATED, ANCHOR], results, HISTORY).players
    assert [one.opponent for one in anchor.meetings] == ["model:2"]

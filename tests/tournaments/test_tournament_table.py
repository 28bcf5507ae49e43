"""Tables from results made by hand."""

import itertools
import json
from dataclasses import asdict

import numpy as np
import pytest

import games
from zerofleet.strength.matches import Effort, GameResult, Player, Scoreboard
from zerofleet.strength.ratings import Tally, rate
from zerofleet.strength.tournaments import tabulate
from zerofleet.strength.tournaments.centred import centred
from zerofleet.strength.tournaments.terms import TournamentTerms


@pytest.fixture
def boards():
    """Return boards of terms with results that nobody played: `scores(names by seat, group)` are taken as they are."""

    def build(terms, scores):
        made = []
        for meeting in terms.meetings:
            board = Scoreboard(meeting)
            board._require_honest = lambda result: None
            for pairing in list(board.open_pairings()):
                names = tuple(player.name for player in pairing.players)
                efforts = tuple(Effort(10, 100 * player, 0.01) for player in range(len(meeting.players)))
                moves = (0,) * (6 if pairing.group else 8)
                board.record(
                    GameResult(
                        meeting.match_id, pairing.group, pairing.seating, names, moves, scores(names, pairing.group), efforts
                    )
                )
            made.append(board)
        return made

    return build


def stronger(order):
    """The later in `order` wins; the same name draws with itself."""

    def scores(names, group):
        ranks = [order.index(name) for name in names]
        return tuple(float(np.sign(rank - sum(r for r in ranks if r is not rank) / (len(ranks) - 1))) for rank in ranks)

    return scores


def test_the_tournament_table_counts_duels_and_players(terms, boards):
    chosen = terms("random", "b", "c")

    def scores(names, group):
        if set(names) == {"b", "c"} and group == 0:
            return (0.0, 0.0)
        return stronger(["random", "b", "c"])(names, group)

    table = tabulate(chosen, boards(chosen, scores))
    assert [(row.rank, row.name, row.games) for row in table.players] == [(1, "c", 16), (2, "b", 16), (3, "random", 16)]
    assert [(duel.first, duel.second) for duel in table.duels] == [("random", "b"), ("random", "c"), ("b", "c")]
    duel = table.duels[2]
    assert (duel.games, duel.openings, duel.wins, duel.draws, duel.losses) == (8, 4, 0, 2, 6)
    assert (duel.full_wins, duel.full_losses, duel.share) == (0, 6, 0.125)
    assert duel.share_low < 0.125 < duel.share_high
    assert duel.mean_plies == pytest.approx((2 * 8 + 6 * 6) / 8)
    assert table.share("c", "b") == 0.875
    assert table.share("c", "c") is None
    assert table.players[0].share == pytest.approx((8 + 7) / 16)
    assert (table.players[0].moves, table.players[0].nodes_per_move, table.players[0].ms_per_move) == (160, 10.0, 1.0)
    assert json.loads(json.dumps(asdict(table)))["anchor"] == "random"


def test_an_opening_is_one_observation_of_a_duel_in_all_meetings_of_three_at_a_table(boards):
    players = tuple(Player(name) for name in ("random", "greedy", "initialize", "max_n:1"))
    game = games.make("chinese_checkers_star37")
    chosen = TournamentTerms(game, players, games=12, seed=0, opening_plies=2, simulations=0, tables=True)
    table = tabulate(chosen, boards(chosen, stronger([player.name for player in players])))
    groups = chosen.meetings[0].max_groups
    assert len(chosen.meetings) == 4
    assert {duel.openings for duel in table.duels} == {groups}
    assert {duel.games for duel in table.duels} == {2 * 12}  # each pair has two third players


def test_the_anchor_is_random_or_else_the_mean_of_the_ratings(terms, boards):
    with_random = terms("random", "b", "c")
    table = tabulate(with_random, boards(with_random, stronger(["random", "b", "c"])))
    assert (table.anchor, table.players[-1].elo, table.players[-1].elo_low) == ("random", 0.0, 0.0)
    without = terms("b", "c", "d")
    table = tabulate(without, boards(without, stronger(["b", "c", "d"])))
    assert table.anchor is None
    assert sum(row.elo for row in table.players) == pytest.approx(0.0)
    assert table.players[1].elo == pytest.approx(0.0, abs=1e-6)
    assert table.players[1].elo_low < 0 < table.players[1].elo_high


def test_intervals_of_centred_ratings_follow_from_the_posterior():
    """Two players: each is half a difference away from the mean, with half of its interval."""
    evidence = [Tally("a", "b", 60.0, 100)]
    anchored = {rating.name: rating for rating in rate(evidence, anchor="b")}["a"]
    first, second = centred(evidence, ["a", "b"])
    assert (first.name, second.name) == ("a", "b")
    assert first.elo == pytest.approx(anchored.elo / 2) == -second.elo
    assert first.high - first.low == pytest.approx((anchored.high - anchored.low) / 2)


def test_duels_at_a_table_of_three_score_the_better_placed_player(terms, boards):
    names = ("random", "greedy", "max_n:1", "initialize")
    chosen = terms(*names, game="chinese_checkers_star37", tables=True, games=6)

    def scores(seated, group):
        order = sorted(seated, key=names.index)
        return tuple((-1.0, -1 / 3, 1.0)[order.index(name)] for name in seated)

    table = tabulate(chosen, boards(chosen, scores))
    assert [row.name for row in table.players] == list(reversed(names))
    for first, second in itertools.combinations(names, 2):
        assert table.share(second, first) == 1.0
    duel = table.duels[0]
    assert (duel.games, duel.openings, duel.losses) == (12, 1, 12)  # two meetings from the same opening
    assert duel.full_losses == 0  # a third player was first
    assert table.players[0].elo > table.players[1].elo > table.players[2].elo > 0


def test_all_ratings_are_equal_before_the_first_game(terms):
    chosen = terms()
    table = tabulate(chosen, [Scoreboard(meeting) for meeting in chosen.meetings])
    assert {row.elo for row in table.players} == {0.0}
    assert {row.share for row in table.players} == {0.5}
    assert table.share("random", "alpha_beta:1") is None

"""Diagnostics of self-play, compared with games counted by hand and with the rules in plain Python."""

import math
from dataclasses import replace

import numpy as np
import pytest

import games
from games import core, positions
from games.core import Game
from selfplay_worker.diagnostics import ENDINGS, Diagnostics
from selfplay_worker.game_walk import walk
from zerofleet.contracts.played import FULL_SEARCH, REDUCED
from zerofleet.contracts.records.samples import random_game
from zerofleet.search import PlayedGame, SearchedMove

TIC_TAC_TOE = games.make("tic_tac_toe")
CONNECT_FOUR = games.make("connect_four")

X_WINS = [0, 3, 1, 4, 2]
"""The first player completes the top row at the first occasion."""
X_OVERLOOKS = [0, 3, 1, 4, 8, 5]
"""The first player plays 8 instead of 2; the second then completes the middle row."""


def move(ply: int, visits: list[int], *, target: list[int] | None = None, flags: int = FULL_SEARCH) -> SearchedMove:
    return SearchedMove(
        ply=ply,
        model_version=1,
        actions=np.arange(len(visits), dtype=np.int32),
        visits=np.array(visits, dtype=np.int32),
        target=np.array(target or [], dtype=np.uint16),
        root_value=np.zeros(2, dtype=np.float32),
        flags=flags,
    )


def played(moves: list[int], *searched: SearchedMove, game: Game = TIC_TAC_TOE, opening_plies: int = 0) -> PlayedGame:
    return PlayedGame(
        game=game,
        seed=0,
        versions=(1, 1),
        opening_plies=opening_plies,
        moves=np.array(moves, dtype=np.int32),
        searched=searched,
        scores=(1.0, -1.0),
        resigned_seat=None,
        resignation_control=False,
        tag=None,
    )


def wins(of: PlayedGame) -> tuple[int, int]:
    """Return wins in one taken and overlooked."""
    found = walk(of)
    return found.wins_taken, found.wins_overlooked


# --- wins in one ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moves", "opening_plies", "expected"),
    [
        (X_WINS, 0, (1, 0)),
        (X_OVERLOOKS, 0, (1, 1)),
        (X_OVERLOOKS, 4, (1, 1)),
        (X_OVERLOOKS, 5, (1, 0)),  # the overlooked win lies in the opening
        (X_OVERLOOKS[:5], 0, (0, 1)),  # resigned before the end
        ([0, 4, 8, 1, 7, 6, 2, 5, 3], 0, (0, 0)),  # a draw: every threat is met
        ([0, 1, 2, 4, 3, 5, 7, 6, 8], 0, (0, 2)),  # a draw: the second overlooks 7, then the first 6
        ([], 0, (0, 0)),
    ],
)
def test_wins_in_one_are_counted_as_by_hand(moves, opening_plies, expected):
    assert wins(played(moves, opening_plies=opening_plies)) == expected


def wins_by_definition(of: PlayedGame) -> tuple[int, int]:
    taken = overlooked = 0
    for ply in range(of.opening_plies, len(of.moves)):
        before = of.moves[:ply].tolist()
        state = positions.replay(of.game, before, of.seed)
        mover = int(core.to_move(of.game, state))
        winning = []
        for action in positions.legal(of.game, state):
            after = positions.replay(of.game, [*before, action], of.seed)
            if core.is_over(of.game, after):
                scores = positions.final_scores(of.game, after)
                if all(scores[mover] > score for seat, score in enumerate(scores) if seat != mover):
                    winning.append(action)
        taken += int(of.moves[ply]) in winning
        overlooked += bool(winning) and int(of.moves[ply]) not in winning
    return taken, overlooked


@pytest.mark.parametrize("game", [TIC_TAC_TOE, CONNECT_FOUR], ids=lambda game: game.spec().name)
def test_wins_in_one_of_random_games_follow_the_definition(game):
    overlooked = 0
    for seed in range(40):
        one = replace(random_game(game, seed), opening_plies=seed % 4)
        assert wins(one) == wins_by_definition(one)
        overlooked += wins(one)[1]
    assert overlooked > 20


def test_wins_in_one_are_not_counted_where_hands_are_hidden():
    assert wins(random_game(games.make("take_six"), 3)) == (0, 0)


# --- endings --------------------------------------------------------------------------------------------------------------


def test_games_are_counted_by_their_ending():
    diagnostics = Diagnostics()
    diagnostics.note(played(X_WINS))
    diagnostics.note(played(X_WINS))
    diagnostics.note(replace(played(X_WINS[:3]), resigned_seat=1))
    diagnostics.note(played(X_WINS, move(2, [1]), move(4, [1], flags=FULL_SEARCH | REDUCED)))
    assert diagnostics.figures.endings == {"result": 2, "cut": 0, "resigned": 1, "soft_resigned": 1}
    assert set(diagnostics.figures.endings) == set(ENDINGS)
    assert diagnostics.figures.games == 4
    assert diagnostics.figures.resigned_ratio == 0.5


def test_the_share_of_resigned_games_is_that_of_the_latest():
    diagnostics = Diagnostics(window_games=2)
    for resigned_seat in (1, None, None):
        diagnostics.note(replace(played(X_WINS[:3]), resigned_seat=resigned_seat))
    assert diagnostics.figures.resigned_ratio == 0.0
    assert diagnostics.figures.endings["resigned"] == 1


def test_a_game_that_reaches_the_maximum_of_plies_is_cut_only_where_positions_recur():
    star = games.make("chinese_checkers_star37", moves_cap=3)
    shuffling = random_game(star, 1)
    assert len(shuffling.moves) == star.spec().max_plies
    assert Diagnostics().note(shuffling).ending == "cut"
    full_board = played([0, 1, 2, 4, 3, 5, 7, 6, 8])
    assert len(full_board.moves) == TIC_TAC_TOE.spec().max_plies
    assert Diagnostics().note(full_board).ending == "result"


# --- targets --------------------------------------------------------------------------------------------------------------


def test_the_entropy_of_targets_is_their_mean_in_nats():
    diagnostics = Diagnostics()
    diagnostics.note(
        played(
            X_WINS,
            move(0, [5, 5, 5, 5]),  # ln 4
            move(1, [9, 1], flags=0),  # a fast search is no target
            move(2, [3, 3], target=[65535, 0]),  # 0: the target counts, not the visits
        )
    )
    assert diagnostics.figures.target_entropy == pytest.approx(math.log(4) / 2)
    diagnostics.note(played(X_WINS, move(0, [1, 1])))
    assert diagnostics.figures.target_entropy == pytest.approx((math.log(4) + math.log(2)) / 3)


def test_samples_are_counted_by_weight():
    diagnostics = Diagnostics()
    facts = diagnostics.note(
        played(X_WINS, move(0, [1]), move(1, [1], flags=0), move(2, [1]), move(3, [1], flags=FULL_SEARCH | REDUCED))
    )
    assert (facts.samples, facts.reduced_samples) == (2, 1)
    assert (diagnostics.figures.samples, diagnostics.figures.reduced_samples) == (2, 1)


# --- openings and positions -----------------------------------------------------------------------------------------------


def test_games_that_share_their_first_eight_plies_have_the_same_opening():
    first = [0, 1, 2, 3, 4, 5, 6, 0]
    diagnostics = Diagnostics()
    for moves in ([*first, 1], [*first, 2], [1, *first[1:]]):
        diagnostics.note(played(moves, game=CONNECT_FOUR))
    assert diagnostics.figures.distinct_openings_ratio == pytest.approx(2 / 3)


def test_old_games_leave_the_share_of_distinct_openings():
    diagnostics = Diagnostics(window_games=2)
    for moves in (X_WINS, X_OVERLOOKS, X_OVERLOOKS):
        diagnostics.note(played(moves))
    assert diagnostics.figures.distinct_openings_ratio == 0.5


def test_a_repeated_game_has_no_new_position():
    diagnostics = Diagnostics()
    diagnostics.note(played(X_WINS))
    assert diagnostics.figures.new_positions_ratio == 1.0
    diagnostics.note(played(X_WINS))
    assert diagnostics.figures.new_positions_ratio == 0.5
    diagnostics.note(played(X_OVERLOOKS))  # differs from its sixth position on
    assert diagnostics.figures.new_positions_ratio == pytest.approx(6 / 16)


def test_positions_of_openings_are_not_counted():
    diagnostics = Diagnostics()
    diagnostics.note(played(X_WINS))
    diagnostics.note(played(X_OVERLOOKS, opening_plies=5))
    assert diagnostics.figures.new_positions_ratio == 1.0


@pytest.mark.parametrize(("window", "ratio"), [(5, 0.0), (4, 1.0)])
def test_a_position_is_new_again_when_its_last_occurrence_has_left_the_window(window, ratio):
    diagnostics = Diagnostics(window_positions=window)
    diagnostics.note(played(X_WINS))
    diagnostics.note(played(X_WINS))
    assert diagnostics.figures.new_positions_ratio == ratio


def test_there_are_figures_before_the_first_game():
    figures = Diagnostics().figures
    assert (figures.games, figures.resigned_ratio, figures.target_entropy) == (0, 0.0, 0.0)
    assert (figures.distinct_openings_ratio, figures.new_positions_ratio) == (0.0, 0.0)

"""Comparison players of Take 6!: their rules card by card, that they see no more than they may, and how often they win."""

from __future__ import annotations

import numpy as np
import pytest

import games
from games import core
from games.take_six import TakeSix, cards, table
from games.take_six.rules import deck_of
from zerofleet.agents import Agent, make_agent
from zerofleet.errors import InvalidRequest

RNG = np.random.default_rng(0)
REST = [[*range(41, 51)], [*range(71, 81)]]  # hands of the others, which nobody looks at


def chosen(name: str, rows: list[list[int]], hand: list[int], row_choice: str = "before") -> str:
    """The move of an agent, as it is written, with these rows; the hand is filled with cards that were never better."""
    game = TakeSix(row_choice=row_choice)
    fill = [card for card in (104, 103, 102, 101, 100, 99, 98, 97, 96, 95) if card not in hand]
    state = game.deal([row[0] for row in rows], [[*hand, *fill[: 10 - len(hand)]], *REST])
    for i, row in enumerate(rows):
        word = sum((card - 1) << 7 * place for place, card in enumerate(row)) | len(row) << 35
        state[table.ROWS + i] = word
    return game.action_name(state, make_agent(name, game).choose(game, state, RNG).action)


@pytest.mark.parametrize(
    ("rows", "hand", "plain", "plus"),
    [
        ([[10], [20], [30], [60]], [33, 25, 14], "33@1", "33@1"),  # three points lie in every row
        ([[10], [20], [30], [60]], [13, 23, 69], "13@1", "13@1"),  # three over 10 and over 20: the lower card
        ([[10], [20, 21], [30], [60]], [23, 35, 36], "35@1", "23@1"),  # the second row is longer
        ([[1], [11], [21, 22, 23, 24, 25], [61]], [26, 63, 15], "63@1", "63@1"),
        ([[1, 2], [3], [21, 22], [61, 62]], [23, 90, 12], "12@2", "23@2"),  # 12 is closest to 3; 23 lands next to 22
        ([[2], [3, 4, 5, 6, 7], [8, 9], [61, 62]], [12, 11, 1], "11@1", "11@1"),
        ([[2], [3, 4, 5, 6, 7], [61, 62], [63, 64]], [8, 1, 70], "8@1", "70@1"),  # 8 would be the sixth card
        ([[90], [91], [92], [93]], [5, 9, 3], "98@2", "98@2"),
        ([[88], [94], [66], [59]], [5, 9, 67], "67@2", "67@2"),
    ],
)
def test_both_players_choose_the_expected_cards(rows: list[list[int]], hand: list[int], plain: str, plus: str) -> None:
    assert chosen("take_six_comparison", rows, hand) == plain
    assert chosen("take_six_comparison_plus", rows, hand) == plus


def test_the_lowest_card_is_played_if_none_qualifies() -> None:
    rows = [[94, 95], [93], [91, 92], [90, 101]]
    game = TakeSix(row_choice="after")
    state = game.deal([94, 93, 91, 90], [[*range(31, 41)], *REST])
    for name in ("take_six_comparison", "take_six_comparison_plus"):
        assert game.action_name(state, make_agent(name, game).choose(game, state, RNG).action) == "31"
    assert rows[1] == [93]


@pytest.mark.parametrize("name", ["take_six_comparison", "take_six_comparison_plus"])
@pytest.mark.parametrize("row_choice", ["before", "needed", "after"])
def test_whole_games_are_played_from_the_players_own_view(name: str, row_choice: str) -> None:
    game = TakeSix(players=4, row_choice=row_choice)
    agent = make_agent(name, game)
    state, dealt = games.new_state(game, 5), games.new_state(game, 5)
    rows_chosen = 0
    while not core.is_over(game, state):
        action = agent.choose(game, state, RNG).action
        core.determinise(game, state, core.to_move(game, state), 3, dealt)
        assert agent.choose(game, dealt, RNG).action == action
        if core.round_of(game, state) < 0:
            rows_chosen += 1
            assert action == game.cards + table.cheapest_row(deck_of(game), state)
        games.advance(game, state, action)
    assert (rows_chosen > 0) == (row_choice == "after")
    assert cards.size(state, table.SEEN) == 44


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "fewest", "most"),
    [("take_six_comparison", 0.546, 0.122), ("take_six_comparison_plus", 0.668, 0.068)],
)
def test_both_players_beat_two_random_players_at_the_expected_rate(name: str, fewest: float, most: float) -> None:
    game, count = TakeSix(ties="strict"), 400
    players: list[Agent] = [make_agent(name, game), make_agent("random", game), make_agent("random", game)]
    rng = np.random.default_rng(11)
    scores = []
    for seed in range(count):
        state = games.new_state(game, seed)
        while not core.is_over(game, state):
            core.play(game, state, players[core.to_move(game, state)].choose(game, state, rng).action)
        scores.append(games.final_scores(game, state)[0])
    for score, share in ((1, fewest), (-1, most)):
        assert abs(scores.count(score) / count - share) < 4 * (share * (1 - share) / count) ** 0.5


@pytest.mark.parametrize("name", ["take_six_comparison", "take_six_comparison_plus"])
def test_another_game_is_refused(name: str) -> None:
    assert make_agent(name, TakeSix()).name == name
    with pytest.raises(InvalidRequest, match=f"{name} plays take_six, not tic_tac_toe"):
        make_agent(name, games.make("tic_tac_toe"))

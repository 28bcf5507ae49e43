"""Hints without a model: as deep as their time allows, with the outcomes of that depth."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import games
from zerofleet.agents.depth_first.alpha_beta import search_moves
from zerofleet.errors import InvalidRequest
from zerofleet.library.hints import OUTLOOK_PLIES, OUTLOOK_S, outlook_of


def stopped() -> float:
    return 0.0


def kinds_at(game: games.Game, state: games.State, plies: int) -> dict[str, list[str]]:
    searched = search_moves(game, state, plies)
    names = [game.action_name(state, int(action)) for action in searched.actions]
    signs = {"wins": 1, "open": 0, "loses": -1}
    return {
        kind: [name for name, value in zip(names, np.sign(searched.values), strict=True) if value == sign]
        for kind, sign in signs.items()
    }


@pytest.mark.parametrize("moves", ["", "d d e", "d a d a d g e"])
def test_a_hint_within_its_time_has_the_outcomes_of_six_plies(moves: str) -> None:
    game = games.make("connect_four")
    state = games.replay(game, games.read_moves(game, moves))
    found = outlook_of(game, state, clock=stopped)
    assert found.plies == OUTLOOK_PLIES == 6
    assert found.kinds == kinds_at(game, state, 6)


def test_a_hint_whose_time_is_over_has_the_outcomes_of_the_last_complete_depth() -> None:
    game = games.make("abalone")
    state = games.new_state(game)
    looks = itertools.chain([0.0], itertools.repeat(OUTLOOK_S))
    found = outlook_of(game, state, clock=lambda: next(looks))
    assert 2 <= found.plies < OUTLOOK_PLIES
    assert found.kinds == kinds_at(game, state, found.plies)


def test_games_without_a_hint_are_refused() -> None:
    for name in ("rock_paper_scissors", "chinese_checkers_star37"):
        game = games.make(name)
        with pytest.raises(InvalidRequest, match="hints need a model"):
            outlook_of(game, games.new_state(game))

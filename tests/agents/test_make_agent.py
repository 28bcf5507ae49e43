"""Agents by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import games
from games.tic_tac_toe import TicTacToe
from zerofleet.agents import AGENTS, make_agent
from zerofleet.agents.spelling import Spelling
from zerofleet.errors import InvalidRequest


class HiddenTicTacToe(TicTacToe):
    """Claims to hide something."""

    def spec(self) -> games.GameSpec:
        return replace(super().spec(), information="hidden")


@pytest.mark.parametrize("name", ["random", "greedy", "alpha_beta:1", "alpha_beta:60", "perfect"])
def test_the_name_of_an_agent_round_trips(name: str) -> None:
    assert make_agent(f" {name}\n", games.make("tic_tac_toe")).name == name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stockfish", "no agent is called 'stockfish'; there are random, greedy, alpha_beta:DEPTH, perfect"),
        ("", "no agent is called ''; there are random"),
        ("alpha_bet:5", "no agent is called 'alpha_bet'; did you mean alpha_beta:DEPTH? `zerofleet agents` lists all"),
        ("random:3", "'random:3': random takes no argument after a colon"),
        ("alpha_beta", "'alpha_beta' needs a depth in plies or a budget: '' is not a budget; write 5 (plies) or 100000nodes"),
        ("alpha_beta:deep", "'alpha_beta:deep' needs a depth in plies"),
        ("alpha_beta:-1", "'alpha_beta:-1' needs a depth in plies"),
        ("alpha_beta:0", "'0' is out of range; want 1 to 60 plies"),
        ("alpha_beta:61", "'61' is out of range"),
    ],
)
def test_invalid_spellings_are_refused_with_the_known_ones(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        make_agent(text, games.make("tic_tac_toe"))
    assert said in str(refusal.value)


@pytest.mark.parametrize("name", ["alpha_beta:2", "perfect"])
def test_searching_agents_refuse_hidden_information(name: str) -> None:
    with pytest.raises(InvalidRequest, match="tic_tac_toe has 2 players and hidden information"):
        make_agent(name, HiddenTicTacToe())


def test_the_random_agent_plays_every_legal_move_equally_often() -> None:
    game, rng = games.make("connect_four"), np.random.default_rng(1)
    state = games.replay(game, [0] * 6)
    agent = make_agent("random", game)
    counts = np.bincount([agent.choose(game, state, rng).action for _ in range(1800)], minlength=7)
    assert counts[0] == 0
    assert np.abs(counts[1:] - 300).max() < 5 * (300 * 5 / 6) ** 0.5


def test_every_listed_agent_has_a_form_and_a_description() -> None:
    for name, kind in AGENTS.items():
        assert Spelling.parse(kind.form).name == name
        assert kind.about

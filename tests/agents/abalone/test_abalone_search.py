"""The Abalone players by name."""

from __future__ import annotations

import json
from importlib.resources import files

import numpy as np
import pytest

import games
from games import core
from games.core import State
from zerofleet.agents import Agent, make_agent
from zerofleet.agents.by_game.abalone.evaluation import EVALUATIONS
from zerofleet.agents.by_game.abalone.features import FEATURES
from zerofleet.errors import InvalidRequest


def play_out(seats: list[Agent], rng: np.random.Generator) -> tuple[tuple[float, ...], int]:
    """Scores and length of one game."""
    game = games.make("abalone")
    state, moves = games.new_state(game), 0
    while not core.is_over(game, state):
        games.advance(game, state, seats[moves % 2].choose(game, state, rng).action)
        moves += 1
    return games.final_scores(game, state), moves


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("abalone_search:2", "abalone_search:2"),
        ("abalone_search:500nodes", "abalone_search:500nodes"),
        ("abalone_search:50ms", "abalone_search:50ms"),
        ("abalone_search:2,ties=first,evaluation=strong", "abalone_search:2,evaluation=strong,ties=first"),
        ("abalone_search:3,table=off,quiescence=on,killers=on", "abalone_search:3,table=false,quiescence=true"),
    ],
)
def test_the_name_has_the_budget_and_the_options_that_differ_from_the_defaults(text: str, name: str) -> None:
    agent = make_agent(text, games.make("abalone"))
    assert agent.name == name
    assert make_agent(agent.name, games.make("abalone")).name == name


@pytest.mark.parametrize(
    ("game", "text", "said"),
    [
        ("othello", "abalone_search:2", "abalone_search:2 plays abalone only, not othello; use alpha_beta"),
        ("abalone", "abalone_search", "'abalone_search' needs a depth in plies or a budget"),
        ("abalone", "abalone_search:61", "out of range"),
        ("abalone", "abalone_search:2,evaluation=best", "Options and their defaults: evaluation=simple, deepening=True"),
        ("abalone", "abalone_search:9nodes,deepening=off", "a budget of nodes needs deepening; leave out deepening=false"),
    ],
)
def test_unsupported_games_and_options_are_refused(game: str, text: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        make_agent(text, games.make(game))
    assert said in str(refusal.value)


def test_the_data_file_has_weights_of_known_features_only() -> None:
    sets = json.loads(files("zerofleet.agents.by_game.abalone").joinpath("weights.json").read_text(encoding="utf-8"))
    assert tuple(sets) == EVALUATIONS
    assert all(set(entry["weights"]) <= set(FEATURES) for entry in sets.values())


def test_first_ties_do_not_depend_on_seed_or_switches(battles: list[State]) -> None:
    game = games.make("abalone")
    texts = [f"abalone_search:2,ties=first{more}" for more in ("", ",table=off,history=off,aspiration=off", ",static=off")]
    agents = [make_agent(text, game) for text in texts]
    for seed, state in enumerate(battles):
        assert len({agent.choose(game, state, np.random.default_rng(seed)).action for agent in agents}) == 1


def test_random_ties_cover_all_the_best_moves() -> None:
    game = games.make("abalone")
    start, rng = games.new_state(game), np.random.default_rng(3)
    agent = make_agent("abalone_search:2", game)
    chosen = {game.action_name(start, agent.choose(game, start, rng).action) for _ in range(40)}
    assert chosen == {"A1NE", "A5NW"}  # mirror images of each other


def test_the_start_scores_zero_and_a_capture_a_sixth(battles: list[State]) -> None:
    game, rng = games.make("abalone"), np.random.default_rng(4)
    assert make_agent("abalone_search:2", game).choose(game, games.new_state(game), rng).value == 0.0
    for state in battles:
        choice = make_agent("abalone_search:2", game).choose(game, state, rng)
        lead = int(state[int(state[2]) & 1]).bit_count() - int(state[1 - (int(state[2]) & 1)]).bit_count()
        assert choice.value is not None
        assert abs(choice.value - lead / 6) < 0.4
        assert choice.nodes > 1


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2])
def test_abalone_search_beats_a_random_player_with_six_captures(depth: int) -> None:
    rng, game = np.random.default_rng(5), games.make("abalone")
    agent, other = make_agent(f"abalone_search:{depth}", game), make_agent("random", game)
    lengths = []
    for number in range(20):
        scores, plies = play_out([agent, other] if number % 2 == 0 else [other, agent], rng)
        assert scores[number % 2] == 1.0
        lengths.append(plies)
    assert 55 < np.mean(lengths) < 95


@pytest.mark.slow
@pytest.mark.parametrize("seat", [0, 1])
def test_two_plies_beat_one(seat: int) -> None:
    rng, game = np.random.default_rng(6), games.make("abalone")
    agents = [make_agent(f"abalone_search:{depth},ties=first", game) for depth in (2, 1)]
    scores, _ = play_out(agents[:: 1 - 2 * seat], rng)
    assert scores[seat] > 0

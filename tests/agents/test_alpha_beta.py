"""The alpha-beta agent: exact values for every move, true ties, and the strength the literature gives it."""

from __future__ import annotations

import numpy as np
import pytest

import games
from games import core
from games.compiled import compiled
from games.core import Game, State
from zerofleet.agents import Agent, make_agent
from zerofleet.agents.depth_first.alpha_beta import search_moves
from zerofleet.agents.depth_first.deepening import finish
from zerofleet.agents.depth_first.minimax import MinimaxSearch


@compiled
def plain_minimax(game: Game, state: State, depth: int, player: int, nodes: np.ndarray) -> float:
    """Minimax without any cut, as the textbook has it."""
    nodes[0] += 1
    if core.is_over(game, state):
        scores = np.empty(2, dtype=np.float32)
        core.scores(game, state, scores)
        return float(scores[player])
    if depth == 0:
        return 0.0
    listed = np.empty(game.columns, dtype=np.int16)
    maximising = core.to_move(game, state) == player
    best = -2.0 if maximising else 2.0
    for i in range(core.legal_actions(game, state, listed)):
        child = state.copy()
        core.play(game, child, listed[i])
        value = plain_minimax(game, child, depth - 1, player, nodes)
        best = max(best, value) if maximising else min(best, value)
    return best


def plain_values(game: Game, state: State, depth: int) -> tuple[list[float], int]:
    """The value of every legal move, and how many positions that took."""
    nodes = np.ones(1, dtype=np.int64)
    player = core.to_move(game, state)
    values = []
    for action in games.legal(game, state):
        child = state.copy()
        core.play(game, child, action)
        values.append(plain_minimax(game, child, depth - 1, player, nodes))
    return values, int(nodes[0])


def random_position(game: Game, rng: np.random.Generator) -> State:
    """A position after some random moves in which the game goes on."""
    while True:
        state = games.new_state(game)
        for _ in range(rng.integers(game.spec().max_plies)):
            if core.is_over(game, state):
                break
            core.play(game, state, int(rng.choice(games.legal(game, state))))
        if not core.is_over(game, state):
            return state


def play_out(game: Game, seats: list[Agent], rng: np.random.Generator) -> tuple[float, ...]:
    """The scores of one game between two agents."""
    state = games.new_state(game)
    while not core.is_over(game, state):
        games.advance(game, state, seats[core.to_move(game, state)].choose(game, state, rng).action)
    return games.final_scores(game, state)


@pytest.mark.slow
def test_every_move_has_its_minimax_value_with_no_more_nodes() -> None:
    game, rng = games.make("connect_four"), np.random.default_rng(1)
    for number in range(1000):
        depth = 1 + number % 5
        state = random_position(game, rng)
        values, nodes = plain_values(game, state, depth)
        searched = search_moves(game, state, depth)
        assert searched.actions.tolist() == games.legal(game, state)
        assert searched.values.tolist() == values, f"depth {depth}\n{game.draw(state)}"
        assert searched.nodes <= nodes
        for algorithm in ("minimax", "negascout"):
            other = finish(MinimaxSearch(game, state, deepest=depth, algorithm=algorithm, root="all"), depth)
            assert other.values.tolist() == values
            assert other.nodes == nodes or algorithm == "negascout"
        chosen = finish(MinimaxSearch(game, state, deepest=depth), depth)
        assert chosen.best().tolist() == searched.best().tolist()


def test_alpha_beta_prunes() -> None:
    game = games.make("connect_four")
    start = games.new_state(game)
    assert search_moves(game, start, 5).nodes < plain_values(game, start, 5)[1] / 5


@pytest.mark.slow
def test_a_win_within_five_plies_is_never_missed_nor_an_avoidable_loss_allowed() -> None:
    game, rng = games.make("connect_four"), np.random.default_rng(2)
    agent = make_agent("alpha_beta:5", game)
    decided = 0
    for _ in range(300):
        state = random_position(game, rng)
        values, _ = plain_values(game, state, 5)
        chosen = values[games.legal(game, state).index(agent.choose(game, state, rng).action)]
        assert chosen == max(values), game.draw(state)
        decided += len(set(values)) > 1
    assert decided > 100


@pytest.mark.parametrize(
    ("moves", "depth", "answers"),
    [
        ("d e d e d e", 1, {"d4"}),  # wins at once
        ("d e d e d", 2, {"d4"}),  # must be blocked
        ("d g d g e", 2, {"c1", "f1", "b1", "a1", "d3", "e2", "g3"}),  # no threat yet: anything goes
        ("d d e e", 3, {"c1", "f1"}),  # three in a row with both ends open wins
    ],
)
def test_the_best_moves_of_known_positions_are_found(moves: str, depth: int, answers: set[str]) -> None:
    game = games.make("connect_four")
    state = games.replay(game, games.read_moves(game, moves))
    best = {game.action_name(state, int(action)) for action in search_moves(game, state, depth).best()}
    assert best == answers, game.draw(state)


def test_a_quick_win_is_not_preferred_to_a_slow_one() -> None:
    game = games.make("connect_four")
    state = games.replay(game, games.read_moves(game, "d d e e c c"))
    searched = search_moves(game, state, 5)
    at_once = {game.parse_action(state, name) for name in ("b1", "f1")}
    assert at_once < set(searched.best().tolist())


def test_ties_are_broken_uniformly() -> None:
    game = games.make("connect_four")
    agent, state, rng = make_agent("alpha_beta:2", game), games.new_state(game), np.random.default_rng(3)
    counts = np.bincount([agent.choose(game, state, rng).action for _ in range(2100)], minlength=7)
    assert np.abs(counts - 300).max() < 5 * (300 * 6 / 7) ** 0.5


def test_the_same_seed_gives_the_same_moves() -> None:
    game = games.make("connect_four")
    agent, state = make_agent("alpha_beta:3", game), games.new_state(game)
    first, second = ([agent.choose(game, state, rng).action for _ in range(20)] for rng in map(np.random.default_rng, (4, 4)))
    assert first == second


def test_a_read_only_position_is_not_modified() -> None:
    game = games.make("connect_four")
    state = games.replay(game, [3, 3, 2])
    state.setflags(write=False)
    for name in ("alpha_beta:3", "random"):
        assert make_agent(name, game).choose(game, state, np.random.default_rng(5)).action in range(7)


@pytest.mark.slow
@pytest.mark.parametrize("seat", [0, 1])
def test_depth_five_beats_a_random_player(seat: int) -> None:
    game, rng = games.make("connect_four"), np.random.default_rng(6)
    agents: list[Agent] = [make_agent("alpha_beta:5", game), make_agent("random", game)]
    scores = [play_out(game, agents[:: 1 - 2 * seat], rng)[seat] for _ in range(300)]
    assert scores.count(1.0) / 300 > 0.95


@pytest.mark.slow
def test_the_first_player_wins_half_the_games_of_depth_five_against_itself() -> None:
    game, rng = games.make("connect_four"), np.random.default_rng(7)
    agent = make_agent("alpha_beta:5", game)
    first = [play_out(game, [agent, agent], rng)[0] for _ in range(600)]
    assert first.count(1.0) / 600 == pytest.approx(0.49, abs=0.06)
    assert first.count(0.0) / 600 == pytest.approx(0.06, abs=0.03)


def test_alpha_beta_plays_wide_boards_and_other_games() -> None:
    rng = np.random.default_rng(8)
    for game in (games.make("connect_four", columns=25), games.make("tic_tac_toe")):
        agent = make_agent("alpha_beta:2", game)
        assert agent.choose(game, games.new_state(game), rng).action in range(game.spec().num_actions)

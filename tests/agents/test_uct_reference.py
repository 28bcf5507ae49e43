"""UCT against the textbook: the same search in plain Python, on the same random numbers, visit by visit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

import games
from games import core
from games.core import Game, State
from games.kit.randomness import uniform_int
from zerofleet.agents.uct import UctSearch, plan_for

Prior = Callable[[State, int], float]


@dataclass
class Node:
    """A position as the textbook has it, with the sum of rewards of whoever moved into it."""

    state: State
    action: int = -1
    visits: int = 0
    total: float = 0.0
    prior: float = 0.0
    moves: list[int] | None = None
    children: list[Node] = field(default_factory=list)


class Textbook:
    """UCTSearch of Browne et al. 2012, rewards as a vector, with the priors of Gelly and Silver 2011."""

    def __init__(self, game: Game, state: State, c: float, seed: int, confidence: float = 0.0, prior: Prior | None = None):
        self.game, self.c, self.confidence, self.prior = game, c, confidence, prior
        self.word = np.array([seed], dtype=np.uint64)
        self.root = Node(state.copy())

    def run(self, simulations: int) -> None:
        for _ in range(simulations):
            path = self.tree_policy()
            rewards = self.default_policy(path[-1].state.copy())
            for parent, node in zip([None, *path[:-1]], path, strict=True):
                node.visits += 1
                if parent is not None:
                    node.total += rewards[core.to_move(self.game, parent.state)]

    def tree_policy(self) -> list[Node]:
        path = [self.root]
        while not core.is_over(self.game, path[-1].state):
            node = path[-1]
            if node.moves is None:
                node.moves = games.legal(self.game, node.state)
                if self.prior is not None:
                    node.children = [self.child(node, action) for action in node.moves]
            if len(node.children) < len(node.moves):
                path.append(self.expand(node))
                return path
            path.append(self.best_child(node))
            if self.prior is not None and path[-1].visits == 0:
                return path
        return path

    def child(self, node: Node, action: int) -> Node:
        state = node.state.copy()
        core.play(self.game, state, action)
        return Node(state, action, prior=0.0 if self.prior is None else self.prior(node.state, action))

    def expand(self, node: Node) -> Node:
        assert node.moves is not None
        tried = len(node.children)
        other = tried + uniform_int(self.word, len(node.moves) - tried)
        node.moves[tried], node.moves[other] = node.moves[other], node.moves[tried]
        node.children.append(self.child(node, node.moves[tried]))
        return node.children[-1]

    def best_child(self, node: Node) -> Node:
        visits = node.visits + self.confidence * len(node.children)

        def bound(child: Node) -> float:
            own = child.visits + self.confidence
            mean = (self.confidence * child.prior + child.total) / own
            return mean + self.c * math.sqrt(2.0 * math.log(visits) / own)

        return max(node.children, key=bound)

    def default_policy(self, state: State) -> np.ndarray:
        while moves := games.legal(self.game, state):
            core.play(self.game, state, moves[uniform_int(self.word, len(moves))])
        return np.array(games.final_scores(self.game, state))

    def visits(self) -> list[int]:
        return [child.visits for child in sorted(self.root.children, key=lambda child: child.action)]


def fake_prior(game: Game) -> Prior:
    """What a model might say: any number from -1 to 1, but the score where the game ends."""

    def prior(state: State, action: int) -> float:
        after = state.copy()
        core.play(game, after, action)
        if core.is_over(game, after):
            return float(games.final_scores(game, after)[core.to_move(game, state)])
        return int(core.key(game, after)) % 1001 / 500.0 - 1.0

    return prior


@pytest.mark.parametrize(
    ("name", "moves", "simulations"),
    [
        ("tic_tac_toe", [], 3000),  # the tree has to grow
        ("tic_tac_toe", [4, 0, 8], 500),
        ("connect_four", [], 400),
        ("connect_four", [3, 3, 4, 4], 400),
        ("chinese_checkers_star37", [], 60),  # three players
    ],
)
@pytest.mark.slow
def test_visits_equal_those_of_the_textbook_algorithm(name: str, moves: list[int], simulations: int) -> None:
    game = games.make(name)
    state = games.replay(game, moves)
    for seed in range(3):
        plain = Textbook(game, state, 0.7071, seed)
        plain.run(simulations)
        search = UctSearch(game, state, plan_for(game), seed=seed)
        search.run(simulations)
        assert search.root().visits.tolist() == plain.visits()
        assert search.tree.word[0] == plain.word[0], "the same random numbers were drawn"


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.5, 10.0])
def test_visits_with_priors_equal_those_of_the_textbook_algorithm(confidence: float) -> None:
    game = games.make("tic_tac_toe")
    state, prior = games.replay(game, [4]), fake_prior(games.make("tic_tac_toe"))
    for seed in range(3):
        plain = Textbook(game, state, 0.7071, seed, confidence, prior)
        plain.run(400)

        def priors(position: State, actions: np.ndarray) -> np.ndarray:
            return np.array([prior(position, int(action)) for action in actions])

        search = UctSearch(game, state, plan_for(game, confidence=confidence), seed=seed, priors=priors)
        search.run(400)
        assert search.root().visits.tolist() == plain.visits()

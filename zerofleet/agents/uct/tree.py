"""UCT tree in flat arrays, and the parameters of its search.

A node is a position, an edge one of its moves; the tree stores only the root position, and each simulation replays the moves.
A node's edges are listed at its second visit, since most nodes are visited once. Tried edges come first.

    node v, Anna to move         N(v)  visits of the edge that leads to it; at the root: simulations
      └─ edge                    N(v') and Q(v'), the SUM of Anna's rewards over the simulations through this edge
           └─ node v', Ben to move

With hidden information a node is one player's view, and an edge may have several child nodes: see
`zerofleet.agents.uct.worlds`.

Each edge sums the rewards of the player who selects it, so selection maximises for any number of players.
Rewards are scores, in [-1, 1].

Axes: N nodes, E edges, S state entries, L maximal number of legal actions, P players, M maximal number of plies.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from games import core
from games.compiled import lean
from games.core import Game, State

__all__ = ["MOST_NODES", "Tree", "UctPlan", "add_node", "grown", "is_full", "list_moves", "new_tree", "plan_for"]

ROOT = 0
NO_NODE = -1
UNLISTED = -1
START, COUNT, TRIED, MOVER, SIBLING = range(5)
"""Columns of a node: first edge or UNLISTED, number of edges, of tried edges, mover, next sibling below the same edge."""
ACTION, CHILD, VISITS = range(3)
"""Columns of an edge."""
SIMULATIONS, POSITIONS, NODES, EDGES, FROZEN, PENDING = range(6)
"""Entries of the tally. FROZEN: the tree has reached its maximal size; PENDING: the node whose moves need priors."""

MOST_NODES = 1 << 22
"""Maximal number of nodes, about 200 MB plus edges; later simulations start their rollouts at existing leaves."""
_FIRST_NODES = 1 << 10


class UctPlan(NamedTuple):
    """Parameters of a search, as numbers for compiled code."""

    exploration: float
    """C_p of UCB1, for rewards in [-1, 1]."""
    confidence: float
    """C: weight of a move's prior, in simulations; 0: no priors."""
    greedy: int
    """1: rollouts play a move of the largest `games.core.move_value`; 0: random moves."""
    epsilon: float
    """Probability of a random move in greedy rollouts."""
    most_plies: int
    """Plies after which a rollout is cut off; -1: never."""
    estimated: int
    """1: a position cut off has the value of `games.core.estimate`; 0: of `games.core.standing`."""


class Tree(NamedTuple):
    """State of one search. Few arrays, because compiled code passes the descriptor of each array in every call."""

    nodes: np.ndarray  # int32 [N, 5], columns START .. SIBLING
    keys: np.ndarray  # uint64 [N], key of the searcher's view at a node; [0] with perfect information
    seen: np.ndarray  # uint8 [packed_bytes], scratch
    edges: np.ndarray  # int32 [E, 3], columns ACTION .. VISITS
    sums: np.ndarray  # float64 [E], sum of rewards for the selecting player, including the prior
    root: np.ndarray  # spec.state_dtype [S]
    state: np.ndarray  # spec.state_dtype [S], position of the current simulation
    listed: np.ndarray  # int16 [L], scratch
    path: np.ndarray  # int32 [M, 2], nodes and edges of the current simulation
    scores: np.ndarray  # float32 [P], its result
    word: np.ndarray  # uint64 [1], state of the random generator
    tally: np.ndarray  # int64 [6], entries SIMULATIONS .. PENDING


def plan_for(
    game: Game,
    *,
    exploration: float = 0.7071,
    confidence: float = 0.0,
    greedy: bool = False,
    epsilon: float = 0.0,
    most_plies: int | None = None,
) -> UctPlan:
    """Return a plan; see `UctPlan` for the arguments. Rollouts cut off use `estimate` if the game has that rule."""
    estimated = core.has_rule(type(game), "estimate")
    plies = -1 if most_plies is None else most_plies
    return UctPlan(float(exploration), float(confidence), int(greedy), float(epsilon), plies, int(estimated))


def new_tree(game: Game, state: State, seed: int) -> Tree:
    """Return a tree with only its root; `seed`, in [0, 2^64), determines all random numbers of the search."""
    spec = game.spec()
    nodes = np.zeros((_FIRST_NODES, 5), dtype=np.int32)
    nodes[ROOT] = UNLISTED, 0, 0, core.to_move(game, state), NO_NODE
    tally = np.zeros(6, dtype=np.int64)
    tally[NODES] = 1
    room = _FIRST_NODES + spec.max_legal
    return Tree(
        nodes=nodes,
        keys=np.zeros(0 if spec.information == "perfect" else _FIRST_NODES, dtype=np.uint64),
        seen=np.zeros(spec.packed_bytes, dtype=np.uint8),
        edges=np.zeros((room, 3), dtype=np.int32),
        sums=np.zeros(room),
        root=np.array(state, dtype=spec.state_dtype),
        state=np.zeros(spec.state_size, dtype=spec.state_dtype),
        listed=np.zeros(spec.max_legal, dtype=np.int16),
        path=np.zeros((spec.max_plies + 1, 2), dtype=np.int32),
        scores=np.zeros(spec.num_players, dtype=np.float32),
        word=np.array([seed], dtype=np.uint64),
        tally=tally,
    )


def grown(tree: Tree) -> Tree:
    """Return the tree with doubled capacity, or freeze it if it has room for `MOST_NODES`."""
    if len(tree.nodes) >= MOST_NODES:
        tree.tally[FROZEN] = 1
        return tree
    more = {name: _doubled(getattr(tree, name)) for name in ("nodes", "keys", "edges", "sums")}
    return tree._replace(**more)


def _doubled(array: np.ndarray) -> np.ndarray:
    more = np.zeros((2 * len(array), *array.shape[1:]), dtype=array.dtype)
    more[: len(array)] = array
    return more


@lean
def is_full(tree: Tree) -> bool:
    """Return whether the tree may lack room for another node and its moves."""
    tally = tree.tally
    if tally[FROZEN]:
        return False
    return bool(tally[NODES] == tree.nodes.shape[0] or tally[EDGES] + tree.listed.shape[0] > tree.edges.shape[0])


@lean
def list_moves(game: Game, tree: Tree, node: int) -> None:
    """List the edges of a node, all untried. `tree.state` is its position."""
    count = core.legal_actions(game, tree.state, tree.listed)
    start = tree.tally[EDGES]
    for i in range(count):
        tree.edges[start + i, ACTION] = tree.listed[i]
        tree.edges[start + i, CHILD] = NO_NODE
        tree.edges[start + i, VISITS] = 0
        tree.sums[start + i] = 0.0
    tree.nodes[node, START] = start
    tree.nodes[node, COUNT] = count
    tree.nodes[node, TRIED] = 0
    tree.tally[EDGES] = start + count


@lean
def add_node(game: Game, tree: Tree) -> int:
    """Return a new node for the position `tree.state`, or NO_NODE if the tree is frozen."""
    if tree.tally[FROZEN]:
        return NO_NODE
    node = tree.tally[NODES]
    tree.nodes[node, START] = UNLISTED
    tree.nodes[node, MOVER] = core.to_move(game, tree.state)
    tree.nodes[node, SIBLING] = NO_NODE
    tree.tally[NODES] = node + 1
    return int(node)

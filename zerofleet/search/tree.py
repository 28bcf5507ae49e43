"""Search trees of many games in flat arrays: creation, backup and reuse.

Each slot of a block owns one tree: a row of `nodes`, of `edges` and of `states`. A node is a position, an edge one of its
legal actions. A node's edges are contiguous from `edge_start` on, in ascending order of action; nodes and their edges are
appended in the order of creation, so a parent always precedes its children.

Point of view. Values are vectors in *seat order*, one entry per player, and are never negated. The player to move at a node
reads their own entry of its edges:

            A   player 0 to move: compares edges by value[0]
           / \\
          B   C   player 1 to move: compares edges by value[1]
              |
              D   evaluated as v = (0.3, -0.3)

  backup of D adds v unchanged to edge C->D and to edge A->C. A prefers C when the mean of value[0] on A->C is high.
  With two zero-sum players this is AlphaZero's search; with more it is max^n (Luckhardt and Irani 1986).

Bounds. A node also has bounds of each player's value under optimal play; `zerofleet.search.proof` tightens them.

Axes: G slots, N nodes, E edges, S state entries, P players.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from games import core
from games.compiled import inlined, lean

__all__ = [
    "DECIDED",
    "EXPANDED",
    "NO_NODE",
    "OPEN",
    "OVER",
    "PENDING",
    "PROVEN",
    "ROOT",
    "UNEXPANDED",
    "Tree",
    "add_node",
    "backup",
    "copy",
    "edge_dtype",
    "keep_subtree",
    "node_dtype",
    "release_flight",
    "take_flight",
    "wide",
]

ROOT = 0
NO_NODE = -1

UNEXPANDED, PENDING, EXPANDED, OVER, DECIDED, PROVEN = range(6)
"""Kinds of a node. A descent ends at the last three, whose values need no network: the game is over (or cut, see `repetition`),
the outcome was found before expansion (`look_ahead`), or is proven (an expanded node, other than the root)."""

OPEN = 0  # proof of an edge that a search may follow; the other codes are in `zerofleet.search.proof`


def node_dtype(players: int) -> np.dtype[Any]:
    """Return the record of a node for a number of players. The fields that every simulation reads come first."""
    return np.dtype(
        [
            ("value", np.float32, (players,)),  # network value, or the outcome when OVER, DECIDED or PROVEN; seat order
            ("visits", np.int32),  # backups through or from here
            ("parent", np.int32),
            ("parent_edge", np.int32),
            ("edge_start", np.int32),
            ("edge_count", np.int32),
            ("flight", np.int16),  # pending leaves at or below
            ("to_move", np.int8),
            ("kind", np.uint8),
            ("lower", np.float32, (players,)),  # bounds of the value under optimal play, seat order
            ("upper", np.float32, (players,)),
            ("key", np.uint64),  # repetition key, where repetition matters
        ],
        align=True,
    )


def edge_dtype(players: int) -> np.dtype[Any]:
    """Return the record of an edge for a number of players."""
    return np.dtype(
        [
            ("value", np.float32, (players,)),  # sum of backed-up values, seat order
            ("prior", np.float32),
            ("visits", np.int32),
            ("child", np.int32),
            ("action", np.int16),
            ("flight", np.int8),  # pending leaves below, at most 64
            ("proof", np.uint8),  # OPEN, or why no search follows the edge
        ],
        align=True,
    )


class Tree(NamedTuple):
    """Tree of one slot: rows of the block's arrays, used up to `slot.nodes` and `slot.edges`."""

    nodes: np.ndarray  # node_dtype [N]
    edges: np.ndarray  # edge_dtype [E]
    states: np.ndarray  # spec.state_dtype [N, S]
    past: np.ndarray  # uint64 [M], repetition keys of the positions before the root
    bias: np.ndarray  # float64 [L], Gumbel variate plus logit of each root edge
    word: np.ndarray  # uint64 [1], state of the random generator
    pending_nodes: np.ndarray  # int32 [K], pending leaves
    pending_rows: np.ndarray  # int32 [K], their rows in the batch
    legal: np.ndarray  # int16 [L], scratch
    moved: np.ndarray  # int32 [N], scratch: new indices of nodes when a subtree is kept
    weights: np.ndarray  # float64 [L], scratch


@inlined
def wide(number: Any) -> int:
    """Return an integer as int64: numba would compile another specialisation for narrow or literal types."""
    return np.int64(number)  # type: ignore[return-value]


@inlined
def copy(source: np.ndarray, target: np.ndarray) -> None:
    """Copy a vector entry by entry; a slice assignment would allocate a temporary for possible overlap."""
    for i in range(source.shape[0]):
        target[i] = source[i]


@inlined
def add_node(game: Any, tree: Tree, slot: Any, parent: int, parent_edge: int) -> int:
    """Append the node with the position in `tree.states[slot.nodes]` and its edges; return its index."""
    index = slot.nodes
    node = tree.nodes[index]
    state = tree.states[index]
    node.visits = 0
    node.parent = parent
    node.parent_edge = parent_edge
    node.flight = 0
    node.to_move = core.to_move(game, state)
    node.edge_start = slot.edges
    node.edge_count = 0
    if core.is_over(game, state):
        node.kind = OVER
        core.scores(game, state, node.value)
        copy(node.value, node.lower)
        copy(node.value, node.upper)
    else:
        node.kind = UNEXPANDED
        node.value[:] = 0.0
        node.lower[:] = -1.0
        node.upper[:] = 1.0
        count = core.legal_actions(game, state, tree.legal)
        node.edge_count = count
        for i in range(count):
            edge = tree.edges[slot.edges + i]
            edge.action = tree.legal[i]
            edge.prior = 0.0
            edge.visits = 0
            edge.child = NO_NODE
            edge.flight = 0
            edge.proof = OPEN
            edge.value[:] = 0.0
        slot.edges += count
    slot.nodes = index + 1
    return index  # type: ignore[no-any-return]


@inlined
def backup(nodes: Any, edges: Any, index: int, value: np.ndarray) -> None:
    """Add one visit with `value` (float32 [P], seat order) to a node and its path to the root.

    From a proven node on, its outcome takes the place of `value`: several leaves may be pending below it.
    """
    players = value.shape[0]
    while True:
        nodes[index].visits += 1
        if nodes[index].kind == PROVEN:
            value = nodes[index].value
        if index == ROOT:
            return
        edge = edges[nodes[index].parent_edge]
        edge.visits += 1
        for player in range(players):
            edge.value[player] += value[player]
        index = nodes[index].parent


@inlined
def take_flight(nodes: Any, edges: Any, index: int) -> None:
    """Increment the flights on the path from the root to a leaf that becomes pending; virtual loss uses them."""
    while True:
        nodes[index].flight += 1
        if index == ROOT:
            return
        edges[nodes[index].parent_edge].flight += 1
        index = nodes[index].parent


@inlined
def release_flight(nodes: Any, edges: Any, index: int) -> None:
    """Undo `take_flight`."""
    while True:
        nodes[index].flight -= 1
        if index == ROOT:
            return
        edges[nodes[index].parent_edge].flight -= 1
        index = nodes[index].parent


@lean
def keep_subtree(tree: Tree, slot: Any, index: int) -> None:
    """Make node `index` the root and move its subtree to the front; discard the rest of the tree.

    In place: parents precede their children and edges follow the order of their nodes, so all entries move towards the front
    and none is overwritten before it is read. A second pass updates the links.
    """
    nodes, edges, states, moved = tree.nodes, tree.edges, tree.states, tree.moved
    used_nodes = 0
    used_edges = 0
    for old in range(index, slot.nodes):
        parent = nodes[old].parent
        if old != index and (parent < index or moved[parent] < 0):
            moved[old] = NO_NODE
            continue
        moved[old] = used_nodes
        first = nodes[old].edge_start
        count = nodes[old].edge_count
        nodes[used_nodes] = nodes[old]
        copy(states[old], states[used_nodes])
        nodes[used_nodes].edge_start = used_edges
        for i in range(count):
            edges[used_edges + i] = edges[first + i]
        used_nodes += 1
        used_edges += count
    slot.nodes = used_nodes
    slot.edges = used_edges
    nodes[ROOT].kind = EXPANDED  # also if it was PROVEN: its moves can be chosen
    nodes[ROOT].parent = NO_NODE
    nodes[ROOT].parent_edge = NO_NODE
    for new in range(used_nodes):
        first = nodes[new].edge_start
        for e in range(first, first + nodes[new].edge_count):
            if edges[e].child != NO_NODE:
                child = moved[edges[e].child]
                edges[e].child = child
                nodes[child].parent = new
                nodes[child].parent_edge = e

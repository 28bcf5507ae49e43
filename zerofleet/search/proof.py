"""Proven values: bounds of every player's value under optimal play, backed up from the ends of the game.

An OVER node has its scores as both bounds; any other node begins with [-1, 1]. Here X moves at A and C, O at B, and the bounds
are X's; a child without a node counts as [-1, 1]:

    A  [1, 1]                  X has a child that is certainly the best: A is proven
    ├─ B  [1, 1]               all of O's moves are proven lost for O
    │  ├─ [1, 1]   X won
    │  └─ C  [1, 1]            one winning move is enough, whatever the moves without a node are worth
    │     ├─ [1, 1]   X won
    │     └─ not visited
    └─ [-1, 0]                 dominated by B: no search follows this edge again

What is sound, for a node with mover m, under any choice among moves of equal value to their player:

    m                    the largest lower and the largest upper bound of the children
    two players          the other's bounds are the negatives, since scores sum to 0
    three or more, p     the smallest lower and the largest upper bound of p over the children that m may choose, those whose
                         upper bound for m reaches the lower bound of m. A move without a node is one of them unless it is
                         lost for m; hence a win of m bounds the values of m alone

A node is settled when its mover's value is proven. Its `value` is then the outcome of one optimal move (for more than two
players, of the first that is settled itself: the first-winner rule); the search backs that up and never descends again. For
three or more players the other players' entries are thus an outcome of optimal play, not the only one; their bounds hold
what is proven. A repetition leaf is no proof: its value depends on the path to it, so it keeps [-1, 1].

Sources: Winands, Björnsson and Saito 2008, "Monte-Carlo Tree Search Solver"; bounds instead of wins and losses as in Cazenave
and Saffidine 2010, "Score Bounded Monte-Carlo Tree Search"; more than two players: Nijssen and Winands 2010, "Enhancements for
Multi-Player Monte-Carlo Tree Search"; correction of the means above a proven node: Leela Chess Zero, `AdjustForTerminal`.
"""

from __future__ import annotations

from typing import Any

from games.compiled import inlined, lean
from zerofleet.search.tree import EXPANDED, NO_NODE, OPEN, OVER, PROVEN, ROOT, copy, wide

__all__ = [
    "DOMINATED",
    "LOSES",
    "WINS",
    "bound_root",
    "is_candidate",
    "is_proven",
    "lower_of",
    "may_play",
    "moves_left",
    "prove_above",
    "settle_node",
    "upper_of",
]

DOMINATED, LOSES, WINS = OPEN + 1, OPEN + 2, OPEN + 3
"""Proofs of an edge besides OPEN. The last two stand for the bounds of a child without a node, as the look-ahead found them
for the mover: a loss (two players), a win."""


@lean
def lower_of(nodes: Any, edges: Any, e: int, player: int) -> float:
    """Return the lower bound of an edge's value for `player`, who must be the mover if the child has no node."""
    edge = edges[e]
    if edge.child != NO_NODE:
        return nodes[edge.child].lower[player]  # type: ignore[no-any-return]
    return 1.0 if edge.proof == WINS else -1.0


@lean
def upper_of(nodes: Any, edges: Any, e: int, player: int) -> float:
    """Return the upper bound of an edge's value for `player`, who must be the mover if the child has no node."""
    edge = edges[e]
    if edge.child != NO_NODE:
        return nodes[edge.child].upper[player]  # type: ignore[no-any-return]
    return -1.0 if edge.proof == LOSES else 1.0


@lean
def is_proven(nodes: Any, index: int) -> bool:
    """Return whether the value of a node is proven for its mover."""
    node = nodes[index]
    return node.lower[node.to_move] >= node.upper[node.to_move]  # type: ignore[no-any-return]


@inlined
def is_candidate(nodes: Any, edges: Any, e: int, proven: bool) -> bool:
    """Return `may_play` of a root edge, given whether the root is proven."""
    if not proven:
        return edges[e].proof == OPEN  # type: ignore[no-any-return]
    player = wide(nodes[ROOT].to_move)
    return lower_of(nodes, edges, e, player) >= nodes[ROOT].lower[player]  # type: ignore[no-any-return]


@lean
def may_play(nodes: Any, edges: Any, e: int) -> bool:
    """Return whether a root edge may be played: among the best if the root is proven, else not dominated."""
    return is_candidate(nodes, edges, e, is_proven(nodes, wide(ROOT)))


@lean
def moves_left(nodes: Any, edges: Any) -> int:
    """Return the number of root edges that may be played."""
    root = nodes[ROOT]
    left = 0
    for e in range(root.edge_start, root.edge_start + root.edge_count):
        left += may_play(nodes, edges, e)
    return left


@lean
def prove_above(nodes: Any, edges: Any, index: int) -> bool:
    """Update the ancestors of a node whose bounds changed, as far as theirs change; return whether the root was reached."""
    while index != ROOT:
        changed_edge = wide(nodes[index].parent_edge)
        index = wide(nodes[index].parent)
        if not _tighten(nodes, edges, index, changed_edge):
            return index == ROOT
    return True


@lean
def _tighten(nodes: Any, edges: Any, index: int, changed_edge: int) -> bool:
    """Update a node's bounds after those of one edge, and settle it if possible; return whether anything above may change.

    Bounds only ever narrow, so the larger lower bound follows from the edge alone, and the upper bound stays while another
    edge reaches it: most updates read no other child.
    """
    node = nodes[index]
    player = wide(node.to_move)
    lower = max(node.lower[player], lower_of(nodes, edges, changed_edge, player))
    upper = node.upper[player]
    if upper_of(nodes, edges, changed_edge, player) < upper and not _reaches(nodes, edges, index, upper):
        upper = _largest_upper(nodes, edges, index)
    return _narrow(nodes, edges, index, changed_edge, lower, upper)


@lean
def bound_root(nodes: Any, edges: Any) -> None:
    """Compute the root's bounds for its mover, and the proofs of its edges, from those of all children."""
    index = wide(ROOT)
    root = nodes[index]
    player = wide(root.to_move)
    lower = -1.0
    for e in range(root.edge_start, root.edge_start + root.edge_count):
        lower = max(lower, lower_of(nodes, edges, e, player))
    upper = _largest_upper(nodes, edges, index)
    _narrow(nodes, edges, index, wide(root.edge_start), lower, upper)
    _mark_all(nodes, edges, index, lower, upper)


@lean
def _has_unknown(nodes: Any, edges: Any, index: int) -> bool:
    """Return whether nothing is known of an edge of a node: its child has no node and is not proven lost."""
    node = nodes[index]
    for e in range(node.edge_start, node.edge_start + node.edge_count):
        if edges[e].child == NO_NODE and edges[e].proof != LOSES:
            return True
    return False


@lean
def _reaches(nodes: Any, edges: Any, index: int, limit: float) -> bool:
    """Return whether the upper bound of an edge of a node reaches `limit` for the mover."""
    node = nodes[index]
    player = wide(node.to_move)
    found = _has_unknown(nodes, edges, index)
    e = node.edge_start
    while not found and e < node.edge_start + node.edge_count:
        found = upper_of(nodes, edges, e, player) >= limit
        e += 1
    return found


@lean
def _largest_upper(nodes: Any, edges: Any, index: int) -> float:
    """Return the largest upper bound of a node's edges for its mover."""
    node = nodes[index]
    player = wide(node.to_move)
    upper = -1.0
    for e in range(node.edge_start, node.edge_start + node.edge_count):
        upper = max(upper, upper_of(nodes, edges, e, player))
    return upper


@lean
def _narrow(nodes: Any, edges: Any, index: int, changed_edge: int, lower: float, upper: float) -> bool:
    """Set the mover's bounds of a node, and what follows from them; return whether anything above may change."""
    node = nodes[index]
    player = wide(node.to_move)
    changed = lower > node.lower[player] or upper < node.upper[player]
    if lower > node.lower[player] or lower >= upper:
        _mark_all(nodes, edges, index, lower, upper)
    else:
        _mark(nodes, edges, changed_edge, player, lower, upper)
    node.lower[player] = lower
    node.upper[player] = upper
    players = node.lower.shape[0]
    if players == 2:
        node.lower[1 - player] = -upper
        node.upper[1 - player] = -lower
    else:
        for other in range(players):
            if other != player:
                changed |= _bound_other(nodes, edges, index, other)
    if lower >= upper and index != ROOT and node.kind == EXPANDED:
        changed |= _settle_expanded(nodes, edges, index)
    return changed  # type: ignore[no-any-return]


@lean
def _mark_all(nodes: Any, edges: Any, index: int, lower: float, upper: float) -> None:
    """Set the proofs of all edges of a node, given the mover's bounds."""
    node = nodes[index]
    player = wide(node.to_move)
    for e in range(node.edge_start, node.edge_start + node.edge_count):
        _mark(nodes, edges, e, player, lower, upper)


@lean
def _mark(nodes: Any, edges: Any, e: int, player: int, lower: float, upper: float) -> None:
    """Set the proof of an edge, given the mover's bounds at its node.

    It is dominated if it cannot be better than `lower`, which another reaches. One that reaches it itself, such as a proven
    draw, stays open, so that the means include it; but no loss is followed while the node is open.
    """
    edge = edges[e]
    if edge.child == NO_NODE and edge.proof >= LOSES:
        return
    most = upper_of(nodes, edges, e, player)
    worse = most <= lower and lower_of(nodes, edges, e, player) < lower
    edge.proof = DOMINATED if worse or (most <= -1.0 and upper > lower) else OPEN


@lean
def _bound_other(nodes: Any, edges: Any, index: int, other: int) -> bool:
    """Set the bounds of a player who is not to move, among three or more; return whether they changed."""
    if _has_unknown(nodes, edges, index):
        return False  # the mover may choose that edge
    node = nodes[index]
    player = wide(node.to_move)
    lower, upper = 1.0, -1.0
    for e in range(node.edge_start, node.edge_start + node.edge_count):
        if upper_of(nodes, edges, e, player) < node.lower[player]:
            continue
        child = edges[e].child
        lower = min(lower, nodes[child].lower[other] if child != NO_NODE else -1.0)
        upper = max(upper, nodes[child].upper[other] if child != NO_NODE else 1.0)
    changed = lower > node.lower[other] or upper < node.upper[other]
    node.lower[other] = lower
    node.upper[other] = upper
    return changed  # type: ignore[no-any-return]


@lean
def _settle_expanded(nodes: Any, edges: Any, index: int) -> bool:
    """Settle a node whose mover's value is proven, if an optimal move has an outcome; return whether it is settled."""
    node = nodes[index]
    player = wide(node.to_move)
    if node.value.shape[0] == 2:
        copy(node.lower, node.value)
        settle_node(nodes, edges, index)
        return True
    for e in range(node.edge_start, node.edge_start + node.edge_count):
        child = edges[e].child
        if child != NO_NODE and nodes[child].kind >= OVER and nodes[child].lower[player] >= node.lower[player]:
            copy(nodes[child].value, node.value)
            settle_node(nodes, edges, index)
            return True
    return False


@lean
def settle_node(nodes: Any, edges: Any, index: int) -> None:
    """Make a node below the root PROVEN; its outcome, in `value`, replaces all that was backed up through it."""
    node = nodes[index]
    node.kind = PROVEN
    edge = edges[node.parent_edge]
    for player in range(node.value.shape[0]):
        correction = edge.visits * node.value[player] - edge.value[player]
        edge.value[player] = edge.visits * node.value[player]
        above = node.parent
        while above != ROOT and nodes[above].kind != PROVEN:
            edges[nodes[above].parent_edge].value[player] += correction
            above = nodes[above].parent

"""Look-ahead: wins in one move, and losses to a win in one, found by the rules before any evaluation.

    leaf    the mover wins at once, or every move allows the opponent to: DECIDED, a proven value without a request; a move
            that allows it is ruled out (games with the rule `may_end`; replies with two players)
    root    the same for each move and, with two players, for each reply: a move that allows one is proven lost

So a search plays wins in one and avoids losses in two at any budget and with any prior: with a prior of 0 for the only good
move, no visit might show them (`tests/search/test_proofs.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from games import core
from games.compiled import inlined, lean
from zerofleet.search.proof import LOSES, WINS, bound_root, is_proven, moves_left, settle_node
from zerofleet.search.tree import DECIDED, NO_NODE, OVER, ROOT, copy, wide

__all__ = ["Ahead", "claim_win", "look_ahead", "rule_out_losses"]


class Ahead(NamedTuple):
    """Scratch space of the look-ahead, not part of a `Tree`: an argument of a call costs a copy of all its fields."""

    states: np.ndarray  # spec.state_dtype [2, S], positions one and two plies below a node
    replies: np.ndarray  # int16 [L], legal actions one ply below a node
    outcome: np.ndarray  # float32 [P], scores of one of the positions


@inlined
def _ends(game: Any, before: Any, action: int, after: Any, outcome: Any) -> bool:
    """Play an action from one state into another; if the game ends, write its scores to `outcome` and return true."""
    copy(before, after)
    core.play(game, after, wide(action))
    if not core.is_over(game, after):
        return False
    core.scores(game, after, outcome)
    return True


@lean
def claim_win(game: Any, tree: tuple[Any, Any], slot: Any, state: Any, ahead: Ahead, index: int) -> None:
    """Make a new leaf DECIDED if its mover wins at once. The first winning move gives the outcome for more than two players.

    `tree`: nodes and edges.
    """
    nodes, edges = tree
    node = nodes[index]
    player = wide(node.to_move)
    for e in range(node.edge_start, node.edge_start + node.edge_count):
        if _ends(game, state, edges[e].action, ahead.states[0], ahead.outcome) and ahead.outcome[player] >= 1.0:
            copy(ahead.outcome, node.value)
            _decide(node, slot, player)
            return


@lean
def rule_out_losses(game: Any, tree: tuple[Any, Any], slot: Any, state: Any, ahead: Ahead, index: int) -> None:
    """Rule out the moves of a new leaf that lose at once or to one reply, and make it DECIDED if it has no other.

    After `claim_win`; without effect for more than two players. `tree`: nodes and edges.
    """
    nodes, edges = tree
    node = nodes[index]
    if node.value.shape[0] != 2:
        return
    player = wide(node.to_move)
    left = 0
    for e in range(node.edge_start, node.edge_start + node.edge_count):
        if _ends(game, state, edges[e].action, ahead.states[0], ahead.outcome):
            loses = ahead.outcome[player] <= -1.0
        else:
            loses = _allows_win(game, ahead, player)
        if loses:
            edges[e].proof = LOSES
        else:
            left += 1
    if left == 0:
        node.value[player] = -1.0
        node.value[1 - player] = 1.0
        _decide(node, slot, player)


@lean
def _decide(node: Any, slot: Any, player: int) -> None:
    """Make a leaf DECIDED, with its value as bounds. It gives its edges back: no search follows them."""
    node.kind = DECIDED
    _bound(node, player)
    if node.edge_start + node.edge_count == slot.edges:
        slot.edges = node.edge_start
        node.edge_count = 0


@lean
def _bound(node: Any, player: int) -> None:
    """Set the bounds of a node to its value, which is certain; for more than two players only the mover's."""
    for seat in range(node.value.shape[0]):
        if seat == player or node.value.shape[0] == 2:
            node.lower[seat] = node.value[seat]
            node.upper[seat] = node.value[seat]


@lean
def look_ahead(game: Any, nodes: Any, edges: Any, state: Any, ahead: Ahead) -> None:
    """Prove the root's moves that win at once and, with two players, those that lose at once or to one reply.

    `state` is the root's position. A root that the look-ahead of the move before proved won has no move that is known to win.
    """
    root = nodes[ROOT]
    known = is_proven(nodes, wide(ROOT)) and moves_left(nodes, edges) > 0
    if known or not core.may_end(game, state, wide(2)):
        return
    player = wide(root.to_move)
    two = root.value.shape[0] == 2
    won = False
    for e in range(root.edge_start, root.edge_start + root.edge_count):
        edge = edges[e]
        if edge.child != NO_NODE and nodes[edge.child].kind >= OVER:
            continue
        if _ends(game, state, edge.action, ahead.states[0], ahead.outcome):
            if ahead.outcome[player] >= 1.0:
                edge.proof = WINS
                if not won:
                    copy(ahead.outcome, root.value)
                won = True
            elif two and ahead.outcome[player] <= -1.0:
                edge.proof = LOSES
        elif two and not won and _allows_win(game, ahead, player):
            _prove_lost(nodes, edges, e, player)
    bound_root(nodes, edges)


@lean
def _allows_win(game: Any, ahead: Ahead, player: int) -> bool:
    """Return whether the opponent of `player` is to move in `ahead.states[0]` and wins at once."""
    state = ahead.states[0]
    if core.to_move(game, state) == player or not core.may_end(game, state, wide(1)):
        return False
    for i in range(core.legal_actions(game, state, ahead.replies)):
        if _ends(game, state, ahead.replies[i], ahead.states[1], ahead.outcome) and ahead.outcome[player] <= -1.0:
            return True
    return False


@lean
def _prove_lost(nodes: Any, edges: Any, e: int, player: int) -> None:
    """Prove that a root edge loses for `player`, one of two: on the edge, or on its child if that has a node."""
    child = wide(edges[e].child)
    if child == NO_NODE:
        edges[e].proof = LOSES
        return
    node = nodes[child]
    node.value[player] = -1.0
    node.value[1 - player] = 1.0
    _bound(node, 1 - player)
    settle_node(nodes, edges, child)

"""Look-ahead: wins in one move, and losses to a win in one, found by the rules before any evaluation.

    leaf    the mover wins at once: WON, a proven value without a request (games with the rule `may_end`)
    root    the same for each move and, with two players, for each reply: a move that allows one is proven lost

So a search plays wins in one and avoids losses in two at any budget and with any prior: with a prior of 0 for the only good
move, no visit might show them (`tests/search/test_proofs.py`).
"""

from __future__ import annotations

from typing import Any

from games import core
from games.compiled import inlined, lean
from zerofleet.search.proof import LOSES, WINS, bound_root, is_proven, settle_node
from zerofleet.search.tree import NO_NODE, OVER, PROVEN, ROOT, WON, Tree, copy, wide

__all__ = ["claim_win", "look_ahead"]


@inlined
def _outcome_after(game: Any, tree: Tree, before: Any, action: int, after: Any) -> bool:
    """Play an action from one state into another; if the game ends, write its scores to `tree.outcome` and return true."""
    copy(before, after)
    core.play(game, after, wide(action))
    if not core.is_over(game, after):
        return False
    core.scores(game, after, tree.outcome)
    return True


@lean
def claim_win(game: Any, tree: Tree, index: int) -> None:
    """Make a new leaf WON if its mover wins at once. The first winning move gives the outcome for more than two players."""
    node, state = tree.nodes[index], tree.states[index]
    player = node.to_move
    for e in range(node.edge_start, node.edge_start + node.edge_count):
        ends = _outcome_after(game, tree, state, tree.edges[e].action, tree.ahead[0])
        if ends and tree.outcome[player] >= 1.0:
            node.kind = WON
            copy(tree.outcome, node.value)
            _bound(node, player, tree.outcome)
            return


@lean
def _bound(node: Any, player: int, outcome: Any) -> None:
    """Set the bounds of a node whose mover certainly reaches `outcome`; with two players it bounds the other too."""
    for seat in range(outcome.shape[0]):
        if seat == player or outcome.shape[0] == 2:
            node.lower[seat] = outcome[seat]
            node.upper[seat] = outcome[seat]


@lean
def look_ahead(game: Any, tree: Tree) -> None:
    """Prove the root's moves that win at once and, with two players, those that lose at once or to one reply."""
    root, state, after = tree.nodes[ROOT], tree.states[ROOT], tree.ahead[0]
    if is_proven(tree.nodes, ROOT) or not core.may_end(game, state, 2):
        return
    player = root.to_move
    two = root.value.shape[0] == 2
    won = False
    for e in range(root.edge_start, root.edge_start + root.edge_count):
        edge = tree.edges[e]
        if edge.child != NO_NODE and tree.nodes[edge.child].kind >= OVER:
            continue
        if _outcome_after(game, tree, state, edge.action, after):
            if tree.outcome[player] >= 1.0:
                edge.proof = WINS
                if not won:
                    copy(tree.outcome, root.value)
                won = True
            elif two and tree.outcome[player] <= -1.0:
                edge.proof = LOSES
        elif two and not won and _allows_win(game, tree, player):
            _prove_lost(tree, e, player)
    bound_root(tree.nodes, tree.edges)


@lean
def _allows_win(game: Any, tree: Tree, player: int) -> bool:
    """Return whether the opponent of `player` is to move in `tree.ahead[0]` and wins at once."""
    state = tree.ahead[0]
    if core.to_move(game, state) == player or not core.may_end(game, state, 1):
        return False
    for i in range(core.legal_actions(game, state, tree.replies)):
        if _outcome_after(game, tree, state, tree.replies[i], tree.ahead[1]) and tree.outcome[player] <= -1.0:
            return True
    return False


@lean
def _prove_lost(tree: Tree, e: int, player: int) -> None:
    """Prove that a root edge loses for `player`, one of two: on the edge, or on its child if that has a node."""
    child = tree.edges[e].child
    if child == NO_NODE:
        tree.edges[e].proof = LOSES
        return
    node = tree.nodes[child]
    node.value[player] = -1.0
    node.value[1 - player] = 1.0
    _bound(node, wide(1 - player), node.value)
    settle_node(tree.nodes, tree.edges, wide(child), PROVEN)

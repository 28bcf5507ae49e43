"""The two searches with hidden information once more, as plain as `reference_search` has the open one.

Here, too, the compiled search must be equal bit for bit: it draws from the slot's word in the same order.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from reference_search import Edge, Node, ReferenceGame

from games import core
from games.core import State
from games.kit.randomness import next_u64, uniform
from games.positions import encode_for, legal

Head = Callable[[State, int], np.ndarray]  # (position, version) -> likelihood of each action, float [A]


class HiddenGame(ReferenceGame):
    """What both have in common: every node is a decision of the player whose turn it is at the root."""

    def __post_init__(self) -> None:
        self.settings = self.settings.model_copy(update={"reuse_subtree": False})
        super().__post_init__()

    def drawn_deal(self) -> State:
        """A deal that the searcher cannot tell from the true one."""
        deal = np.zeros_like(self.root.state)
        core.determinise(self.game, self.root.state, self.root.mover, int(next_u64(self.word)) >> 1, deal)
        return deal

    def chosen(self, node: Node) -> Edge:
        """The edge to follow from a node."""
        if node is not self.root:
            return self.puct(node)
        if not self.prepared:
            self.prepare_root()
        return self.halving() if self.settings.root_policy == "gumbel" else self.puct(node)


class DeterminisedGame(HiddenGame):
    """Every simulation in a deal of its own."""

    def search(self) -> None:
        """Search the present position to its budget."""
        self.children: dict[Edge, dict[tuple[bytes, tuple[int, ...]], Node]] = {}
        self.expand(self.root)
        while self.root.visits - 1 < self.budget:
            self.simulate()

    def simulate(self) -> None:
        """One deal, played until something new is seen or the game ends."""
        state = self.drawn_deal()
        node = self.root
        while True:
            edge = self.chosen(node)
            core.play(self.game, state, edge.action)
            self.let_others_play(state)
            way = [*node.way, (node, edge)]
            if core.is_over(self.game, state):
                value = np.zeros(self.players, dtype=np.float32)
                core.scores(self.game, state, value)
                self.back_up(Node(state, self.root.mover, True, value, [], way))
                return
            view = encode_for(self.game, state, self.root.mover).tobytes(), tuple(legal(self.game, state))
            known = self.children.setdefault(edge, {})
            if view not in known:
                known[view] = self.new_node(state, way)
                self.expand(known[view])
                return
            node = known[view]

    def let_others_play(self, state: State) -> None:
        """The others move by their own policy, from their own view."""
        while not core.is_over(self.game, state) and (mover := core.to_move(self.game, state)) != self.root.mover:
            actions = legal(self.game, state)
            if len(actions) == 1:
                core.play(self.game, state, actions[0])
                continue
            policy, _ = self.network(state, self.versions[mover])
            core.play(self.game, state, actions[drawn([float(p) for p in policy], uniform(self.word))])


class PredictedGame(HiddenGame):
    """The others play what the network foresees. `head` must be set before the game is played."""

    head: Head

    def search(self) -> None:
        """Search the present position to its budget."""
        self.worlds = {self.root: self.drawn_deal()}
        self.plays: dict[Node, np.ndarray] = {}
        self.expand(self.root)
        while self.root.visits - 1 < self.budget:
            node = self.root
            while node in self.plays:
                edge = self.chosen(node)
                if edge.child is None:
                    edge.child = self.foreseen_child(node, edge)
                node = edge.child
            if node.over:
                self.back_up(node)
            else:
                self.expand(node)

    def expand(self, node: Node) -> None:
        """Ask the network, and note what the others will play."""
        super().expand(node)
        likelihood = self.head(self.worlds[node], int(self.tree_version)).astype(np.float32)
        self.plays[node] = np.zeros(self.players - 1, dtype=np.int16)
        core.foresee(self.game, self.worlds[node], self.root.mover, likelihood, self.plays[node])

    def foreseen_child(self, node: Node, edge: Edge) -> Node:
        """The node after a round as foreseen."""
        state = self.worlds[node].copy()
        core.play_foreseen(self.game, state, edge.action, self.plays[node])
        child = self.new_node(state, [*node.way, (node, edge)])
        self.worlds[child] = state
        return child


def drawn(chances: list[float], share: float) -> int:
    """Return the index at which the sum of chances exceeds a share of the whole; any, if no chance is above 0."""
    total = 0.0
    for chance in chances:
        total += chance
    if total <= 0:
        return int(share * len(chances))
    aim = share * total
    for index, chance in enumerate(chances):
        aim -= chance
        if chance > 0 and aim < 0:
            return index
    return max(index for index, chance in enumerate(chances) if chance > 0)  # rounding leaves a rest

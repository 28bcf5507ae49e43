"""The search once more, as plain as it can be written: nodes and edges are objects, one game, one thread, no numba.

The compiled search must equal it visit for visit and bit for bit. So sums are kept in float32 where the trees keep them
and scores are computed in the same order; everything else is written for the reader. What is shared with the compiled
search: the rules of the games, the random generators, the settings and the names of flags. Nothing else.

Proofs are written as their definition says: bounds of a node from those of all its children, afresh for every node above a
change; which edges are ruled out, afresh whenever it is asked.

A `Network` answers one position: `network(state, version) -> (policy float32 [n], value float32 [P], mover first)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from games import core
from games.core import Game, State
from games.kit.randomness import gamma, gumbel, uniform
from games.positions import legal
from zerofleet.search import SearchSettings

Network = Callable[[State, int], tuple[np.ndarray, np.ndarray]]

TINY = 1e-8  # stands in for a prior of zero under the logarithm


@dataclass(eq=False)
class Edge:
    """A legal action of a node."""

    action: int
    total: np.ndarray  # float32 [P], sum of the values backed up, seat order
    prior: float = 0.0  # rounded to float32
    visits: int = 0
    flight: int = 0
    child: Node | None = None
    foreseen: str = ""  # "win" or "loss" of the mover, found by the rules; there is then no child

    def mean(self, player: int) -> float:
        """Mean value of a visited edge for a player."""
        return float(self.total[player]) / self.visits


@dataclass(eq=False)
class Node:
    """A position of the tree."""

    state: State
    mover: int
    over: bool  # or cut, because the position has been before
    value: np.ndarray  # float32 [P], the network's or the scores, seat order
    edges: list[Edge]
    way: list[tuple[Node, Edge]]  # from the root to here
    visits: int = 0
    flight: int = 0
    expanded: bool = False
    waiting: bool = False
    settled: bool = False  # the mover's value is proven and `value` an outcome: nothing below is of interest
    lower: list[float] = field(default_factory=list)  # proven lower bound for each player, seat order
    upper: list[float] = field(default_factory=list)

    @property
    def proven(self) -> bool:
        """Whether the mover's value is known."""
        return self.lower[self.mover] == self.upper[self.mover]


@dataclass
class Searched:
    """What the record says of one searched move."""

    ply: int
    version: int
    visits: dict[int, int]  # by action
    weights: dict[int, float]  # of the policy target, by action
    value: np.ndarray
    target: bool
    would_resign: bool
    reduced: bool


@dataclass
class ReferenceGame:
    """One game and its tree."""

    game: Game
    settings: SearchSettings
    network: Network
    seed: int
    versions: Sequence[int]
    opening: Sequence[int] = ()
    hold: bool = False
    moves: list[int] = field(default_factory=list)
    searched: list[Searched] = field(default_factory=list)
    scores: tuple[float, ...] | None = None
    resigned: int | None = None

    def __post_init__(self) -> None:
        spec = self.game.spec()
        self.players = spec.num_players
        self.word = np.array([self.seed], dtype=np.uint64)
        state = np.zeros(spec.state_size, dtype=spec.state_dtype)
        core.reset(self.game, state, self.seed)
        self.past: list[int] = []  # keys of the positions before the present one
        for action in self.opening:
            self.past.append(self.key_of(state))
            core.play(self.game, state, action)
            self.moves.append(action)
        self.control = uniform(self.word) < self.settings.resign_control_share
        self.reduced = False
        self.tree_version: int | None = None
        self.root = self.new_node(state, [])
        self.begin_move()

    # --- the tree ---------------------------------------------------------------------------------------------------

    def new_node(self, state: State, way: list[tuple[Node, Edge]]) -> Node:
        """Make the node of a position; `way` leads to it."""
        value = np.zeros(self.players, dtype=np.float32)
        over = bool(core.is_over(self.game, state))
        if over:
            core.scores(self.game, state, value)
        edges = [Edge(action, np.zeros(self.players, dtype=np.float32)) for action in legal(self.game, state)]
        node = Node(state, int(core.to_move(self.game, state)), over, value, edges, way)
        node.lower = [float(v) for v in value] if over else [-1.0] * self.players
        node.upper = [float(v) for v in value] if over else [1.0] * self.players
        return node

    def child_of(self, node: Node, edge: Edge) -> Node:
        """The node below an edge, made on the first visit."""
        if edge.child is None:
            state = node.state.copy()
            core.play(self.game, state, edge.action)
            edge.child = self.new_node(state, [*node.way, (node, edge)])
            if self.has_been(edge.child):
                edge.child.over = True
                edge.child.edges = []
                core.standing(self.game, state, edge.child.value)
            elif not edge.child.over and self.proving and core.has_rule(type(self.game), "may_end"):
                self.claim_win(edge.child)
                if self.settings.prove_replies and self.players == 2 and not edge.child.settled:
                    self.rule_out_losses(edge.child)
            if self.proving:
                self.prove_way(edge.child)
        return edge.child

    def key_of(self, state: State) -> int:
        """By what positions count as the same."""
        return int(core.repetition_key(self.game, state))

    def has_been(self, node: Node) -> bool:
        """Whether a position has been before, on the way from the root or in the game, as far as the settings ask."""
        if self.settings.repetition == "off" or node.over:
            return False
        before = [self.key_of(earlier.state) for earlier, _ in node.way]
        if self.settings.repetition == "history":
            before += self.past
        return self.key_of(node.state) in before

    def back_up(self, leaf: Node) -> None:
        """Count one visit with the leaf's value on the whole way."""
        leaf.visits += 1
        value = leaf.value
        for node, edge in reversed(leaf.way):
            node.visits += 1
            edge.visits += 1
            edge.total += value
            if node.settled:
                value = node.value

    def change_flight(self, leaf: Node, by: int) -> None:
        """Mark the way to a leaf that waits, or take the marks away."""
        leaf.flight += by
        for node, edge in leaf.way:
            node.flight += by
            edge.flight += by

    def expand(self, node: Node) -> None:
        """Ask the network and count the answer."""
        policy, value = self.network(node.state, int(self.tree_version))
        for i in range(self.players):
            node.value[(node.mover + i) % self.players] = value[i]
        total = sum(float(p) for p in policy)
        for edge, p in zip(node.edges, policy, strict=True):
            edge.prior = float(np.float32(float(p) / total if total > 0 else 1.0 / len(node.edges)))
        node.expanded = True
        node.waiting = False
        self.back_up(node)

    # --- proofs -----------------------------------------------------------------------------------------------------

    @property
    def proving(self) -> bool:
        """Whether the search proves values."""
        return self.settings.prove_values and self.settings.information == "open"

    def outcome(self, state: State, action: int) -> tuple[State, np.ndarray | None]:
        """The position after an action, and its scores if the game is over there."""
        after = state.copy()
        core.play(self.game, after, action)
        if not core.is_over(self.game, after):
            return after, None
        scores = np.zeros(self.players, dtype=np.float32)
        core.scores(self.game, after, scores)
        return after, scores

    def claim_win(self, leaf: Node) -> None:
        """Settle a new position whose mover wins at once."""
        for edge in leaf.edges:
            _, scores = self.outcome(leaf.state, edge.action)
            if scores is not None and scores[leaf.mover] == 1.0:
                leaf.settled = True
                leaf.value[:] = scores
                for seat in range(self.players) if self.players == 2 else [leaf.mover]:
                    leaf.lower[seat] = leaf.upper[seat] = float(scores[seat])
                leaf.edges = []  # no search follows them
                return

    def rule_out_losses(self, leaf: Node) -> None:
        """Note the moves from a new position that lose to a reply, and settle it if all do."""
        for edge in leaf.edges:
            if self.loses(leaf.mover, *self.outcome(leaf.state, edge.action)):
                edge.foreseen = "loss"
        if all(edge.foreseen == "loss" for edge in leaf.edges):
            leaf.settled = True
            for seat in range(2):
                leaf.value[seat] = leaf.lower[seat] = leaf.upper[seat] = -1.0 if seat == leaf.mover else 1.0
            leaf.edges = []

    def look_ahead(self) -> None:
        """Try every move from the root and, between two players, every reply."""
        root = self.root
        self.looked = True
        if root.proven and any(self.range_of(edge, root.mover, root.mover)[0] >= root.lower[root.mover] for edge in root.edges):
            return
        for edge in root.edges:
            if edge.child and (edge.child.over or edge.child.settled):
                continue
            after, scores = self.outcome(root.state, edge.action)
            found = any(earlier.foreseen == "win" for earlier in root.edges)
            if scores is not None and scores[root.mover] == 1.0:
                edge.foreseen = "win"
                if not found:
                    root.value[:] = scores
            elif self.players == 2 and not (found and scores is None) and self.loses(root.mover, after, scores):
                self.prove_lost(edge)
        self.bound(root)

    def loses(self, mover: int, after: State, scores: np.ndarray | None) -> bool:
        """Whether the position after a move of `mover` is lost for them, or to a reply."""
        if scores is not None:
            return bool(scores[mover] == -1.0)
        if core.to_move(self.game, after) == mover:
            return False
        ends = [self.outcome(after, reply)[1] for reply in legal(self.game, after)]
        return any(end is not None and end[mover] == -1.0 for end in ends)

    def prove_lost(self, edge: Edge) -> None:
        """Note that an edge of the root is lost for its mover."""
        if edge.child is None:
            edge.foreseen = "loss"
            return
        for seat in range(2):
            edge.child.lower[seat] = edge.child.upper[seat] = -1.0 if seat == self.root.mover else 1.0
        self.settle(edge.child, edge.child.lower)

    def range_of(self, edge: Edge, seat: int, mover: int) -> tuple[float, float]:
        """Lower and upper bound of the value of an edge for a player."""
        if edge.child is not None:
            return edge.child.lower[seat], edge.child.upper[seat]
        if not edge.foreseen or (seat != mover and self.players != 2):
            return -1.0, 1.0
        sure = 1.0 if (edge.foreseen == "win") == (seat == mover) else -1.0
        return sure, sure

    def bound(self, node: Node) -> None:
        """Set the bounds of a node from those of its children."""
        mover = node.mover
        own = [self.range_of(edge, mover, mover) for edge in node.edges]
        node.lower[mover], node.upper[mover] = max(low for low, _ in own), max(high for _, high in own)
        for seat in range(self.players):
            if seat == mover:
                continue
            if self.players == 2:
                node.lower[seat], node.upper[seat] = -node.upper[mover], -node.lower[mover]
                continue
            chosen = [edge for edge, (_, high) in zip(node.edges, own, strict=True) if high >= node.lower[mover]]
            ranges = [self.range_of(edge, seat, mover) for edge in chosen]
            node.lower[seat], node.upper[seat] = min(low for low, _ in ranges), max(high for _, high in ranges)

    def prove_way(self, leaf: Node) -> None:
        """Bound all nodes on the way to a new leaf, from below, and settle those whose mover's value is known now."""
        for node, _ in reversed(leaf.way):
            self.bound(node)
            if node is self.root or node.settled or not node.proven:
                continue
            if self.players == 2:
                self.settle(node, node.lower)
                continue
            for edge in node.edges:
                child = edge.child
                if child and (child.over or child.settled) and child.lower[node.mover] == node.lower[node.mover]:
                    self.settle(node, child.value)
                    break
        self.end_if_decided()

    def settle(self, node: Node, value: Sequence[float] | np.ndarray) -> None:
        """Let a node have an outcome, for all visits it ever had: the means above are corrected."""
        node.settled = True
        node.value[:] = value
        *above, (_, edge) = node.way
        for seat in range(self.players):
            correction = edge.visits * float(node.value[seat]) - float(edge.total[seat])
            edge.total[seat] = edge.visits * float(node.value[seat])
            for _, higher in reversed(above):
                if higher.child.settled:
                    break
                higher.total[seat] = float(higher.total[seat]) + correction

    def is_candidate(self, node: Node, edge: Edge) -> bool:
        """Whether an edge may still be followed, or at the root played."""
        if not self.proving:
            return True
        low, high = self.range_of(edge, node.mover, node.mover)
        best = node.lower[node.mover]
        if node.proven:
            return low == best
        return high > -1.0 and (high > best or low == best)

    def candidates(self, node: Node) -> list[Edge]:
        """The edges of a node that no proof rules out."""
        return [edge for edge in node.edges if self.is_candidate(node, edge)]

    def end_if_decided(self) -> None:
        """Search no further than a decision needs."""
        if self.root.proven:
            self.budget = 0
        elif not self.hold and len(self.candidates(self.root)) == 1:
            self.budget = min(self.budget, 1)

    # --- selection --------------------------------------------------------------------------------------------------

    def exploration(self, visits: int) -> float:
        """AlphaZero's c(N) sqrt(N), or 1 for the literal term."""
        s = self.settings
        if s.exploration == "literal":
            return 1.0
        return (s.puct_init + math.log((1.0 + visits + s.puct_base) / s.puct_base)) * math.sqrt(visits)

    def forced_visits(self, edge: Edge, visits: int) -> float:
        """Visits a root child must have once it has one, out of so many visits of all children (Wu 2019, 3.2)."""
        return math.sqrt(self.settings.forced_playouts * edge.prior * visits)

    @property
    def forcing(self) -> bool:
        """Whether playouts are forced in the present search."""
        return self.full and self.settings.forced_playouts > 0 and self.settings.dirichlet_fraction > 0

    def puct(self, node: Node) -> Edge:
        """The edge PUCT follows; the lower action where two are equal."""
        s = self.settings
        factor = self.exploration(node.visits + node.flight)
        candidates = self.candidates(node)
        tried = [edge for edge in candidates if edge.visits + edge.flight > 0]
        if node is self.root and self.forcing:
            for edge in tried:
                if edge.visits + edge.flight < self.forced_visits(edge, node.visits + node.flight - 1):
                    return edge
        mass = 0.0
        for edge in tried:
            mass += edge.prior
        visits = node.visits - sum(edge.visits for edge in node.edges if edge not in candidates)
        first_play = sum_of(node, candidates, node.mover) / max(1, visits) - s.fpu_reduction * math.sqrt(mass)
        if s.exploration == "literal":
            first_play = 0.0

        def score(edge: Edge) -> float:
            count = edge.visits + edge.flight
            if count == 0:
                return first_play + factor * edge.prior
            mean = (float(edge.total[node.mover]) - s.virtual_loss * edge.flight) / count
            return mean + factor * edge.prior / (1.0 + count)

        return max(candidates, key=score)  # max keeps the first of equals

    def mixed_value(self, seat: int) -> float:
        """Value of an unvisited root edge for a player (Danihelka et al. 2022, appendix D)."""
        root = self.root
        tried = [edge for edge in self.candidates(root) if edge.visits > 0]
        own = float(root.value[seat])
        visits = sum(edge.visits for edge in tried)
        mass, weighted = 0.0, 0.0
        for edge in tried:
            mass += edge.prior
            weighted += edge.prior * edge.mean(seat)
        return (own + visits * weighted / mass) / (1.0 + visits) if mass > 0 else own

    def gumbel_scores(self) -> list[float]:
        """Logit + sigma(completed q) of every root edge that may be played, without the Gumbel variate."""
        s = self.settings
        root = self.root
        candidates = self.candidates(root)
        most = max(edge.visits for edge in candidates)
        mixed = self.mixed_value(root.mover)

        def score(edge: Edge) -> float:
            q = root.lower[root.mover] if root.proven else edge.mean(root.mover) if edge.visits else mixed
            return math.log(edge.prior + TINY) + (s.gumbel_visit_offset + most) * s.gumbel_value_scale * 0.5 * (q + 1.0)

        return [score(edge) for edge in candidates]

    def gumbel_choice(self, fits: Callable[[Edge], bool]) -> Edge:
        """The edge with the highest variate + score among those that fit, or among all that may be played if none fits."""
        candidates = self.candidates(self.root)
        variates = [variate for edge, variate in zip(self.root.edges, self.variates, strict=True) if edge in candidates]
        pairs = list(zip(candidates, variates, self.gumbel_scores(), strict=True))
        fitting = [pair for pair in pairs if fits(pair[0])] or pairs
        return max(fitting, key=lambda pair: pair[1] + pair[2])[0]

    def halving(self) -> Edge:
        """The root edge whose turn it is in sequential halving."""
        wanted = halving_sequence(self.considered, self.full_budget)[self.root.visits - 1 + self.root.flight]
        return self.gumbel_choice(lambda edge: edge.visits + edge.flight == wanted)

    def prepare_root(self) -> None:
        """Draw what chance decides at the root: Dirichlet noise on the priors, or Gumbel variates."""
        s = self.settings
        edges = self.root.edges
        self.prepared = True
        if s.root_policy == "gumbel":
            self.variates = [gumbel(self.word) if s.gumbel_noise else 0.0 for _ in edges]
            self.considered = min(s.gumbel_considered, len(self.candidates(self.root)))
        elif self.full and s.dirichlet_fraction > 0 and len(edges) > 1:
            alpha = s.dirichlet_alpha or 10.0 / len(edges)
            draws = [gamma(self.word, alpha) for _ in edges]
            total = sum(draws)
            f = s.dirichlet_fraction
            for edge, draw in zip(edges, draws, strict=True):
                edge.prior = float(np.float32((1.0 - f) * edge.prior + f * draw / total))

    def descend(self) -> Node:
        """From the root to a position that is new, over, or waits."""
        node = self.root
        while node.expanded and not node.settled:
            if node is self.root and not self.prepared:
                self.prepare_root()
            at_root = node is self.root and self.settings.root_policy == "gumbel"
            node = self.child_of(node, self.halving() if at_root else self.puct(node))
        return node

    def search(self) -> None:
        """Search the present position to its budget."""
        waiting: list[Node] = []
        while True:
            while True:
                if self.proving and self.root.expanded and self.budget > 0 and not self.looked:
                    self.look_ahead()
                    self.end_if_decided()
                if len(waiting) == self.settings.leaves_per_game or self.root.visits - 1 + self.root.flight >= self.budget:
                    break
                leaf = self.descend()
                if leaf.waiting:
                    break
                if leaf.over or leaf.settled:
                    self.back_up(leaf)
                else:
                    leaf.waiting = True
                    self.change_flight(leaf, 1)
                    waiting.append(leaf)
            if not waiting:
                return
            for leaf in waiting:
                self.change_flight(leaf, -1)
                self.expand(leaf)
            waiting.clear()

    # --- moves ------------------------------------------------------------------------------------------------------

    def begin_move(self) -> None:
        """Decide how the present position is searched."""
        s = self.settings
        self.prepared = False
        self.looked = False
        if self.root.over:
            self.scores = tuple(float(score) for score in self.root.value)
            return
        version = self.versions[self.root.mover]
        if version != self.tree_version and self.root.expanded:
            self.root = self.new_node(self.root.state, [])
        self.tree_version = version
        self.target = s.full_search_share >= 1.0 or uniform(self.word) < s.full_search_share
        self.full = self.target and not self.reduced
        self.budget = self.full_budget = s.simulations if self.full else s.fast_simulations

    def best_edge(self) -> Edge:
        """The most visited edge, then the one with the better mean (the larger prior, if unvisited), then the lower action."""
        mover = self.root.mover
        return max(self.candidates(self.root), key=lambda edge: (edge.visits, edge.mean(mover) if edge.visits else edge.prior))

    def target_weights(self) -> list[float]:
        """Gumbel's improved policy, or visits with forced ones taken out; none for edges that may not be played.

        Where visits say nothing, or less than a proof, priors are added.
        """
        s = self.settings
        root = self.root
        candidates = self.candidates(root)
        if s.root_policy == "gumbel":
            scores = self.gumbel_scores()
            exps = [math.exp(score - max(scores)) for score in scores]
            weights = [e / sum(exps) for e in exps]
        else:
            best = max(candidates, key=lambda edge: edge.visits)
            prunes = self.forcing and s.prune_targets and best.visits > 0
            weights = [float(edge.visits) for edge in candidates]
            if prunes:
                weights = [float(edge.visits) if edge is best else self.pruned_visits(edge, best) for edge in candidates]
            if sum(weights) == 0 or root.proven:
                known = sum(weights) + sum(edge.prior for edge in candidates) > 0
                weights = [w + (edge.prior if known else 1.0) for w, edge in zip(weights, candidates, strict=True)]
        found = iter(weights)
        return [next(found) if edge in candidates else 0.0 for edge in root.edges]

    def pruned_visits(self, edge: Edge, best: Edge) -> float:
        """Take forced visits away one by one while PUCT would still not have preferred this edge to the best."""
        mover = self.root.mover
        factor = self.exploration(self.root.visits)
        limit = best.mean(mover) + factor * best.prior / (1.0 + best.visits)
        visits = edge.visits
        for _ in range(math.floor(self.forced_visits(edge, self.root.visits - 1))):
            if visits == 0 or edge.mean(mover) + factor * edge.prior / (1.0 + (visits - 1)) > limit:
                break
            visits -= 1
        return float(visits) if visits > 1 else 0.0

    def temperature(self) -> float:
        """The temperature of the present ply."""
        s = self.settings
        ply = len(self.moves)
        if ply >= s.temperature_plies:
            return s.temperature_end
        return s.temperature + (s.temperature_end - s.temperature) * ply / s.temperature_plies

    def choose(self, weights: list[float]) -> Edge:
        """The edge to play."""
        temperature = self.temperature()
        if self.settings.root_policy == "gumbel" and (temperature <= 0 or not self.settings.gumbel_sampling):
            most = max(edge.visits for edge in self.candidates(self.root))
            return self.gumbel_choice(lambda edge: edge.visits == most)
        if temperature <= 0:
            return self.best_edge()
        chances = [(weight / max(weights)) ** (1.0 / temperature) for weight in weights]
        aim = uniform(self.word) * sum(chances)
        for edge, chance in zip(self.root.edges, chances, strict=True):
            aim -= chance
            if chance > 0 and aim < 0:
                return edge
        return [edge for edge, chance in zip(self.root.edges, chances, strict=True) if chance > 0][-1]

    def root_value(self, weights: list[float]) -> np.ndarray:
        """The root's value: under the improved policy, or the mean of all visits but those of edges ruled out."""
        root = self.root
        value = np.zeros(self.players, dtype=np.float32)
        candidates = self.candidates(root)
        for seat in range(self.players):
            if self.settings.root_policy == "gumbel":
                mixed = self.mixed_value(seat)
                pairs = zip(weights, root.edges, strict=True)
                value[seat] = sum(w * (edge.mean(seat) if edge.visits else mixed) for w, edge in pairs if w > 0)
            else:
                visits = min(1, root.visits) + sum(edge.visits for edge in candidates)
                value[seat] = sum_of(root, candidates, seat) / max(1, visits)
            value[seat] = max(root.lower[seat], min(root.upper[seat], float(value[seat])))
        return value

    def note(self, weights: list[float]) -> bool:
        """Write down the search; return whether the mover's resignation ends the game."""
        s = self.settings
        root = self.root
        value = self.root_value(weights)
        best = self.best_edge()
        lost = s.resign_threshold > -1 and self.players == 2 and value[root.mover] <= s.resign_threshold
        lost = lost and (root.proven or (best.visits > 0 and best.mean(root.mover) <= s.resign_threshold))
        resigns = lost and not self.control
        if resigns and s.resignation == "end":
            return True
        exact = (root.proven and root.lower[root.mover] > -1.0) or len(self.candidates(root)) == 1
        visits = {edge.action: edge.visits for edge in root.edges}
        named = {edge.action: weight for edge, weight in zip(root.edges, weights, strict=True)}
        target = self.target or (self.proving and exact)
        self.searched.append(
            Searched(len(self.moves), int(self.tree_version), visits, named, value, target, bool(lost), self.reduced)
        )
        self.reduced = self.reduced or bool(resigns)
        return False

    def play(self, edge: Edge) -> None:
        """Play a root edge and begin the next move, with the tree below it if that may be kept."""
        self.moves.append(edge.action)
        self.past.append(self.key_of(self.root.state))
        child = edge.child
        keeps = self.settings.reuse_subtree and self.settings.repetition != "path"
        if keeps and self.settings.root_policy == "puct" and child is not None and child.expanded:
            self.root = child
            child.settled = False
            shorten_ways(child)
        else:
            state = self.root.state.copy()
            core.play(self.game, state, edge.action)
            self.root = self.new_node(state, [])
        self.begin_move()

    def play_game(self) -> None:
        """Play to the end."""
        while self.scores is None:
            if len(self.root.edges) == 1:
                self.play(self.root.edges[0])  # nothing to decide
                continue
            self.search()
            if not self.prepared and self.settings.root_policy == "gumbel":
                self.prepare_root()
            weights = self.target_weights()
            edge = self.choose(weights)
            if self.note(weights):
                self.resigned = self.root.mover
                self.scores = tuple(-1.0 if seat == self.resigned else 1.0 for seat in range(self.players))
                return
            self.play(edge)


def sum_of(node: Node, edges: list[Edge], player: int) -> float:
    """Return the sum of all that was backed up to a node through some of its edges, its own value first.

    In float32, as the trees keep it.
    """
    total = np.float32(node.value[player])
    for edge in edges:
        total += edge.total[player]
    return float(total)


def shorten_ways(root: Node) -> None:
    """Let every way below a new root begin there."""
    done = len(root.way)
    below = [root]
    while below:
        node = below.pop()
        node.way = node.way[done:]
        below.extend(edge.child for edge in node.edges if edge.child)


def halving_sequence(considered: int, simulations: int) -> list[int]:
    """How many visits the action that each simulation goes to must have (Danihelka et al. 2022, and its published code)."""
    if considered <= 1:
        return list(range(simulations))
    rounds = math.ceil(math.log2(considered))
    sequence: list[int] = []
    level = [0] * considered  # visits each of the ranked actions has so far
    while len(sequence) < simulations:
        for _ in range(max(1, int(simulations / (rounds * considered)))):
            sequence += level[:considered]
            level[:considered] = [visits + 1 for visits in level[:considered]]
        considered = max(2, considered // 2)
    return sequence[:simulations]

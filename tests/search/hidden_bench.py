"""What tests of the search with hidden information share: a network with a head made of hashes, and trees as plain values."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from reference_hidden import DeterminisedGame, Head, HiddenGame, PredictedGame
from reference_search import Edge, Node
from search_bench import answer_hashed, hashed_network
from toys.sealed_bids import SealedBids

from games import core
from games.core import Game, State
from games.positions import encode_for
from games.rock_paper_scissors import RockPaperScissors
from zerofleet.search import Leaves, SearchBlock, SearchSettings

MODES = ("predict", "determinise")
THREE = SealedBids()
TWO = RockPaperScissors(turns=4)

Answer = tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]


@functools.lru_cache(maxsize=100_000)
def hashed_likelihood(packed: bytes, actions: int, version: int) -> np.ndarray:
    """Return the head of one position, a function of what the network sees: float16 [A]."""
    seed = int.from_bytes(hashlib.blake2b(packed, key=b"head%d" % version, digest_size=8).digest())
    return np.random.default_rng(seed).random(actions).astype(np.float16)


def hashed_head(game: Game) -> Head:
    """Return that head as the reference search asks it."""

    def head(state: State, version: int) -> np.ndarray:
        packed = encode_for(game, state, int(core.to_move(game, state)))
        return hashed_likelihood(packed.tobytes(), game.spec().num_actions, version)

    return head


def answer(leaves: Leaves, game: Game) -> Answer:
    """Return the hashed network's answer to a batch, with the head if it is asked for."""
    policy, value = answer_hashed(leaves, game.spec().num_players)
    if not leaves.batch.extra_heads:
        return policy, value, ()
    rows = zip(leaves.batch.states, leaves.versions, strict=True)
    head = [hashed_likelihood(packed.tobytes(), game.spec().num_actions, int(version)) for packed, version in rows]
    return policy, value, (np.array(head),)


def search(block: SearchBlock) -> int:
    """Search until no slot needs the network; return how many rows it was asked for."""
    asked = 0
    while len((leaves := block.advance()).batch):
        asked += len(leaves.batch)
        block.absorb(*answer(leaves, block.game))
    return asked


def searched(game: Game, settings: SearchSettings, openings: Sequence[Sequence[int]], *, seed: int = 0) -> SearchBlock:
    """Return a block with one held and searched slot an opening; all have the same seed."""
    block = SearchBlock(game, settings, slots=len(openings))
    for slot, opening in enumerate(openings):
        block.begin(slot, seed=seed, versions=[1] * game.spec().num_players, opening=opening, hold=True)
    search(block)
    return block


def reference(game: Game, settings: SearchSettings, **begun: Any) -> HiddenGame:
    """Return a game of the reference search in the mode of the settings."""
    if settings.information == "determinise":
        return DeterminisedGame(game, settings, hashed_network(game), **begun)
    made = PredictedGame(game, settings, hashed_network(game), **begun)
    made.head = hashed_head(game)
    return made


def compiled_tree(block: SearchBlock, slot: int, index: int = 0) -> dict[str, Any]:
    """Return the tree of a slot from a node on, as nested plain values; the children of an edge in the order of creation."""
    arena, worlds = block._arena, block._worlds
    node, edges = arena.nodes[slot, index], arena.edges[slot]

    def children(edge: Any) -> list[dict[str, Any]]:
        found, child = [], int(edge["child"])
        while child >= 0:
            found.insert(0, compiled_tree(block, slot, child))
            child = int(worlds.siblings[slot, child]) if worlds.siblings.size else -1
        return found

    own = edges[int(node["edge_start"]) :][: int(node["edge_count"])]
    return {
        "visits": int(node["visits"]),
        "to_move": int(node["to_move"]),
        "value": node["value"].tolist(),
        "state": arena.states[slot, index].tolist(),
        "edges": [
            {
                "action": int(edge["action"]),
                "prior": float(edge["prior"]),
                "visits": int(edge["visits"]),
                "total": edge["value"].tolist(),
                "children": children(edge),
            }
            for edge in own
        ],
    }


def reference_tree(game: HiddenGame, node: Node) -> dict[str, Any]:
    """Return a tree of the reference search in the same form."""

    def children(edge: Edge) -> list[dict[str, Any]]:
        if isinstance(game, DeterminisedGame):
            return [reference_tree(game, child) for child in game.children.get(edge, {}).values()]
        return [reference_tree(game, edge.child)] if edge.child else []

    return {
        "visits": node.visits,
        "to_move": node.mover,
        "value": node.value.tolist(),
        "state": node.state.tolist(),
        "edges": [
            {
                "action": edge.action,
                "prior": edge.prior,
                "visits": edge.visits,
                "total": edge.total.tolist(),
                "children": children(edge),
            }
            for edge in node.edges
        ],
    }

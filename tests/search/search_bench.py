"""What tests of the search share: a network made of hashes, a loop that drives a block, and trees as plain values."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from reference_search import Network, Node

import games
from games.core import Game, State
from games.positions import advance, encode_for, legal, new_state
from zerofleet.search import Leaves, SearchBlock, SearchSettings

TIC_TAC_TOE = games.make("tic_tac_toe")
CONNECT_FOUR = games.make("connect_four")

# (game, opening): from the empty board to a position with few ways on
POSITIONS = [
    (TIC_TAC_TOE, ()),
    (TIC_TAC_TOE, (4, 0, 8)),
    (TIC_TAC_TOE, (0, 1, 2, 4, 3, 5)),
    (CONNECT_FOUR, ()),
    (CONNECT_FOUR, (3, 3, 2, 4, 4, 2, 1)),
    (CONNECT_FOUR, (0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 6, 6, 6, 6)),
]

Answer = tuple[np.ndarray, np.ndarray]  # policy [B, L] and value [B, P] of leaves


@functools.lru_cache(maxsize=200_000)
def hashed(packed: bytes, actions: int, players: int, version: int) -> Answer:
    """Return the evaluation of one position, a function of what the network sees: policy float32 [n], value float32 [P].

    Priors are uneven, some are 0; two players' values are opposite, more players' values unrelated.
    """
    seed = int.from_bytes(hashlib.blake2b(packed, key=version.to_bytes(8, "little"), digest_size=8).digest())
    rng = np.random.default_rng(seed)
    policy = rng.random(actions) ** 3
    policy[policy < 0.001] = 0.0
    value = rng.uniform(-1.0, 1.0, players).astype(np.float32)
    if players == 2:
        value[1] = -value[0]
    return (policy / max(policy.sum(), 1e-9)).astype(np.float16).astype(np.float32), value


def hashed_network(game: Game) -> Network:
    """Return that network as the reference search asks it: one position at a time."""
    players = game.spec().num_players

    def network(state: State, version: int) -> Answer:
        mover = int(games.core.to_move(game, state))
        return hashed(encode_for(game, state, mover).tobytes(), len(legal(game, state)), players, version)

    return network


def answer_hashed(leaves: Leaves, players: int) -> Answer:
    """Return that network's evaluation of a batch of leaves."""
    batch = leaves.batch
    policy = np.zeros(batch.legal.shape, dtype=np.float32)
    value = np.zeros((len(batch), players), dtype=np.float32)
    for row, (packed, listed, version) in enumerate(zip(batch.states, batch.legal, leaves.versions, strict=True)):
        count = int((listed >= 0).sum())
        policy[row, :count], value[row] = hashed(packed.tobytes(), count, players, int(version))
    return policy, value


def answer_uniform(leaves: Leaves, players: int) -> Answer:
    """Return equal priors and values of 0."""
    listed = leaves.batch.legal >= 0
    policy = listed / np.maximum(listed.sum(axis=1, keepdims=True), 1)
    return policy.astype(np.float32), np.zeros((len(listed), players), dtype=np.float32)


def answer_seat_loses(leaves: Leaves, players: int, *, seat: int = 0) -> Answer:
    """Return equal priors and the opinion that one of two seats, which move in turn, has all but lost."""
    policy, value = answer_uniform(leaves, players)
    mover = np.unpackbits(leaves.batch.states, axis=1).sum(axis=1) % 2  # a plane has a bit for each stone
    value[:, 0] = np.where(mover == seat, -0.9, 0.9)
    value[:, 1] = -value[:, 0]
    return policy, value


def drive(block: SearchBlock, answer: Callable[[Leaves, int], Answer] = answer_hashed) -> None:
    """Search until no slot needs an evaluation any more: all wait, are finished or idle."""
    players = block.game.spec().num_players
    while len((leaves := block.advance()).batch):
        block.absorb(*answer(leaves, players))


def searched_block(
    game: Game,
    settings: SearchSettings,
    openings: Sequence[Sequence[int]],
    answer: Callable[[Leaves, int], Answer] = answer_hashed,
) -> SearchBlock:
    """Return a block with one held slot an opening, each searched; the seed of a slot is its number."""
    block = SearchBlock(game, settings, slots=len(openings))
    seats = [1] * game.spec().num_players
    for slot, opening in enumerate(openings):
        block.begin(slot, seed=slot, versions=seats, opening=opening, hold=True)
    drive(block, answer)
    return block


def random_positions(game: Game, *, seed: int, games_count: int) -> Iterator[tuple[list[int], State]]:
    """Yield (moves, position) of every position of random games, without the final ones."""
    rng = np.random.default_rng(seed)
    for _ in range(games_count):
        state = new_state(game)
        moves: list[int] = []
        while actions := legal(game, state):
            yield list(moves), state.copy()
            moves.append(int(rng.choice(actions)))
            advance(game, state, moves[-1])


def compiled_tree(block: SearchBlock, slot: int, index: int = 0) -> dict[str, Any]:
    """Return the tree of a slot from a node on, as nested plain values."""
    arena = block._arena
    node, edges = arena.nodes[slot, index], arena.edges[slot]
    first = int(node["edge_start"])
    return {
        "visits": int(node["visits"]),
        "flight": int(node["flight"]),
        "to_move": int(node["to_move"]),
        "value": node["value"].tolist(),
        "lower": node["lower"].tolist(),
        "upper": node["upper"].tolist(),
        "state": arena.states[slot, index].tolist(),
        "edges": [
            {
                "action": int(edge["action"]),
                "prior": float(edge["prior"]),
                "visits": int(edge["visits"]),
                "flight": int(edge["flight"]),
                "total": edge["value"].tolist(),
                "child": compiled_tree(block, slot, int(edge["child"])) if edge["child"] >= 0 else None,
            }
            for edge in edges[first : first + int(node["edge_count"])]
        ],
    }


def reference_tree(node: Node) -> dict[str, Any]:
    """Return a tree of the reference search in the same form."""
    return {
        "visits": node.visits,
        "flight": node.flight,
        "to_move": node.mover,
        "value": node.value.tolist(),
        "lower": node.lower,
        "upper": node.upper,
        "state": node.state.tolist(),
        "edges": [
            {
                "action": edge.action,
                "prior": edge.prior,
                "visits": edge.visits,
                "flight": edge.flight,
                "total": edge.total.tolist(),
                "child": reference_tree(edge.child) if edge.child else None,
            }
            for edge in node.edges
        ],
    }


def difference(left: Any, right: Any, where: str = "root") -> str | None:
    """Return where two nested values differ first, or None; a whole tree in an assertion is no help to anyone."""
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        pairs = [(f"{where}.{key}", left[key], right[key]) for key in left]
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        pairs = [(f"{where}[{i}]", a, b) for i, (a, b) in enumerate(zip(left, right, strict=True))]
    else:
        return None if left == right else f"{where}: {left!r} != {right!r}"
    return next((found for place, a, b in pairs if (found := difference(a, b, place))), None)

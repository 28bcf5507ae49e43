"""What a search with hidden information keeps besides its trees, and how it asks the network.

The tree of a slot then holds the decisions of one player only, the searcher (`viewer`): a node is what that player sees, an
edge one of their actions. Between two of their decisions the others move in a *world*, a position that may be the true one as
far as the searcher knows. `determinise` and `predict` beside this module are the two sources of worlds.

Axes: G slots, N nodes a tree, S state entries, P players, A actions, R rows of a batch.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from games import core
from games.compiled import lean
from games.core import Game
from games.kit.randomness import mix64, next_u64
from zerofleet.search.arena import Rows, records
from zerofleet.search.settings import SearchSettings
from zerofleet.search.tree import Tree

__all__ = ["OPPONENT", "Worlds", "allocate_worlds", "ask", "draw_seed", "view_key"]

OPPONENT = -1  # stands for the node of a pending row that is no node of the tree: an opponent's choice


class Worlds(NamedTuple):
    """Memory of the two modes; what a mode does not use has no entries."""

    states: np.ndarray  # spec.state_dtype [G, S], the world of the simulation under way, or the one the tree is built on
    cursors: np.ndarray  # cursor_dtype [G]
    siblings: np.ndarray  # int32 [G, N], next node below the same edge, NO_NODE at the end (determinise)
    plays: np.ndarray  # int16 [G, N, P - 1], the opponents' plays that a node foresees (predict)
    likelihood: np.ndarray  # float32 [R, A], the network's prediction of opponents' actions (predict)


def cursor_dtype(players: int) -> np.dtype[Any]:
    """Return the record of where a simulation stands."""
    return np.dtype(
        [
            ("node", np.int32),  # the searcher's last decision in this simulation
            ("edge", np.int32),  # what they did there
            ("choice", np.int16),  # what an opponent does, once the network has answered
            ("models", np.int64, (players,)),  # model version that plays each seat in this search
        ],
        align=True,
    )


def allocate_worlds(game: Game, settings: SearchSettings, slots: int) -> Worlds:
    """Return arrays for `slots` games; untouched pages cost no memory."""
    spec = game.spec()
    nodes, others = settings.node_capacity, spec.num_players - 1
    predicts = settings.information == "predict"
    return Worlds(
        states=np.zeros((slots, spec.state_size), dtype=spec.state_dtype),
        cursors=records(slots, dtype=cursor_dtype(spec.num_players)),
        siblings=np.zeros((slots, 0 if predicts else nodes), dtype=np.int32),
        plays=np.zeros((slots, nodes if predicts else 0, others), dtype=np.int16),
        likelihood=np.zeros((slots if predicts else 0, spec.num_actions), dtype=np.float32),
    )


@lean
def ask(game: Any, state: np.ndarray, tree: Tree, slot: Any, rows: Rows, row: int) -> None:
    """Let a slot wait for a row of the batch that shows `state` to the player to move there.

    Whom the row asks (`rows.versions`) and what for (`tree.pending_nodes`) is the caller's to say.
    """
    core.encode(game, state, core.to_move(game, state), rows.states[row])
    count = core.legal_actions(game, state, tree.legal)
    for i in range(rows.legal.shape[1]):
        rows.legal[row, i] = tree.legal[i] if i < count else -1
    rows.entries[row] = -1
    tree.pending_rows[0] = row
    slot.pending = 1


@lean
def draw_seed(word: np.ndarray) -> int:
    """Return the seed of a deal, in [0, 2^63)."""
    return np.int64(next_u64(word) >> np.uint64(1))  # type: ignore[return-value]


@lean
def view_key(packed: np.ndarray, legal: np.ndarray, count: int) -> np.uint64:
    """Return a 64-bit key of what a player to move knows: planes (uint8 [packed_bytes]) and `count` legal actions.

    Nothing else may tell two nodes apart. `games.core.key` would not do: it may know the hidden cards.
    """
    mixed = mix64(np.uint64(count + 1))
    word = np.uint64(0)
    for i in range(packed.shape[0]):
        word = word << np.uint64(8) | np.uint64(packed[i])
        if i & 7 == 7:
            mixed = mix64(mixed ^ word)
            word = np.uint64(0)
    mixed = mix64(mixed ^ word)
    for i in range(count):
        mixed = mix64(mixed ^ np.uint64(legal[i]))
    return mixed

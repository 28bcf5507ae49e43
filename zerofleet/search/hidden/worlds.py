"""Memory and evaluation requests of a search with hidden information.

The tree of a slot then holds the decisions of one player only, the searcher (`viewer`): a node is that player's view, an edge
one of their actions. Between two of their decisions the opponents move in a *world*, a position consistent with the searcher's
view. The sources of worlds are `zerofleet.search.hidden.determinise` and `zerofleet.search.hidden.predict`.

Axes: G slots, N nodes per tree, S state entries, P players, A actions, L maximal number of legal actions, R rows of a batch.
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

OPPONENT = -1  # node index of a pending row for an opponent's choice, which has no node


class Worlds(NamedTuple):
    """Memory of the two modes; arrays that a mode does not use are empty."""

    states: np.ndarray  # spec.state_dtype [G, S], world of the current simulation, or of the whole tree (predict)
    cursors: np.ndarray  # cursor_dtype [G]
    siblings: np.ndarray  # int32 [G, N], next node below the same edge, NO_NODE at the end (determinise)
    plays: np.ndarray  # int16 [G, N, P - 1], predicted plays of the opponents (predict)
    likelihood: np.ndarray  # float32 [R, A], predicted likelihood of the opponents' actions (predict)
    moments: np.ndarray  # float64 [G, L, 2], sums of the searcher's values and of their squares by root edge (determinise)


def cursor_dtype(players: int) -> np.dtype[Any]:
    """Return the record of a simulation's progress."""
    return np.dtype(
        [
            ("node", np.int32),  # the searcher's last decision in this simulation
            ("edge", np.int32),  # edge of their action there
            ("first", np.int32),  # edge of their action at the root
            ("choice", np.int16),  # action of an opponent, sampled from its policy
            ("models", np.int64, (players,)),  # model version by seat in this search
        ],
        align=True,
    )


def allocate_worlds(game: Game, settings: SearchSettings, slots: int) -> Worlds:
    """Allocate arrays for `slots` games; untouched pages cost no memory."""
    spec = game.spec()
    nodes, others = settings.node_capacity, spec.num_players - 1
    predicts = settings.information == "predict"
    return Worlds(
        states=np.zeros((slots, spec.state_size), dtype=spec.state_dtype),
        cursors=records(slots, dtype=cursor_dtype(spec.num_players)),
        siblings=np.zeros((slots, 0 if predicts else nodes), dtype=np.int32),
        plays=np.zeros((slots, nodes if predicts else 0, others), dtype=np.int16),
        likelihood=np.zeros((slots if predicts else 0, spec.num_actions), dtype=np.float32),
        moments=np.zeros((slots, 0 if predicts else spec.max_legal, 2)),
    )


@lean
def ask(game: Any, state: np.ndarray, tree: Tree, slot: Any, rows: Rows, row: int) -> None:
    """Write a row of the batch with the view of the player to move in `state`, and make the slot pending on it.

    The caller sets the row's model (`rows.versions`) and its node (`tree.pending_nodes`).
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
    """Return the seed of a determinisation, in [0, 2^63)."""
    return np.int64(next_u64(word) >> np.uint64(1))  # type: ignore[return-value]


@lean
def view_key(packed: np.ndarray, legal: np.ndarray, count: int) -> np.uint64:
    """Hash the view of the player to move to 64 bits: planes (uint8 [packed_bytes]) and `count` legal actions.

    The key must not depend on anything else; `games.core.key` may cover hidden cards.
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

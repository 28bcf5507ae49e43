"""Memory of a block: all arrays of the compiled code.

Axes: G slots, N nodes per tree, E edges per tree, S state entries, P players, L maximal number of legal actions,
M maximal number of plies, R rows of a batch, C cache entries, K leaves per game.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from games.compiled import INTERPRETED
from games.core import Game, GameSpec
from zerofleet.errors import ConfigurationError
from zerofleet.search.puct import exploration_table
from zerofleet.search.settings import SearchSettings
from zerofleet.search.tree import edge_dtype, node_dtype

__all__ = [
    "FINISHED",
    "IDLE",
    "SEARCHING",
    "WAITING",
    "Arena",
    "Cache",
    "History",
    "Rows",
    "allocate",
    "memory_refused",
    "records",
    "slot_dtype",
]

IDLE, SEARCHING, WAITING, FINISHED = range(4)


def slot_dtype(players: int) -> np.dtype[Any]:
    """Return the record of a slot: one game and its tree."""
    return np.dtype(
        [
            ("status", np.uint8),
            ("target", np.uint8),  # this move's search is a policy target
            ("full", np.uint8),  # this move gets a full search
            ("reduced", np.uint8),  # the game is decided: fast searches only
            ("prepared", np.uint8),  # root noise of this move is set
            ("looked", np.uint8),  # the root was searched for wins in one and, with two players, losses in two
            ("considered", np.int16),  # root actions at the start of sequential halving
            ("hold", np.uint8),  # wait for `play` after each search
            ("searched", np.uint8),  # the search of the current position is complete
            ("control", np.uint8),  # may not resign
            ("resigned", np.int8),  # seat that resigned, or -1
            ("pending", np.int16),  # leaves that wait for evaluations
            ("nodes", np.int32),
            ("edges", np.int32),
            ("reached", np.int32),  # node from which the present descent goes on
            ("next_edge", np.int32),  # its edge to a new node, or a state of `zerofleet.search.window`
            ("ply", np.int32),
            ("budget", np.int32),  # visits of the root's children that complete the search
            ("version", np.int64),  # model version of the tree
            ("versions", np.int64, (players,)),  # by seat; EXTERNAL for seats whose moves come through `play`
            ("scores", np.float32, (players,)),
        ],
        align=True,
    )


class History(NamedTuple):
    """Moves and searches of each slot's game, for its record."""

    moves: np.ndarray  # int32 [G, M]
    versions: np.ndarray  # int64 [G, M]; 0 where the move was not searched
    flags: np.ndarray  # uint8 [G, M]
    counts: np.ndarray  # int32 [G, M], number of actions stored
    actions: np.ndarray  # int16 [G, M, L]
    visits: np.ndarray  # int32 [G, M, L]
    targets: np.ndarray  # float32 [G, M, L], sums to 1; all 0 when it equals the normalised visits
    values: np.ndarray  # float32 [G, M, P]


class Rows(NamedTuple):
    """Batch in preparation."""

    states: np.ndarray  # uint8 [R, packed_bytes]
    legal: np.ndarray  # int16 [R, L]
    versions: np.ndarray  # int64 [R]
    entries: np.ndarray  # int32 [R], cache entry to fill from the row, or -1


class Cache(NamedTuple):
    """Direct-mapped evaluation cache. `row` is -2 for an empty entry, -1 for a filled one, else the row in flight."""

    keys: np.ndarray  # uint64 [C]
    versions: np.ndarray  # int64 [C]
    row: np.ndarray  # int32 [C]
    policy: np.ndarray  # float32 [C, L]
    value: np.ndarray  # float32 [C, P]


class Arena(NamedTuple):
    """Arrays owned by a block."""

    slots: np.ndarray  # slot_dtype [G]
    words: np.ndarray  # uint64 [G, 1], state of the random generator
    nodes: np.ndarray  # node_dtype [G, N]
    edges: np.ndarray  # edge_dtype [G, E]
    states: np.ndarray  # [G, N, S]
    pending_nodes: np.ndarray  # int32 [G, K]
    pending_rows: np.ndarray  # int32 [G, K]
    past: np.ndarray  # uint64 [G, M], repetition keys of earlier positions of the game; [G, 1] unless repetition=history
    bias: np.ndarray  # float64 [G, L], Gumbel variate plus logit of the prior of each root edge, once `prepared`
    legal: np.ndarray  # int16 [L], scratch
    moved: np.ndarray  # int32 [N], scratch
    weights: np.ndarray  # float64 [L], scratch
    ahead: np.ndarray  # [2, S], scratch: positions one and two plies below a node
    replies: np.ndarray  # int16 [L], scratch: legal actions one ply below a node
    outcome: np.ndarray  # float32 [P], scratch: scores of a position in `ahead`
    counters: np.ndarray  # int64 [3]: simulations, cache hits, moves
    exploration: np.ndarray  # float64 [N + 1], `zerofleet.search.puct.exploration_table` by visits and flights of a node
    schedule: np.ndarray  # int32 [2, m + 1, simulations], Gumbel visit schedules: fast, full


def allocate(game: Game, settings: SearchSettings, slots: int, schedule: np.ndarray) -> tuple[Arena, History, Rows, Cache]:
    """Allocate arrays for `slots` games. Trees are sized for the worst case; untouched pages cost no memory."""
    spec = game.spec()
    nodes, legal, players = settings.node_capacity, spec.max_legal, spec.num_players
    plies, rows = spec.max_plies, slots * settings.leaves_per_game
    entries = 1 << max(1, (settings.cache_positions - 1).bit_length()) if settings.cache_positions else 1  # 1: no cache
    arena = Arena(
        slots=records(slots, dtype=slot_dtype(players)),
        words=np.zeros((slots, 1), dtype=np.uint64),
        nodes=records((slots, nodes), dtype=node_dtype(players)),
        edges=records((slots, nodes * legal), dtype=edge_dtype(players)),
        states=np.zeros((slots, nodes, spec.state_size), dtype=spec.state_dtype),
        pending_nodes=np.zeros((slots, settings.leaves_per_game), dtype=np.int32),
        pending_rows=np.zeros((slots, settings.leaves_per_game), dtype=np.int32),
        past=np.zeros((slots, plies if settings.repetition == "history" else 1), dtype=np.uint64),
        bias=np.zeros((slots, legal)),
        legal=np.zeros(legal, dtype=np.int16),
        moved=np.zeros(nodes, dtype=np.int32),
        weights=np.zeros(legal),
        ahead=np.zeros((2, spec.state_size), dtype=spec.state_dtype),
        replies=np.zeros(legal, dtype=np.int16),
        outcome=np.zeros(players, dtype=np.float32),
        counters=np.zeros(3, dtype=np.int64),
        exploration=exploration_table(settings, nodes),
        schedule=schedule,
    )
    history = History(
        moves=np.zeros((slots, plies), dtype=np.int32),
        versions=np.zeros((slots, plies), dtype=np.int64),
        flags=np.zeros((slots, plies), dtype=np.uint8),
        counts=np.zeros((slots, plies), dtype=np.int32),
        actions=np.zeros((slots, plies, legal), dtype=np.int16),
        visits=np.zeros((slots, plies, legal), dtype=np.int32),
        targets=np.zeros((slots, plies, legal), dtype=np.float32),
        values=np.zeros((slots, plies, players), dtype=np.float32),
    )
    batch = Rows(
        states=np.zeros((rows, spec.packed_bytes), dtype=np.uint8),
        legal=np.full((rows, legal), -1, dtype=np.int16),
        versions=np.zeros(rows, dtype=np.int64),
        entries=np.zeros(rows, dtype=np.int32),
    )
    cache = Cache(
        keys=np.zeros(entries, dtype=np.uint64),
        versions=np.zeros(entries, dtype=np.int64),
        row=np.full(entries, -2, dtype=np.int32),
        policy=np.zeros((entries, legal), dtype=np.float32),
        value=np.zeros((entries, players), dtype=np.float32),
    )
    return arena, history, batch, cache


@contextmanager
def memory_refused(spec: GameSpec, slots: int) -> Iterator[None]:
    """Raise `ConfigurationError` in place of a bare `MemoryError` where the arrays of a block are allocated."""
    try:
        yield
    except MemoryError as error:
        raise ConfigurationError(
            f"this machine cannot allocate a block of {slots} game{'s' * (slots != 1)} of {spec.name}, with up to "
            f"{spec.max_plies:,} plies of {spec.max_legal:,} legal moves each: {error}; lower the bounds max_plies and "
            "max_legal of the game's spec, or the number of games"
        ) from error


def records(shape: int | tuple[int, int], dtype: np.dtype[Any]) -> np.ndarray:
    """Return zeroed records with fields as attributes: built in for compiled code, by `recarray` for plain Python."""
    array = np.zeros(shape, dtype=dtype)
    return array.view(np.recarray) if INTERPRETED else array
